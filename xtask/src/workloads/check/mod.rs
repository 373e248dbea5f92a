//! The rules for every history, whatever the workload: see the three files.
//!
//! All of them use the zxid in each reply's header. It identifies the state that a reply describes: a
//! write's own zxid, or the last one that the server had applied when it replied.

mod order;
mod shape;
mod timeline;

pub use shape::DIGITS;

use super::history::Record;
use crate::listing::Nodes;

/// How many findings of each kind are shown.
const SHOWN: usize = 8;
/// How much of a finding is shown: a reply may list many children.
const CHARS_MAX: usize = 600;

/// The violations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Replies that contradict each other or their request, and effects without a cause.
    pub wrong: Vec<String>,
    /// Acknowledged effects that were lost, and events that never arrived.
    pub lost: Vec<String>,
    /// States older than what the same session, or an earlier reply, has shown.
    pub stale: Vec<String>,
}

impl Findings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Findings::default()
    }

    /// Adds others.
    pub fn extend(&mut self, other: Findings) {
        self.wrong.extend(other.wrong);
        self.lost.extend(other.lost);
        self.stale.extend(other.stale);
    }

    /// The first findings of each kind, one line each, truncated.
    pub fn lines(&self) -> Vec<String> {
        let kinds = [("wrong", &self.wrong), ("lost", &self.lost), ("stale", &self.stale)];
        let shown = |(kind, all): (&str, &Vec<String>)| {
            let start = |text: &String| text.chars().take(CHARS_MAX).collect::<String>();
            let lines = all.iter().take(SHOWN).map(|text| format!("{kind}: {}", start(text)));
            let more = all.len().saturating_sub(SHOWN);
            let more = (more > 0).then(|| format!("{kind}: and {more} more"));
            lines.chain(more).collect::<Vec<_>>()
        };
        kinds.into_iter().flat_map(shown).collect()
    }
}

/// Checks a history against the general rules and against the nodes at the end. `root` is the node below
/// which the workload wrote everything.
pub fn check(records: &[Record], root: &str, end: &Nodes) -> Findings {
    let mut findings = shape::check(records);
    findings.extend(order::check(records));
    findings.extend(timeline::check(records, root, end));
    findings
}

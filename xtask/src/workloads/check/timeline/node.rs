//! The facts about one node, and whether they are consistent.

use std::collections::{BTreeMap, BTreeSet};

use super::life::{self, Lifetime};
use super::{Session, without_children};
use crate::wire::Stat;
use crate::workloads::check::Findings;

/// Everything that is known about one node.
#[derive(Default)]
pub struct Node {
    /// Its state from each mzxid on.
    states: BTreeMap<i64, State>,
    /// The part of its Stat that depends on its children, by pzxid.
    children: BTreeMap<i64, Children>,
    /// The zxids of acknowledged writes of its data.
    written: BTreeSet<i64>,
    /// The zxids of acknowledged deletes.
    pub(super) deletes: BTreeSet<i64>,
    /// Zxids at which it existed.
    pub present: BTreeSet<i64>,
    /// Zxids at which it did not exist.
    pub absent: BTreeSet<i64>,
    /// Zxids at which it did not have this version.
    pub bad_versions: Vec<(i64, i32)>,
    /// Data of creates of unknown outcome.
    pub maybe_made: Vec<Vec<u8>>,
    /// Data of setData of unknown outcome.
    pub maybe_set: Vec<Vec<u8>>,
    /// Whether there was a delete of unknown outcome.
    pub maybe_deleted: bool,
    /// Replies that differ for the same mzxid or pzxid.
    contradictions: Vec<String>,
}

struct State {
    stat: Stat,
    data: Option<Vec<u8>>,
    seen_to: i64,
}

struct Children {
    czxid: i64,
    cversion: i32,
    count: i32,
    seen_to: i64,
}

impl Node {
    /// An acknowledged write of its data.
    pub fn wrote(&mut self, zxid: i64, stat: &Stat, data: Vec<u8>) {
        self.written.insert(zxid);
        self.saw(zxid, stat, Some(data));
    }

    /// An acknowledged delete.
    pub fn deleted(&mut self, zxid: i64) {
        self.deletes.insert(zxid);
        self.absent.insert(zxid);
    }

    /// A reply with this zxid that shows the node.
    pub fn saw(&mut self, zxid: i64, stat: &Stat, data: Option<Vec<u8>>) {
        let core = without_children(stat);
        let state = self.states.entry(stat.mzxid()).or_insert_with(|| State {
            stat: core.clone(),
            data: data.clone(),
            seen_to: zxid,
        });
        state.seen_to = state.seen_to.max(zxid);
        if state.stat != core {
            self.contradictions.push(format!("{:?} and {core:?}", state.stat));
        }
        if data.is_some() && state.data.is_some() && data != state.data {
            let [one, other] = [&state.data, &data].map(|data| text(data.as_deref()));
            let mzxid = stat.mzxid();
            self.contradictions.push(format!("mzxid {mzxid:#x} with data {one} and {other}"));
        }
        state.data = state.data.take().or(data);
        self.saw_kids(zxid, stat);
    }

    fn saw_kids(&mut self, zxid: i64, stat: &Stat) {
        let (czxid, cversion, count) = (stat.czxid(), stat.versions[1], stat.sizes[1]);
        let new = Children { czxid, cversion, count, seen_to: zxid };
        let children = self.children.entry(stat.pzxid).or_insert(new);
        children.seen_to = children.seen_to.max(zxid);
        if (children.cversion, children.count) != (cversion, count) {
            self.contradictions.push(format!(
                "pzxid {:#x} with cversion {} of {} children and cversion {cversion} of {count}",
                stat.pzxid, children.cversion, children.count
            ));
        }
    }

    /// Before this zxid it need not be in a list.
    pub fn made_at(&self) -> i64 {
        self.states.values().next().map_or(0, |state| state.stat.czxid())
    }

    /// From this zxid on it certainly does not exist.
    pub fn gone_at(&self) -> i64 {
        let lifetimes = self.lifetimes().len();
        let last = self.deletes.first().copied();
        last.filter(|_| lifetimes == 1 && self.maybe_made.is_empty()).unwrap_or(i64::MAX)
    }

    fn lifetimes(&self) -> Vec<Lifetime> {
        let mut lifetimes: Vec<Lifetime> = Vec::new();
        for state in self.states.values() {
            match lifetimes.last_mut().filter(|life| life.czxid == state.stat.czxid()) {
                Some(life) => life.last = life.last.max(state.seen_to),
                None => lifetimes.push(Lifetime {
                    czxid: state.stat.czxid(),
                    last: state.seen_to,
                    owner: state.stat.owner,
                }),
            }
        }
        lifetimes
    }

    /// Adds contradictions. `numbered` is the data of sequential creates of unknown outcome that may have
    /// created this node.
    pub fn evaluate(
        &mut self,
        path: &str,
        numbered: &mut Vec<Vec<u8>>,
        sessions: &BTreeMap<i64, Session>,
        findings: &mut Findings,
    ) {
        let contradictions = std::mem::take(&mut self.contradictions);
        findings.wrong.extend(contradictions.into_iter().map(|text| format!("{path}: {text}")));
        self.evaluate_states(path, findings);
        self.evaluate_kids(path, findings);
        self.evaluate_refusals(path, findings);
        let may_be_unseen = !self.maybe_made.is_empty() || !numbered.is_empty();
        let mut lifetimes = self.lifetimes();
        life::extend(self, &mut lifetimes, path, may_be_unseen, findings);
        life::evaluate(self, &lifetimes, path, sessions, findings);
        self.evaluate_causes(path, numbered, findings);
    }

    fn evaluate_states(&self, path: &str, findings: &mut Findings) {
        let mut unseen = 0;
        let mut before: Option<&State> = None;
        for state in self.states.values() {
            let mzxid = state.stat.mzxid();
            let same_life = |old: &&State| old.stat.czxid() == state.stat.czxid();
            let last_version = match before.filter(same_life) {
                Some(old) => old.stat.version(),
                None if state.stat.version() > 0 => 0,
                None => -1,
            };
            if let Some(old) = before.filter(|old| old.seen_to >= mzxid) {
                findings.stale.push(format!(
                    "{path}: version {} of mzxid {:#x} shown at zxid {:#x}, though it was set at {mzxid:#x}",
                    old.stat.version(),
                    old.stat.mzxid(),
                    old.seen_to
                ));
            }
            let step = state.stat.version() - last_version;
            if step < 1 {
                let version = state.stat.version();
                findings.wrong.push(format!(
                    "{path}: version {version} of mzxid {mzxid:#x} comes after version {last_version}"
                ));
            }
            unseen += usize::try_from(step - 1).unwrap_or_default();
            before = Some(state);
        }
        if unseen > self.maybe_set.len() {
            findings.wrong.push(format!(
                "{path}: {unseen} versions that were never seen, and only {} sets of unknown outcome",
                self.maybe_set.len()
            ));
        }
    }

    fn evaluate_kids(&self, path: &str, findings: &mut Findings) {
        for ((_, old), (pzxid, new)) in self.children.iter().zip(self.children.iter().skip(1)) {
            if old.seen_to >= *pzxid {
                findings.stale.push(format!(
                    "{path}: {} children shown at {:#x}, though they changed at {pzxid:#x}",
                    old.count, old.seen_to
                ));
            }
            if old.czxid == new.czxid && new.cversion <= old.cversion {
                findings.wrong.push(format!(
                    "{path}: cversion {} of pzxid {pzxid:#x} follows {}",
                    new.cversion, old.cversion
                ));
            }
        }
    }

    fn evaluate_refusals(&self, path: &str, findings: &mut Findings) {
        for (zxid, version) in &self.bad_versions {
            let current = self.states.range(..=zxid).next_back();
            let Some((_, state)) = current.filter(|(_, s)| s.stat.version() == *version) else {
                continue;
            };
            let next = self.states.range(zxid + 1..).next().map(|(_, next)| &next.stat);
            let was_next = next.is_some_and(|next| {
                next.czxid() == state.stat.czxid() && next.version() == version + 1
            });
            if was_next || state.seen_to >= *zxid {
                findings.wrong.push(format!(
                    "{path}: BadVersion at {zxid:#x}, though its version was {version}"
                ));
            }
        }
    }

    /// Every value is that of an acknowledged write, or of one of unknown outcome, once.
    fn evaluate_causes(
        &mut self,
        path: &str,
        numbered: &mut Vec<Vec<u8>>,
        findings: &mut Findings,
    ) {
        for (mzxid, state) in &self.states {
            let Some(data) = state.data.as_ref().filter(|_| !self.written.contains(mzxid)) else {
                continue;
            };
            let sources = if state.stat.version() == 0 {
                [&mut self.maybe_made, &mut *numbered]
            } else {
                [&mut self.maybe_set, &mut *numbered]
            };
            let mut sources = sources.into_iter();
            let found = sources.any(|source| {
                let index = source.iter().position(|value| value == data);
                index.map(|index| source.swap_remove(index)).is_some()
            });
            if !found {
                let data = text(Some(data));
                findings.wrong.push(format!(
                    "{path}: {data} at {mzxid:#x}, which was never written, or was written twice"
                ));
            }
        }
    }
}

fn text(data: Option<&[u8]>) -> String {
    format!("{:?}", String::from_utf8_lossy(data.unwrap_or_default()))
}

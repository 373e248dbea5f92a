//! Intentional differences between Herdsman and Apache, and how to distinguish them from mistakes.
//!
//! Two cases are handled here, the others are avoided when scripts are generated (docs/compatibility.md
//! lists all of them):
//! - changes that `setWatches` finds late. Apache reports them to every client, Herdsman only to clients
//!   that may read the znode. So an event that only A sends is correct if, and only if, both servers reject
//!   a read of that znode by the same client.
//! - when `/zookeeper/config` was set. Every server of an ensemble does that for itself when it starts.
//!   Apache's servers set the mtime to that moment, each to another one; Herdsman's leave it at 0.

use crate::action::Action;
use crate::call::Call;
use herdsman_proto::{OpCode, Stat, Zxid};

/// Whether this is `/zookeeper/config` as set by a server: no txn created or changed it, and no other znode
/// has such a version then.
#[must_use]
pub fn has_its_own_time(stat: &Stat) -> bool {
    stat.czxid == Zxid::ZERO && stat.mzxid == Zxid::ZERO && stat.version == -1
}

/// A late event that A sent and B did not.
#[derive(Debug, PartialEq, Eq)]
pub struct Withheld {
    slot: usize,
    path: String,
}

impl Withheld {
    /// The read that both must reject.
    #[must_use]
    pub fn proof(&self) -> Action {
        Action::call(self.slot, Call::read(OpCode::GetData, Some(self.path.as_bytes()), false))
    }
}

/// The late events that only A sent; `None` if the answers differ in anything else.
#[must_use]
pub fn withheld(a: &[String], b: &[String]) -> Option<Vec<Withheld>> {
    let mut rest = b.iter();
    let mut next = rest.next();
    let mut withheld = Vec::new();
    for line in a {
        if Some(line) == next {
            next = rest.next();
        } else {
            withheld.push(late_event(line)?);
        }
    }
    next.is_none().then_some(withheld)
}

/// `slot 1: event type=3 state=3 "/a" zxid=-1 err=0`
fn late_event(line: &str) -> Option<Withheld> {
    let (slot, event) = line.strip_prefix("slot ")?.split_once(": event ")?;
    let path = event.strip_suffix("\" zxid=-1 err=0")?.split_once('"')?.1;
    let slot = slot.parse().ok()?;
    (!path.contains('\\')).then(|| Withheld { slot, path: path.to_owned() })
}

/// Whether both rejected that read for lack of permission.
#[must_use]
pub fn is_refused(lines: &[String]) -> bool {
    lines.iter().any(|line| line.contains(" err=-102") && !line.contains("settled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn only_late_events_can_be_withheld() {
        let late = "slot 1: event type=3 state=3 \"/a\" zxid=-1 err=0";
        let timely = "slot 1: event type=3 state=3 \"/a\" zxid=+4 err=0";
        let reply = "slot 1: reply zxid=+4 err=0";
        let found = withheld(&lines(&[late, reply]), &lines(&[reply]));
        assert_eq!(found, Some(vec![Withheld { slot: 1, path: "/a".to_owned() }]));
        assert_eq!(withheld(&lines(&[timely, reply]), &lines(&[reply])), None);
        assert_eq!(withheld(&lines(&[reply]), &lines(&[late, reply])), None);
    }

    #[test]
    fn only_the_membership_set_by_a_server_has_its_own_time() {
        let own = Stat { version: -1, ..Stat::default() };
        assert!(has_its_own_time(&own));
        assert!(!has_its_own_time(&Stat::default()));
        assert!(!has_its_own_time(&Stat { mzxid: Zxid(7), ..own }));
    }
}

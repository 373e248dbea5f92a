//! The order of replies: a session never goes back, and writes are linearizable.
//!
//! Within a session, over all its connections, the zxid in the header never decreases, and increases with
//! each write. Over all clients, a write that was sent after the reply to another one has the higher zxid;
//! rejected writes count too, since they are decided in the same order. Sessions keep their ids.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Findings;
use crate::wire::{Kind, Op};
use crate::workloads::history::{self, Call, Note, Record};

/// Reports sessions that go back, and writes out of order.
pub fn check(records: &[Record]) -> Findings {
    let mut findings = Findings::default();
    sessions(records, &mut findings);
    real_time(records, &mut findings);
    identities(records, &mut findings);
    findings
}

/// A client gets the session that it presented, and a new session has a new id.
fn identities(records: &[Record], findings: &mut Findings) {
    let mut known = BTreeSet::new();
    for Record { session, note } in records {
        let Note::Connected(asked) = note else { continue };
        if *asked == 0 && !known.insert(session) {
            findings.wrong.push(format!("session {session:#x} was assigned twice"));
        } else if *asked != 0 && asked != session {
            findings.wrong.push(format!("session {session:#x} instead of {asked:#x}"));
        }
    }
}

fn sessions(records: &[Record], findings: &mut Findings) {
    let mut newest: BTreeMap<i64, i64> = BTreeMap::new();
    for (session, call) in history::calls(records) {
        let Some(zxid) = call.zxid() else { continue };
        let before = newest.entry(session).or_default();
        let is_order = if is_ordered_write(call) { zxid > *before } else { zxid >= *before };
        if !is_order {
            findings.stale.push(format!(
                "session {session:#x}: reply with zxid {zxid:#x} after {before:#x}: {:?}",
                call.op
            ));
        }
        *before = zxid.max(*before);
    }
}

/// A write with its own zxid. Closing a session that has already ended has none.
fn is_ordered_write(call: &Call) -> bool {
    call.is_write() && call.op.kind() != Kind::CloseSession
}

fn real_time(records: &[Record], findings: &mut Findings) {
    let mut writes: Vec<(Duration, Duration, i64, &Op)> = history::calls(records)
        .filter(|(_, call)| is_ordered_write(call))
        .filter_map(|(_, call)| Some((call.start, call.end, call.zxid()?, &call.op)))
        .collect();
    let mut by_end = writes.clone();
    by_end.sort_by_key(|(_, end, ..)| *end);
    writes.sort_by_key(|(start, ..)| *start);
    let mut ended = by_end.into_iter().peekable();
    let mut newest: (i64, Option<&Op>) = (0, None);
    for (start, _, zxid, op) in writes {
        while let Some((_, _, zxid, op)) = ended.next_if(|(_, end, ..)| *end < start) {
            if zxid > newest.0 {
                newest = (zxid, Some(op));
            }
        }
        if zxid <= newest.0 {
            findings.wrong.push(format!(
                "{op:?} has zxid {zxid:#x}, though {:?} with {:#x} was answered before it was sent",
                newest.1, newest.0
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::BAD_VERSION;
    use crate::workloads::history::made::*;
    use crate::workloads::history::{Answer, Outcome};

    fn write(zxid: i64) -> (Op, Outcome) {
        let set = Op::set_data("/a", None, -1);
        (set, done(zxid, Answer::Stat(stat(1, zxid, 1, ""))))
    }

    #[test]
    fn a_session_that_goes_back_is_stale() {
        let read = |zxid| read("/a", "", zxid, stat(1, 1, 0, ""));
        assert!(check(&history([write(5), read(5), read(7), write(8)])).is_empty());
        assert_eq!(check(&history([write(5), read(4)])).stale.len(), 1);
        assert_eq!(check(&history([read(5), write(5)])).stale.len(), 1);
        let refused = (Op::set_data("/a", None, 3), refused(4, BAD_VERSION));
        assert_eq!(check(&history([read(5), refused])).stale.len(), 1);
    }

    #[test]
    fn sessions_keep_their_ids() {
        let connected = |session, asked| Record { session, note: Note::Connected(asked) };
        assert!(check(&[connected(1, 0), connected(1, 1), connected(2, 0)]).is_empty());
        assert_eq!(check(&[connected(1, 0), connected(1, 0)]).wrong.len(), 1);
        assert_eq!(check(&[connected(1, 0), connected(2, 1)]).wrong.len(), 1);
    }

    #[test]
    fn a_write_ordered_before_an_earlier_answered_one_is_wrong() {
        let at = |session, start, end, zxid| {
            let (op, outcome) = write(zxid);
            Record { session, ..call(start, end, op, outcome) }
        };
        assert!(check(&[at(1, 0, 10, 7), at(2, 5, 20, 6)]).is_empty());
        assert!(check(&[at(1, 0, 10, 7), at(2, 11, 20, 8)]).is_empty());
        assert_eq!(check(&[at(1, 0, 10, 7), at(2, 11, 20, 6)]).wrong.len(), 1);
        assert_eq!(check(&[at(2, 11, 20, 6), at(1, 0, 10, 7)]).wrong.len(), 1);
    }
}

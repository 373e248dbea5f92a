//! The lifetimes of one node: from a create to its deletion, each with a cause.

use std::collections::BTreeMap;

use super::Session;
use super::node::Node;
use crate::workloads::check::Findings;

/// From the create at `czxid` at least to the zxid `last`.
pub struct Lifetime {
    /// What made it.
    pub czxid: i64,
    /// The last zxid at which it was seen.
    pub last: i64,
    /// The session that it goes with; 0 when it stays.
    pub owner: i64,
}

/// Adds what lists of children and refused creates tell.
pub fn extend(
    node: &Node,
    lifetimes: &mut [Lifetime],
    path: &str,
    may_be_unseen: bool,
    findings: &mut Findings,
) {
    for zxid in &node.present {
        let life = lifetimes.iter_mut().rfind(|life| life.czxid <= *zxid);
        let is_gone = |life: &Lifetime| node.absent.range(life.czxid..=*zxid).next().is_some();
        match life {
            Some(life) if life.last >= *zxid || !is_gone(life) => life.last = life.last.max(*zxid),
            _ if may_be_unseen => {}
            _ => findings.wrong.push(format!("{path} is there at {zxid:#x}, but nobody made it")),
        }
    }
}

/// Each life is whole, and its end has a cause.
pub fn judge(
    node: &Node,
    lifetimes: &[Lifetime],
    path: &str,
    sessions: &BTreeMap<i64, Session>,
    findings: &mut Findings,
) {
    for (index, life) in lifetimes.iter().enumerate() {
        let Lifetime { czxid, last, owner } = life;
        if let Some(zxid) = node.absent.range(czxid..=last).next() {
            findings.lost.push(format!(
                "{path}, made at {czxid:#x} and seen at {last:#x}, was not there at {zxid:#x}"
            ));
            continue;
        }
        let session = sessions.get(owner).copied().unwrap_or_default();
        if *owner != 0 && session.closed_at.is_some_and(|closed| *last >= closed) {
            findings.wrong.push(format!("{path} outlives its session {owner:#x}: at {last:#x}"));
        }
        let next = lifetimes.get(index + 1).map(|next| next.czxid);
        let absent = node.absent.range(last + 1..).next().copied();
        let Some(gone) = next.into_iter().chain(absent).min() else {
            continue;
        };
        let deleted = node.deletes.range(last + 1..=gone).next().is_some() || node.maybe_deleted;
        if !deleted && !ended_by_session(*owner, gone, session) {
            findings.lost.push(format!(
                "{path}, made at {czxid:#x} and last seen at {last:#x}, was gone at {gone:#x}"
            ));
        }
    }
}

/// A session that was alive at `gone` has not taken the node with it.
fn ended_by_session(owner: i64, gone: i64, session: Session) -> bool {
    let closed = session.closed_at.is_some_and(|closed| closed <= gone);
    owner != 0 && (closed || session.may_be_over) && session.alive_at < gone
}

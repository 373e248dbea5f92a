//! The lifetimes of one node: each from its creation to its deletion, both with a cause.

use std::collections::BTreeMap;

use super::Session;
use super::node::Node;
use crate::workloads::check::Findings;

/// At least from the create at `czxid` to the zxid `last`.
pub struct Lifetime {
    /// The create.
    pub czxid: i64,
    /// The last zxid at which it was seen.
    pub last: i64,
    /// The owning session; 0 for a persistent node.
    pub owner: i64,
}

/// Adds what lists of children and rejected creates show.
pub fn extend(
    node: &Node,
    lifetimes: &mut [Lifetime],
    path: &str,
    may_be_unseen: bool,
    findings: &mut Findings,
) {
    for zxid in &node.present {
        let life = lifetimes.iter_mut().rfind(|life| life.czxid <= *zxid);
        let is_missing = |life: &Lifetime| node.absent.range(life.czxid..=*zxid).next().is_some();
        match life {
            Some(life) if life.last >= *zxid || !is_missing(life) => {
                life.last = life.last.max(*zxid);
            }
            _ if may_be_unseen => {}
            _ => findings.wrong.push(format!("{path} exists at {zxid:#x}, but was never created")),
        }
    }
}

/// Each lifetime has no gaps, and its end has a cause.
pub fn evaluate(
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
                "{path}, created at {czxid:#x} and seen at {last:#x}, was missing at {zxid:#x}"
            ));
            continue;
        }
        let session = sessions.get(owner).copied().unwrap_or_default();
        if *owner != 0 && session.closed_at.is_some_and(|closed| *last >= closed) {
            findings.wrong.push(format!("{path} outlives its session {owner:#x}: at {last:#x}"));
        }
        let next = lifetimes.get(index + 1).map(|next| next.czxid);
        let absent = node.absent.range(last + 1..).next().copied();
        let Some(missing) = next.into_iter().chain(absent).min() else {
            continue;
        };
        let deleted = node.deletes.range(last + 1..=missing).next().is_some() || node.maybe_deleted;
        if !deleted && !ended_by_session(*owner, missing, session) {
            findings.lost.push(format!(
                "{path}, created at {czxid:#x} and last seen at {last:#x}, was missing at {missing:#x}"
            ));
        }
    }
}

/// A session that was alive at `missing` has not deleted the node by ending.
fn ended_by_session(owner: i64, missing: i64, session: Session) -> bool {
    let closed = session.closed_at.is_some_and(|closed| closed <= missing);
    owner != 0 && (closed || session.may_be_over) && session.alive_at < missing
}

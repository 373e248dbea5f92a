//! Memberships: a membership that is pending at a server is the last one in its log, and the other way
//! round; one that is in force anywhere is agreed on; and one is proposed only if its quorum can answer.
//! Source: the invariants of `herdsman_zab::memberships`; for the last one, Apache's `NewConfigNoQuorum`.

use std::collections::BTreeMap;

use herdsman_proto::{Membership, ServerId, Zxid};
use herdsman_zab::quorum::Electorate;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;
use crate::world::{Mirror, ServerIndex};

/// Memberships that were in force somewhere, and where first.
#[derive(Default)]
pub struct Memberships {
    in_force: BTreeMap<Zxid, ServerIndex>,
}

impl Checker for Memberships {
    fn name(&self) -> &'static str {
        "memberships"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match *fact {
            Fact::Memberships { place, in_force, pending, log } => {
                self.in_force.entry(brought_by(in_force)).or_insert(place);
                check_pending(place, in_force, pending, log)
            }
            Fact::MembershipProposed { membership, observing } => {
                check_answers(membership, observing)
            }
            Fact::AtRest { .. } => self.check_agreed(chronicle),
            _ => Ok(()),
        }
    }
}

impl Memberships {
    fn check_agreed(&self, chronicle: &Chronicle) -> Result<(), String> {
        for (&zxid, place) in &self.in_force {
            if is_txn(zxid) && chronicle.get(zxid).is_none() {
                return Err(format!(
                    "server {place} went by membership {zxid}, which was never agreed on"
                ));
            }
        }
        Ok(())
    }
}

fn check_pending(
    place: ServerIndex,
    in_force: &Membership,
    pending: Option<&Membership>,
    log: &Mirror,
) -> Result<(), String> {
    let pending = pending.map(brought_by).filter(|zxid| is_txn(*zxid));
    let logged = log.last_change().filter(|zxid| *zxid > brought_by(in_force));
    if pending == logged {
        return Ok(());
    }
    let named = |zxid: Option<Zxid>| zxid.map_or("none".to_owned(), |zxid| zxid.to_string());
    let (pending, logged) = (named(pending), named(logged));
    Err(format!(
        "at server {place} membership {pending} is pending, and the last in its log is {logged}"
    ))
}

/// Acks of observers do not count, so those of the other servers have to be enough.
fn check_answers(membership: &Membership, observing: &[ServerId]) -> Result<(), String> {
    if Electorate::of(membership).is_quorum(|id| !observing.contains(&id)) {
        return Ok(());
    }
    Err(format!(
        "membership {} waits for acks of {observing:?}, which observe",
        brought_by(membership)
    ))
}

/// The txn that brought a membership.
fn brought_by(membership: &Membership) -> Zxid {
    Zxid(membership.version as i64)
}

/// The first membership is brought by the start of an epoch, or by nothing.
fn is_txn(zxid: Zxid) -> bool {
    zxid.counter() != 0
}

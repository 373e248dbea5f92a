//! Decides what to make of what was read: whether the server may start from it, where the log ends, and what is given
//! up. Pure: the pieces of the log and what the snapshots say come in, a plan or a refusal comes out; nothing is read
//! or changed.

use herdsman_proto::Zxid;

use super::{DigestMismatch, EmptyDirs, OnMismatch, RecoverOptions, Serves};
use crate::log::chain::Trouble;
use crate::log::pieces::{LogFiles, Pieces};
use crate::log::walk::{Walked, plan_log};
use crate::names::SnapshotName;

/// What was found on disk.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// There are no snapshots and no logs.
    pub is_fresh: bool,
    /// The part of the log that was read.
    pub log: LogFiles<'a>,
    /// What is in it.
    pub pieces: &'a Pieces,
    /// Snapshots that prove how far the log once went.
    pub reaches: &'a [Reach],
    /// A digest that does not fit the tree.
    pub digest_mismatch: Option<DigestMismatch>,
}

/// A snapshot that holds effects of txns up to some zxid, or is named by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Which snapshot.
    pub snapshot: SnapshotName,
    /// The last txn that the log must have, unless the snapshot that is used has it.
    pub zxid: Zxid,
}

/// Why a server must not start from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The log has something in it that must not be stepped over.
    Log(Trouble),
    /// The log ends before a snapshot that was taken of it.
    LogTooShort {
        /// The snapshot.
        reach: Reach,
        /// The last txn in the log.
        last: Zxid,
    },
    /// The tree is not the one that the files were written of.
    Digest(DigestMismatch),
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where the log ends, and what is mended at its end.
    pub log: Walked,
    /// What would have been refused, and is given up because the operator said so.
    pub loss: Option<Refusal>,
    /// Why the server must not vote before a leader has brought it up to date.
    pub suspend_voting: Option<String>,
}

/// Decides.
pub fn plan_recovery(found: &Found<'_>, options: &RecoverOptions) -> Result<Plan, Refusal> {
    let mismatch = found.digest_mismatch.filter(|mismatch| mismatch.healed_by.is_none());
    if let (Some(mismatch), OnMismatch::Refuse) = (mismatch, options.on_mismatch) {
        return Err(Refusal::Digest(mismatch));
    }
    let accepted = options.accept_loss_after;
    let log = plan_log(&found.log, found.pieces, accepted).map_err(Refusal::Log)?;
    let last = log.last_zxid;
    let mut loss = log.accepted.clone().map(Refusal::Log);
    if let Some(reach) = found.reaches.iter().find(|reach| reach.zxid > last).copied() {
        let refusal = Refusal::LogTooShort { reach, last };
        if accepted != Some(last) {
            return Err(refusal);
        }
        loss.get_or_insert(refusal);
    }
    let suspend_voting = suspend_voting(found, loss.as_ref().map(|_| last), options.serves);
    Ok(Plan { log, loss, suspend_voting })
}

/// Why the server must not vote, if it must not.
fn suspend_voting(found: &Found<'_>, lost_after: Option<Zxid>, serves: Serves) -> Option<String> {
    let Serves::InEnsemble { empty } = serves else {
        return None;
    };
    match lost_after {
        Some(last) => Some(format!("txns after {last} were given up (herdsman.acceptLossAfter)")),
        None if found.is_fresh && empty == EmptyDirs::Lost => {
            Some("there were no snapshots and no logs, and db.autocreate=false".to_owned())
        }
        None => None,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

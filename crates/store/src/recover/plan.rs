//! Decides what to make of what was read: whether the server may start from it, where the log ends, and what is given
//! up. Pure: the pieces of the log and what the snapshots say come in, a plan or a refusal comes out; nothing is read
//! or changed.

use herdsman_proto::Zxid;

use super::{DigestMismatch, EmptyDirs, OnDigestMismatch, RecoverOptions, ServerKind};
use crate::log::chain::LogFault;
use crate::log::pieces::{LogFiles, LogPieces};
use crate::log::walk::{LogEnd, plan_log};
use crate::names::SnapshotName;

/// What was found on disk.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryInput<'a> {
    /// There are no snapshots and no logs.
    pub is_fresh: bool,
    /// The part of the log that was read.
    pub log: LogFiles<'a>,
    /// What is in it.
    pub pieces: &'a LogPieces,
    /// Snapshots that prove how far the log once went.
    pub reaches: &'a [SnapshotReach],
    /// A digest that does not fit the tree.
    pub digest_mismatch: Option<DigestMismatch>,
}

/// A snapshot that holds effects of txns up to some zxid, or is named by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotReach {
    /// Which snapshot.
    pub snapshot: SnapshotName,
    /// The last txn that the log must have, unless the snapshot that is used has it.
    pub zxid: Zxid,
}

/// Why a server must not start from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryRefusal {
    /// The log has something in it that must not be stepped over.
    Log(LogFault),
    /// The log ends before a snapshot that was taken of it.
    LogTooShort {
        /// The snapshot.
        reach: SnapshotReach,
        /// The last txn in the log.
        last: Zxid,
    },
    /// The tree is not the one that the files were written of.
    Digest(DigestMismatch),
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryPlan {
    /// Where the log ends, and what is mended at its end.
    pub log: LogEnd,
    /// What would have been refused, and is given up because the operator said so.
    pub loss: Option<RecoveryRefusal>,
    /// Why the server must not vote before a leader has brought it up to date.
    pub suspend_voting: Option<String>,
}

/// Decides.
pub fn plan_recovery(
    found: &RecoveryInput<'_>,
    options: &RecoverOptions,
) -> Result<RecoveryPlan, RecoveryRefusal> {
    let mismatch = found.digest_mismatch.filter(|mismatch| mismatch.healed_by.is_none());
    if let (Some(mismatch), OnDigestMismatch::Refuse) = (mismatch, options.on_mismatch) {
        return Err(RecoveryRefusal::Digest(mismatch));
    }
    let accepted = options.accept_loss_after;
    let log = plan_log(&found.log, found.pieces, accepted).map_err(RecoveryRefusal::Log)?;
    let last = log.last_zxid;
    let mut loss = log.accepted.clone().map(RecoveryRefusal::Log);
    if let Some(reach) = found.reaches.iter().find(|reach| reach.zxid > last).copied() {
        let refusal = RecoveryRefusal::LogTooShort { reach, last };
        if accepted != Some(last) {
            return Err(refusal);
        }
        loss.get_or_insert(refusal);
    }
    let suspend_voting = suspend_voting(found, loss.as_ref().map(|_| last), options.serves);
    Ok(RecoveryPlan { log, loss, suspend_voting })
}

/// Why the server must not vote, if it must not.
fn suspend_voting(
    found: &RecoveryInput<'_>,
    lost_after: Option<Zxid>,
    serves: ServerKind,
) -> Option<String> {
    let ServerKind::InEnsemble { empty } = serves else {
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

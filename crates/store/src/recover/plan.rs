//! Decides from what was read whether the server may start, where the log ends, and what is given
//! up. Pure. In: the pieces of the log and the facts from the snapshots. Out: a plan or a refusal; nothing is read
//! or changed.

use herdsman_proto::Zxid;

use super::{DigestMismatch, EmptyDirs, OnDigestMismatch, RecoverOptions, ServerKind};
use crate::log::chain::LogFault;
use crate::log::pieces::{LogFiles, LogPieces};
use crate::log::walk::{LogEnd, plan_log};
use crate::names::SnapshotName;

/// The facts that recovery found on disk.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryInput<'a> {
    /// There are no snapshots and no logs.
    pub is_fresh: bool,
    /// The log files that were read.
    pub log: LogFiles<'a>,
    /// Their pieces.
    pub pieces: &'a LogPieces,
    /// Snapshots that prove how far the log once reached.
    pub reaches: &'a [SnapshotReach],
    /// A txn that was durable here, if one is known.
    pub known_last: Option<Zxid>,
    /// A digest that does not match the tree.
    pub digest_mismatch: Option<DigestMismatch>,
}

/// A snapshot that shows effects of txns up to some zxid, or is named by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotReach {
    /// Which snapshot.
    pub snapshot: SnapshotName,
    /// The last txn that the log must have, unless the snapshot in use has it.
    pub zxid: Zxid,
}

/// The reason why a server must not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryRefusal {
    /// The log has a fault that must not be skipped.
    Log(LogFault),
    /// The log ends before a snapshot that was taken of it.
    LogTooShort {
        /// The snapshot.
        reach: SnapshotReach,
        /// The last txn in the log.
        last: Zxid,
    },
    /// The log ends before a txn that was durable here.
    LogLost {
        /// That txn.
        known: Zxid,
        /// The last txn in the log.
        last: Zxid,
    },
    /// The tree is not the one that the files were written from.
    Digest(DigestMismatch),
}

/// The result of planning: how to recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryPlan {
    /// Where the log ends, and what is repaired at its end.
    pub log: LogEnd,
    /// The fault that would have been refused, and is accepted at the operator's request.
    pub loss: Option<RecoveryRefusal>,
    /// Why the server must not vote until a leader has brought it up to date.
    pub suspend_voting: Option<String>,
}

/// Plans a recovery.
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
    // Without any file, it is not the log alone that is lost.
    if let Some(known) = found.known_last.filter(|known| *known > last && !found.is_fresh) {
        let refusal = RecoveryRefusal::LogLost { known, last };
        if accepted != Some(last) {
            return Err(refusal);
        }
        loss.get_or_insert(refusal);
    }
    let suspend_voting = suspend_voting(found, loss.as_ref().map(|_| last), options.serves);
    Ok(RecoveryPlan { log, loss, suspend_voting })
}

/// The reason why the server must not vote, if there is one.
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

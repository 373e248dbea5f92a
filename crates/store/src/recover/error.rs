//! Errors because of which a server does not start, with advice for its operator.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use herdsman_proto::Zxid;

use super::DigestMismatch;
use crate::disk::IoErrorAt;
use crate::log::walk::LogWalkError;
use crate::snapshot::reader::SnapshotError;
use crate::voting::VotingError;

/// An error of recovery. Nothing was changed on disk, except if the disk itself
/// failed during a repair.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The disk failed.
    #[error("cannot read or repair {path}: {source}", path = path.display())]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is in the wrong directory.
    #[error(
        "{path} is {what}: were dataDir and dataLogDir swapped, or is one of them new? Move the file to where it belongs",
        path = path.display()
    )]
    Misplaced {
        /// Which file.
        path: PathBuf,
        /// The kind of file.
        what: &'static str,
    },
    /// There are logs but no snapshot.
    #[error(
        "{dir} has no snapshot, but there is a txn log, {log}: the snapshots are gone, or dataDir is the wrong one. Restore them; only if the log is complete from its first txn on (an upgrade from before 3.5.3) start once with snapshot.trust.empty=true",
        dir = dir.display(), log = log.display()
    )]
    NoSnapshot {
        /// The directory for snapshots.
        dir: PathBuf,
        /// One of the logs.
        log: PathBuf,
    },
    /// There are snapshots, but none can be used.
    #[error("no snapshot in {dir} can be used: {list}. Restore one from a backup", dir = dir.display(), list = list(damaged))]
    SnapshotsDamaged {
        /// Where.
        dir: PathBuf,
        /// The error of each, newest first.
        damaged: Vec<SnapshotError>,
    },
    /// A tree from a leader or a backup was to replace everything else, and cannot be read.
    #[error(
        "{0}. It was replacing all other files when the server or a restore stopped, and some of those may be gone already (a restore has kept them in version-2/before-restore-*). Restore a backup with herdsman restore --force; if all other servers of the ensemble are up, empty version-2 directories are safe too: this one then copies everything from them"
    )]
    InstallingDamaged(SnapshotError),
    /// The log cannot be read to its end.
    #[error("{source}. {advice}{context}", advice = advice(source.last_good()), context = context(passed_over))]
    Log {
        /// The error.
        source: LogWalkError,
        /// Newer snapshots that could not be used.
        passed_over: Vec<SnapshotError>,
    },
    /// The log ends before a snapshot that was taken of it.
    #[error(
        "the txn log ends at {last}, but snapshot {snapshot} {why} {reaches}: log files are missing. {advice}",
        snapshot = snapshot.display(),
        why = reason(damage.as_deref()),
        advice = advice(Some(*last)),
    )]
    LogTooShort {
        /// Which snapshot.
        snapshot: PathBuf,
        /// Txns up to this one are in it, at least in part.
        reaches: Zxid,
        /// The last txn in the log.
        last: Zxid,
        /// The damage of the snapshot, if it is damaged.
        damage: Option<String>,
    },
    /// The log ends before a txn that was durable here.
    #[error(
        "the txn log in {dir} ends at {last}, but this server has had txn {known}: its newest log file is missing. {advice}",
        dir = dir.display(), advice = advice(Some(*last))
    )]
    LogLost {
        /// The directory of the log.
        dir: PathBuf,
        /// The txn.
        known: Zxid,
        /// The last txn in the log.
        last: Zxid,
    },
    /// The tree is not the one that the files were written from.
    #[error(
        "{mismatch}: txns are missing (log files were lost or cut before a new epoch){suspect}, or this server computed a different result than the leader. In an ensemble, move both version-2 directories aside and start with -Dzookeeper.db.autocreate=false: the server copies everything from the leader and does not vote before that. A standalone server: restore a backup. To serve the tree as it is, without any comparison of digests, start with -Dzookeeper.digest.enabled=false",
        suspect = suspect(snapshot.as_deref())
    )]
    Digest {
        /// The mismatch.
        mismatch: DigestMismatch,
        /// The snapshot that was used.
        snapshot: Option<PathBuf>,
    },
}

impl From<IoErrorAt> for RecoverError {
    fn from(IoErrorAt { path, source }: IoErrorAt) -> Self {
        RecoverError::Io { path, source }
    }
}

impl From<VotingError> for RecoverError {
    fn from(VotingError { path, source }: VotingError) -> Self {
        RecoverError::Io { path, source }
    }
}

impl RecoverError {
    /// The error for a log that cannot be read to its end.
    pub(crate) fn from_log(error: LogWalkError, passed_over: Vec<SnapshotError>) -> Self {
        match error {
            LogWalkError::Io { path, source } => RecoverError::Io { path, source },
            source => RecoverError::Log { source, passed_over },
        }
    }
}

fn suspect(snapshot: Option<&std::path::Path>) -> String {
    snapshot.map_or_else(String::new, |path| format!(", or {} is wrong", path.display()))
}

fn advice(last_good: Option<Zxid>) -> String {
    match last_good {
        None => "Restore the file from a backup".to_owned(),
        Some(zxid) => format!(
            "In an ensemble, move both version-2 directories aside and start with -Dzookeeper.db.autocreate=false: the server copies everything from the leader and does not vote before that. Otherwise restore the files from a backup, or, to go on with the state as of txn {zxid} and give up everything after it, start once with -Dherdsman.acceptLossAfter={zxid} (a member of an ensemble then does not vote until the leader has brought it up to date)"
        ),
    }
}

fn reason(damage: Option<&str>) -> String {
    match damage {
        None => "holds effects of txns up to".to_owned(),
        Some(damage) => format!("cannot be used ({damage}) and covers txns up to"),
    }
}

fn list(damaged: &[SnapshotError]) -> String {
    let mut text = String::new();
    for (index, error) in damaged.iter().enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        let _ = write!(text, "{separator}{error}");
    }
    text
}

fn context(passed_over: &[SnapshotError]) -> String {
    if passed_over.is_empty() {
        String::new()
    } else {
        format!(" (an older snapshot was used because: {})", list(passed_over))
    }
}

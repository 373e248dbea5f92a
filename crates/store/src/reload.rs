//! Truncates txns that were never agreed on: cuts the log after a txn and returns the tree as of it.
//!
//! In: the last txn to keep, as a leader's TRUNC names it. Out: what [`fn@crate::recover`] would return
//! from the shortened log; or [`ReloadError::Impossible`], and then not one byte on disk has changed.
//! Apache: `ZKDatabase.truncateLog`, which cuts before it knows whether the rest makes a tree, keeps
//! snapshots with what was cut, and leaves the old tree in memory when it is interrupted
//! (ZOOKEEPER-3701, -5094).
//!
//! # What can be kept
//! First everything is read, as recovery reads it, but no further than the wanted txn:
//! - from the newest complete snapshot that *surely* shows no effect of a later txn. A snapshot whose
//!   end does not say up to where it is fuzzy (written before 3.6, or with digests disabled) could
//!   miss a znode that a later txn deleted, so it is not used, unless it is from before the first txn;
//! - then the log, without gaps, through that very txn. Two other ends are valid: the snapshot
//!   itself is as of the wanted txn; or the wanted zxid has counter 0. Such a zxid is the start of an epoch
//!   and not a txn: everything before it stays, if something after it proves that this server
//!   has been in that epoch or a later one, and so has all that the epoch started from.
//!
//! The result is the tree to return.
//!
//! # What is removed, and a crash between any two steps
//! 1. Everything that was read is made durable.
//! 2. Snapshots newer than the one that was used are removed: they hold what is truncated, or cannot be
//!    read. *Crash:* the whole log is still there, and gives the old state from any of them. This
//!    is checked before: a log with a gap that only a newer snapshot covers cannot be cut this way.
//! 3. Log files are removed, newest first, then one is cut. *Crash:* a prefix of the old history that is not
//!    shorter than requested, and a snapshot inside it. The leader will send TRUNC again.
//!
//! In the other order recovery would find a snapshot that is ahead of its log. Older snapshots stay: only
//! one is taken at a time, so an older one was finished before the one that was used began, and
//! shows nothing later than it. (If another program has taken two at once, the digests in the log
//! detect it at the next recovery from it.)
//!
//! # Duties of the caller
//! - The old [`crate::LogWriter`] is dropped before, without a flush: its position is after the cut,
//!   and it would leave a gap of zeros there. A new one is created after, from the tree's zxid, and starts a
//!   file of its own.
//! - No [`crate::SnapshotWriter`] is open and no purge runs: their decisions are based on what is
//!   being truncated. (A forgotten writer's temporary file is removed, so it cannot be renamed.)
//! - The old tree in memory, and the txns in flight over it, are dropped, whatever is returned, except after
//!   `Impossible`: memory is never ahead of the disk.
//! - After [`ReloadError::Failed`] nothing may be appended, acked or served until a later try or
//!   [`fn@crate::recover`] has succeeded.
//! - A failed sync is final for a process: after it, this function must not be called either, since what
//!   it reads may never have reached the disk.

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::Zxid;

use crate::archive::{missing_txns, read_trailer};
use crate::disk::{Dirs, Disk, IoErrorAt, TolerantDisk, io_at};
use crate::epoch::lower_last_known;
use crate::install::finish_installing;
use crate::log::pieces::LogFiles;
use crate::log::truncate::{LogCut, cut_log};
use crate::log::walk::{LogEnd, LogWalkError, files_needed, walk};
use crate::names::{LogName, SnapshotName, list_logs, list_snapshots};
use crate::recover::{
    RecoverError, RecoverOptions, Recovered, RecoverySource, ReplayBase, ReplayTo, ReportProgress,
    SnapshotUsed, remove_unfinished, sync_all,
};
use crate::snapshot::parts::SnapshotFault;
use crate::snapshot::reader::{SnapshotError, detect_compression};

/// An error of truncating the log.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The tree as of that txn cannot be built from the files. Nothing was changed.
    #[error("cannot go back to txn {zxid}: {reason}")]
    Impossible {
        /// Which txn.
        zxid: Zxid,
        /// The reason.
        reason: ReloadImpossible,
    },
    /// The disk failed. The log may be longer than requested, but nothing that was to stay is lost.
    #[error("the log could not be cut: {0}")]
    Failed(#[source] RecoverError),
}

/// The reason why an earlier state cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ReloadImpossible {
    /// No snapshot is old enough.
    #[error("no snapshot is complete and surely without effects of later txns")]
    NoSnapshot,
    /// The snapshot to start from shows later txns, or does not say which.
    #[error("{} {}", path.display(), reaches.map_or(
        "does not say up to which txn it shows effects (digest.enabled, serializeLastProcessedZxid.enabled)".to_owned(),
        |zxid| format!("shows effects of txns up to {zxid}"),
    ))]
    BaseTooLate {
        /// Which file.
        path: PathBuf,
        /// The last txn of which it shows an effect, if it says.
        reaches: Option<Zxid>,
    },
    /// The snapshot to start from cannot be read.
    #[error(transparent)]
    BaseDamaged(#[from] SnapshotError),
    /// The log does not have the txn.
    #[error("the log has txn {last} and then {}", next.map_or("ends".to_owned(), |next| next.to_string()))]
    NotInLog {
        /// The last one before.
        last: Zxid,
        /// What follows it.
        next: Option<Zxid>,
    },
    /// The log is broken before it.
    #[error("{0}")]
    Broken(RecoverError),
    /// The log cannot be read up to it.
    #[error("{0}")]
    Unreadable(LogWalkError),
}

impl From<IoErrorAt> for ReloadError {
    fn from(error: IoErrorAt) -> Self {
        ReloadError::Failed(error.into())
    }
}

/// Cuts the log so that nothing after `zxid` is left, and loads the tree again. If `zxid` has counter 0,
/// the tree's zxid is that of the last txn before. See the module for the duties of the caller.
pub fn truncate_and_reload(
    disk: &dyn Disk,
    dirs: &Dirs,
    zxid: Zxid,
    options: &RecoverOptions,
    progress: &mut ReportProgress<'_>,
) -> Result<Recovered, ReloadError> {
    finish_installing(disk, dirs)?;
    let source = RecoverySource { disk, dirs, options };
    let (snapshots, logs) = source.list().map_err(ReloadError::Failed)?;
    let base = base_before(&source, &snapshots, zxid, progress)
        .ok_or(ReloadError::Impossible { zxid, reason: ReloadImpossible::NoSnapshot })?;
    let (recovered, plan) = source
        .replay(base, &logs, ReplayTo::Txn(zxid), progress)
        .map_err(|error| cannot_read(zxid, error))?;
    check_reached(zxid, &plan.log)?;
    check_rest(&source, &snapshots, &logs, &recovered)?;
    let used = recovered.snapshot.as_ref().expect("it was started from one");
    sync_all(disk, dirs, Some(&used.path))?;
    remove_newer(disk, dirs, &snapshots, used.name)?;
    lower_last_known(disk, &dirs.data, zxid).map_err(io_at(&dirs.data))?;
    cut_log(disk, &dirs.log, &LogCut::behind(&plan.log, &logs))?;
    tracing::debug!(wanted = %zxid, last = %recovered.tree.last_zxid(), "cut the log and loaded the tree");
    Ok(recovered)
}

/// Cuts the log so that nothing after `zxid` is left, for a tree in memory that shows nothing of what is removed: no
/// snapshot is loaded, and only the file with the cut and those after it are read. `zxid` must be a
/// txn. The old [`crate::LogWriter`] is dropped before, as for [`truncate_and_reload`].
pub fn truncate(disk: &dyn Disk, dirs: &Dirs, zxid: Zxid) -> Result<(), ReloadError> {
    let impossible = |reason| ReloadError::Impossible { zxid, reason };
    let snapshots = list_snapshots(disk, &dirs.data).map_err(io_at(&dirs.data))?;
    if snapshots.iter().any(|name| name.zxid > zxid) {
        return Err(impossible(ReloadImpossible::NoSnapshot));
    }
    let logs = list_logs(disk, &dirs.log).map_err(io_at(&dirs.log))?;
    let files = files_needed(&logs, zxid);
    let Some(first) = files.first() else {
        return Err(impossible(ReloadImpossible::NotInLog { last: Zxid::ZERO, next: None }));
    };
    let after = Zxid(first.zxid.0.saturating_sub(1));
    let log = LogFiles { dir: &dirs.log, files, after, until: Some(zxid), known: &[], open: None };
    let tolerant = TolerantDisk::new(disk);
    let walked = walk(&tolerant, &log, &mut |_| Ok(())).map_err(|error| match error {
        LogWalkError::Io { path, source } => IoErrorAt { path, source }.into(),
        broken => impossible(ReloadImpossible::Unreadable(broken)),
    })?;
    check_reached(zxid, &walked)?;
    sync_all(disk, dirs, None)?;
    lower_last_known(disk, &dirs.data, zxid).map_err(io_at(&dirs.data))?;
    cut_log(disk, &dirs.log, &LogCut::behind(&walked, &logs))?;
    tracing::debug!(last = %zxid, "cut the log");
    Ok(())
}

/// Loads the state as of `zxid` from the files of an archive or a stopped server, and changes nothing. It starts from
/// `base`, or from the newest snapshot that surely shows nothing later. `zxid` is a txn, or the start of an epoch.
pub fn load_as_of(
    disk: &dyn Disk,
    dirs: &Dirs,
    zxid: Zxid,
    base: Option<&Path>,
    options: &RecoverOptions,
    progress: &mut ReportProgress<'_>,
) -> Result<Recovered, ReloadError> {
    let source = RecoverySource { disk, dirs, options };
    let (snapshots, logs) = source.list().map_err(ReloadError::Failed)?;
    let mut base = match base {
        Some(path) => base_in(&source, path, zxid, progress)
            .map_err(|reason| ReloadError::Impossible { zxid, reason })?,
        None => base_before(&source, &snapshots, zxid, progress)
            .ok_or(ReloadError::Impossible { zxid, reason: ReloadImpossible::NoSnapshot })?,
    };
    base.known.extend(missing_txns(disk, &dirs.log).map_err(io_at(&dirs.log))?);
    // With a base of the operator's, a snapshot beside the log shows that a txn before a new epoch is missing.
    base.known.extend(snapshots.iter().map(|name| name.zxid));
    let (recovered, plan) = source
        .replay(base, &logs, ReplayTo::Txn(zxid), progress)
        .map_err(|error| cannot_read(zxid, error))?;
    check_reached(zxid, &plan.log)?;
    Ok(recovered)
}

/// Loads a snapshot that an operator has chosen, of any name.
fn base_in(
    source: &RecoverySource<'_>,
    path: &Path,
    zxid: Zxid,
    progress: &mut ReportProgress<'_>,
) -> Result<ReplayBase, ReloadImpossible> {
    let cannot_read =
        |fault: SnapshotFault| SnapshotError { path: path.to_owned(), offset: 0, fault };
    let detected = detect_compression(source.disk, path);
    let compression = detected
        .and_then(|found| found.ok_or_else(|| io::Error::other("not a snapshot (bad magic)")))
        .map_err(|error| cannot_read(error.into()))?;
    let file_name = path.file_name().and_then(|name| name.to_str());
    let named = file_name.and_then(SnapshotName::parse).map(|name| name.zxid);
    let trailer = read_trailer(source.disk, path, compression)?;
    let too_late = |reaches| ReloadImpossible::BaseTooLate { path: path.to_owned(), reaches };
    let last = trailer.last_zxid.or(trailer.digest.map(|digest| digest.zxid));
    let last = last.ok_or_else(|| too_late(None))?;
    // A snapshot that was taken during writes holds everything only up to the txn in its name.
    let from = named.filter(|named| *named <= last).unwrap_or(last);
    let name = SnapshotName { zxid: from, compression };
    let (tree, snapshot) = source.load_snapshot(name, path, progress)?;
    if !surely_before(&snapshot, zxid) {
        return Err(too_late(Some(snapshot.fuzzy_until())));
    }
    let (damaged, known) = (Vec::new(), Vec::new());
    Ok(ReplayBase { tree, snapshot: Some(snapshot), damaged, known, fresh: false })
}

/// Loads the newest snapshot without effects of txns after `zxid`.
fn base_before(
    source: &RecoverySource<'_>,
    snapshots: &[SnapshotName],
    zxid: Zxid,
    progress: &mut ReportProgress<'_>,
) -> Option<ReplayBase> {
    let (mut damaged, mut known) = (Vec::new(), Vec::new());
    for &name in snapshots.iter().rev().filter(|name| name.zxid <= zxid) {
        match source.load_snapshot(name, &name.path(&source.dirs.data), progress) {
            Ok((tree, snapshot)) if surely_before(&snapshot, zxid) => {
                let snapshot = Some(snapshot);
                return Some(ReplayBase { tree, snapshot, damaged, known, fresh: false });
            }
            Ok((_, snapshot)) => {
                tracing::info!(path = %snapshot.path.display(), "snapshot skipped: it may hold effects of later txns");
            }
            Err(error) => {
                tracing::warn!(%error, "looking for an older snapshot");
                damaged.push((name, error));
            }
        }
        known.push(name.zxid);
    }
    None
}

/// Whether nothing in it was made by a txn after `zxid`.
fn surely_before(snapshot: &SnapshotUsed, zxid: Zxid) -> bool {
    let trailer = &snapshot.trailer;
    let end_known = trailer.digest.is_some() || trailer.last_zxid.is_some();
    (end_known || snapshot.name.zxid == Zxid::ZERO) && snapshot.fuzzy_until() <= zxid
}

/// Checks that what was read ends at `zxid`.
fn check_reached(zxid: Zxid, walked: &LogEnd) -> Result<(), ReloadError> {
    let last = walked.last_zxid;
    let next = walked.stop.and_then(|stop| stop.next);
    let starts_epoch = zxid.counter() == 0 && next.is_some_and(|next| last.is_continued_by(next));
    if last == zxid || starts_epoch {
        return Ok(());
    }
    Err(ReloadError::Impossible { zxid, reason: ReloadImpossible::NotInLog { last, next } })
}

/// If newer snapshots must be removed, checks that the whole log gives the same state without them.
fn check_rest(
    source: &RecoverySource<'_>,
    snapshots: &[SnapshotName],
    logs: &[LogName],
    recovered: &Recovered,
) -> Result<(), ReloadError> {
    let used = recovered.snapshot.as_ref().map(|used| used.name);
    let newer = snapshots.iter().filter(|name| Some(**name) > used);
    let known: Vec<Zxid> = newer.map(|name| name.zxid).collect();
    if known.is_empty() {
        return Ok(());
    }
    let after = recovered.tree.last_zxid();
    let files = files_needed(logs, after);
    let dir = &source.dirs.log;
    let log = LogFiles { dir, files, after, until: None, known: &known, open: None };
    match walk(&TolerantDisk::new(source.disk), &log, &mut |_| Ok(())) {
        Ok(_) => Ok(()),
        Err(error) => Err(cannot_read(after, RecoverError::from_log(error, Vec::new()))),
    }
}

/// Converts an error from before the first change: only an I/O error is a failure.
fn cannot_read(zxid: Zxid, error: RecoverError) -> ReloadError {
    match error {
        RecoverError::Io { .. } => ReloadError::Failed(error),
        error => ReloadError::Impossible { zxid, reason: ReloadImpossible::Broken(error) },
    }
}

/// Removes the snapshots that come after the one that is used, and unfinished ones.
fn remove_newer(
    disk: &dyn Disk,
    dirs: &Dirs,
    snapshots: &[SnapshotName],
    used: SnapshotName,
) -> Result<(), IoErrorAt> {
    remove_unfinished(disk, &dirs.data).map_err(io_at(&dirs.data))?;
    for name in snapshots.iter().filter(|name| **name > used) {
        let path = name.path(&dirs.data);
        tracing::warn!(path = %path.display(), "removing a snapshot of txns that are truncated");
        disk.remove(&path).map_err(io_at(&path))?;
    }
    disk.sync_dir(&dirs.data).map_err(io_at(&dirs.data))
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;

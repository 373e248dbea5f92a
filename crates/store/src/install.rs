//! Replaces everything on disk by a tree from a leader.
//!
//! In: a tree that no longer changes and shows no effect of a txn after its last one. Out: a snapshot of it,
//! durable, and nothing else: no older snapshot, no log. Apache: `Learner.syncWithLeader` with
//! `ZooKeeperServer.takeSnapshot`, which leaves the old files where they are.
//!
//! # Why everything else must be removed
//! Once the tree is installed, the leader's history is this server's history, and the old files hold
//! another history, or the same one with a part missing:
//! - Txns in the old log after the installed zxid were never agreed on. Recovery would replay them over
//!   the new snapshot.
//! - A snapshot with a later name, or with effects of later txns, belongs to that same lost history.
//!   Recovery would prefer it.
//! - An older snapshot with the older log stops before the installed zxid. If the installed snapshot were
//!   found damaged later, recovery would fall back to the older one; and when the new log starts with
//!   a new epoch, its first txn has counter 1 and follows *any* txn of an older epoch, so the gap would
//!   not be detected (ZOOKEEPER-2846). Likewise a leader must not offer txns from before the gap.
//!
//! # Steps, and a crash between any two of them
//! 1. The snapshot is written as `tmp.snapshot.<zxid>` and synced, and so is [`crate::names::GUARD`], which keeps
//!    Apache from starting: it would not see what step 2 decides, and acknowledge txns that the next start of Herdsman
//!    removes. *Crash:* Herdsman reads neither of them; recovery gives the old state and removes both.
//! 2. It is renamed to `install.snapshot.<zxid>`, and the directory is synced. A rename is all or nothing,
//!    and this is the only step that decides. *Crash before:* the old state. *Crash after:* recovery sees
//!    the name, reads this file and no other, and carries out the steps below itself.
//! 3. The logs are removed, newest first, then the snapshots, oldest first; both directories are synced.
//!    *Crash:* as after 2, whatever is left of the old files, since none of them is looked at.
//! 4. It is renamed to `snapshot.<zxid>`, the directory is synced, and the guard is removed. *Crash:* it has the one
//!    name or the other, alone in its directory: the new state both times.
//!
//! So there are two states and no third. To cut the old log and its snapshots first and rename last
//! would need one name less, but it gives up the old state before there is a new one whenever the old
//! snapshots are all later than the new one; such a server would refuse to start.
//!
//! The order inside step 3 is for a program that does not know step 2's name: while any old files are left, they
//! are the newest snapshot with a prefix of the log.
//!
//! [`crate::replace`] does the same with a snapshot that an operator restores, and adds two things, which steps 3
//! and 4 do: epoch files that take effect with the snapshot, and voting that is no longer suspended.
//!
//! # Duties of the caller
//! - The old [`crate::LogWriter`] is dropped before, without a flush; a new one is made after, from the
//!   tree's zxid. The files of the old one are removed, so anything that it wrote would be lost.
//! - No [`crate::SnapshotWriter`] is open and no purge runs. (A forgotten writer cannot do harm
//!   under its own name: its temporary file is removed, so the rename fails.)
//! - The old tree in memory is replaced only after `Ok`, and the txns in flight over it are dropped: memory
//!   is never ahead of the disk.
//! - [`InstallError::Fuzzy`] and [`InstallError::Write`]: nothing has changed, the old state stays in use.
//!   [`InstallError::Io`]: it may or may not have been decided. Nothing may be appended, acked or served
//!   until this function, [`crate::truncate_and_reload`] or [`fn@crate::recover`] has succeeded, in this
//!   process or after a restart: each of them finishes what was decided.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::Zxid;
use herdsman_tree::{Loader, Tree};

use crate::disk::{Dirs, Disk, IoErrorAt, io_at, is_full};
use crate::epoch::lower_last_known;
use crate::names::{Compression, INSTALLING, SnapshotName, list_logs, list_snapshots};
use crate::recover::remove_unfinished;
use crate::replace::{check_guard, remove_guard, remove_others, take_epochs, write_guard};
use crate::snapshot::writer::{SnapshotFile, SnapshotWriteError, write_nodes};
use crate::snapshot::{LastZxid, Trailer};

/// An error of installing a tree.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The tree is not of one point in time: txns that the leader sent after it are missing. Nothing was
    /// changed.
    #[error(
        "the tree is as of txn {last}, but shows effects of txns up to {newest_effect}, which were not received"
    )]
    Fuzzy {
        /// As of which txn.
        last: Zxid,
        /// The last txn of which it shows an effect.
        newest_effect: Zxid,
    },
    /// The snapshot could not be written. Nothing was changed.
    #[error(transparent)]
    Write(#[from] SnapshotWriteError),
    /// The disk failed while the old files were being removed. What is decided is finished by the next
    /// recovery; until then nothing may be written.
    #[error("cannot put the new snapshot in place at {path}: {source}", path = path.display())]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl From<IoErrorAt> for InstallError {
    fn from(IoErrorAt { path, source }: IoErrorAt) -> Self {
        InstallError::Io { path, source }
    }
}

impl InstallError {
    /// Whether the disk was full. Then nothing was changed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, InstallError::Write(error) if error.is_full())
    }
}

/// Makes `tree` the only state on disk. See the module for the duties of the caller.
pub fn install_snapshot(
    disk: &Arc<dyn Disk>,
    dirs: &Dirs,
    tree: &Tree,
    compression: Compression,
    last_zxid: LastZxid,
) -> Result<SnapshotFile, InstallError> {
    finish_installing(&**disk, dirs)?;
    let name = SnapshotName { zxid: tree.last_zxid(), compression };
    let bytes = write_unnamed(disk, dirs, tree, name, last_zxid)?;
    let temporary = dirs.data.join(name.temporary_name());
    if let Err(IoErrorAt { path, source }) = write_guard(&**disk, dirs, &[]) {
        // What cannot be removed is removed by the next start.
        let _ = remove_guard(&**disk, dirs);
        if !is_full(&source) {
            let _ = disk.remove(&temporary);
            return Err(SnapshotWriteError { path, source }.into());
        }
        // The old logs are removed, which makes room again.
        tracing::warn!(
            path = %path.display(),
            "the disk of the txn log is full, so a new tree replaces the old files without a file that would \
             keep Apache ZooKeeper from starting meanwhile; if this server stops now, start Herdsman before Apache"
        );
    }
    lower_last_known(&**disk, &dirs.data, name.zxid).map_err(io_at(&dirs.data))?;
    let installing = dirs.data.join(name.installing_name());
    disk.rename(&temporary, &installing).map_err(io_at(&installing))?;
    let path = clear_and_name(&**disk, dirs, name)?;
    Ok(SnapshotFile { name, path, bytes })
}

/// Writes the snapshot under its temporary name, durably. Returns its length.
pub(crate) fn write_unnamed(
    disk: &Arc<dyn Disk>,
    dirs: &Dirs,
    tree: &Tree,
    name: SnapshotName,
    last_zxid: LastZxid,
) -> Result<u64, InstallError> {
    let mut newest_effect = Zxid::ZERO;
    let writer =
        write_nodes(Arc::clone(disk), &dirs.data, name.compression, tree, &mut |path, stat| {
            newest_effect = newest_effect.max(Loader::effect_of(path, stat));
        })?;
    if newest_effect > name.zxid {
        return Err(InstallError::Fuzzy { last: name.zxid, newest_effect });
    }
    Ok(writer.seal_unnamed(&Trailer::of(tree, last_zxid), &mut |_| {})?)
}

/// The snapshot that is to replace everything else, if that was decided and not finished.
pub(crate) fn find_installing(
    disk: &dyn Disk,
    dir: &Path,
) -> Result<Option<SnapshotName>, IoErrorAt> {
    match list_installing(disk, dir)?.as_slice() {
        [] => Ok(None),
        [name] => Ok(Some(*name)),
        // Each is finished before the next is begun, unless it cannot be read and a restore replaces it.
        _ => Err(io_at(dir)(io::Error::other(format!(
            "several files are called {INSTALLING}snapshot.*: a restore was interrupted. Run it again"
        )))),
    }
}

/// Every snapshot that was to replace everything else.
pub(crate) fn list_installing(disk: &dyn Disk, dir: &Path) -> Result<Vec<SnapshotName>, IoErrorAt> {
    let entries = disk.list(dir).map_err(io_at(dir))?;
    let parse = |name: &str| SnapshotName::parse(name.strip_prefix(INSTALLING)?);
    Ok(entries.iter().filter_map(|entry| parse(&entry.name)).collect())
}

/// Finishes what was decided before a crash or an error. Only for a file that this process has written
/// itself: recovery reads it first.
pub(crate) fn finish_installing(disk: &dyn Disk, dirs: &Dirs) -> Result<(), IoErrorAt> {
    match find_installing(disk, &dirs.data)? {
        None => Ok(()),
        Some(name) => clear_and_name(disk, dirs, name).map(|_| ()),
    }
}

/// Removes everything else, then renames the installed snapshot to its final name. Can be repeated.
pub(crate) fn clear_and_name(
    disk: &dyn Disk,
    dirs: &Dirs,
    name: SnapshotName,
) -> Result<PathBuf, IoErrorAt> {
    check_guard(disk, dirs)?;
    // Nothing may be removed before the decision is durable.
    disk.sync_dir(&dirs.data).map_err(io_at(&dirs.data))?;
    for log in list_logs(disk, &dirs.log).map_err(io_at(&dirs.log))?.iter().rev() {
        let path = log.path(&dirs.log);
        disk.remove(&path).map_err(io_at(&path))?;
    }
    disk.sync_dir(&dirs.log).map_err(io_at(&dirs.log))?;
    for snapshot in list_snapshots(disk, &dirs.data).map_err(io_at(&dirs.data))? {
        let path = snapshot.path(&dirs.data);
        disk.remove(&path).map_err(io_at(&path))?;
    }
    remove_others(disk, dirs)?;
    remove_unfinished(disk, &dirs.data).map_err(io_at(&dirs.data))?;
    disk.sync_dir(&dirs.data).map_err(io_at(&dirs.data))?;
    take_epochs(disk, dirs)?;
    let path = name.path(&dirs.data);
    disk.rename(&dirs.data.join(name.installing_name()), &path).map_err(io_at(&path))?;
    disk.sync_dir(&dirs.data).map_err(io_at(&dirs.data))?;
    // Everything is in place and durable.
    if let Err(IoErrorAt { path, source }) = remove_guard(disk, dirs) {
        tracing::warn!(
            path = %path.display(), error = %source,
            "cannot remove the file that keeps Apache ZooKeeper from starting; the next start of Herdsman tries again"
        );
    }
    tracing::info!(path = %path.display(), "a new tree has replaced the previous state");
    Ok(path)
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;

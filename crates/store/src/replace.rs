//! Replaces a server's state by a snapshot that an operator restores, in both directories at once.
//!
//! In: a tree that no longer changes, its epochs, and directories of a server that does not run. Out: a
//! snapshot and epoch files, and nothing else that a server reads. The caller has kept the old files.
//!
//! # Steps, and a crash between any two of them
//! 1. [`stage`]: `tmp.snapshot.<zxid>`, `install.acceptedEpoch`, `install.currentEpoch`, and [`GUARD`] in the directory
//!    of the logs, all durable. *Crash:* no server reads the first three without step 2; recovery gives the old state
//!    and removes all four.
//! 2. [`StagedSnapshot::decide`]: the snapshot is renamed to `install.snapshot.<zxid>`, and the directory is synced.
//!    Nothing else decides.
//! 3. [`finish`]: what [`crate::install`] does from there on. Logs and snapshots are removed, voting is allowed,
//!    the epoch files and then the snapshot get their names, and the guard is removed. *Crash:* recovery sees the
//!    snapshot of step 2, or, at the end, the same one under its own name; it returns the new state and does the rest.
//!
//! Renaming directories would need fewer names, but is impossible across file systems, and for a directory
//! that is a mount point.
//!
//! # Apache
//! Apache does not know the name of step 2, so it would see some of the old files, or none, or the old log with the new
//! snapshot. The guard keeps it from starting with any of these: it has the name of the latest possible log,
//! so Apache opens it after all others, and it is not a valid log, so Apache refuses to start. A server that starts
//! while it exists has either the old state or the new one, or is Apache and refuses.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_tree::Tree;

use crate::disk::{Dirs, Disk, IoErrorAt, io_at, read_whole, remove_if_there};
use crate::epoch::{EpochFile, Epochs, remove_copies};
use crate::install::{
    InstallError, find_installing, finish_installing, list_installing, write_unnamed,
};
use crate::names::{Compression, DAMAGED, GUARD, INSTALLING, SnapshotName, is_read_by_apache};
use crate::recover::remove_unfinished;
use crate::snapshot::LastZxid;
use crate::voting::{self, VotingError};

/// The content of the guard, for an operator who reads it; it must not begin like a log.
const GUARD_TEXT: &str = "Not a txn log: Herdsman is exchanging the files of this server, for a restore or for a tree \
    from its leader. If it was interrupted, start Herdsman or repeat the restore: both finish it. Apache ZooKeeper \
    refuses to start while this file is here. Do not remove it.\n";
/// The prefix of a line of the guard that names a directory with the old files.
const KEPT_LINE: &str = "kept: ";

/// Limit for a guard with two paths.
const GUARD_BYTES_MAX: u64 = 64 << 10;

/// A snapshot with its epoch files, durable but not in effect.
#[derive(Debug)]
pub struct StagedSnapshot {
    name: SnapshotName,
    dir: PathBuf,
}

/// Writes everything that is needed; `kept` are the directories with the old files. Nothing that a server reads has
/// changed, whatever this returns.
pub fn stage(
    disk: &Arc<dyn Disk>,
    dirs: &Dirs,
    tree: &Tree,
    epochs: Epochs,
    kept: &[PathBuf],
) -> Result<StagedSnapshot, InstallError> {
    let name = SnapshotName { zxid: tree.last_zxid(), compression: Compression::None };
    write_unnamed(disk, dirs, tree, name, LastZxid::Write)?;
    let disk = &**disk;
    for (file, epoch) in
        [(EpochFile::Accepted, epochs.accepted), (EpochFile::Current, epochs.current)]
    {
        write_anew(disk, &dirs.data.join(installing_name(file)), &epoch.to_string())?;
    }
    disk.sync_dir(&dirs.data).map_err(io_at(&dirs.data))?;
    write_guard(disk, dirs, kept)?;
    Ok(StagedSnapshot { name, dir: dirs.data.clone() })
}

/// Writes the guard, which keeps Apache from starting, durably.
pub(crate) fn write_guard(disk: &dyn Disk, dirs: &Dirs, kept: &[PathBuf]) -> Result<(), IoErrorAt> {
    let lines = kept.iter().map(|dir| format!("{KEPT_LINE}{}\n", dir.display()));
    let text = std::iter::once(GUARD_TEXT.to_owned()).chain(lines).collect::<String>();
    write_anew(disk, &dirs.log.join(GUARD), &text)?;
    disk.sync_dir(&dirs.log).map_err(io_at(&dirs.log))
}

/// The directories with the old files, if a restore is not finished.
#[must_use]
pub fn kept_by_pending(disk: &dyn Disk, dirs: &Dirs) -> Vec<PathBuf> {
    let content = read_whole(disk, &dirs.log.join(GUARD), GUARD_BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&content);
    text.lines().filter_map(|line| line.strip_prefix(KEPT_LINE)).map(PathBuf::from).collect()
}

impl StagedSnapshot {
    /// The path of the snapshot until [`StagedSnapshot::decide`].
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.join(self.name.temporary_name())
    }

    /// Makes the snapshot the state of this server. If it fails, nothing has changed.
    pub fn decide(self, disk: &dyn Disk) -> io::Result<()> {
        disk.rename(&self.path(), &self.dir.join(self.name.installing_name()))
    }
}

/// The snapshot that was decided on and is not finished, if there is one.
pub fn pending(disk: &dyn Disk, dirs: &Dirs) -> io::Result<Option<SnapshotName>> {
    find_installing(disk, &dirs.data).map_err(|IoErrorAt { source, .. }| source)
}

/// Finishes what was decided; can be repeated until it succeeds. `decided` is the snapshot; other snapshots that
/// were to replace everything are removed.
pub fn finish(disk: &dyn Disk, dirs: &Dirs, decided: SnapshotName) -> Result<(), InstallError> {
    for other in list_installing(disk, &dirs.data)? {
        if other != decided {
            let from = dirs.data.join(other.installing_name());
            let to = dirs.data.join(format!("{DAMAGED}{}", other.installing_name()));
            disk.sync_dir(&dirs.data).map_err(io_at(&dirs.data))?;
            disk.rename(&from, &to).map_err(io_at(&from))?;
        }
    }
    Ok(finish_installing(disk, dirs)?)
}

/// Removes the files of a restore that was staged and not decided on.
pub fn discard(disk: &dyn Disk, dirs: &Dirs) -> io::Result<()> {
    remove_staged(disk, dirs).map_err(|IoErrorAt { source, .. }| source)
}

/// Like [`discard`], for recovery.
pub(crate) fn remove_staged(disk: &dyn Disk, dirs: &Dirs) -> Result<(), IoErrorAt> {
    for dir in [&dirs.data, &dirs.log] {
        remove_unfinished(disk, dir).map_err(io_at(dir))?;
    }
    // An earlier restore is decided on, but its snapshot cannot be read: the epochs and the guard belong to it.
    if !list_installing(disk, &dirs.data)?.is_empty() {
        return Ok(());
    }
    for file in [EpochFile::Accepted, EpochFile::Current] {
        let path = dirs.data.join(installing_name(file));
        remove_if_there(disk, &path).map_err(io_at(&path))?;
    }
    remove_guard(disk, dirs)
}

/// Lists the epoch files that were staged with a snapshot.
fn staged_epochs(disk: &dyn Disk, dirs: &Dirs) -> Result<Vec<EpochFile>, IoErrorAt> {
    let entries = disk.list(&dirs.data).map_err(io_at(&dirs.data))?;
    let is_there = |name: &str| entries.iter().any(|entry| entry.name == name);
    let files = [EpochFile::Accepted, EpochFile::Current].into_iter();
    Ok(files.filter(|file| is_there(&installing_name(*file))).collect())
}

/// Checks that the guard exists. Epoch files are staged with it, and it is removed last. Without it the logs are
/// not in the directory that was given for the restore, and the old ones would later be replayed over the new snapshot.
pub(crate) fn check_guard(disk: &dyn Disk, dirs: &Dirs) -> Result<(), IoErrorAt> {
    let entries = disk.list(&dirs.log).map_err(io_at(&dirs.log))?;
    let is_guarded = entries.iter().any(|entry| entry.name == GUARD);
    if is_guarded || staged_epochs(disk, dirs)?.is_empty() {
        return Ok(());
    }
    Err(io_at(&dirs.log)(io::Error::other(format!(
        "a restore of this server was interrupted, and {GUARD} is not here: the restore was for another dataLogDir (or --log-dir), or the file was removed. Give the same directory; if it is the same and no server has run since, create the file again (touch), so that the restore can be finished"
    ))))
}

/// Removes the other files that a server could read in either directory: logs and snapshots that are in the wrong one,
/// and files that only Apache reads as a log or a snapshot. Only for a restore, which has kept all files.
pub(crate) fn remove_others(disk: &dyn Disk, dirs: &Dirs) -> Result<(), IoErrorAt> {
    if staged_epochs(disk, dirs)?.is_empty() {
        return Ok(());
    }
    for dir in [&dirs.data, &dirs.log] {
        for entry in disk.list(dir).map_err(io_at(dir))? {
            if is_read_by_apache(&entry.name) && entry.name != GUARD {
                let path = dir.join(&entry.name);
                disk.remove(&path).map_err(io_at(&path))?;
            }
        }
        disk.sync_dir(dir).map_err(io_at(dir))?;
    }
    Ok(())
}

/// Renames epoch files that were staged with a snapshot to their final names. They belong to a restored state, of which
/// nothing is lost, so voting is allowed.
pub(crate) fn take_epochs(disk: &dyn Disk, dirs: &Dirs) -> Result<(), IoErrorAt> {
    let staged = staged_epochs(disk, dirs)?;
    if staged.is_empty() {
        return Ok(());
    }
    voting::allow(disk, dirs).map_err(|VotingError { path, source }| IoErrorAt { path, source })?;
    // The copies are of the old epochs, which may be later. The next start makes new ones.
    remove_copies(disk, &dirs.data).map_err(io_at(&dirs.data))?;
    for file in staged {
        let (from, to) = (dirs.data.join(installing_name(file)), dirs.data.join(file.name()));
        disk.rename(&from, &to).map_err(io_at(&from))?;
    }
    disk.sync_dir(&dirs.data).map_err(io_at(&dirs.data))
}

/// Writes a small file that nothing depends on yet, replacing one that an earlier attempt has left.
fn write_anew(disk: &dyn Disk, path: &Path, content: &str) -> Result<(), IoErrorAt> {
    let write = || {
        remove_if_there(disk, path)?;
        let mut file = disk.create(path)?;
        file.write_at(0, content.as_bytes())?;
        file.sync_data()
    };
    write().map_err(io_at(path))
}

/// Removes the guard, so that Apache can start again. Herdsman starts with or without it.
pub(crate) fn remove_guard(disk: &dyn Disk, dirs: &Dirs) -> Result<(), IoErrorAt> {
    let path = dirs.log.join(GUARD);
    match disk.remove(&path) {
        Ok(()) => disk.sync_dir(&dirs.log).map_err(io_at(&dirs.log)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_at(&path)(error)),
    }
}

fn installing_name(file: EpochFile) -> String {
    format!("{INSTALLING}{}", file.name())
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;

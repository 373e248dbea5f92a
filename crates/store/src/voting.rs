//! Whether a server of an ensemble may vote: one that has lost something must not, until a leader that has not lost
//! it has brought this server up to date.
//!
//! A vote says "I know everything that I have ever acknowledged and promised". A server that lost some of it
//! and votes anyway can elect a leader without a txn that a quorum had acknowledged, or a second leader for
//! one epoch. So the loss is recorded in a file, durably, before anything that depends on it,
//! and voting is suspended while the file exists:
//! - an operator gave up a part of the log (`herdsman.acceptLossAfter`);
//! - an epoch file is missing although this server has been in an epoch, or damaged, and has no copy;
//! - the end of the log or all snapshots are damaged ([`crate::repair`]);
//! - the directories are empty, and `db.autocreate=false` says that they should not be.
//!
//! An operator who knows that nothing is lost, because a new ensemble starts from these files or all of its members
//! have the same ones, creates an empty file `initialize` in dataDir. It allows voting at the next start, and is
//! removed then.
//!
//! The file is ours, and Apache ignores it: a server that runs as Apache's meanwhile votes.
//!
//! Apache: `initialize` and `db.autocreate` (ZOOKEEPER-2251), for empty directories only.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Dirs, Disk, IoErrorAt, io_at, read_whole, remove_if_there, replace_whole};

/// The file that suspends voting; it is in the directory of the snapshots and contains the reason.
pub const SUSPENDED_FILE: &str = "herdsman.votingSuspended";
/// Its name while it is being written.
const TEMPORARY_FILE: &str = "herdsman.votingSuspended.tmp";
/// The file in dataDir by which an operator allows voting.
pub const INITIALIZE_FILE: &str = "initialize";
/// Limit for the reason.
const REASON_BYTES_MAX: u64 = 64 << 10;

/// An I/O error because of which it is not known whether a server may vote.
#[derive(Debug, thiserror::Error)]
#[error("cannot read or change {path}, which says whether this server may vote: {source}", path = path.display())]
pub struct VotingError {
    /// Which file or directory.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

impl From<IoErrorAt> for VotingError {
    fn from(IoErrorAt { path, source }: IoErrorAt) -> Self {
        VotingError { path, source }
    }
}

/// Suspends voting, durably. An earlier reason stays.
pub fn suspend(disk: &dyn Disk, dirs: &Dirs, reason: &str) -> Result<(), VotingError> {
    if suspended(disk, dirs)?.is_some() {
        return Ok(());
    }
    let path = dirs.data.join(SUSPENDED_FILE);
    let names = (TEMPORARY_FILE, SUSPENDED_FILE);
    let content = format!("{reason}\n");
    replace_whole(disk, &dirs.data, names, content.as_bytes()).map_err(io_at(&path))?;
    Ok(())
}

/// The reason why voting is suspended, if it is.
pub fn suspended(disk: &dyn Disk, dirs: &Dirs) -> Result<Option<String>, VotingError> {
    let path = dirs.data.join(SUSPENDED_FILE);
    match read_whole(disk, &path, REASON_BYTES_MAX) {
        Ok(content) => Ok(Some(String::from_utf8_lossy(&content).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_at(&path)(error).into()),
    }
}

/// Allows voting again, durably: a leader has brought this server up to date.
pub fn allow(disk: &dyn Disk, dirs: &Dirs) -> Result<(), VotingError> {
    remove_durably(disk, &dirs.data, SUSPENDED_FILE)
}

/// Whether an operator has created the file `initialize`, which the last step of the start removes ([`settle`]).
pub fn is_initialized(disk: &dyn Disk, dirs: &Dirs) -> Result<bool, VotingError> {
    let data_dir = dirs.data.parent();
    data_dir.map_or(Ok(false), |data_dir| is_there(disk, &data_dir.join(INITIALIZE_FILE)))
}

/// Last step of a start: if `initialize` exists, allows voting and deletes that file. Returns why voting is suspended,
/// if it is.
pub fn settle(disk: &dyn Disk, dirs: &Dirs) -> Result<Option<String>, VotingError> {
    let Some(data_dir) = dirs.data.parent() else {
        return suspended(disk, dirs);
    };
    if !is_there(disk, &data_dir.join(INITIALIZE_FILE))? {
        return suspended(disk, dirs);
    }
    // In this order: a crash in between leaves the file `initialize`, and the next start finishes this.
    allow(disk, dirs)?;
    remove_durably(disk, data_dir, INITIALIZE_FILE)?;
    Ok(None)
}

fn is_there(disk: &dyn Disk, path: &Path) -> Result<bool, VotingError> {
    match disk.open_read(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_at(path)(error).into()),
    }
}

fn remove_durably(disk: &dyn Disk, dir: &Path, name: &str) -> Result<(), VotingError> {
    let path = dir.join(name);
    if is_there(disk, &path)? {
        remove_if_there(disk, &path).map_err(io_at(&path))?;
        disk.sync_dir(dir).map_err(io_at(dir))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use crate::testing::{dirs, disk};

    fn initialize(disk: &MemoryDisk) -> PathBuf {
        let path = dirs().data.parent().unwrap().join(INITIALIZE_FILE);
        disk.put(&path, Vec::new());
        path
    }

    #[test]
    fn voting_is_suspended_until_it_is_allowed() {
        let disk = disk();
        assert_eq!(settle(&disk, &dirs()).unwrap(), None);
        suspend(&disk, &dirs(), "the first reason").unwrap();
        suspend(&disk, &dirs(), "another one").unwrap();
        disk.crash(|_| false);
        for _ in 0..2 {
            assert_eq!(settle(&disk, &dirs()).unwrap().as_deref(), Some("the first reason"));
        }
        allow(&disk, &dirs()).unwrap();
        disk.crash(|_| false);
        assert_eq!(settle(&disk, &dirs()).unwrap(), None);
        allow(&disk, &dirs()).unwrap();
    }

    /// The power may fail between any two steps: voting is suspended, or `initialize` is still there.
    #[test]
    fn an_operator_allows_voting_once() {
        for power in 0..6 {
            let disk = disk();
            suspend(&disk, &dirs(), "lost").unwrap();
            let path = initialize(&disk);
            disk.cut_power_after(power);
            let settled = settle(&disk, &dirs());
            disk.crash(|_| false);
            if settled.is_err() {
                assert!(disk.content(&path).is_some(), "{power}");
                assert!(is_initialized(&disk, &dirs()).unwrap());
                assert_eq!(settle(&disk, &dirs()).unwrap(), None);
            }
            assert_eq!(disk.content(&path), None);
            assert_eq!(suspended(&disk, &dirs()).unwrap(), None);
            // The file was removed.
            suspend(&disk, &dirs(), "lost again").unwrap();
            assert_eq!(settle(&disk, &dirs()).unwrap().as_deref(), Some("lost again"));
        }
    }

    #[test]
    fn a_suspension_whose_sync_failed_is_an_error() {
        let disk = disk();
        disk.fail_sync(0);
        let error = suspend(&disk, &dirs(), "lost").unwrap_err();
        assert!(error.to_string().contains("herdsman.votingSuspended"), "{error}");
    }
}

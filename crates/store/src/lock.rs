//! Locks data directories: two servers in one would write to the same log.
//!
//! The lock is the operating system's, on `herdsman.lock` in `dataDir` (not in `version-2`, which other
//! programs list), so it ends with the process whatever happens to it. The file itself stays; it holds
//! the process id of its last owner, for the message. The `version-2` directories are locked too, since they may be
//! links, and another process may reach them by another path. Apache takes no lock.

use std::path::{Path, PathBuf};

use crate::disk::{Dirs, Disk, DiskLock, LockError};

/// The lock file's name, in `dataDir` and in `dataLogDir`.
pub const FILE_NAME: &str = "herdsman.lock";

/// An error of locking a data directory.
#[derive(Debug, thiserror::Error)]
pub enum DirLockError {
    /// Another process has it.
    #[error(
        "{dir} is in use by another server or tool, {owner} (it holds {path}). Stop it first, or use another dataDir",
        dir = dir.display(), path = path.display()
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The lock file.
        path: PathBuf,
        /// What its owner wrote to it.
        owner: String,
    },
    /// Another process has it by another path.
    #[error(
        "{data} or {log} is in use by another server or tool, which reaches it by another path. Stop it first, or use other directories",
        data = dirs.data.display(), log = dirs.log.display()
    )]
    InUseElsewhere {
        /// The directories.
        dirs: Dirs,
    },
    /// The lock file could not be created or locked.
    #[error("cannot lock {path}: {source}", path = path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Directories locked for this server, until dropped.
pub struct DirLock {
    _locks: Vec<Box<dyn DiskLock>>,
}

/// Locks `dataDir`, and `dataLogDir` if it is another one, and the `version-2` directories `dirs`, which
/// are created where they are missing.
pub fn lock_dirs(
    disk: &dyn Disk,
    data_dir: &Path,
    data_log_dir: &Path,
    dirs: &Dirs,
    process_id: u32,
) -> Result<DirLock, DirLockError> {
    let mut locks = vec![lock_dir(disk, data_dir, process_id)?];
    if data_log_dir != data_dir {
        locks.push(lock_dir(disk, data_log_dir, process_id)?);
    }
    for dir in [&dirs.data, &dirs.log] {
        let path = dir.clone();
        disk.create_dir(dir).map_err(|source| DirLockError::Io { path, source })?;
    }
    locks.extend(disk.lock_directories(&[&dirs.data, &dirs.log]).map_err(|error| match error {
        LockError::Held { .. } => DirLockError::InUseElsewhere { dirs: dirs.clone() },
        LockError::Io(source) => DirLockError::Io { path: dirs.data.clone(), source },
    })?);
    Ok(DirLock { _locks: locks })
}

fn lock_dir(
    disk: &dyn Disk,
    dir: &Path,
    process_id: u32,
) -> Result<Box<dyn DiskLock>, DirLockError> {
    let path = dir.join(FILE_NAME);
    disk.lock(&path, &format!("process {process_id}\n")).map_err(|error| match error {
        LockError::Held { note } => {
            DirLockError::InUse { dir: dir.to_owned(), path, owner: note.trim().to_owned() }
        }
        LockError::Io(source) => DirLockError::Io { path, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    fn lock(data_dir: &Path, log_dir: &Path, process_id: u32) -> Result<DirLock, DirLockError> {
        let dirs = Dirs::below(data_dir, log_dir);
        lock_dirs(&RealDisk, data_dir, log_dir, &dirs, process_id)
    }

    #[test]
    fn a_second_server_gets_an_error_that_names_the_owner() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path(), dir.path(), 4711).unwrap();
        let error = lock(dir.path(), dir.path(), 4712).err().unwrap();
        assert!(error.to_string().contains("process 4711"), "{error}");
        drop(held);
        lock(dir.path(), dir.path(), 4712).unwrap();
    }

    #[test]
    fn version_2_is_locked_by_whatever_path_it_is_reached() {
        let root = tempfile::tempdir().unwrap();
        let [real, linked] = ["real", "linked"].map(|name| root.path().join(name));
        for dir in [&real.join("version-2"), &linked] {
            std::fs::create_dir_all(dir).unwrap();
        }
        std::os::unix::fs::symlink("../real/version-2", linked.join("version-2")).unwrap();
        let held = lock(&real, &real, 4711).unwrap();
        let error = lock(&linked, &linked, 4712).err().unwrap();
        assert!(error.to_string().contains("by another path"), "{error}");
        drop(held);
        // Both names of the same directory.
        lock(&linked, &real, 4712).unwrap();
    }
}

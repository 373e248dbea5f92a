//! Cuts the log after a txn, when a leader says that what follows was never agreed on.
//!
//! Later files go first, newest first, then the file that holds the txn is cut: a crash in between
//! leaves a log without holes. Apache: `FileTxnLog.truncate`, which cuts first, goes on when a file
//! cannot be deleted, and takes the next txn if the wanted one is missing (ZOOKEEPER-3701).

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::Zxid;

use super::record::RecordReader;
use crate::disk::Disk;
use crate::names::{LogName, list_logs};

/// Why the log was not cut.
#[derive(Debug, thiserror::Error)]
pub enum TruncateError {
    /// The txn is not in the log, so there is no place to cut; nothing was changed.
    #[error("txn {zxid} is not in the log files of {dir}", dir = dir.display())]
    NotFound {
        /// Which txn.
        zxid: Zxid,
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// The disk failed. The log may be longer than wanted, but has no hole.
    #[error("cannot cut the log at {path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Cuts the log so that `zxid` is its last txn. No [`super::writer::LogWriter`] may be open on it.
pub fn truncate(disk: &dyn Disk, dir: &Path, zxid: Zxid) -> Result<(), TruncateError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| TruncateError::Io { path, source }
    };
    let files = list_logs(disk, dir).map_err(at(dir))?;
    let index = files.iter().rposition(|file| file.zxid <= zxid);
    let missing = || TruncateError::NotFound { zxid, dir: dir.to_owned() };
    let index = index.ok_or_else(missing)?;
    let path = files[index].path(dir);
    let end = end_of(disk, &path, zxid).map_err(at(&path))?.ok_or_else(missing)?;
    for file in files[index + 1..].iter().rev() {
        remove(disk, dir, *file)?;
    }
    let cut = || -> io::Result<()> {
        let mut file = disk.open_write(&path)?;
        file.set_len(end)?;
        file.sync_data()
    };
    cut().map_err(at(&path))
}

fn remove(disk: &dyn Disk, dir: &Path, file: LogName) -> Result<(), TruncateError> {
    let path = file.path(dir);
    disk.remove(&path)
        .and_then(|()| disk.sync_dir(dir))
        .map_err(|source| TruncateError::Io { path, source })
}

/// Where the record of a txn ends.
fn end_of(disk: &dyn Disk, path: &Path, zxid: Zxid) -> io::Result<Option<u64>> {
    let mut reader = RecordReader::open(disk, path)?;
    while let Some(record) = reader.next_record()? {
        if record.zxid == zxid {
            return Ok(Some(reader.offset()));
        }
    }
    Ok(None)
}

#[cfg(test)]
#[path = "truncate_tests.rs"]
mod tests;

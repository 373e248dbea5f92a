//! Truncates the log after a txn, when a leader says that what follows was never agreed on.
//!
//! In: which files to remove and where to cut the one before them; the plan is [`crate::reload`]'s,
//! which has read all that stays. The files are removed first, newest first, each durably before the next, then
//! the file before them is cut: a crash in between leaves a longer log without gaps.
//!
//! No [`super::writer::LogWriter`] may be open on it: it would write after the new end.
//!
//! Apache: `FileTxnLog.truncate`, which cuts first, goes on when a file cannot be deleted, and takes the
//! next txn if the wanted one is missing (ZOOKEEPER-3701).

use std::path::Path;

use super::table::cut_file;
use super::walk::LogEnd;
use crate::disk::{Disk, IoErrorAt, io_at};
use crate::names::LogName;

/// The part of the log to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogCut {
    /// Whole files, oldest first.
    pub(crate) remove: Vec<LogName>,
    /// The file to cut, and its new length.
    pub(crate) end: Option<(LogName, u64)>,
}

impl LogCut {
    /// The part of `files` after the last txn that was read.
    pub(crate) fn behind(walked: &LogEnd, files: &[LogName]) -> Self {
        let from = |first: LogName| files.iter().copied().filter(|file| *file >= first).collect();
        match (walked.stop, &walked.tail) {
            (Some(stop), _) if stop.records == 0 => LogCut { remove: from(stop.name), end: None },
            (Some(stop), _) => {
                let mut remove: Vec<LogName> = from(stop.name);
                remove.retain(|file| *file > stop.name);
                LogCut { remove, end: Some((stop.name, stop.wanted_bytes)) }
            }
            // The log ended by itself: only files without txns and a torn write can be removed.
            (None, tail) => LogCut {
                remove: walked.empty.iter().map(|tail| tail.name).collect(),
                end: tail.as_ref().map(|tail| (tail.name, tail.good_bytes)),
            },
        }
    }
}

/// Removes and cuts, durably.
pub(crate) fn cut_log(disk: &dyn Disk, dir: &Path, cut: &LogCut) -> Result<(), IoErrorAt> {
    for name in cut.remove.iter().rev() {
        let path = name.path(dir);
        disk.remove(&path).map_err(io_at(&path))?;
        disk.sync_dir(dir).map_err(io_at(dir))?;
    }
    let Some((name, bytes)) = cut.end else { return Ok(()) };
    let path = name.path(dir);
    cut_file(disk, &path, bytes).map_err(io_at(&path))
}

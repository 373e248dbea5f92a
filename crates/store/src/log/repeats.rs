//! What comes right before a log file, where that matters: a file may begin with a record that repeats the zxid of the
//! last txn in the file before (see [`super::record`]), and it then has that zxid for its name.

use std::io;
use std::path::Path;

use herdsman_proto::Zxid;

use super::ending::{RecordsEnd, classify};
use super::record::RecordReader;
use super::walk::files_needed;
use crate::disk::{Disk, IoErrorAt, io_at};
use crate::names::{LogName, list_logs};

/// The txn before a file; `None` if that is not known, so that its first record may stand in for one that is missing.
/// The file before is read only if the first record may be a repeat.
pub(crate) fn txn_before(
    disk: &dyn Disk,
    dir: &Path,
    name: LogName,
) -> Result<Option<Zxid>, IoErrorAt> {
    let path = name.path(dir);
    let mut reader = RecordReader::open(disk, &path).map_err(io_at(&path))?;
    let is_repeat = reader.next_stored().map_err(io_at(&path))?.is_some_and(|it| it.is_repeat);
    let named = Zxid(name.zxid.0.saturating_sub(1));
    if !is_repeat {
        return Ok(Some(named));
    }
    let files = list_logs(disk, dir).map_err(io_at(dir))?;
    let Some(previous) = files.into_iter().rev().find(|file| *file < name) else {
        return Ok(Some(named));
    };
    let path = previous.path(dir);
    let end = last_txn(disk, &path).map_err(io_at(&path))?;
    Ok(end.map(|last| last.unwrap_or(named).max(named)))
}

/// The files that hold txns after `after`, as [`files_needed`] finds them by name; and one more if the first of these
/// is named by a record that repeats the zxid of the very next txn.
pub(crate) fn files_with<'a>(
    disk: &dyn Disk,
    dir: &Path,
    files: &'a [LogName],
    after: Zxid,
) -> &'a [LogName] {
    let needed = files_needed(files, after);
    let index = files.len() - needed.len();
    let is_named_by_repeat = |first: &LogName| {
        // What cannot be read is found by whoever reads the file.
        first.zxid == after.next()
            && txn_before(disk, dir, *first).is_ok_and(|before| before >= Some(first.zxid))
    };
    match needed.first() {
        Some(first) if index > 0 && is_named_by_repeat(first) => &files[index - 1..],
        _ => needed,
    }
}

/// The last txn of a file, if there is one; `None` if its end is damaged.
fn last_txn(disk: &dyn Disk, path: &Path) -> io::Result<Option<Option<Zxid>>> {
    let mut reader = RecordReader::open(disk, path)?;
    while reader.next_record()?.is_some() {}
    let is_damaged = matches!(classify(&reader)?, RecordsEnd::Damaged(_));
    Ok((!is_damaged).then(|| reader.last_zxid()))
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;

//! Repairs the files on disk, after everything that recovery has read was verified.
//!
//! Every step leaves a directory that recovers to the same state, so a crash in between does no harm.

use std::io;
use std::path::{Path, PathBuf};

use super::{RecoverError, Recovered, TornCut};
use crate::disk::{Dirs, Disk, IoErrorAt, TolerantDisk, io_at, remove_if_there};
use crate::epoch::{forget_open_log, lower_last_known};
use crate::log::HEADER_BYTES;
use crate::log::ending::read_exactly;
use crate::log::table::cut_file;
use crate::log::walk::{LogEnd, LogTail, TrailingBytes};
use crate::names::{DAMAGED, LogName, SnapshotName, TEMPORARY, list_logs};
use crate::replace::remove_staged;

/// Bytes that are copied at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Cuts, removes and syncs. Returns what was cut off because it was torn.
pub(super) fn mend(
    disk: &dyn Disk,
    dirs: &Dirs,
    recovered: &Recovered,
    walked: &LogEnd,
) -> Result<Option<TornCut>, RecoverError> {
    remove_staged(disk, dirs)?;
    if let Some(snapshot) = &recovered.snapshot {
        disk.sync_file(&snapshot.path).map_err(io_at(&snapshot.path))?;
    }
    for snapshot in &recovered.damaged_snapshots {
        put_snapshot_aside(disk, &dirs.data, &snapshot.path, recovered)
            .map_err(io_at(&snapshot.path))?;
    }
    if walked.accepted.is_some() || recovered.accepted_loss.is_some() {
        let last_zxid = recovered.tree.last_zxid();
        lower_last_known(disk, &dirs.data, last_zxid).map_err(io_at(&dirs.data))?;
    }
    // The files have their ends, and may be cut now.
    forget_open_log(disk, &dirs.data).map_err(io_at(&dirs.data))?;
    // Newest first, so that the log never has a gap.
    for name in walked.given_up.iter().rev() {
        put_aside(disk, &dirs.log, *name).map_err(io_at(&name.path(&dirs.log)))?;
    }
    let mut cut = None;
    // The file that stays is cut before the empty ones after it are removed: their names prove that
    // nothing is missing.
    for tail in walked.tail.iter().chain(&walked.empty) {
        let mended = mend_tail(disk, &dirs.log, tail).map_err(io_at(&tail.name.path(&dirs.log)))?;
        cut = mended.or(cut);
    }
    sync_all(disk, dirs, None)?;
    Ok(cut)
}

/// Makes the log, all names and a snapshot durable.
pub(crate) fn sync_all(
    disk: &dyn Disk,
    dirs: &Dirs,
    snapshot: Option<&Path>,
) -> Result<(), IoErrorAt> {
    if let Some(path) = snapshot {
        disk.sync_file(path).map_err(io_at(path))?;
    }
    for name in list_logs(disk, &dirs.log).map_err(io_at(&dirs.log))? {
        disk.sync_file(&name.path(&dirs.log)).map_err(io_at(&name.path(&dirs.log)))?;
    }
    for dir in [&dirs.data, &dirs.log] {
        disk.sync_dir(dir).map_err(io_at(dir))?;
    }
    Ok(())
}

/// Removes unfinished snapshots, and logs that a repair did not finish.
pub(crate) fn remove_unfinished(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let is_ours =
        |name: &str| SnapshotName::parse(name).is_some() || LogName::parse(name).is_some();
    for entry in disk.list(dir)? {
        if entry.name.strip_prefix(TEMPORARY).is_some_and(is_ours) {
            tracing::info!(name = entry.name, "removing an unfinished file");
            disk.remove(&dir.join(&entry.name))?;
        }
    }
    Ok(())
}

/// Renames a damaged snapshot from after the point that was given up, so that later starts ignore it.
fn put_snapshot_aside(
    disk: &dyn Disk,
    dir: &Path,
    path: &Path,
    recovered: &Recovered,
) -> io::Result<()> {
    let file_name = path.file_name().and_then(|name| name.to_str());
    let name = file_name.and_then(SnapshotName::parse);
    match name.filter(|name| name.zxid > recovered.tree.last_zxid()) {
        Some(name) => disk.rename(path, &dir.join(format!("{DAMAGED}{}", name.file_name()))),
        None => Ok(()),
    }
}

/// Cuts a file after its last good record; removes a file without records.
fn mend_tail(disk: &dyn Disk, dir: &Path, tail: &LogTail) -> io::Result<Option<TornCut>> {
    let path = tail.name.path(dir);
    if tail.records == 0 {
        tracing::warn!(path = %path.display(), "removing a log file without a txn");
        disk.remove(&path)?;
    } else {
        if tail.rest == TrailingBytes::GivenUp {
            copy_rest(disk, dir, tail)?;
        }
        if tail.file_bytes > tail.good_bytes {
            cut_file(disk, &path, tail.good_bytes)?;
        }
    }
    Ok((tail.rest == TrailingBytes::Torn).then(|| {
        let offset = if tail.records == 0 { 0 } else { tail.good_bytes };
        tracing::warn!(path = %path.display(), offset, "cut off a write that a crash interrupted");
        TornCut { path, offset }
    }))
}

/// Renames a file that the operator gave up, so that it is not taken for a log.
fn put_aside(disk: &dyn Disk, dir: &Path, name: LogName) -> io::Result<()> {
    let aside = dir.join(format!("{DAMAGED}{}", name.file_name()));
    tracing::warn!(path = %aside.display(), "kept a copy of what was given up");
    disk.rename(&name.path(dir), &aside)?;
    disk.sync_dir(dir)
}

/// Keeps a copy of what is about to be cut off.
fn copy_rest(disk: &dyn Disk, dir: &Path, tail: &LogTail) -> io::Result<()> {
    let aside: PathBuf =
        dir.join(format!("{DAMAGED}{}.from.{}", tail.name.file_name(), tail.good_bytes));
    tracing::warn!(path = %aside.display(), "kept a copy of what was given up");
    remove_if_there(disk, &aside)?;
    let source = TolerantDisk::new(disk).open_read(&tail.name.path(dir))?;
    let mut target = disk.create(&aside)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let start = tail.good_bytes.max(HEADER_BYTES);
    let mut at = start;
    while at < tail.file_bytes {
        let rest = usize::try_from(tail.file_bytes - at).unwrap_or(CHUNK_BYTES);
        let piece = &mut chunk[..rest.min(CHUNK_BYTES)];
        read_exactly(&*source, at, piece)?;
        // Padding is not copied.
        if piece.iter().any(|byte| *byte != 0) {
            target.write_at(at - start, piece)?;
        }
        at += piece.len() as u64;
    }
    target.sync_data()?;
    disk.sync_dir(dir)
}

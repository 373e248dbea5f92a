//! The archive: verified copies of finished log files and complete snapshots in another directory, from which the
//! state as of any archived txn can be built again ([`crate::reload::load_as_of`]).
//!
//! In: a server's directories, the txn up to which its log files are finished, and the one up to which they are
//! committed. Out: files with the same names in a directory that is itself a valid data directory. The module owns no
//! thread and reads no clock; the caller passes a function that limits the rate and stops the work.
//!
//! # What is copied
//! - Only what is committed. A follower's log may end with txns that a later leader truncates; a copy of them could
//!   not be told from history. So a log file is copied as a whole, once it is finished and its last txn is committed,
//!   and a snapshot once everything of which it shows an effect is. Committed txns are never truncated, so a copy never
//!   has to be corrected.
//! - Only what is intact. Each record is checked while it is copied, and that it follows the one before; a snapshot's
//!   copy is read to its last seal. A damaged file is reported and left out.
//! - A copy gets its name after it is complete and synced. A crash leaves a temporary file, which is removed.
//!
//! # One history per directory
//! A restored server may give zxids a second time to other txns. So an archive has a directory for each history
//! ([`history`]), and what a server writes after an operator has gone back goes to a new one.
//!
//! # Holes
//! Inside an epoch zxids show a hole; before a new epoch they do not. A file may be missing there, because it was
//! damaged or purged before it was copied, or because the server has taken a tree from its leader. So a log file whose
//! predecessor is not known to be in the archive is preceded by a mark, `herdsman.gap.<zxid>`: txns after that zxid are
//! missing. It is known if the names are consecutive, or if the server's own files, which never have a hole, continue
//! with this file right after the last txn of the archive.
//!
//! Apache has no archive.

mod copy;
pub mod history;
mod retention;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::Zxid;

use crate::disk::{
    DirEntry, Dirs, Disk, IoErrorAt, io_at, is_out_of_descriptors, remove_if_there, replace_whole,
};
use crate::log::record::RecordReader;
use crate::names::{
    LogName, SnapshotName, TEMPORARY, list_logs, list_snapshots, log_of, snapshot_of,
};
use crate::recover::remove_unfinished;

pub(crate) use copy::read_trailer;
use copy::{CopyFault, copy_log, copy_snapshot};
pub use retention::ArchivePurge;
pub use survey::{Hole, Span, Survey, TimeCut, TxnPoint, fuzzy_end, last_txn_point, survey};

/// The prefix of the name of a mark; the rest is the last txn before the hole, in hex.
const GAP: &str = "herdsman.gap.";
/// The content of a mark, for an operator who reads it.
const GAP_TEXT: &str = "Txns may be missing after the one in this file's name, so a restore does not pass it. \
    Written by Herdsman's archive.\n";

/// An error of archiving.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive cannot be read or written. What it holds is intact.
    #[error("cannot write to the archive: {path}: {source}", path = path.display())]
    Archive {
        /// Which file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The server's own directory cannot be read or written.
    #[error("cannot archive {path}: {source}", path = path.display())]
    Source {
        /// Which file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The caller stopped the work.
    #[error("archiving was stopped")]
    Stopped,
}

impl From<IoErrorAt> for ArchiveError {
    fn from(IoErrorAt { path, source }: IoErrorAt) -> Self {
        ArchiveError::Archive { path, source }
    }
}

fn of_source(IoErrorAt { path, source }: IoErrorAt) -> ArchiveError {
    ArchiveError::Source { path, source }
}

/// Called with the number of bytes that were just copied. It may wait, and it may stop the work.
pub type ArchiveStep<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;

/// A server's files, and how far they may be copied.
#[derive(Clone, Copy)]
pub struct ArchiveSource<'a> {
    /// The server's disk.
    pub disk: &'a dyn Disk,
    /// Its directories.
    pub dirs: &'a Dirs,
    /// Log files whose first txn is not later than this one are no longer written.
    pub finished: Zxid,
    /// Txns up to this one are committed, and this server's files hold no other ones with such zxids. It must be
    /// known before the files are read.
    pub committed: Zxid,
}

/// The result of a pass over a server's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Files copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are damaged or cannot be read, with the reason, each reported once.
    pub damaged: Vec<(PathBuf, String)>,
    /// A finished log file is not wholly committed yet.
    pub is_waiting: bool,
}

/// The archive of one history.
pub struct Archive {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Source files that are damaged; not tried again until [`Archive::retry_damaged`].
    damaged: BTreeSet<String>,
    /// Snapshots that show effects of txns up to this one, which was not committed.
    too_early: BTreeMap<SnapshotName, Zxid>,
    /// The last txn of the archived log file that was read or written last.
    last_of: Option<(LogName, Zxid)>,
    archived_until: Zxid,
    /// What it holds, once it was listed: only this server writes to it, and listing a large directory of another
    /// machine takes long.
    listing: Option<Listing>,
}

/// The files in an archive.
struct Listing {
    logs: BTreeSet<LogName>,
    snapshots: BTreeSet<SnapshotName>,
    gaps: BTreeSet<Zxid>,
}

impl Archive {
    /// Opens the archive in an existing directory, and removes what an interrupted copy has left.
    fn open(disk: Arc<dyn Disk>, dir: PathBuf) -> Result<Self, ArchiveError> {
        remove_unfinished(&*disk, &dir).map_err(io_at(&dir))?;
        Ok(Archive {
            disk,
            dir,
            damaged: BTreeSet::new(),
            too_early: BTreeMap::new(),
            last_of: None,
            archived_until: Zxid::ZERO,
            listing: None,
        })
    }

    /// The directory of the files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All txns up to this one that the server's log files hold are in the archive, except those in damaged files.
    #[must_use]
    pub fn archived_until(&self) -> Zxid {
        self.archived_until
    }

    /// Tries damaged files again in the next pass: a repair may have replaced them. And lists the archive again: an
    /// operator may have removed files.
    pub fn retry_damaged(&mut self) {
        self.damaged.clear();
        self.listing = None;
    }

    /// The last txn in the archive.
    fn end(&mut self) -> Result<Option<Zxid>, ArchiveError> {
        let listing = self.take_listing()?;
        let last = listing.logs.last().map(|name| self.last_txn(*name)).transpose()?;
        let named = listing.snapshots.last().map(|name| name.zxid);
        self.listing = Some(listing);
        Ok(last.max(named))
    }

    /// Copies what is not in the archive yet, oldest files first. The archive is listed by the first pass, after one
    /// that failed, and after [`Archive::retry_damaged`].
    pub fn pass(
        &mut self,
        source: &ArchiveSource<'_>,
        step: &mut ArchiveStep<'_>,
    ) -> Result<Pass, ArchiveError> {
        let mut listing = self.take_listing()?;
        let pass = self.copy_new(source, &mut listing, step)?;
        self.listing = Some(listing);
        Ok(pass)
    }

    fn copy_new(
        &mut self,
        source: &ArchiveSource<'_>,
        listing: &mut Listing,
        step: &mut ArchiveStep<'_>,
    ) -> Result<Pass, ArchiveError> {
        let ArchiveSource { disk, dirs, finished, .. } = *source;
        let snapshots = list_snapshots(disk, &dirs.data).map_err(io_at(&dirs.data));
        let snapshots = snapshots.map_err(of_source)?;
        let mut logs = list_logs(disk, &dirs.log).map_err(io_at(&dirs.log)).map_err(of_source)?;
        logs.retain(|name| name.zxid <= finished);
        let mut pass = Pass::default();
        let mut next_snapshot = snapshots.iter().copied().peekable();
        for (index, &name) in logs.iter().enumerate() {
            while let Some(snapshot) = next_snapshot.next_if(|it| it.zxid < name.zxid) {
                self.snapshot(source, snapshot, listing, &mut pass, step)?;
            }
            let until = logs.get(index + 1).map_or(finished, |next| Zxid(next.zxid.0 - 1));
            if !listing.logs.contains(&name) {
                if until > source.committed {
                    pass.is_waiting = true;
                    return Ok(pass);
                }
                let files = LocalFiles { source, logs: &logs, index, until, snapshots: &snapshots };
                self.log(&files, listing, &mut pass, step)?;
            }
            self.archived_until = until;
        }
        for snapshot in next_snapshot {
            self.snapshot(source, snapshot, listing, &mut pass, step)?;
        }
        self.archived_until = finished;
        Ok(pass)
    }

    /// Copies a log file.
    fn log(
        &mut self,
        files: &LocalFiles<'_>,
        listing: &mut Listing,
        pass: &mut Pass,
        step: &mut ArchiveStep<'_>,
    ) -> Result<(), ArchiveError> {
        let LocalFiles { source, .. } = *files;
        let name = files.logs[files.index];
        if self.damaged.contains(&name.file_name()) {
            return Ok(());
        }
        let from = name.path(&source.dirs.log);
        let temporary = self.dir.join(format!("{TEMPORARY}{}", name.file_name()));
        let range = (name.zxid, files.until);
        let copied = match copy_log(source.disk, &from, range, (&*self.disk, &temporary), step) {
            Ok(copied) => copied,
            Err(fault) => return self.give_up(fault, &from, &temporary, pass),
        };
        let junction = self.junction(files, listing)?;
        if let Junction::Unknown { end } = junction {
            self.mark_gap(end)?;
            listing.gaps.insert(end);
        }
        self.publish(&temporary, &name.path(&self.dir))?;
        if let Junction::Known { end: Some(end) } = junction
            && listing.gaps.contains(&end)
        {
            let mark = self.dir.join(gap_name(end));
            remove_if_there(&*self.disk, &mark).map_err(io_at(&mark))?;
            listing.gaps.remove(&end);
        }
        listing.logs.insert(name);
        self.last_of = Some((name, copied.last));
        pass.files += 1;
        pass.bytes += copied.bytes;
        Ok(())
    }

    /// Copies a snapshot.
    fn snapshot(
        &mut self,
        source: &ArchiveSource<'_>,
        name: SnapshotName,
        listing: &mut Listing,
        pass: &mut Pass,
        step: &mut ArchiveStep<'_>,
    ) -> Result<(), ArchiveError> {
        let needed = self.too_early.get(&name).copied().unwrap_or(name.zxid);
        if listing.snapshots.contains(&name)
            || self.damaged.contains(&name.file_name())
            || needed > source.committed
        {
            return Ok(());
        }
        let from = name.path(&source.dirs.data);
        let temporary = self.dir.join(name.temporary_name());
        let to = (&*self.disk, temporary.as_path());
        let copied = match copy_snapshot(source.disk, &from, name, to, step) {
            Ok(copied) => copied,
            Err(fault) => return self.give_up(fault, &from, &temporary, pass),
        };
        if copied.last > source.committed {
            remove_if_there(&*self.disk, &temporary).map_err(io_at(&temporary))?;
            self.too_early.retain(|name, _| name.zxid > source.committed);
            self.too_early.insert(name, copied.last);
            return Ok(());
        }
        self.publish(&temporary, &name.path(&self.dir))?;
        listing.snapshots.insert(name);
        pass.files += 1;
        pass.bytes += copied.bytes;
        Ok(())
    }

    /// Handles a file that was not copied: only a fault of the file itself lets the pass continue.
    fn give_up(
        &mut self,
        fault: CopyFault,
        from: &Path,
        temporary: &Path,
        pass: &mut Pass,
    ) -> Result<(), ArchiveError> {
        // What cannot be removed now is removed at the next start.
        let _ = remove_if_there(&*self.disk, temporary);
        let reason = match fault {
            CopyFault::Stopped => return Err(ArchiveError::Stopped),
            CopyFault::Target(error) => return Err(error.into()),
            // It was purged, or replaced by a tree from the leader.
            CopyFault::Source(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            CopyFault::Source(error) if is_out_of_descriptors(&error) => {
                return Err(ArchiveError::Source { path: from.to_owned(), source: error });
            }
            CopyFault::Source(error) => format!("cannot be read: {error}"),
            CopyFault::Damaged(reason) => reason,
        };
        if let Some(name) = from.file_name().and_then(|name| name.to_str()) {
            self.damaged.insert(name.to_owned());
        }
        pass.damaged.push((from.to_owned(), reason));
        Ok(())
    }

    /// Gives a complete and synced copy its name.
    fn publish(&self, temporary: &Path, path: &Path) -> Result<(), ArchiveError> {
        self.disk.rename(temporary, path).map_err(io_at(path))?;
        self.disk.sync_dir(&self.dir).map_err(io_at(&self.dir))?;
        Ok(())
    }

    fn mark_gap(&self, end: Zxid) -> Result<(), ArchiveError> {
        let name = gap_name(end);
        let path = self.dir.join(&name);
        let temporary = format!("{TEMPORARY}{name}");
        let names = (temporary.as_str(), name.as_str());
        replace_whole(&*self.disk, &self.dir, names, GAP_TEXT.as_bytes()).map_err(io_at(&path))?;
        Ok(())
    }

    /// Finds out whether the archive continues with a log file without a hole.
    fn junction(
        &mut self,
        files: &LocalFiles<'_>,
        listing: &Listing,
    ) -> Result<Junction, ArchiveError> {
        let name = files.logs[files.index];
        let before = listing.logs.range(..name).next_back().copied();
        let last = before.map(|before| self.last_txn(before)).transpose()?;
        let named = listing.snapshots.iter().map(|it| it.zxid).filter(|it| *it < name.zxid).max();
        let Some(end) = last.max(named) else {
            return Ok(Junction::Known { end: None });
        };
        let previous = files.index.checked_sub(1).map(|index| files.logs[index]);
        let is_contiguous = match previous {
            Some(previous) if !listing.logs.contains(&previous) => false,
            // The server's own file may have been cut since: a leader that an operator has set back truncates what
            // was committed.
            Some(previous) if Some(previous) == before && last == Some(end) => {
                files.last_txn(previous).map_err(of_source)? == Some(end)
            }
            _ => files.snapshots.iter().any(|snapshot| snapshot.zxid == end),
        };
        if name.zxid == end.next() || is_contiguous {
            return Ok(Junction::Known { end: Some(end) });
        }
        Ok(Junction::Unknown { end })
    }

    /// The last txn of an archived log file.
    fn last_txn(&mut self, name: LogName) -> Result<Zxid, ArchiveError> {
        if let Some((_, last)) = self.last_of.filter(|(cached, _)| *cached == name) {
            return Ok(last);
        }
        let path = name.path(&self.dir);
        let last = last_txn(&*self.disk, &path).map_err(io_at(&path))?.unwrap_or(name.zxid);
        self.last_of = Some((name, last));
        Ok(last)
    }

    /// What the archive holds. The caller puts it back unless something fails.
    fn take_listing(&mut self) -> Result<Listing, ArchiveError> {
        if let Some(listing) = self.listing.take() {
            return Ok(listing);
        }
        let entries = self.disk.list(&self.dir).map_err(io_at(&self.dir))?;
        Ok(Listing {
            logs: entries.iter().filter_map(log_of).collect(),
            snapshots: entries.iter().filter_map(snapshot_of).collect(),
            gaps: entries.iter().filter_map(gap_of).collect(),
        })
    }
}

/// A server's finished log files and its snapshots, and which of the logs is meant.
struct LocalFiles<'a> {
    source: &'a ArchiveSource<'a>,
    logs: &'a [LogName],
    index: usize,
    /// No txn in it is later.
    until: Zxid,
    snapshots: &'a [SnapshotName],
}

impl LocalFiles<'_> {
    /// The last txn of one of the server's files; `None` if the file is gone.
    fn last_txn(&self, name: LogName) -> Result<Option<Zxid>, IoErrorAt> {
        let path = name.path(&self.source.dirs.log);
        match last_txn(self.source.disk, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map_err(io_at(&path)),
        }
    }
}

/// The last txn before the end or the first damage of a log file.
fn last_txn(disk: &dyn Disk, path: &Path) -> io::Result<Option<Zxid>> {
    let mut reader = RecordReader::open(disk, path)?;
    while reader.next_record()?.is_some() {}
    Ok(reader.last_zxid())
}

/// How a log file follows what is in the archive before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Junction {
    /// Nothing is missing after `end`, or nothing is there before the file.
    Known { end: Option<Zxid> },
    /// Txns may be missing after `end`.
    Unknown { end: Zxid },
}

fn gap_name(end: Zxid) -> String {
    format!("{GAP}{:x}", end.0)
}

/// The marks of holes in an archive: the last txn before each.
pub(crate) fn list_gaps(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Zxid>> {
    Ok(disk.list(dir)?.iter().filter_map(gap_of).collect())
}

/// The last txn before the hole, if this entry of a directory is a mark.
fn gap_of(entry: &DirEntry) -> Option<Zxid> {
    let end = i64::from_str_radix(entry.name.strip_prefix(GAP)?, 16).ok()?;
    (end >= 0).then_some(Zxid(end))
}

/// Zxids that stand for the txns that marks say are missing: a log must not skip them.
pub(crate) fn missing_txns(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Zxid>> {
    Ok(list_gaps(disk, dir)?.into_iter().map(Zxid::next).collect())
}

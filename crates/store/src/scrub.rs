//! Reads all logs and snapshots of a running server, to find damage while the tree in memory is still intact.
//!
//! In: the directories, and a [`ScrubHost`], which says how far the log is durable and sets the pace. Out: a
//! [`ScrubReport`]: what is damaged, and whether a start from these files would still have everything. Nothing is
//! changed; the caller decides what to do about it.
//!
//! A pass reads in small steps: after each of them, of at most a few hundred KiB, the host is called, which may
//! wait or end the pass. Memory is bounded by the number of files and of damaged places, not by their size. What was
//! read is dropped from the system's cache, before and after, so that a pass reads the disk and leaves the cache to
//! others.
//!
//! What is checked: checksum, length and content of every snapshot and of every record; and that the records after the
//! newest valid snapshot continue it without a gap up to the last durable one, as recovery will require, by the
//! rules of [`crate::log::chain`]. Not checked: that the znodes of a snapshot make a tree, which would take the
//! memory of a second one.
//!
//! Files change while a pass runs, and none of this is damage:
//! - The log grows, and ends a file and begins the next: only what was durable when the log was listed is read.
//! - Snapshots appear, and files are purged: what is gone when it is looked at a second time does not count, and a
//!   newer snapshot that has appeared is used.
//! - The log is cut or replaced: the host counts such changes, and a pass during which one happened has no result.
//!
//! Everything that looks damaged is read a second time before it is reported.
//!
//! Two things need no report, because no recovery reads them: gaps between files that a snapshot covers, which an
//! Apache server leaves when a leader sends it a snapshot, and writes that were never completed.

mod logs;
mod paced;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::{Acl, SessionId, StatPersisted, Zxid};
use herdsman_tree::LoadError;

use crate::disk::{Dirs, Disk, IoErrorAt, io_at, is_out_of_descriptors};
use crate::names::{DAMAGED, LogName, SnapshotName, list_snapshots};
use crate::snapshot::parts::{SnapshotFault, SnapshotVisitor};
use crate::snapshot::reader::{SnapshotError, read_snapshot};
use paced::PacedDisk;

/// Findings in a row that make damage, and not a change of the files.
const CONFIRMATIONS: u32 = 2;

/// The log of a running server: how far it may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// How often the log was cut or replaced.
    pub changes: u64,
    /// The last durable txn.
    pub last_zxid: Zxid,
    /// The file that is being written, if one is open, and the end of its last durable record.
    pub open: Option<(LogName, u64)>,
}

/// The server whose files are read.
pub trait ScrubHost: Send + Sync {
    /// Called after this many bytes were read. May wait. `Break` ends the pass.
    fn pace(&self, bytes: u64) -> ControlFlow<()>;

    /// How far the log may be read; `None` while it is being cut or replaced.
    fn log_state(&self) -> Option<LogState>;
}

/// The files that a pass reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubScope {
    /// All of them.
    All,
    /// Those that a start would need: the newest valid snapshot and the log after it.
    NeededAtStart,
}

/// A log or a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataFile {
    /// A log.
    Log(LogName),
    /// A snapshot.
    Snapshot(SnapshotName),
}

/// A damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub file: DataFile,
    /// Its path.
    pub path: PathBuf,
    /// The first damaged place; in a compressed snapshot an offset in its content.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// Damaged places in the file, as far as they were counted.
    pub places: u64,
    /// In a log: the last valid txn before the first damaged place, and the first one after it in the file.
    pub between: Option<(Zxid, Option<Zxid>)>,
    /// Whether a start does not mind it: a valid snapshot covers it, or what it damages can be read without it.
    pub is_covered: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, offset, what, places, between, .. } = self;
        write!(f, "{}: damaged at offset {offset}: {what}", path.display())?;
        if *places > 1 {
            write!(f, " (and {} more places)", places - 1)?;
        }
        match between {
            Some((after, Some(before))) => write!(f, "; txns between {after} and {before}"),
            Some((after, None)) => write!(f, "; txns after {after}"),
            None => Ok(()),
        }
    }
}

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Valid snapshots that were read, oldest first.
    pub valid: Vec<SnapshotName>,
    /// Damaged files, at most one finding for each.
    pub findings: Vec<Finding>,
    /// The last txn of the log that was read.
    pub last_zxid: Zxid,
    /// [`LogState::changes`] during the pass.
    pub changes: u64,
    /// A log file that prevents a start although the newest valid snapshot covers it to its end: nothing follows the
    /// damage that shows this.
    pub covered_end: Option<LogName>,
}

impl ScrubReport {
    /// The newest snapshot that can be read.
    #[must_use]
    pub fn newest_valid(&self) -> Option<SnapshotName> {
        self.valid.last().copied()
    }

    /// Whether a new snapshot is wanted: a start would be refused, or has one snapshot less to start from.
    #[must_use]
    pub fn wants_snapshot(&self) -> bool {
        self.findings.iter().any(|finding| !finding.is_covered)
    }
}

/// The reason why a pass has no result.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// The host has ended it.
    #[error("stopped")]
    Stopped,
    /// The log was cut or replaced meanwhile, or snapshots came too quickly.
    #[error("the files were replaced while they were read")]
    Unsettled,
    /// A directory cannot be listed, or there are no file descriptors.
    #[error("cannot read {path}: {source}", path = path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl From<IoErrorAt> for ScrubError {
    fn from(IoErrorAt { path, source }: IoErrorAt) -> Self {
        ScrubError::Io { path, source }
    }
}

/// Reads the files of a running server.
pub struct Scrub {
    disk: PacedDisk,
    dirs: Dirs,
    host: Arc<dyn ScrubHost>,
}

/// The snapshots that were read so far.
#[derive(Debug, Default)]
struct Snapshots {
    valid: BTreeSet<SnapshotName>,
    damaged: Vec<(SnapshotName, SnapshotError)>,
}

impl Snapshots {
    fn newest_valid(&self) -> Option<SnapshotName> {
        self.valid.last().copied()
    }

    /// Whether it was read.
    fn knows(&self, name: SnapshotName) -> bool {
        self.valid.contains(&name) || self.damaged.iter().any(|(damaged, _)| *damaged == name)
    }
}

/// What a snapshot turned out to be.
enum Checked {
    Valid,
    Damaged(SnapshotError),
    Gone,
}

impl Scrub {
    /// Creates a reader of these directories.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, dirs: Dirs, host: Arc<dyn ScrubHost>) -> Self {
        Scrub { disk: PacedDisk::new(disk, Arc::clone(&host)), dirs, host }
    }

    /// Reads the files once.
    ///
    /// # Errors
    /// The pass was ended, or has no result; the next one may have one.
    pub fn pass(&self, scope: ScrubScope) -> Result<ScrubReport, ScrubError> {
        let changes = self.log_state()?.changes;
        let mut snapshots = Snapshots::default();
        self.read_snapshots(&mut snapshots, scope)?;
        let logs = self.read_logs(&mut snapshots, scope)?;
        // What was read before a change may be gone, and what was read during it never was the log.
        if self.log_state()?.changes != changes {
            return Err(ScrubError::Unsettled);
        }
        let newest = snapshots.newest_valid();
        let of_snapshot = |(name, error): (SnapshotName, SnapshotError)| Finding {
            file: DataFile::Snapshot(name),
            path: error.path,
            offset: error.offset,
            what: error.fault.to_string(),
            places: 1,
            between: None,
            is_covered: newest.is_some_and(|newest| newest.zxid >= name.zxid),
        };
        let mut findings: Vec<Finding> = snapshots.damaged.into_iter().map(of_snapshot).collect();
        findings.extend(logs.findings);
        // A purge may have removed some.
        let mut valid = self.list_snapshots()?;
        valid.retain(|name| snapshots.valid.contains(name));
        Ok(ScrubReport {
            valid,
            findings,
            last_zxid: logs.last_zxid,
            changes,
            covered_end: logs.covered_end,
        })
    }

    fn log_state(&self) -> Result<LogState, ScrubError> {
        self.host.log_state().ok_or(ScrubError::Unsettled)
    }

    /// Reads snapshots that were not read yet, newest first. Returns whether one of them is newer than all valid ones
    /// before.
    fn read_snapshots(
        &self,
        snapshots: &mut Snapshots,
        scope: ScrubScope,
    ) -> Result<bool, ScrubError> {
        let before = snapshots.newest_valid();
        for name in self.list_snapshots()?.into_iter().rev() {
            let newest = snapshots.newest_valid();
            let is_needed = scope == ScrubScope::All || newest.is_none_or(|newest| name > newest);
            if !is_needed || snapshots.knows(name) {
                continue;
            }
            match self.check_snapshot(name)? {
                Checked::Valid => _ = snapshots.valid.insert(name),
                Checked::Damaged(error) => snapshots.damaged.push((name, error)),
                Checked::Gone => {}
            }
        }
        Ok(snapshots.newest_valid() > before)
    }

    fn list_snapshots(&self) -> Result<Vec<SnapshotName>, ScrubError> {
        let dir = &self.dirs.data;
        Ok(list_snapshots(&self.disk, dir).map_err(io_at(dir))?)
    }

    fn check_snapshot(&self, name: SnapshotName) -> Result<Checked, ScrubError> {
        let mut found = 0;
        loop {
            let dir = &self.dirs.data;
            let read = read_snapshot(&self.disk, dir, name, &mut Unused, &mut |_| {});
            let Err(error) = read else { return Ok(Checked::Valid) };
            self.disk.check_running()?;
            if !self.list_snapshots()?.contains(&name) {
                return Ok(Checked::Gone);
            }
            if let SnapshotFault::Io(source) = error.fault {
                if is_out_of_descriptors(&source) {
                    return Err(ScrubError::Io { path: error.path, source });
                }
                found += 1;
                if found == CONFIRMATIONS {
                    let fault = SnapshotFault::Io(source);
                    return Ok(Checked::Damaged(SnapshotError { fault, ..error }));
                }
                continue;
            }
            found += 1;
            if found == CONFIRMATIONS {
                return Ok(Checked::Damaged(error));
            }
        }
    }
}

/// Takes the parts of a snapshot that is only checked.
struct Unused;

impl SnapshotVisitor for Unused {
    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn node(
        &mut self,
        _: &str,
        _: Option<&[u8]>,
        _: i64,
        _: StatPersisted,
    ) -> Result<(), LoadError> {
        Ok(())
    }
}

/// Renames a damaged log file so that nothing takes it for a log any more, durably. Returns the new path, which still
/// proves that its first txn existed: see [`crate::names::list_damaged_logs`].
pub fn set_log_aside(disk: &dyn Disk, dir: &Path, name: LogName) -> io::Result<PathBuf> {
    let aside = dir.join(format!("{DAMAGED}{}", name.file_name()));
    disk.rename(&name.path(dir), &aside)?;
    disk.sync_dir(dir)?;
    Ok(aside)
}

#[cfg(test)]
#[path = "scrub/tests.rs"]
mod tests;

//! Reads a part of the log of a running server, for a learner that lacks more than is kept in memory.
//!
//! In: the txn before the first requested one, and the last requested one; all are durable and agreed on. Out: their
//! payloads in order.
//!
//! Invariants: each txn is the very next one after the one before ([`crate::history`] has the same rule, and says
//! why); nothing after the last requested txn is read, so the log may be written and rolled meanwhile. A file that is
//! purged while it is read stays readable; one that was purged before ends the reading with
//! [`RangeError::Missing`].
//!
//! Apache: `FileTxnLog.read` and `TxnLogProposalIterator`, which do not look for holes.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::Zxid;
use herdsman_proto::txn::Entry;

use super::RECORD_EXTRA_BYTES;
use super::ending::{RecordsEnd, classify};
use super::record::RecordReader;
use super::repeats::{files_with, txn_before};
use super::table::{content_bytes, txns_before};
use super::walk::follows_through;
use crate::disk::{DirEntry, Dirs, Disk, IoErrorAt, io_at};
use crate::names::{LogName, list_damaged_logs, list_logs, list_snapshots};

/// An error of reading a part of the log.
#[derive(Debug, thiserror::Error)]
pub enum RangeError {
    /// The disk failed.
    #[error("cannot read {path}: {source}", path = path.display())]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The caller stopped the read.
    #[error("reading the log was stopped: it took too long, or the link was closed")]
    Stopped,
    /// Txns are no longer in the log, are unreadable, or cannot be proven to be complete.
    #[error("the log files do not hold all txns after {after}: some were purged or are damaged")]
    Missing {
        /// The last one before.
        after: Zxid,
    },
}

impl From<IoErrorAt> for RangeError {
    fn from(IoErrorAt { path, source }: IoErrorAt) -> Self {
        RangeError::Io { path, source }
    }
}

/// What is known about the txn before the first requested one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrecedingTxn {
    /// It is in this server's history.
    Known,
    /// It is the end of another server's log. That is a prefix of ours if the log has it or a later txn of its
    /// epoch: in one epoch zxids rise by one, and each names one txn only.
    MustBeOurs,
}

/// A position in the log: after a txn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    file: LogName,
    offset: u64,
    last: Zxid,
}

/// A part of the log being read.
pub struct LogRange {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Files that are not open yet, oldest first.
    files: VecDeque<LogName>,
    /// The current file.
    file: Option<LogName>,
    reader: Option<RecordReader>,
    /// Zxids that are known to exist, because snapshots and log files are named after them, or come right after them.
    known: Vec<Zxid>,
    /// The last txn that was returned, or the one before the first.
    last: Zxid,
    to: Zxid,
    /// About how many bytes are in the files between the first and the last, all of which are wanted.
    closed_bytes: u64,
    /// Only the next txn of the same epoch may follow `last`: nothing else proves that none is missing.
    exactly_next: bool,
}

impl LogRange {
    /// Finds the files with the txns after `after`, up to `to`.
    pub fn open(
        disk: Arc<dyn Disk>,
        dirs: &Dirs,
        (after, before): (Zxid, PrecedingTxn),
        to: Zxid,
    ) -> Result<Self, RangeError> {
        let snapshots = list_snapshots(&*disk, &dirs.data).map_err(io_at(&dirs.data))?;
        let files = list_logs(&*disk, &dirs.log).map_err(io_at(&dirs.log))?;
        let damaged = list_damaged_logs(&*disk, &dirs.log).map_err(io_at(&dirs.log))?;
        // A name with counter 0 is not a txn's ([`super::record`]).
        let names = files.iter().chain(&damaged).map(|name| name.zxid);
        let names = names.filter(|zxid| zxid.counter() > 0);
        let known = snapshots.iter().map(|name| name.zxid).chain(names);
        let needed = files_with(&*disk, &dirs.log, &files, after);
        let known = known.chain(txns_before(&*disk, &dirs.log, needed)).collect();
        let closed_bytes = bytes_between(&*disk, &dirs.log, needed)?;
        Ok(LogRange {
            disk,
            dir: dirs.log.clone(),
            files: needed.iter().copied().collect(),
            closed_bytes,
            file: None,
            reader: None,
            known,
            last: after,
            to,
            exactly_next: before == PrecedingTxn::MustBeOurs,
        })
    }

    /// The next txn; `None` after the last requested one.
    pub fn next_txn(&mut self) -> Result<Option<(Zxid, Bytes)>, RangeError> {
        self.read_txn(&mut || ControlFlow::Continue(()))
    }

    fn read_txn(
        &mut self,
        step: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<(Zxid, Bytes)>, RangeError> {
        while self.last < self.to {
            if step().is_break() {
                return Err(RangeError::Stopped);
            }
            let Some(reader) = &mut self.reader else {
                self.open_next()?;
                continue;
            };
            let path = reader.path().to_owned();
            let Some(record) = reader.next_record().map_err(io_at(&path))? else {
                self.leave_file()?;
                continue;
            };
            if record.zxid <= self.last {
                // The txn before the first requested one is in the log.
                self.exactly_next &= record.zxid != self.last;
                continue;
            }
            let is_next = if self.exactly_next {
                record.zxid == self.last.next() && record.zxid.epoch() == self.last.epoch()
            } else {
                follows_through(&self.known, self.last, record.zxid)
            };
            if !is_next || record.zxid > self.to {
                return Err(RangeError::Missing { after: self.last });
            }
            self.exactly_next = false;
            self.last = record.zxid;
            return Ok(Some((record.zxid, Bytes::copy_from_slice(record.payload))));
        }
        Ok(None)
    }

    /// Like `open`, but starts at a position found earlier, so that the part of the file before it is not read again.
    /// The txn before the first requested one is in this server's history.
    pub fn resume(
        disk: Arc<dyn Disk>,
        dirs: &Dirs,
        position: Option<LogPosition>,
        after: Zxid,
        to: Zxid,
    ) -> Result<Self, RangeError> {
        let mut range = LogRange::open(disk, dirs, (after, PrecedingTxn::Known), to)?;
        let is_there = |at: &LogPosition| range.files.front() == Some(&at.file) && at.last <= after;
        if let Some(position) = position.filter(is_there) {
            range.open_next()?;
            if let Some(reader) = &mut range.reader {
                reader.resume_at(position.offset);
            }
        }
        Ok(range)
    }

    /// The position after the last txn that was read.
    #[must_use]
    pub fn position(&self) -> Option<LogPosition> {
        let (file, reader) = (self.file?, self.reader.as_ref()?);
        Some(LogPosition { file, offset: reader.offset(), last: self.last })
    }

    /// Returns where the part begins, if all of it can be read and takes at most this many bytes in the log. `step` is
    /// called for each record and can stop the read.
    pub fn fits(
        mut self,
        bytes_max: u64,
        step: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<LogPosition>, RangeError> {
        if self.closed_bytes > bytes_max {
            return Ok(None);
        }
        let (mut bytes, mut start) = (0, None);
        let after = self.last;
        while let Some((_, payload)) = self.read_txn(step)? {
            if Entry::decode(&payload).is_err() {
                return Err(RangeError::Missing { after: self.last });
            }
            let record_bytes = (payload.len() + RECORD_EXTRA_BYTES) as u64;
            let begin = |at: LogPosition| LogPosition {
                offset: at.offset - record_bytes,
                last: after,
                ..at
            };
            start = start.or_else(|| self.position().map(begin));
            bytes += record_bytes;
            if bytes > bytes_max {
                return Ok(None);
            }
        }
        Ok(start)
    }

    fn open_next(&mut self) -> Result<(), RangeError> {
        let Some(file) = self.files.pop_front() else {
            return Err(RangeError::Missing { after: self.last });
        };
        let path = file.path(&self.dir);
        match RecordReader::open(&*self.disk, &path) {
            Ok(mut reader) => {
                let before = txn_before(&*self.disk, &self.dir, file)?;
                before.into_iter().for_each(|before| reader.starts_after(before));
                (self.file, self.reader) = (Some(file), Some(reader));
            }
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Err(RangeError::Missing { after: self.last });
            }
            Err(source) => return Err(RangeError::Io { path, source }),
        }
        Ok(())
    }

    /// A damaged end may have held txns, so after it only the very next txn is accepted.
    fn leave_file(&mut self) -> Result<(), RangeError> {
        let Some(reader) = self.reader.take() else { return Ok(()) };
        let is_continued = self.files.front().is_some_and(|next| next.zxid == self.last.next());
        if !is_continued {
            let ending = classify(&reader).map_err(io_at(reader.path()))?;
            self.exactly_next |= matches!(ending, RecordsEnd::Damaged(_));
        }
        Ok(())
    }
}

/// The total length of the records in all files but the first and the last one, as far as the files say where they end.
fn bytes_between(disk: &dyn Disk, dir: &Path, files: &[LogName]) -> Result<u64, IoErrorAt> {
    let [_, between @ .., _] = files else { return Ok(0) };
    let names: Vec<_> = between.iter().map(|file| file.file_name()).collect();
    let entries = disk.list(dir).map_err(io_at(dir))?;
    let is_between = |entry: &&DirEntry| names.contains(&entry.name);
    let content_bytes = |DirEntry { name, bytes }: &DirEntry| {
        let file = disk.open_read(&dir.join(name));
        file.and_then(|file| content_bytes(&*file, *bytes)).unwrap_or(*bytes)
    };
    Ok(entries.iter().filter(is_between).map(content_bytes).sum())
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;

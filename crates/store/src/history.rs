//! The end of the log, txn by txn: what a leader can send to a learner that is a little behind.
//!
//! In: the two directories, after [`fn@crate::recover`] or [`crate::truncate_and_reload`], and the zxid of
//! the tree that they returned. Out: the last txns as they are in the log, and the zxid before the first of
//! them. A learner whose last zxid is one of these can be sent the rest.
//!
//! Invariant: each txn is the very next one after the one before, in this server's own history. The
//! window ends at anything that cannot be proven to be so, because a learner that is sent a DIFF with a
//! gap has lost txns for good (ZOOKEEPER-2418, -4352, -2846):
//! - zxids that do not follow each other;
//! - damage, and files that cannot be read: what they held is not offered;
//! - before a new epoch, where zxids prove nothing: the name of any snapshot or log file that the log does not
//!   contain, also of a log that was renamed because it is damaged. Such a snapshot came from a leader, and what
//!   the log holds before it may have been cut there. Our own [`crate::install`] leaves no such files, other
//!   programs do;
//! - a first txn of an epoch with nothing before it: it is not offered, but the window starts there.
//!
//! A snapshot may cover what is damaged or unreadable here, so none of it keeps a server from starting.
//!
//! Limits: a number of txns and of bytes, and nothing before a matching digest; older txns are left out. The
//! last files are read completely to find them, once, and not decoded.
//!
//! Apache: `ZKDatabase.loadDataBase` fills its committed log with what is replayed over the snapshot, 500
//! txns, and `TxnLogProposalIterator` reads older ones from disk without looking for holes.

use std::collections::VecDeque;
use std::path::Path;

use bytes::Bytes;
use herdsman_proto::Zxid;

use crate::disk::{Dirs, Disk, IoErrorAt, io_at};
use crate::log::ending::{LogDamage, RecordsEnd, classify};
use crate::log::pieces::DAMAGES_PER_FILE_MAX;
use crate::log::record::RecordReader;
use crate::log::repeats::txn_before;
use crate::log::table::txns_before;
use crate::log::walk::follows_through;
use crate::names::{LogName, list_damaged_logs, list_logs, list_snapshots};
use crate::recover::RecoverError;

/// Limits of what is kept. If either is 0, nothing is kept or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Txns.
    pub txns_max: usize,
    /// Bytes of their payloads.
    pub bytes_max: usize,
    /// Txns up to this one are left out: a digest before it did not match, so some may be missing.
    pub after: Zxid,
}

/// The last txns of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnHistory {
    /// The zxid before the first of them; that of the tree if there are none.
    pub base: Zxid,
    /// Zxid and payload, as in the log and in a PROPOSAL; oldest first.
    pub txns: Vec<(Zxid, Bytes)>,
}

/// Reads the txns that end with `last`, the zxid of the recovered tree.
pub fn read_history(
    disk: &dyn Disk,
    dirs: &Dirs,
    last: Zxid,
    limits: HistoryLimits,
) -> Result<TxnHistory, RecoverError> {
    if limits.txns_max == 0 || limits.bytes_max == 0 {
        return Ok(TxnHistory { base: last, txns: Vec::new() });
    }
    let snapshots = list_snapshots(disk, &dirs.data).map_err(io_at(&dirs.data))?;
    let snapshots: Vec<Zxid> = snapshots.iter().map(|name| name.zxid).collect();
    let files = list_logs(disk, &dirs.log).map_err(io_at(&dirs.log))?;
    let damaged = list_damaged_logs(disk, &dirs.log).map_err(io_at(&dirs.log))?;
    let names = files.iter().chain(&damaged).map(|name| name.zxid);
    let names = names.filter(|zxid| zxid.counter() > 0);
    let known = snapshots.iter().copied().chain(names).chain(txns_before(disk, &dirs.log, &files));
    let wanted = WantedTxns { last, known: known.collect() };
    let mut window = Window::new(limits);
    for file in files.iter().rev() {
        match read_piece(disk, &dirs.log, *file, &wanted, window.room()) {
            Ok(piece) => {
                if !window.prepend(piece, &wanted) {
                    break;
                }
            }
            Err(IoErrorAt { path, source }) => {
                tracing::warn!(
                    "cannot read {}: {source}; learners that need its txns are sent the whole tree",
                    path.display()
                );
                break;
            }
        }
    }
    let mut history = window.finish(last, &snapshots);
    if limits.after > history.base {
        history.base = limits.after.min(last);
        history.txns.retain(|(zxid, _)| *zxid > limits.after);
    }
    Ok(history)
}

/// The requested txns, and what is known about them.
struct WantedTxns {
    /// The last one.
    last: Zxid,
    /// Txns that are known to have existed: snapshots and log files are named by them, or come right after them.
    known: Vec<Zxid>,
}

impl WantedTxns {
    fn follows(&self, last: Zxid, next: Zxid) -> bool {
        follows_through(&self.known, last, next)
    }
}

/// Txns without gaps, at the end of a file or of the log.
struct Window {
    txns: VecDeque<(Zxid, Bytes)>,
    bytes: usize,
    limits: HistoryLimits,
    /// The txn before the first one, if it was seen.
    before: Option<Zxid>,
    /// Nothing older may be prepended.
    closed: bool,
    /// There is damage after the last one, which may have been txns.
    damaged_end: bool,
}

impl Window {
    fn new(limits: HistoryLimits) -> Self {
        Window {
            txns: VecDeque::new(),
            bytes: 0,
            limits,
            before: None,
            closed: false,
            damaged_end: false,
        }
    }

    fn room(&self) -> HistoryLimits {
        HistoryLimits {
            txns_max: self.limits.txns_max - self.txns.len(),
            bytes_max: self.limits.bytes_max - self.bytes,
            after: self.limits.after,
        }
    }

    fn last(&self) -> Option<Zxid> {
        self.txns.back().map(|(zxid, _)| *zxid).or(self.before)
    }

    /// Adds the next txn; drops the oldest ones if there is no room.
    fn push(&mut self, zxid: Zxid, payload: &[u8]) {
        self.bytes += payload.len();
        self.txns.push_back((zxid, Bytes::copy_from_slice(payload)));
        while self.txns.len() > self.limits.txns_max || self.bytes > self.limits.bytes_max {
            let (zxid, payload) = self.txns.pop_front().expect("something is over the limit");
            self.bytes -= payload.len();
            self.before = Some(zxid);
            self.closed = true;
        }
    }

    /// Drops everything that was gathered, because a gap follows it.
    fn start_over(&mut self) {
        *self = Window { closed: true, ..Window::new(self.limits) };
    }

    /// Prepends an older file's txns. Returns false if nothing older can be prepended.
    fn prepend(&mut self, piece: Window, wanted: &WantedTxns) -> bool {
        let Some(end) = piece.last() else {
            // A file without txns proves nothing.
            return !piece.closed && !piece.damaged_end;
        };
        let joined = match self.txns.front() {
            None => end == wanted.last,
            Some((first, _)) if piece.damaged_end => *first == end.next(),
            Some((first, _)) => wanted.follows(end, *first),
        };
        if !joined {
            return false;
        }
        self.bytes += piece.bytes;
        self.before = piece.before;
        for txn in piece.txns.into_iter().rev() {
            self.txns.push_front(txn);
        }
        self.closed = piece.closed;
        !self.closed
    }

    fn finish(mut self, last: Zxid, snapshots: &[Zxid]) -> TxnHistory {
        let Some(&(first, _)) = self.txns.front() else {
            return TxnHistory { base: last, txns: Vec::new() };
        };
        let previous = Zxid(first.0 - 1);
        let base = if let Some(before) = self.before {
            before
        } else if first.counter() > 1 || snapshots.contains(&previous) {
            previous
        } else {
            self.txns.pop_front();
            first
        };
        TxnHistory { base, txns: self.txns.into() }
    }
}

/// Reads the last txns of a file up to the requested one. The window starts again after damage.
fn read_piece(
    disk: &dyn Disk,
    dir: &Path,
    name: LogName,
    wanted: &WantedTxns,
    room: HistoryLimits,
) -> Result<Window, IoErrorAt> {
    let mut piece = Window::new(room);
    let path = &name.path(dir);
    let mut reader = RecordReader::open(disk, path).map_err(io_at(path))?;
    txn_before(disk, dir, name)?.into_iter().for_each(|before| reader.starts_after(before));
    for _ in 0..DAMAGES_PER_FILE_MAX {
        while let Some(record) = reader.next_record().map_err(io_at(path))? {
            if record.zxid > wanted.last {
                return Ok(piece);
            }
            if piece.last().is_some_and(|last| !wanted.follows(last, record.zxid)) {
                piece.start_over();
            }
            piece.push(record.zxid, record.payload);
        }
        if piece.last() == Some(wanted.last) {
            return Ok(piece);
        }
        match classify(&reader).map_err(io_at(path))? {
            RecordsEnd::Damaged(LogDamage { next_valid: Some((offset, _)), .. }) => {
                piece.start_over();
                reader.resume_at(offset);
            }
            RecordsEnd::Damaged(_) => {
                piece.damaged_end = true;
                return Ok(piece);
            }
            RecordsEnd::Clean | RecordsEnd::Torn { .. } => return Ok(piece),
        }
    }
    piece.start_over();
    piece.damaged_end = true;
    Ok(piece)
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;

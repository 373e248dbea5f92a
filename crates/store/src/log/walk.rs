//! Reads the txns of all log files from a zxid on, and does not skip gaps.
//!
//! In: the files, oldest first, and the zxid up to which a snapshot has everything. Out: each later
//! txn once, in order; then where and how the last file ends. Nothing is changed here: [`LogEnd`]
//! tells recovery what to mend.
//!
//! Invariant: a txn is passed on only if it follows the one before it. Inside an epoch zxids rise by
//! one; a new epoch starts with counter 1. A gap is refused even though the records on both sides are
//! valid, because a replay across it makes a tree that never existed (ZOOKEEPER-2418, -2846, -4925).
//! Before a new epoch a gap cannot be seen from zxids alone, so names are checked too: the log must contain
//! the txns that name its own files and the snapshots that were skipped. What they cannot
//! detect, the digests of later txns do ([`mod@crate::recover`]).
//!
//! Two steps: [`super::pieces`] reads, [`plan_log`] decides from what was read, and is pure.
//!
//! Apache: `FileTxnIterator`, which does not check this.

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::{DecodeError, Zxid};

use super::chain::{Chain, LogFault, LogFaultKind};
use super::lost::{LostRecords, lost_text};
pub use super::pieces::VisitRecord;
use super::pieces::{LogFiles, LogPiece, LogPieces, PieceContent, StopPoint, read_pieces};
use crate::disk::{Disk, IoErrorAt};
use crate::names::LogName;

/// An error because of which the log cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum LogWalkError {
    /// The disk failed.
    #[error("cannot read {path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file contains bytes that are neither a record nor a torn write.
    #[error(
        "{path} is damaged at offset {offset}: {why}. The last good txn before it is {last_good}; {lost}{next}",
        path = path.display(),
        lost = lost_text(&lost.ids, lost.is_complete).map_or_else(String::new, |text| text + "; "),
        next = next_valid.map_or_else(
            || "no valid record follows in this file".to_owned(),
            |(offset, zxid)| format!("the next valid record is txn {zxid} at offset {offset}"),
        ),
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        why: &'static str,
        /// The last txn before the damage.
        last_good: Zxid,
        /// Offset and zxid of the next valid record.
        next_valid: Option<(u64, Zxid)>,
        /// The records that were there.
        lost: Box<LostRecords>,
    },
    /// Txns are missing.
    #[error(
        "txns are missing between {last_good} and {found}, which is the next one, at offset {offset} of {path}",
        path = path.display(),
    )]
    Gap {
        /// The file in which the log continues.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The last txn before the gap.
        last_good: Zxid,
        /// The first txn after it.
        found: Zxid,
    },
    /// Zxids do not rise.
    #[error(
        "txn {found} at offset {offset} of {path} comes after txn {last_good}",
        path = path.display(),
    )]
    Backwards {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The txn before.
        last_good: Zxid,
        /// The txn that is out of order.
        found: Zxid,
    },
    /// The txn in a record with a valid checksum cannot be decoded.
    #[error(
        "the record of txn {zxid} at offset {offset} of {path} cannot be read: {source}. The last txn before it is {last_good}",
        path = path.display(),
    )]
    Undecodable {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// Its zxid.
        zxid: Zxid,
        /// The txn before.
        last_good: Zxid,
        /// What is wrong.
        source: DecodeError,
    },
}

impl LogWalkError {
    /// The last txn before the fault: to continue, everything after it must be given up.
    #[must_use]
    pub fn last_good(&self) -> Option<Zxid> {
        match self {
            LogWalkError::Io { .. } => None,
            LogWalkError::Damaged { last_good, .. }
            | LogWalkError::Gap { last_good, .. }
            | LogWalkError::Backwards { last_good, .. }
            | LogWalkError::Undecodable { last_good, .. } => Some(*last_good),
        }
    }

    /// The error for a fault in a directory.
    #[must_use]
    pub fn of(fault: &LogFault, dir: &Path) -> Self {
        let LogFault { file, offset, last_good, kind, .. } = *fault;
        let path = file.path(dir);
        match kind {
            LogFaultKind::Damaged { why, next_valid } => {
                let lost = Box::new(fault.lost.clone());
                LogWalkError::Damaged { path, offset, why, last_good, next_valid, lost }
            }
            LogFaultKind::Gap { found } => LogWalkError::Gap { path, offset, last_good, found },
            LogFaultKind::Backwards { found } => {
                LogWalkError::Backwards { path, offset, last_good, found }
            }
            LogFaultKind::Undecodable { zxid, error } => {
                LogWalkError::Undecodable { path, offset, zxid, last_good, source: error }
            }
        }
    }
}

impl From<IoErrorAt> for LogWalkError {
    fn from(IoErrorAt { path, source }: IoErrorAt) -> Self {
        LogWalkError::Io { path, source }
    }
}

/// Where the log ends, and what has to be repaired so that it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The last txn, in the log or in the snapshot.
    pub last_zxid: Zxid,
    /// The last file that has a txn in it.
    pub tail: Option<LogTail>,
    /// Files after it without txns: created for a txn that was never completed.
    pub empty: Vec<LogTail>,
    /// Files after it, which hold what the operator gave up.
    pub given_up: Vec<LogName>,
    /// The fault that the operator accepted.
    pub accepted: Option<LogFault>,
    /// Where the last requested txn was reached.
    pub stop: Option<StopPoint>,
}

/// The end of a file at the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTail {
    /// Which file.
    pub name: LogName,
    /// The length of its good part.
    pub good_bytes: u64,
    /// Its length.
    pub file_bytes: u64,
    /// Records in it.
    pub records: u64,
    /// What follows the good part.
    pub rest: TrailingBytes,
}

/// The bytes after the good part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailingBytes {
    /// Zeros, or nothing.
    Nothing,
    /// The beginning of a record that was never completed.
    Torn,
    /// Records or damage that the operator gave up.
    GivenUp,
}

/// The files that hold txns after `after`: the last one that starts at or before the next txn, and
/// all later ones.
#[must_use]
pub fn files_needed(files: &[LogName], after: Zxid) -> &[LogName] {
    let first = files.iter().rposition(|file| file.zxid <= after.next()).unwrap_or(0);
    &files[first..]
}

/// Whether `next` can be the txn right after `last`, and no txn between them is known.
pub(crate) fn follows_through(known: &[Zxid], last: Zxid, next: Zxid) -> bool {
    next == last.next()
        || (last.is_continued_by(next) && !known.iter().any(|known| last < *known && *known < next))
}

/// Reads the requested part of the log without giving up anything.
pub fn walk(
    disk: &dyn Disk,
    log: &LogFiles<'_>,
    visit: &mut VisitRecord<'_>,
) -> Result<LogEnd, LogWalkError> {
    let found = read_pieces(disk, log, visit)?;
    plan_log(log, &found, None).map_err(|fault| LogWalkError::of(&fault, log.dir))
}

/// Decides where the log ends. Fails if it would have to end at a fault, unless the
/// operator gives up everything after that very txn.
pub fn plan_log(
    log: &LogFiles<'_>,
    found: &LogPieces,
    accept_loss_after: Option<Zxid>,
) -> Result<LogEnd, LogFault> {
    let mut chain = Chain::new(log.after, log.known);
    for piece in &found.pieces {
        chain.piece(piece);
    }
    let (last_zxid, fault) = chain.finish();
    let mut walked = LogEnd { last_zxid, stop: found.stop, ..LogEnd::default() };
    match fault {
        None => end_files(&mut walked, &found.pieces),
        Some(fault) if accept_loss_after == Some(fault.last_good) => {
            let place = (fault.file, fault.offset);
            let is_good = |piece: &&LogPiece| (piece.file, piece.start) < place;
            let good: Vec<LogPiece> = found.pieces.iter().filter(is_good).cloned().collect();
            end_files(&mut walked, &good);
            give_up(&mut walked, &fault, log.files, &found.pieces);
            walked.accepted = Some(fault);
        }
        Some(fault) => return Err(fault),
    }
    Ok(walked)
}

/// Records how the last files end.
fn end_files(walked: &mut LogEnd, pieces: &[LogPiece]) {
    for file in pieces.chunk_by(|left, right| left.file == right.file) {
        let tail = tail_of(file);
        if tail.records == 0 {
            walked.empty.push(tail);
        } else {
            walked.tail = Some(tail);
            walked.empty.clear();
        }
    }
}

/// The end of the file with these pieces.
fn tail_of(pieces: &[LogPiece]) -> LogTail {
    let mut tail = LogTail {
        name: pieces[0].file,
        good_bytes: pieces[0].start,
        file_bytes: 0,
        records: 0,
        rest: TrailingBytes::Nothing,
    };
    for piece in pieces {
        tail.file_bytes = piece.end;
        match piece.content {
            PieceContent::Run { records, .. } => {
                tail.records += records;
                tail.good_bytes = piece.end;
            }
            PieceContent::Undecodable { .. } => {
                tail.records += 1;
                tail.good_bytes = piece.end;
            }
            PieceContent::Torn => tail.rest = TrailingBytes::Torn,
            PieceContent::Damage { .. } | PieceContent::End => {}
        }
    }
    tail
}

/// Ends the log before the fault. A file that has nothing good before it is given up as a whole.
fn give_up(walked: &mut LogEnd, fault: &LogFault, files: &[LogName], pieces: &[LogPiece]) {
    let mut first_given_up = fault.file;
    walked.empty.retain(|tail| tail.name < fault.file);
    if let Some(tail) = walked.tail.as_mut().filter(|tail| tail.name == fault.file) {
        let of_file = pieces.iter().filter(|piece| piece.file == fault.file);
        tail.file_bytes = of_file.map(|piece| piece.end).max().unwrap_or(tail.file_bytes);
        tail.good_bytes = fault.offset;
        tail.rest = TrailingBytes::GivenUp;
        first_given_up.zxid = first_given_up.zxid.next();
    }
    walked.given_up = files.iter().copied().filter(|file| *file >= first_given_up).collect();
}

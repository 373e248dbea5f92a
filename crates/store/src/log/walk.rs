//! Reads the txns of all log files from a zxid on, and does not step over a hole.
//!
//! In: the files, oldest first, and the zxid up to which a snapshot has everything. Out: each later
//! txn once, in order; then where and how the last file ends. Nothing is changed here: [`LogEnd`]
//! tells recovery what to mend.
//!
//! Invariant: a txn is handed on only if it follows the one before it. Inside an epoch zxids rise by
//! one; a new epoch starts with counter 1. A hole is refused even though the records on both sides are
//! valid, because replaying across it makes a tree that never existed (ZOOKEEPER-2418, -2846, -4925).
//! In front of a new epoch a hole cannot be seen from zxids alone, so names bear witness: the log must go
//! through the txns that snapshots that were passed over and its own files are named by. What they cannot
//! show, the digests of later txns do ([`mod@crate::recover`]).
//!
//! Two steps: [`super::pieces`] reads, [`plan_log`] decides from what was read, and is pure.
//!
//! Apache: `FileTxnIterator`, which reads on whatever comes.

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::{DecodeError, Zxid};

use super::chain::{Chain, LogFault, LogFaultKind};
pub use super::pieces::VisitRecord;
use super::pieces::{LogFiles, LogPiece, LogPieces, PieceContent, StopPoint, read_pieces};
use crate::disk::{Disk, IoErrorAt};
use crate::names::LogName;

/// Why the log cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum LogWalkError {
    /// The disk failed.
    #[error("cannot read {path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file has something in it that is not a record and not a torn write.
    #[error(
        "{path} is damaged at offset {offset}: {why}. The last good txn before it is {last_good}; {next}",
        path = path.display(),
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
    },
    /// Txns are missing.
    #[error(
        "txns are missing between {last_good} and {found}, which is the next one, at offset {offset} of {path}",
        path = path.display(),
    )]
    Gap {
        /// The file in which the log goes on.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The last txn before the gap.
        last_good: Zxid,
        /// The first behind it.
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
        /// The one that should not be here.
        found: Zxid,
    },
    /// A record with a right checksum holds no txn that we know.
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
    /// The last txn before the trouble: giving up all that follows it is the way to go on.
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

    /// What must not be stepped over, in a directory.
    #[must_use]
    pub fn of(trouble: &LogFault, dir: &Path) -> Self {
        let LogFault { file, offset, last_good, kind } = *trouble;
        let path = file.path(dir);
        match kind {
            LogFaultKind::Damaged { why, next_valid } => {
                LogWalkError::Damaged { path, offset, why, last_good, next_valid }
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

/// Where the log ends, and what has to be mended so that it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The last txn, in the log or in the snapshot.
    pub last_zxid: Zxid,
    /// The last file that has a txn in it.
    pub tail: Option<LogTail>,
    /// Files behind it that have none: made for a txn that never became whole.
    pub empty: Vec<LogTail>,
    /// Files behind it, which hold what the operator gave up.
    pub given_up: Vec<LogName>,
    /// The trouble at which we were told to stop.
    pub accepted: Option<LogFault>,
    /// The last wanted txn was reached here.
    pub stop: Option<StopPoint>,
}

/// How a file at the end of the log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTail {
    /// Which file.
    pub name: LogName,
    /// Up to here it is good.
    pub good_bytes: u64,
    /// Its length.
    pub file_bytes: u64,
    /// Records in it.
    pub records: u64,
    /// What stands behind the good part.
    pub rest: TrailingBytes,
}

/// What stands behind the good part of a file.
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

/// `next` can be the txn right after `last`.
#[must_use]
pub fn follows(last: Zxid, next: Zxid) -> bool {
    next == last.next() || (next.epoch() > last.epoch() && next.counter() == 1)
}

/// `next` can be the txn right after `last`, and nothing is known that lies between them.
pub(crate) fn follows_through(known: &[Zxid], last: Zxid, next: Zxid) -> bool {
    next == last.next()
        || (follows(last, next) && !known.iter().any(|known| last < *known && *known < next))
}

/// Reads the log, all of it that is wanted, without giving up anything.
pub fn walk(
    disk: &dyn Disk,
    log: &LogFiles<'_>,
    visit: &mut VisitRecord<'_>,
) -> Result<LogEnd, LogWalkError> {
    let found = read_pieces(disk, log, visit)?;
    plan_log(log, &found, None).map_err(|trouble| LogWalkError::of(&trouble, log.dir))
}

/// Decides where the log ends. Fails if it has to end at something that must not be stepped over, unless the
/// operator gives up whatever follows that very txn.
pub fn plan_log(
    log: &LogFiles<'_>,
    found: &LogPieces,
    accept_loss_after: Option<Zxid>,
) -> Result<LogEnd, LogFault> {
    let mut chain = Chain::new(log.after, log.known);
    for piece in &found.pieces {
        chain.piece(piece);
    }
    let (last_zxid, trouble) = chain.finish();
    let mut walked = LogEnd { last_zxid, stop: found.stop, ..LogEnd::default() };
    match trouble {
        None => end_files(&mut walked, &found.pieces),
        Some(trouble) if accept_loss_after == Some(trouble.last_good) => {
            let place = (trouble.file, trouble.offset);
            let is_good = |piece: &&LogPiece| (piece.file, piece.start) < place;
            let good: Vec<LogPiece> = found.pieces.iter().filter(is_good).cloned().collect();
            end_files(&mut walked, &good);
            give_up(&mut walked, &trouble, log.files, &found.pieces);
            walked.accepted = Some(trouble);
        }
        Some(trouble) => return Err(trouble),
    }
    Ok(walked)
}

/// Notes how the last files end.
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

/// How a file ends, of which these are the pieces.
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

/// Ends the log before the trouble. A file that has nothing good before it is given up as a whole.
fn give_up(walked: &mut LogEnd, trouble: &LogFault, files: &[LogName], pieces: &[LogPiece]) {
    let mut first_given_up = trouble.file;
    walked.empty.retain(|tail| tail.name < trouble.file);
    if let Some(tail) = walked.tail.as_mut().filter(|tail| tail.name == trouble.file) {
        let of_file = pieces.iter().filter(|piece| piece.file == trouble.file);
        tail.file_bytes = of_file.map(|piece| piece.end).max().unwrap_or(tail.file_bytes);
        tail.good_bytes = trouble.offset;
        tail.rest = TrailingBytes::GivenUp;
        first_given_up.zxid = first_given_up.zxid.next();
    }
    walked.given_up = files.iter().copied().filter(|file| *file >= first_given_up).collect();
}

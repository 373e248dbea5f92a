//! Reads the txns of all log files from a zxid on, and does not step over a hole.
//!
//! In: the files, oldest first, and the zxid up to which a snapshot has everything. Out: each later
//! txn once, in order; then where and how the last file ends. Nothing is changed here: [`Walked`]
//! tells recovery what to mend.
//!
//! Invariant: a txn is handed on only if it follows the one before it. Inside an epoch zxids rise by
//! one; a new epoch starts with counter 1. A hole is refused even though the records on both sides are
//! valid, because replaying across it makes a tree that never existed (ZOOKEEPER-2418, -2846, -4925).
//! In front of a new epoch a hole cannot be seen from zxids alone, so snapshots that were passed over
//! bear witness: the log must go through the txns that they are named by.
//!
//! Apache: `FileTxnIterator`, which reads on whatever comes.

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::{DecodeError, Zxid};

use super::ending::{Ending, classify};
use super::record::{Record, RecordReader};
use crate::disk::Disk;
use crate::names::LogName;

/// Why the log cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
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

impl WalkError {
    /// The last txn before the trouble: giving up all that follows it is the way to go on.
    #[must_use]
    pub fn last_good(&self) -> Option<Zxid> {
        match self {
            WalkError::Io { .. } => None,
            WalkError::Damaged { last_good, .. }
            | WalkError::Gap { last_good, .. }
            | WalkError::Backwards { last_good, .. }
            | WalkError::Undecodable { last_good, .. } => Some(*last_good),
        }
    }

    fn offset(&self) -> u64 {
        match self {
            WalkError::Io { .. } => 0,
            WalkError::Damaged { offset, .. }
            | WalkError::Gap { offset, .. }
            | WalkError::Backwards { offset, .. }
            | WalkError::Undecodable { offset, .. } => *offset,
        }
    }
}

/// What there is to read.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    /// Where the files are.
    pub dir: &'a Path,
    /// The files, oldest first.
    pub files: &'a [LogName],
    /// Txns up to this one are in the snapshot.
    pub after: Zxid,
    /// If the log is broken right after this txn, what follows is given up.
    pub accept_loss_after: Option<Zxid>,
}

/// What else is known about the log that is read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks<'a> {
    /// Nothing is read after this txn, so nothing after it can be wrong.
    pub(crate) until: Option<Zxid>,
    /// Txns that have been, each named by a snapshot: the log may end before one, but not step over it.
    /// This is how a hole in front of a new epoch is seen.
    pub(crate) known: &'a [Zxid],
}

impl Marks<'_> {
    /// `next` can be the txn right after `last`, and nothing is known that lies between them.
    pub(crate) fn next(&self, last: Zxid, next: Zxid) -> bool {
        follows(last, next) && !self.known.iter().any(|known| last < *known && *known < next)
    }
}

/// Where reading stopped because the last wanted txn was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// In which file.
    pub(crate) name: LogName,
    /// Up to here it is wanted.
    pub(crate) wanted_bytes: u64,
    /// Records in that part.
    pub(crate) records: u64,
    /// The record that follows, if it was looked at.
    pub(crate) next: Option<Zxid>,
}

/// Where the log ends.
#[derive(Debug, Default)]
pub struct Walked {
    /// The last txn, in the log or in the snapshot.
    pub last_zxid: Zxid,
    /// Txns handed on.
    pub txns: u64,
    /// Their bytes in the files.
    pub bytes: u64,
    /// The last file that has a txn in it.
    pub tail: Option<Tail>,
    /// Files behind it that have none: made for a txn that never became whole.
    pub empty: Vec<Tail>,
    /// Files behind it, which hold what the operator gave up.
    pub given_up: Vec<LogName>,
    /// The trouble at which we were told to stop.
    pub accepted: Option<WalkError>,
    /// The last wanted txn was reached here.
    pub(crate) stop: Option<Stop>,
}

/// How a file at the end of the log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Which file.
    pub name: LogName,
    /// Up to here it is good.
    pub good_bytes: u64,
    /// Its length.
    pub file_bytes: u64,
    /// Records in it.
    pub records: u64,
    /// What stands behind the good part.
    pub rest: TailRest,
}

/// What stands behind the good part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailRest {
    /// Zeros, or nothing.
    Nothing,
    /// The beginning of a record that was never completed.
    Torn,
    /// Records or damage that the operator gave up.
    GivenUp,
}

/// Takes each txn of a walk.
pub type Visit<'a> = dyn FnMut(&Record<'_>) -> Result<(), DecodeError> + 'a;

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

/// Reads the log.
pub fn walk(disk: &dyn Disk, walk: Walk<'_>, visit: &mut Visit<'_>) -> Result<Walked, WalkError> {
    walk_marked(disk, walk, Marks::default(), visit)
}

/// Reads the log as far as it is wanted.
pub(crate) fn walk_marked(
    disk: &dyn Disk,
    walk: Walk<'_>,
    marks: Marks<'_>,
    visit: &mut Visit<'_>,
) -> Result<Walked, WalkError> {
    let mut walked = Walked { last_zxid: walk.after, ..Walked::default() };
    let mut seen = None;
    for (index, &name) in walk.files.iter().enumerate() {
        let mut file = FileWalk::open(disk, (&walk, marks), name)?;
        let next = walk.files.get(index + 1);
        let result = file.records(&mut seen, &mut walked, visit);
        if walked.stop.is_some() {
            break;
        }
        let result =
            result.and_then(|()| file.check_name(seen)).and_then(|()| file.rest(seen, next));
        match result {
            Ok(rest) if file.records == 0 => walked.empty.push(file.tail(rest)),
            Ok(rest) => {
                walked.tail = Some(file.tail(rest));
                walked.empty.clear();
            }
            Err(error)
                if error.last_good().is_some() && error.last_good() == walk.accept_loss_after =>
            {
                give_up(&mut walked, error, file, &walk.files[index..]);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(walked)
}

/// Ends the log before the trouble.
fn give_up(walked: &mut Walked, error: WalkError, mut file: FileWalk<'_>, rest: &[LogName]) {
    if file.records == 0 {
        // Nothing of this file is good.
        walked.given_up = rest.to_vec();
    } else {
        file.good_bytes = error.offset();
        walked.tail = Some(file.tail(TailRest::GivenUp));
        walked.given_up = rest[1..].to_vec();
    }
    walked.accepted = Some(error);
}

/// One file of a walk.
struct FileWalk<'a> {
    walk: &'a Walk<'a>,
    marks: Marks<'a>,
    name: LogName,
    reader: RecordReader,
    good_bytes: u64,
    records: u64,
}

impl<'a> FileWalk<'a> {
    fn open(
        disk: &dyn Disk,
        (walk, marks): (&'a Walk<'a>, Marks<'a>),
        name: LogName,
    ) -> Result<Self, WalkError> {
        let path = name.path(walk.dir);
        match RecordReader::open(disk, &path) {
            Ok(reader) => {
                Ok(FileWalk { walk, marks, name, good_bytes: reader.offset(), reader, records: 0 })
            }
            Err(source) => Err(WalkError::Io { path, source }),
        }
    }

    /// Hands on the records, as far as they are whole and wanted.
    fn records(
        &mut self,
        seen: &mut Option<Zxid>,
        walked: &mut Walked,
        visit: &mut Visit<'_>,
    ) -> Result<(), WalkError> {
        let path = self.reader.path().to_owned();
        let (walk, until) = (self.walk, self.marks.until);
        let fail = |source| WalkError::Io { path: path.clone(), source };
        while let Some(record) = self.reader.next_record().map_err(fail)? {
            let zxid = record.zxid;
            if until.is_some_and(|until| zxid > until) {
                walked.stop = Some(self.stop(Some(zxid)));
                break;
            }
            check_order((walk, self.marks), *seen, &record, &path)?;
            if zxid > walk.after {
                visit(&record).map_err(|source| WalkError::Undecodable {
                    path: path.clone(),
                    offset: record.offset,
                    zxid,
                    last_good: seen.unwrap_or(walk.after),
                    source,
                })?;
                walked.last_zxid = zxid;
                walked.txns += 1;
                walked.bytes += (record.payload.len() + super::RECORD_EXTRA_BYTES) as u64;
            }
            *seen = Some(zxid);
            self.records += 1;
            self.good_bytes = self.reader.offset();
            if until == Some(zxid) {
                walked.stop = Some(self.stop(None));
                break;
            }
        }
        Ok(())
    }

    fn stop(&self, next: Option<Zxid>) -> Stop {
        Stop { name: self.name, wanted_bytes: self.good_bytes, records: self.records, next }
    }

    /// A file without records is named by the txn that it was made for. That one must come next, or
    /// those before it are missing.
    fn check_name(&self, seen: Option<Zxid>) -> Result<(), WalkError> {
        let last_good = seen.map_or(self.walk.after, |last| last.max(self.walk.after));
        let found = self.name.zxid;
        if self.records > 0 || found <= last_good || self.marks.next(last_good, found) {
            return Ok(());
        }
        Err(WalkError::Gap { path: self.reader.path().to_owned(), offset: 0, last_good, found })
    }

    /// Looks at what stands behind the records, unless the next file proves that it is nothing.
    fn rest(&self, seen: Option<Zxid>, next: Option<&LogName>) -> Result<TailRest, WalkError> {
        let last_good = seen.unwrap_or(self.walk.after);
        if next.is_some_and(|next| next.zxid == last_good.next()) {
            return Ok(TailRest::Nothing);
        }
        match classify(&self.reader) {
            Ok(Ending::Clean) => Ok(TailRest::Nothing),
            Ok(Ending::Torn { .. }) => Ok(TailRest::Torn),
            Ok(Ending::Damaged(damage)) => Err(WalkError::Damaged {
                path: self.reader.path().to_owned(),
                offset: self.good_bytes,
                why: damage.why,
                last_good,
                next_valid: damage.next_valid,
            }),
            Err(source) => Err(WalkError::Io { path: self.reader.path().to_owned(), source }),
        }
    }

    fn tail(&self, rest: TailRest) -> Tail {
        Tail {
            name: self.name,
            good_bytes: self.good_bytes,
            file_bytes: self.reader.file_bytes(),
            records: self.records,
            rest,
        }
    }
}

/// The record may stand where it stands.
fn check_order(
    (walk, marks): (&Walk<'_>, Marks<'_>),
    seen: Option<Zxid>,
    record: &Record<'_>,
    path: &Path,
) -> Result<(), WalkError> {
    let found = record.zxid;
    if let Some(last_good) = seen.filter(|last| found <= *last) {
        return Err(WalkError::Backwards {
            path: path.to_owned(),
            offset: record.offset,
            last_good,
            found,
        });
    }
    let last_good = seen.map_or(walk.after, |last| last.max(walk.after));
    if found > walk.after && !marks.next(last_good, found) {
        return Err(WalkError::Gap {
            path: path.to_owned(),
            offset: record.offset,
            last_good,
            found,
        });
    }
    Ok(())
}

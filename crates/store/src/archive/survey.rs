//! Reads an archive to find out which points can be restored.
//!
//! In: the directory of one history, or any directory with logs and snapshots. Out: the spans of txns without a hole,
//! the holes between them, and the txn that a time stands for. Every record is read and checked; nothing is changed.
//!
//! # A point in time
//! The leader of each epoch stamps its txns with its own clock, so times need not rise. The state as of a time holds
//! all txns up to the last one before the first whose time is later. If a clock went back, txns after that one may have
//! earlier times again; [`TimeCut::clock_went_back`] says so, and a zxid can be given instead.

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::Zxid;
use herdsman_proto::txn::Entry;

use super::copy::Effects;
use super::missing_txns;
use crate::disk::Disk;
use crate::log::ending::{RecordsEnd, classify};
use crate::log::pieces::DAMAGES_PER_FILE_MAX;
use crate::log::record::RecordReader;
use crate::log::table::txns_before;
use crate::log::walk::follows_through;
use crate::names::{SnapshotName, list_logs, list_snapshots};
use crate::snapshot::reader::{SnapshotError, read_snapshot};

/// A txn and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnPoint {
    /// The txn.
    pub zxid: Zxid,
    /// Its time, in milliseconds since 1970.
    pub time_ms: i64,
}

/// Txns without a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub first: TxnPoint,
    /// The last one.
    pub last: TxnPoint,
    /// How many.
    pub txns: u64,
}

/// Txns that are missing between two that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The last one before.
    pub after: TxnPoint,
    /// The first one after.
    pub before: TxnPoint,
}

/// The place in the history that a time stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeCut {
    /// The last txn before the first one whose time is later; `None` if that one is the first in the archive.
    pub last: Option<TxnPoint>,
    /// The first txn whose time is later.
    pub next: TxnPoint,
    /// Txns are missing between these two.
    pub is_in_hole: bool,
    /// A txn after them has an earlier time again.
    pub clock_went_back: bool,
}

/// What an archive holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The snapshots, by name only.
    pub snapshots: Vec<SnapshotName>,
    /// The txns, in order.
    pub spans: Vec<Span>,
    /// Files that are damaged, with the reason.
    pub damaged: Vec<(PathBuf, String)>,
    /// Where the given time is; `None` if no txn is later.
    pub cut: Option<TimeCut>,
    /// Txns that exist and that a log must not skip.
    known: Vec<Zxid>,
}

impl Survey {
    /// The last txn in the archive.
    #[must_use]
    pub fn last(&self) -> Option<TxnPoint> {
        self.spans.last().map(|span| span.last)
    }

    /// The first point in a span that can be restored, from snapshots with these ends ([`fuzzy_end`]).
    #[must_use]
    pub fn first_point(&self, span: &Span, ends: &[Zxid]) -> Option<Zxid> {
        let reaches = |end: Zxid| {
            let is_inside = (span.first.zxid..=span.last.zxid).contains(&end);
            is_inside || follows_through(&self.known, end, span.first.zxid)
        };
        ends.iter().copied().filter(|end| reaches(*end)).min()
    }

    /// The holes, in order.
    pub fn holes(&self) -> impl Iterator<Item = Hole> + '_ {
        self.spans.windows(2).map(|pair| Hole { after: pair[0].last, before: pair[1].first })
    }
}

/// Reads all logs in a directory. With a time, finds the txn that it stands for.
pub fn survey(disk: &dyn Disk, dir: &Path, time_ms: Option<i64>) -> io::Result<Survey> {
    let snapshots = list_snapshots(disk, dir)?;
    let mut known = missing_txns(disk, dir)?;
    known.extend(snapshots.iter().map(|name| name.zxid));
    let logs = list_logs(disk, dir)?;
    known.extend(txns_before(disk, dir, &logs));
    let found = Survey { snapshots, known, ..Survey::default() };
    let mut reading = Reading { time_ms, found };
    for name in logs {
        let path = name.path(dir);
        if let Err(error) = reading.file(disk, &path) {
            reading.found.damaged.push((path, format!("cannot be read: {error}")));
        }
    }
    Ok(reading.found)
}

/// The last txn in the logs of a directory. Reads only the newest log that has one.
pub fn last_txn_point(disk: &dyn Disk, dir: &Path) -> io::Result<Option<TxnPoint>> {
    for name in list_logs(disk, dir)?.into_iter().rev() {
        let mut reading = Reading { time_ms: None, found: Survey::default() };
        // What cannot be read has no txn, as for a survey.
        _ = reading.file(disk, &name.path(dir));
        if let Some(last) = reading.found.last() {
            return Ok(Some(last));
        }
    }
    Ok(None)
}

/// Reads a snapshot to its end and returns the last txn of which it may show an effect: the first point that can be
/// restored from it. `None` if it does not say.
pub fn fuzzy_end(
    disk: &dyn Disk,
    dir: &Path,
    name: SnapshotName,
) -> Result<Option<Zxid>, SnapshotError> {
    let mut effects = Effects::default();
    let summary = read_snapshot(disk, dir, name, &mut effects, &mut |_| {})?;
    let trailer = summary.trailer;
    let is_known = trailer.digest.is_some() || trailer.last_zxid.is_some();
    Ok((is_known || name.zxid == Zxid::ZERO).then(|| effects.fuzzy_end(trailer, name)))
}

struct Reading {
    time_ms: Option<i64>,
    found: Survey,
}

impl Reading {
    fn file(&mut self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        let mut reader = RecordReader::open(disk, path)?;
        reader.starts_after(self.found.last().map_or(Zxid::ZERO, |last| last.zxid));
        for _ in 0..DAMAGES_PER_FILE_MAX {
            while let Some(record) = reader.next_record()? {
                match Entry::decode(record.payload) {
                    Ok(entry) => {
                        let header = entry.header;
                        self.txn(TxnPoint { zxid: header.zxid, time_ms: header.time_ms });
                    }
                    Err(error) => {
                        let why = format!("txn {} cannot be decoded: {error}", record.zxid);
                        self.found.damaged.push((path.to_owned(), why));
                    }
                }
            }
            let offset = reader.offset();
            let (why, next) = match classify(&reader)? {
                RecordsEnd::Clean => return Ok(()),
                RecordsEnd::Torn { .. } => ("the record is not complete", None),
                RecordsEnd::Damaged(damage) => (damage.why, damage.next_valid),
            };
            let why = format!("damaged at offset {offset}: {why}");
            self.found.damaged.push((path.to_owned(), why));
            let Some((offset, _)) = next else { return Ok(()) };
            reader.resume_at(offset);
        }
        Ok(())
    }

    /// Counts a txn. One that comes too late in the order is ignored, as a replay ignores it.
    fn txn(&mut self, txn: TxnPoint) {
        let last = self.found.last();
        if last.is_some_and(|last| txn.zxid <= last.zxid) {
            return;
        }
        let continues =
            last.is_some_and(|last| follows_through(&self.found.known, last.zxid, txn.zxid));
        self.note_time(last, txn, continues);
        match self.found.spans.last_mut() {
            Some(span) if continues => {
                span.last = txn;
                span.txns += 1;
            }
            _ => self.found.spans.push(Span { first: txn, last: txn, txns: 1 }),
        }
    }

    fn note_time(&mut self, last: Option<TxnPoint>, txn: TxnPoint, continues: bool) {
        let Some(time_ms) = self.time_ms else { return };
        match &mut self.found.cut {
            Some(cut) => cut.clock_went_back |= txn.time_ms <= time_ms,
            None if txn.time_ms > time_ms => {
                self.found.cut = Some(TimeCut {
                    last,
                    next: txn,
                    is_in_hole: last.is_some() && !continues,
                    clock_went_back: false,
                });
            }
            None => {}
        }
    }
}

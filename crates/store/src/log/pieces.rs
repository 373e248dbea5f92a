//! Divides the log into pieces, file by file, valid or not. Nothing is decided here.
//!
//! In: log files, oldest first. Out: their [`LogPiece`]s in order, each with its file, its offsets and the zxids in it;
//! and, while they are read, each record that continues the snapshot, for the caller to apply. Reading does not end
//! at damage or a gap: what follows matters for the decision. [`super::chain`] says what continues what, and
//! [`super::walk`] and [`crate::recover::plan`] decide what to do.
//!
//! Memory is bounded by the number of pieces, not by that of records: a run of records is one piece. After a break
//! at most [`PIECES_MAX`] are gathered; the rest of the log is given up or refused in any case.

use std::path::Path;

use herdsman_proto::{DecodeError, Zxid};

use super::chain::Chain;
use super::ending::{LogDamage, RecordsEnd, classify};
use super::lost::{LOST_MAX, LostRecords, RecordId};
use super::record::{Record, RecordReader};
use super::repeats::txn_before;
use super::table::has_footer;
use crate::disk::{Disk, IoErrorAt, io_at};
use crate::epoch::OpenLog;
use crate::names::LogName;

/// If there is a break and there are more pieces than this, later files are not read.
const PIECES_MAX: usize = 10_000;
/// Damaged places in one file after which the rest of the file counts as damaged: each costs a search through it.
pub(crate) const DAMAGES_PER_FILE_MAX: usize = 100;

const SHORTENED: &str = "the file is shorter than it was, and its end is lost";

/// A part of a log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPiece {
    /// In which file.
    pub file: LogName,
    /// Where it starts.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Its content.
    pub content: PieceContent,
    /// Of damage: the records that are known to have been there, in order.
    pub lost: Vec<RecordId>,
    /// Of damage: there were no others.
    pub lost_is_complete: bool,
}

impl LogPiece {
    /// A piece from one offset to another, without lost records.
    pub(crate) fn of(file: LogName, (start, end): (u64, u64), content: PieceContent) -> Self {
        let lost_is_complete = !matches!(content, PieceContent::Damage { .. });
        LogPiece { file, start, end, content, lost: Vec::new(), lost_is_complete }
    }
}

/// The content of a part of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceContent {
    /// Valid records, each with the zxid of the one before plus one. Where a run ends and another one starts right
    /// after it, there is a new epoch, a gap, or a step back.
    Run {
        /// The zxid of its first record.
        first: Zxid,
        /// The zxid of its last record.
        last: Zxid,
        /// Its records.
        records: u64,
    },
    /// A record with a valid checksum whose txn cannot be decoded.
    Undecodable {
        /// Its zxid.
        zxid: Zxid,
        /// What is wrong.
        error: DecodeError,
    },
    /// Bytes that are not records and that no interrupted write leaves.
    Damage {
        /// What is wrong.
        why: &'static str,
        /// Offset and zxid of the next valid record in the file.
        next_valid: Option<(u64, Zxid)>,
    },
    /// The beginning of a record that was never completed.
    Torn,
    /// The bytes after the last record, as far as they were read, up to the end of the file. Each file that was read
    /// to its end has one.
    End,
}

/// The log files to read.
#[derive(Clone, Copy, Debug)]
pub struct LogFiles<'a> {
    /// The directory of the files.
    pub dir: &'a Path,
    /// The files, oldest first.
    pub files: &'a [LogName],
    /// Txns up to this one are in the snapshot.
    pub after: Zxid,
    /// Nothing is read after this txn, so nothing after it can be wrong.
    pub until: Option<Zxid>,
    /// Txns that have existed, each named by a snapshot: the log may end before one, but not skip it.
    /// This is how a gap before a new epoch is detected.
    pub known: &'a [Zxid],
    /// The file that was begun last, as far as that is known.
    pub open: Option<OpenLog>,
}

/// The point where reading stopped because the last requested txn was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopPoint {
    /// In which file.
    pub name: LogName,
    /// The end of the requested part.
    pub wanted_bytes: u64,
    /// Records in that part.
    pub records: u64,
    /// The record that follows, if it was read.
    pub next: Option<Zxid>,
}

/// The result of reading.
#[derive(Debug, Default)]
pub struct LogPieces {
    /// The pieces, in the order of the files.
    pub pieces: Vec<LogPiece>,
    /// Txns passed on.
    pub txns: u64,
    /// Their bytes in the files.
    pub bytes: u64,
    /// Where the last requested txn was reached.
    pub stop: Option<StopPoint>,
    /// Lost records in the pieces.
    lost: usize,
}

/// Called for each txn that continues the snapshot.
pub type VisitRecord<'a> = dyn FnMut(&Record<'_>) -> Result<(), DecodeError> + 'a;

/// Reads the files. Fails only if the disk does.
pub(crate) fn read_pieces(
    disk: &dyn Disk,
    log: &LogFiles<'_>,
    visit: &mut VisitRecord<'_>,
) -> Result<LogPieces, IoErrorAt> {
    let mut chain = Chain::new(log.after, log.known);
    let mut found = LogPieces::default();
    for (index, &name) in log.files.iter().enumerate() {
        let path = name.path(log.dir);
        let mut reader = RecordReader::open(disk, &path).map_err(io_at(&path))?;
        let before = txn_before(disk, log.dir, name)?;
        before.into_iter().for_each(|before| reader.starts_after(before));
        let next = log.files.get(index + 1).copied();
        let mut file = FileReading { log, name, reader, next, run: None, records: 0, damages: 0 };
        chain.start_file(name);
        file.read(&mut chain, &mut found, visit).map_err(io_at(&path))?;
        if found.stop.is_some() {
            break;
        }
        chain.end_file(name);
        if chain.fault().is_some() && found.pieces.len() > PIECES_MAX {
            break;
        }
    }
    Ok(found)
}

/// One file being read.
struct FileReading<'a> {
    log: &'a LogFiles<'a>,
    name: LogName,
    reader: RecordReader,
    next: Option<LogName>,
    /// The current run: where it starts and the zxids in it.
    run: Option<(u64, Zxid, Zxid)>,
    records: u64,
    damages: usize,
}

impl FileReading<'_> {
    fn read(
        &mut self,
        chain: &mut Chain<'_>,
        found: &mut LogPieces,
        visit: &mut VisitRecord<'_>,
    ) -> std::io::Result<()> {
        loop {
            self.records(chain, found, visit)?;
            if let Some(stop) = found.stop {
                self.end_run(stop.wanted_bytes, found);
                return Ok(());
            }
            let start = self.reader.offset();
            self.end_run(start, found);
            let last = self.reader.last_zxid().unwrap_or(chain.last());
            // The next file's name proves that an earlier start dropped what follows here.
            let is_continued = self.next.is_some_and(|next| next.zxid == last.next());
            let ending = if is_continued { RecordsEnd::Clean } else { self.ending()? };
            let file_bytes = self.reader.file_bytes();
            match ending {
                RecordsEnd::Clean => self.push(start, file_bytes, PieceContent::End, found),
                RecordsEnd::Torn { bytes } => {
                    self.push(start, start + bytes, PieceContent::Torn, found);
                    self.push(start + bytes, file_bytes, PieceContent::End, found);
                }
                RecordsEnd::Damaged(mut damage) => {
                    self.damages += 1;
                    let gives_up = self.damages >= DAMAGES_PER_FILE_MAX;
                    if gives_up {
                        damage.next_valid = None;
                        damage.lost.is_complete = false;
                    }
                    damage.lost.limit(LOST_MAX - found.lost);
                    found.lost += damage.lost.ids.len();
                    let next_valid = damage.next_valid;
                    let end = next_valid.map_or(file_bytes, |(offset, _)| offset);
                    chain.damage(self.name, start, &damage);
                    let content = PieceContent::Damage { why: damage.why, next_valid };
                    let LostRecords { ids: lost, is_complete: lost_is_complete } = damage.lost;
                    let file = self.name;
                    found.pieces.push(LogPiece {
                        file,
                        start,
                        end,
                        content,
                        lost,
                        lost_is_complete,
                    });
                    if let Some((offset, _)) = next_valid {
                        self.reader.resume_at(offset);
                        continue;
                    }
                    self.push(file_bytes, file_bytes, PieceContent::End, found);
                }
            }
            return Ok(());
        }
    }

    /// What follows the last valid record. A file that has lost its end may have lost records with it.
    fn ending(&self) -> std::io::Result<RecordsEnd> {
        let ending = classify(&self.reader)?;
        if !self.is_shortened()? {
            return Ok(ending);
        }
        Ok(RecordsEnd::Damaged(match ending {
            RecordsEnd::Damaged(mut damage) => {
                damage.lost.is_complete &= damage.next_valid.is_some();
                damage
            }
            RecordsEnd::Clean | RecordsEnd::Torn { .. } => {
                LogDamage { why: SHORTENED, next_valid: None, lost: LostRecords::unknown() }
            }
        }))
    }

    fn is_shortened(&self) -> std::io::Result<bool> {
        let bytes = self.reader.file_bytes();
        match self.log.open {
            Some(open) if open.first == self.name.zxid && bytes < open.bytes => {
                Ok(!has_footer(self.reader.file(), bytes)?)
            }
            _ => Ok(false),
        }
    }

    /// Reads records up to the next place where there is none, or to the last requested one, and passes on those that
    /// continue the snapshot.
    fn records(
        &mut self,
        chain: &mut Chain<'_>,
        found: &mut LogPieces,
        visit: &mut VisitRecord<'_>,
    ) -> std::io::Result<()> {
        let mut before = self.reader.offset();
        while let Some(record) = self.reader.next_record()? {
            let Record { offset, zxid, payload, .. } = record;
            if self.log.until.is_some_and(|until| zxid > until) {
                found.stop = Some(self.stop(before, Some(zxid)));
                break;
            }
            let continues = chain.record(self.name, offset, zxid);
            let record_bytes = (payload.len() + super::RECORD_EXTRA_BYTES) as u64;
            let visited = if continues { visit(&record) } else { Ok(()) };
            if let Err(error) = visited {
                self.end_run(offset, found);
                let content = PieceContent::Undecodable { zxid, error };
                self.push(offset, offset + record_bytes, content, found);
                chain.undecodable(self.name, offset, zxid, error);
            } else {
                if continues {
                    found.txns += 1;
                    found.bytes += record_bytes;
                }
                self.extend_run(offset, zxid, found);
            }
            self.records += 1;
            before = self.reader.offset();
            if self.log.until == Some(zxid) {
                found.stop = Some(self.stop(before, None));
                break;
            }
        }
        Ok(())
    }

    fn stop(&self, wanted_bytes: u64, next: Option<Zxid>) -> StopPoint {
        StopPoint { name: self.name, wanted_bytes, records: self.records, next }
    }

    fn extend_run(&mut self, offset: u64, zxid: Zxid, found: &mut LogPieces) {
        match &mut self.run {
            Some((_, _, last)) if zxid == last.next() => *last = zxid,
            _ => {
                self.end_run(offset, found);
                self.run = Some((offset, zxid, zxid));
            }
        }
    }

    fn end_run(&mut self, end: u64, found: &mut LogPieces) {
        if let Some((start, first, last)) = self.run.take() {
            let records = (last.0 - first.0).cast_unsigned() + 1;
            self.push(start, end, PieceContent::Run { first, last, records }, found);
        }
    }

    fn push(&self, start: u64, end: u64, content: PieceContent, found: &mut LogPieces) {
        found.pieces.push(LogPiece::of(self.name, (start, end), content));
    }
}

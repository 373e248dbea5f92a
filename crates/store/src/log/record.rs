//! Reads the records of one log file.
//!
//! In: a file. Out: its records, one after the other, each with a valid checksum; then the offset
//! where they stop. [`super::ending`] finds out why they stop there (the end, a torn write, damage).
//!
//! # Records without a zxid of their own
//! Apache logs a request that cannot be decoded with the zxid of the txn before it ([`Entry::may_repeat_zxid`]).
//! [`RecordReader::next_record`] skips these records, so nothing that reads logs has to know them: replay, DIFF, repair
//! and archives see one record for each zxid. A record that looks like one of them is skipped if
//! - its zxid is not later than that of the record before it;
//! - its counter is 0, which no txn has: the leader had not given a zxid of its epoch yet;
//! - the record before it is not known, after damage or at the beginning of a file: it might stand in for the very txn
//!   that is missing there. [`RecordReader::starts_after`] tells what comes before a file.

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::Zxid;
use herdsman_proto::txn::Entry;

use super::{
    HEADER, HEADER_BYTES, HEADER_CHECKED_BYTES, PAYLOAD_BYTES_MIN, RECORD_END, RECORD_EXTRA_BYTES,
    RECORD_HEAD_BYTES,
};
use crate::disk::{Disk, ReadFile};
use crate::names::LogName;

const CHUNK_BYTES: usize = 256 << 10;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it starts in its file.
    pub offset: u64,
    /// The zxid of the txn.
    pub zxid: Zxid,
    /// The txn, encoded.
    pub payload: &'a [u8],
    /// It repeats the zxid of the txn before it, and changes nothing.
    pub is_repeat: bool,
}

/// A record in the window.
struct FoundRecord {
    offset: u64,
    zxid: Zxid,
    payload_bytes: usize,
    is_repeat: bool,
}

/// A log file being read.
pub struct RecordReader {
    file: Box<dyn ReadFile>,
    path: PathBuf,
    file_bytes: u64,
    /// Where the next record starts.
    offset: u64,
    /// Bytes of the file from `window_offset` on.
    window: Vec<u8>,
    window_offset: u64,
    header_valid: bool,
    /// That of the record at the beginning of the file.
    first_zxid: Option<Zxid>,
    /// That of the last record.
    last_zxid: Option<Zxid>,
    /// The txn right before the next record, if it is known.
    before: Option<Zxid>,
}

impl RecordReader {
    /// Opens a file and checks its header.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.open_read(path)?;
        let mut reader = RecordReader {
            file_bytes: file.bytes()?,
            file,
            path: path.to_owned(),
            offset: 0,
            window: Vec::new(),
            window_offset: 0,
            header_valid: false,
            first_zxid: None,
            last_zxid: None,
            before: None,
        };
        let header = reader.view(HEADER.len())?;
        reader.header_valid = header
            .is_some_and(|found| found[..HEADER_CHECKED_BYTES] == HEADER[..HEADER_CHECKED_BYTES]);
        if reader.header_valid {
            reader.offset = HEADER_BYTES;
        }
        Ok(reader)
    }

    /// Tells which txn comes right before the file. To be called before the first record is read.
    pub fn starts_after(&mut self, zxid: Zxid) {
        self.before = Some(zxid);
    }

    /// The next record of a txn; `None` if there is no complete and valid record. Records that repeat a zxid are
    /// skipped.
    pub fn next_record(&mut self) -> io::Result<Option<Record<'_>>> {
        while let Some(found) = self.find_record()? {
            if !found.is_repeat {
                return Ok(Some(self.record(&found)));
            }
        }
        Ok(None)
    }

    /// The next record, whether it repeats a zxid or not.
    pub fn next_stored(&mut self) -> io::Result<Option<Record<'_>>> {
        let found = self.find_record()?;
        Ok(found.map(|found| self.record(&found)))
    }

    /// Moves past the next record.
    fn find_record(&mut self) -> io::Result<Option<FoundRecord>> {
        let Some(payload_bytes) = self.next_payload_bytes()? else {
            return Ok(None);
        };
        let record_bytes = payload_bytes + RECORD_EXTRA_BYTES;
        let Some((zxid, payload)) = self.view(record_bytes)?.and_then(valid_record) else {
            return Ok(None);
        };
        let may_repeat = Entry::may_repeat_zxid(payload);
        let is_repeat =
            may_repeat && (zxid.counter() == 0 || self.before.is_none_or(|before| zxid <= before));
        let offset = self.offset;
        self.offset += record_bytes as u64;
        if !is_repeat {
            self.last_zxid = Some(zxid);
            self.before = Some(zxid);
            if offset == HEADER_BYTES {
                self.first_zxid = Some(zxid);
            }
        }
        Ok(Some(FoundRecord { offset, zxid, payload_bytes, is_repeat }))
    }

    /// The record that was just found: it is in the window.
    fn record(&self, found: &FoundRecord) -> Record<'_> {
        let FoundRecord { offset, zxid, payload_bytes, is_repeat } = *found;
        let at = usize::try_from(offset - self.window_offset).expect("the window is in memory");
        let payload = at + RECORD_HEAD_BYTES..at + RECORD_HEAD_BYTES + payload_bytes;
        Record { offset, zxid, payload: &self.window[payload], is_repeat }
    }

    /// The length that the next record claims, if the file is long enough for it.
    fn next_payload_bytes(&mut self) -> io::Result<Option<usize>> {
        if !self.header_valid {
            return Ok(None);
        }
        let rest = self.file_bytes - self.offset;
        let Some(head) = self.view(RECORD_HEAD_BYTES)? else {
            return Ok(None);
        };
        let (_, length) = super::parse_head(head);
        let length = usize::try_from(length).ok().filter(|&length| {
            length >= PAYLOAD_BYTES_MIN && (length + RECORD_EXTRA_BYTES) as u64 <= rest
        });
        match length {
            Some(length) if length > CHUNK_BYTES && !self.has_end_mark(length)? => Ok(None),
            length => Ok(length),
        }
    }

    /// Checks a large record for its end mark before it is loaded: its length may be garbage.
    fn has_end_mark(&self, payload_bytes: usize) -> io::Result<bool> {
        let mut mark = [0];
        let offset = self.offset + (RECORD_HEAD_BYTES + payload_bytes) as u64;
        super::ending::read_exactly(&*self.file, offset, &mut mark)?;
        Ok(mark == [RECORD_END])
    }

    /// Continues after damage, at a record that [`super::ending::classify`] has found there. Only for
    /// inspection: a server never skips damage.
    ///
    /// # Panics
    /// Never goes back: `offset` must not lie before [`RecordReader::offset`].
    pub fn resume_at(&mut self, offset: u64) {
        assert!(offset >= self.offset, "{offset} lies before {}", self.offset);
        self.offset = offset;
        self.before = None;
        self.window.clear();
        self.window_offset = offset;
        // A record was found, so the file is a log, whatever its header is.
        self.header_valid = true;
    }

    /// Whether the header is complete and valid.
    #[must_use]
    pub fn header_valid(&self) -> bool {
        self.header_valid
    }

    /// The offset where the next record starts or should start: everything before it is valid.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The zxid of the last record that was read.
    #[must_use]
    pub fn last_zxid(&self) -> Option<Zxid> {
        self.last_zxid
    }

    /// The txn before the next record. At the beginning of a file only the file's name tells it: the first txn is
    /// the one after.
    pub(super) fn previous_zxid(&self) -> Option<Zxid> {
        let before = |name: LogName| (name.zxid.0 > 0).then(|| Zxid(name.zxid.0 - 1));
        self.last_zxid.or_else(|| self.name().and_then(before))
    }

    /// The first txn of the file, as its first record or its name says.
    pub(super) fn first_zxid(&self) -> Option<Zxid> {
        self.first_zxid.or_else(|| self.name().map(|name| name.zxid))
    }

    fn name(&self) -> Option<LogName> {
        self.path.file_name()?.to_str().and_then(LogName::parse)
    }

    /// The file's length.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file itself.
    pub(super) fn file(&self) -> &dyn ReadFile {
        &*self.file
    }

    /// The next `count` bytes, without moving on; `None` when the file has fewer.
    fn view(&mut self, count: usize) -> io::Result<Option<&[u8]>> {
        let mut at =
            usize::try_from(self.offset - self.window_offset).expect("the window is in memory");
        if self.window.len() < at + count {
            self.window.drain(..at);
            self.window_offset = self.offset;
            at = 0;
            self.fill(count)?;
        }
        Ok(self.window.get(at..at + count))
    }

    /// Reads until the window has `count` bytes, in large pieces.
    fn fill(&mut self, count: usize) -> io::Result<()> {
        while self.window.len() < count {
            let old = self.window.len();
            let next = self.window_offset + old as u64;
            let rest = usize::try_from(self.file_bytes.saturating_sub(next)).unwrap_or(usize::MAX);
            self.window.resize(old + CHUNK_BYTES.max(count - old).min(rest), 0);
            let read = self.file.read_at(next, &mut self.window[old..])?;
            self.window.truncate(old + read);
            if read == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Splits exactly one record into zxid and payload, if length, end mark and checksum are valid.
fn valid_record(record: &[u8]) -> Option<(Zxid, &[u8])> {
    let (payload, end) = record
        .get(RECORD_HEAD_BYTES..)?
        .split_at_checked(record.len().checked_sub(RECORD_EXTRA_BYTES)?)?;
    let (crc, length) = record[..RECORD_HEAD_BYTES].split_at(8);
    let valid = end == [RECORD_END]
        && length == u32::try_from(payload.len()).ok()?.to_be_bytes()
        && crc == super::checksum(payload).to_be_bytes();
    super::payload_zxid(payload).filter(|_| valid).map(|zxid| (zxid, payload))
}

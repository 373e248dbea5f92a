//! Finds out why the records of a log file stop: the end, a torn write, or damage.
//!
//! The result decides whether a server may continue, or whether a write that was acknowledged may be
//! lost. So here is the whole argument.
//!
//! **What a crash leaves.** A batch is one write at the end of a file that holds only zeros there
//! (or ends there), and nothing is written after it before its sync has returned. After a power
//! failure any sectors of the one unsynced batch may be missing, that is, zero. Everything before it
//! was synced. Journaling file systems make the pieces appear from front to back: the preallocated
//! blocks read as zeros until the journal, which is written after the data, says otherwise. So a
//! torn batch is, in practice, a *prefix*: whole records, then one record whose end is missing, then
//! zeros to the end of the file.
//!
//! **Files with a table** ([`super::table`]) say which records were durable. What follows is for files without one:
//! Apache's, and those whose footer is gone. Slots that are left of a table only prove damage there, never a torn
//! write. (The blocks of a file with a table are zeroed in advance, so the pieces of a torn batch appear in any order
//! there. If the footer is gone as well, such a batch may be taken for damage.)
//!
//! **The rule.** Let P be the end of the last valid record and E the end of the last byte after it
//! that is not zero and not part of a table.
//! - E = P: the end.
//! - The bytes from P to E are the beginning of one record: its head is incomplete, or its end mark
//!   is at or after E. Then it is *torn*, because a record that was synced has its end mark. But a head
//!   can be damaged, and then its length cannot be trusted. So a torn write is the last thing in a file:
//!   if a valid record with a later zxid follows anywhere after P, it is damage. And a complete record
//!   is not torn: if the stored checksum matches a shorter payload that an end mark follows, or the
//!   bytes between the head and an end mark at E are one whole txn, it is damage.
//! - Anything else is *damage*: a record with its end mark in place and a wrong checksum, a wrong end
//!   mark, a gap of zeros with something after it.
//!
//! Nothing but this log's own records and its table can follow P. Log files are new when they are opened, preallocated
//! room reads as zeros, and what is cut off is cut with the file's length. A record inside a client's data is taken for
//! one of the log's own only if its zxid is later than the last good one.
//!
//! **What the rule cannot know.** If record k is torn and record k+1 of the same batch is whole, the
//! file looks exactly as if a synced record k had been zeroed later. Apache's format does not mark
//! where a batch begins, so content cannot tell the two apart. We do not guess: it counts as damage,
//! and the operator, who may know that the power failed, can accept the loss by naming the last good
//! txn. The other way round, the last record's end vanishing into zeros after its sync looks like a
//! torn write. A table knows both.
//!
//! Damage in a file is harmless if the next file starts with exactly the txn that is missing: then
//! an earlier restart has dropped what is damaged, and this check is not needed.
//!
//! Apache: `FileTxnIterator.next` takes a length of 0, a missing end mark and the end of the file as
//! the end, wherever they are, and so drops the rest of a file after one damaged length.

use std::io;

use herdsman_proto::Zxid;
use herdsman_proto::txn::Entry;

use super::lost::LostRecords;
use super::record::RecordReader;
use super::search::Search;
use super::table::{TableVerdict, judge};
use super::{
    HEADER, HEADER_CHECKED_BYTES, PAYLOAD_BYTES_MIN, RECORD_END, RECORD_EXTRA_BYTES,
    RECORD_HEAD_BYTES, parse_head,
};
use crate::disk::ReadFile;

pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// A longer rest of a file is not decoded to find out whether it is one whole txn.
const WHOLE_TXN_BYTES_MAX: u64 = 16 << 20;
const ADLER_MODULUS: u32 = 65521;
const BAD_HEADER: &str = "the file does not start with a txn log's header";
pub(super) static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// The reason why the records stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordsEnd {
    /// Nothing follows.
    Clean,
    /// The beginning of a record that was never completed follows.
    Torn {
        /// Its length so far.
        bytes: u64,
    },
    /// What follows cannot come from an interrupted write.
    Damaged(LogDamage),
}

/// The damage at the end of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDamage {
    /// Its description.
    pub why: &'static str,
    /// The next valid record, if there is one in the file: its offset and zxid.
    pub next_valid: Option<(u64, Zxid)>,
    /// The records that were there.
    pub lost: LostRecords,
}

/// Classifies what follows the last valid record.
pub fn classify(reader: &RecordReader) -> io::Result<RecordsEnd> {
    let file = reader.file();
    let start = reader.offset();
    // It may have been cut after its records since it was opened.
    let file_bytes = file.bytes()?.min(reader.file_bytes());
    match judge(reader, file_bytes)? {
        TableVerdict::Written { damage_end, next_valid, lost } => {
            let why = match reader.header_valid() {
                true => record_damage(file, start, damage_end.min(file_bytes))?,
                false => Some(BAD_HEADER),
            };
            let why = why.unwrap_or("the record is incomplete, but it was written completely once");
            Ok(RecordsEnd::Damaged(LogDamage { why, next_valid, lost }))
        }
        TableVerdict::NothingWritten { junk_end } if junk_end > start => {
            Ok(RecordsEnd::Torn { bytes: junk_end - start })
        }
        TableVerdict::NothingWritten { .. } => Ok(RecordsEnd::Clean),
        TableVerdict::NoTable { junk_end } => classify_content(reader, junk_end),
    }
}

/// Classifies the bytes from the last valid record up to the last one that is not zero, without a table.
fn classify_content(reader: &RecordReader, end: u64) -> io::Result<RecordsEnd> {
    let file = reader.file();
    let start = reader.offset();
    if end == start {
        return Ok(RecordsEnd::Clean);
    }
    let mut search = Search::new(file, end, reader.last_zxid());
    let why = if reader.header_valid() {
        record_damage(file, start, end)?
    } else {
        header_damage(file, end)?
    };
    let next_valid = search.next_valid(start + 1)?;
    let why = why.or(match next_valid {
        Some(_) => Some("the record is garbage, and valid records follow it"),
        None if search.gave_up() => Some("it holds too much that looks like records"),
        None => None,
    });
    Ok(match why {
        None => RecordsEnd::Torn { bytes: end - start },
        Some(why) => {
            let lost = lost_before(reader.previous_zxid(), next_valid);
            RecordsEnd::Damaged(LogDamage { why, next_valid, lost })
        }
    })
}

/// The records between the last valid one and the next, as far as zxids say.
fn lost_before(last: Option<Zxid>, next_valid: Option<(u64, Zxid)>) -> LostRecords {
    let Some((_, next)) = next_valid else {
        return LostRecords::unknown();
    };
    let mut lost = LostRecords::none();
    lost.push_between(last, next, None);
    lost
}

/// Describes what is wrong with a header, unless it is the beginning of a valid one.
fn header_damage(file: &dyn ReadFile, end: u64) -> io::Result<Option<&'static str>> {
    if end <= HEADER_CHECKED_BYTES as u64 {
        let mut found = vec![0; usize::try_from(end).unwrap_or(HEADER_CHECKED_BYTES)];
        read_exactly(file, 0, &mut found)?;
        if HEADER.starts_with(&found) {
            return Ok(None);
        }
    }
    Ok(Some(BAD_HEADER))
}

/// Describes what is wrong with the record at `start`, unless it is the beginning of a valid one.
fn record_damage(file: &dyn ReadFile, start: u64, end: u64) -> io::Result<Option<&'static str>> {
    if end <= start + RECORD_HEAD_BYTES as u64 {
        return Ok(None);
    }
    let mut head = [0; RECORD_HEAD_BYTES];
    read_exactly(file, start, &mut head)?;
    let (crc, length) = parse_head(&head);
    let Some(length) = u64::try_from(length).ok().filter(|length| *length > 0) else {
        return Ok(Some(if head == [0; RECORD_HEAD_BYTES] {
            "there is a gap of zeros, and something after it"
        } else {
            "the record's length is impossible"
        }));
    };
    let record_end = start + RECORD_EXTRA_BYTES as u64 + length;
    if end < record_end {
        return Ok(if shorter_record_fits(file, start, end, crc)? {
            Some("the record is whole, but its length field is wrong")
        } else if is_whole_txn(file, start, end)? {
            Some("the txn is whole, but its checksum and length are wrong")
        } else {
            None
        });
    }
    let mut mark = [0];
    read_exactly(file, record_end - 1, &mut mark)?;
    Ok(Some(if mark == [RECORD_END] {
        "the record's checksum is wrong"
    } else {
        "the record's end mark is wrong"
    }))
}

/// Whether the bytes between the head and an end mark right before `end` are exactly one txn.
fn is_whole_txn(file: &dyn ReadFile, start: u64, end: u64) -> io::Result<bool> {
    let bytes = end - start - RECORD_HEAD_BYTES as u64;
    let Some(bytes) = usize::try_from(bytes).ok().filter(|_| bytes <= WHOLE_TXN_BYTES_MAX) else {
        return Ok(false);
    };
    let mut mark = [0];
    read_exactly(file, end - 1, &mut mark)?;
    if mark != [RECORD_END] {
        return Ok(false);
    }
    let mut payload = vec![0; bytes - 1];
    read_exactly(file, start + RECORD_HEAD_BYTES as u64, &mut payload)?;
    Ok(Entry::decode(&payload).is_ok())
}

/// Whether an end mark before `end` ends a payload with the checksum `crc`.
fn shorter_record_fits(file: &dyn ReadFile, start: u64, end: u64, crc: u64) -> io::Result<bool> {
    let (mut low, mut high) = (1u32, 0u32);
    let mut length = 0;
    let mut found = false;
    let payload = start + RECORD_HEAD_BYTES as u64;
    for_each_chunk(file, payload, end, &mut |chunk| {
        for &byte in chunk {
            if byte == RECORD_END
                && length >= PAYLOAD_BYTES_MIN
                && u64::from(high << 16 | low) == crc
            {
                found = true;
                return false;
            }
            low = (low + u32::from(byte)) % ADLER_MODULUS;
            high = (high + low) % ADLER_MODULUS;
            length += 1;
        }
        true
    })?;
    Ok(found)
}

pub(super) fn for_each_chunk(
    file: &dyn ReadFile,
    start: u64,
    end: u64,
    visit: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = start;
    while at < end {
        let bytes = usize::try_from(end - at).map_or(CHUNK_BYTES, |n| n.min(CHUNK_BYTES));
        read_exactly(file, at, &mut chunk[..bytes])?;
        if !visit(&chunk[..bytes]) {
            break;
        }
        at += bytes as u64;
    }
    Ok(())
}

/// Reads bytes that exist, because they are before the file's end.
pub(crate) fn read_exactly(
    file: &dyn ReadFile,
    mut offset: u64,
    mut buffer: &mut [u8],
) -> io::Result<()> {
    while !buffer.is_empty() {
        let read = file.read_at(offset, buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset += read as u64;
        buffer = &mut buffer[read..];
    }
    Ok(())
}

#[cfg(test)]
#[path = "ending_tests.rs"]
mod tests;

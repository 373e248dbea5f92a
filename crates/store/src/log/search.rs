//! Finds the next valid record after damage in a log file.
//!
//! In: where to start, and the last good txn before. Out: the first offset of a complete record whose
//! checksum matches and whose zxid is later.
//!
//! The work is linear in the bytes searched, whatever they are. An offset is first checked by its first bytes alone:
//! a checksum of 32 bits, a length that fits, a txn header with a later zxid and a type that could exist. Only
//! then the end mark is checked, and only then the checksum is computed. Bytes that were made to look like
//! record after record could still require a checksum over the same bytes many times, so the bytes that are
//! summed are limited to a multiple of those searched; then the search gives up, and reports it.

use std::io;

use herdsman_proto::txn::Entry;
use herdsman_proto::{JuteReader, Zxid};

use super::ending::{CHUNK_BYTES, for_each_chunk, read_exactly};
use super::table::Slot;
use super::{
    PAYLOAD_BYTES_MIN, RECORD_END, RECORD_EXTRA_BYTES, RECORD_HEAD_BYTES, parse_head, payload_zxid,
};
use crate::disk::ReadFile;

/// Bytes that an offset is checked by: a record's head and the header of its txn.
const JUDGED_BYTES: usize = RECORD_HEAD_BYTES + PAYLOAD_BYTES_MIN;
/// The bytes that checksums may cover for each byte that is searched.
const SUMMED_BYTES_FACTOR: u64 = 8;
/// The bytes that checksums may always cover.
const SUMMED_BYTES_MIN: u64 = 16 << 20;
/// Types of txns lie between these, in every release.
const TXN_TYPES: std::ops::RangeInclusive<i32> = -100..=200;

/// A search for records in one file.
pub(super) struct Search<'a> {
    file: &'a dyn ReadFile,
    end: u64,
    after: Zxid,
    summed_bytes: u64,
    gave_up: bool,
}

impl<'a> Search<'a> {
    /// Creates a search for records that end by `end` and have a later zxid than `after`.
    pub(super) fn new(file: &'a dyn ReadFile, end: u64, after: Option<Zxid>) -> Self {
        let after = after.unwrap_or(Zxid::ZERO);
        Search { file, end, after, summed_bytes: 0, gave_up: false }
    }

    /// The first record that starts at `from` or later: its offset and zxid.
    pub(super) fn next_valid(&mut self, from: u64) -> io::Result<Option<(u64, Zxid)>> {
        let searched = self.end.saturating_sub(from);
        let summed_bytes_max = SUMMED_BYTES_FACTOR * searched + SUMMED_BYTES_MIN;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut chunk_start = from;
        while chunk_start + JUDGED_BYTES as u64 <= self.end {
            let rest = usize::try_from(self.end - chunk_start).unwrap_or(CHUNK_BYTES);
            let bytes = &mut chunk[..rest.min(CHUNK_BYTES)];
            read_exactly(self.file, chunk_start, bytes)?;
            for (index, head) in bytes.windows(JUDGED_BYTES).enumerate() {
                let offset = chunk_start + index as u64;
                let Some((zxid, length, crc)) = self.judge(head, self.end - offset) else {
                    continue;
                };
                if !self.has_end_mark(offset, length)? {
                    continue;
                }
                self.summed_bytes += length;
                if self.summed_bytes > summed_bytes_max {
                    self.gave_up = true;
                    return Ok(None);
                }
                if self.checksum(offset, length)? == crc {
                    return Ok(Some((offset, zxid)));
                }
            }
            // The last bytes may be the beginning of a record.
            chunk_start += (bytes.len() - (JUDGED_BYTES - 1)) as u64;
        }
        Ok(None)
    }

    /// Continues the search up to a later offset.
    pub(super) fn extend_to(&mut self, end: u64) {
        self.end = end;
    }

    /// Whether too much looked like a record: one may follow that was not found.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Zxid, payload length and checksum, if a record may begin with these bytes.
    fn judge(&self, head: &[u8], rest: u64) -> Option<(Zxid, u64, u32)> {
        if head[..4] != [0; 4] {
            return None;
        }
        let (crc, length) = parse_head(head);
        let crc = u32::try_from(crc).ok().filter(|crc| *crc != 0)?;
        let length = u64::try_from(length).ok()?;
        let fits = length >= PAYLOAD_BYTES_MIN as u64 && length + RECORD_EXTRA_BYTES as u64 <= rest;
        let mut payload = JuteReader::new(&head[RECORD_HEAD_BYTES..]);
        let (header, kind) = Entry::decode_header(&mut payload).ok()?;
        let is_later = header.zxid > self.after;
        (fits && is_later && TXN_TYPES.contains(&kind)).then_some((header.zxid, length, crc))
    }

    fn has_end_mark(&self, offset: u64, length: u64) -> io::Result<bool> {
        let mut mark = [0];
        read_exactly(self.file, offset + RECORD_HEAD_BYTES as u64 + length, &mut mark)?;
        Ok(mark == [RECORD_END])
    }

    fn checksum(&self, offset: u64, length: u64) -> io::Result<u32> {
        checksum(self.file, offset, length)
    }
}

/// The checksum of the payload of a record.
fn checksum(file: &dyn ReadFile, offset: u64, length: u64) -> io::Result<u32> {
    let mut sum = simd_adler32::Adler32::new();
    let start = offset + RECORD_HEAD_BYTES as u64;
    for_each_chunk(file, start, start + length, &mut |bytes| {
        sum.write(bytes);
        true
    })?;
    Ok(sum.finish())
}

/// The slot that describes the record at `offset`; `None` if there is no valid one that ends by `end`.
pub(super) fn record_at(file: &dyn ReadFile, offset: u64, end: u64) -> io::Result<Option<Slot>> {
    if offset.saturating_add(JUDGED_BYTES as u64) >= end {
        return Ok(None);
    }
    let mut head = [0; JUDGED_BYTES];
    read_exactly(file, offset, &mut head)?;
    let (crc, length) = parse_head(&head);
    let (Ok(adler), Ok(payload_bytes)) = (u32::try_from(crc), u32::try_from(length)) else {
        return Ok(None);
    };
    let Some(zxid) = payload_zxid(&head[RECORD_HEAD_BYTES..]) else {
        return Ok(None);
    };
    let slot = Slot { zxid, offset, payload_bytes, adler, batch: 0 };
    if (payload_bytes as usize) < PAYLOAD_BYTES_MIN || slot.record_end() > end {
        return Ok(None);
    }
    let mut mark = [0];
    read_exactly(file, slot.record_end() - 1, &mut mark)?;
    let is_valid =
        mark == [RECORD_END] && checksum(file, offset, u64::from(payload_bytes))? == adler;
    Ok(is_valid.then_some(slot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::testing::*;

    fn search(content: Vec<u8>, after: i64) -> (Option<(u64, Zxid)>, bool, u64) {
        let disk = disk();
        let end = content.len() as u64;
        disk.put(&log_path(1), content);
        let file = disk.open_read(&log_path(1)).unwrap();
        let mut search = Search::new(&*file, end, Some(Zxid(after)));
        let found = search.next_valid(0).unwrap();
        (found, search.gave_up(), search.summed_bytes)
    }

    #[test]
    fn the_first_record_with_a_later_zxid_is_found() {
        let content = log_bytes(&[create(1, 300), create(2, 300_000), create(3, 10)]);
        let third = log_bytes(&[create(1, 300), create(2, 300_000)]).len() as u64;
        let (found, gave_up, _) = search(content.clone(), 0);
        assert_eq!((found, gave_up), (Some((16, Zxid(1))), false));
        assert_eq!(search(content.clone(), 2).0, Some((third, Zxid(3))));
        assert_eq!(search(content.clone(), 3).0, None);
        for at in 0..40 {
            let padded = [vec![0; CHUNK_BYTES - at], content.clone()].concat();
            assert_eq!(search(padded, 2).0, Some((third + (CHUNK_BYTES - at) as u64, Zxid(3))));
        }
    }

    /// Bytes that look like the beginning of a record every few bytes do not each cost a checksum over a large part
    /// of the file.
    #[test]
    fn the_work_is_bounded() {
        const LENGTH: usize = 1 << 20;
        let mut head = [0; JUDGED_BYTES];
        head[7] = 1;
        head[8..12].copy_from_slice(&u32::try_from(LENGTH).unwrap().to_be_bytes());
        head[RECORD_HEAD_BYTES + 19] = 7;
        head[RECORD_HEAD_BYTES + 31] = 1;
        let mut content = vec![RECORD_END; 4 * LENGTH];
        for at in (0..2 * LENGTH).step_by(JUDGED_BYTES) {
            content[at..at + JUDGED_BYTES].copy_from_slice(&head);
        }
        // An end mark for each.
        content[LENGTH + RECORD_HEAD_BYTES..].fill(RECORD_END);
        let bytes = content.len() as u64;
        let (found, gave_up, summed_bytes) = search(content, 1);
        assert_eq!((found, gave_up), (None, true));
        assert!(summed_bytes <= SUMMED_BYTES_FACTOR * bytes + SUMMED_BYTES_MIN + LENGTH as u64);
    }
}

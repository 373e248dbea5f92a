//! Decides with a table why the records of a file stop. [`super`] has the rules.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use herdsman_proto::Zxid;

use super::scan::{Scan, scan};
use super::{Footer, Slot};
use crate::disk::{Disk, ReadFile};
use crate::log::lost::LostRecords;
use crate::log::record::RecordReader;
use crate::log::search::{Search, record_at};
use crate::log::{HEADER_BYTES, RECORD_HEAD_BYTES, parse_head};
use crate::names::LogName;

/// What the end of a file says about the bytes after the last valid record.
pub(in crate::log) enum TableVerdict {
    /// There is no footer, so it says nothing about torn writes.
    NoTable {
        /// The end of what is neither zero nor a slot.
        junk_end: u64,
    },
    /// No record was completed there.
    NothingWritten {
        /// The end of what is neither zero nor part of the table.
        junk_end: u64,
    },
    /// A record was written there.
    Written {
        /// The end of what is known to be damaged.
        damage_end: u64,
        /// Offset and zxid of the next valid record.
        next_valid: Option<(u64, Zxid)>,
        /// The records that were there.
        lost: LostRecords,
    },
}

/// Reads what the table of a file with this many bytes says about what follows the last valid record.
pub(in crate::log) fn judge(reader: &RecordReader, file_bytes: u64) -> io::Result<TableVerdict> {
    let (file, start) = (reader.file(), reader.offset());
    let footer = read_footer(file, file_bytes)?;
    let ended = footer.and_then(|footer| footer.ended);
    if reader.header_valid() && ended.is_some_and(|ended| ended.records_end == start) {
        return Ok(TableVerdict::NothingWritten { junk_end: start });
    }
    let mut claims = Claims::new(reader, footer);
    let found =
        scan(file, (start, file_bytes), reader.first_zxid(), &mut |slot, _| claims.slot(slot))?;
    claims.finish(&found, reader.header_valid())?;
    let junk_end = found.junk_end.unwrap_or(start);
    let Claims { is_written, explained, next_valid, lost, .. } = claims;
    Ok(if is_written {
        let damage_end = next_valid.map_or(explained, |(offset, _)| offset);
        TableVerdict::Written { damage_end, next_valid, lost }
    } else if found.footer.is_some() {
        TableVerdict::NothingWritten { junk_end }
    } else {
        TableVerdict::NoTable { junk_end }
    })
}

/// Whether a file ends with a footer.
pub(in crate::log) fn has_footer(file: &dyn ReadFile, file_bytes: u64) -> io::Result<bool> {
    Ok(read_footer(file, file_bytes)?.is_some())
}

/// The txn that came right before a log file, if its footer says so.
pub(crate) fn txn_before_table(disk: &dyn Disk, path: &Path) -> io::Result<Option<Zxid>> {
    let file = disk.open_read(path)?;
    Ok(read_footer(&*file, file.bytes()?)?.and_then(|footer| footer.previous))
}

/// The txns that came right before log files, as far as their footers say. The log has had them, so it must not step
/// over one: this shows that the end of an epoch is missing. A file that cannot be read is found by whoever needs it.
pub(crate) fn txns_before<'a>(
    disk: &'a dyn Disk,
    dir: &'a Path,
    files: &'a [LogName],
) -> impl Iterator<Item = Zxid> + 'a {
    files.iter().filter_map(move |name| txn_before_table(disk, &name.path(dir)).ok().flatten())
}

/// Where the records of a file end, if it says so, or else the file.
pub(in crate::log) fn content_bytes(file: &dyn ReadFile, file_bytes: u64) -> io::Result<u64> {
    let ended = read_footer(file, file_bytes)?.and_then(|footer| footer.ended);
    Ok(ended.map_or(file_bytes, |ended| ended.records_end))
}

/// The footer in the last bytes of a file.
pub(super) fn read_footer(file: &dyn ReadFile, file_bytes: u64) -> io::Result<Option<Footer>> {
    let Some(position) = file_bytes.checked_sub(super::FOOTER_BYTES) else {
        return Ok(None);
    };
    let mut bytes = [0; super::FOOTER_BYTES as usize];
    crate::log::ending::read_exactly(file, position, &mut bytes)?;
    Ok(Footer::decode(position, &bytes))
}

/// What slots say about the records from some offset on.
struct Claims<'a> {
    file: &'a dyn ReadFile,
    search: Search<'a>,
    /// Records from here on are looked for.
    start: u64,
    /// What lies before this is known.
    explained: u64,
    /// The last txn before it.
    last: Option<Zxid>,
    lost: LostRecords,
    next_valid: Option<(u64, Zxid)>,
    is_written: bool,
}

impl<'a> Claims<'a> {
    fn new(reader: &'a RecordReader, footer: Option<Footer>) -> Self {
        let start = reader.offset().max(HEADER_BYTES);
        let before_first = footer.map(|footer| Zxid(footer.first.0.saturating_sub(1)));
        let last = reader.last_zxid().or(before_first).or(reader.previous_zxid());
        Claims {
            file: reader.file(),
            search: Search::new(reader.file(), start, last),
            start,
            explained: start,
            last,
            lost: LostRecords::none(),
            next_valid: None,
            is_written: false,
        }
    }

    /// Adds a slot. Records whose slots are missing may lie before it.
    fn slot(&mut self, slot: &Slot) -> io::Result<ControlFlow<()>> {
        if slot.offset < self.explained {
            return Ok(ControlFlow::Continue(()));
        }
        self.is_written = true;
        if slot.offset > self.explained && self.unnamed(slot.zxid, slot.offset)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let found = record_at(self.file, slot.offset, slot.record_end())?;
        if found.is_some_and(|found| found.zxid == slot.zxid) {
            self.next_valid = Some((slot.offset, slot.zxid));
            return Ok(ControlFlow::Break(()));
        }
        self.lost.push(slot.id());
        (self.explained, self.last) = (slot.record_end(), Some(slot.zxid));
        Ok(ControlFlow::Continue(()))
    }

    /// Adds the records up to `offset`, where the txn `before` follows, of which no slot is left. One of them may be
    /// valid.
    fn unnamed(&mut self, before: Zxid, offset: u64) -> io::Result<ControlFlow<()>> {
        self.search.extend_to(offset);
        let found = self.search.next_valid(self.explained)?.filter(|(_, zxid)| *zxid < before);
        let (next, until) = found.map_or((before, offset), |(offset, zxid)| (zxid, offset));
        self.lost.push_between(self.last, next, Some(until - self.explained));
        self.lost.is_complete &= !self.search.gave_up();
        self.next_valid = found;
        self.explained = until;
        Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Adds what else proves that records were written.
    fn finish(&mut self, found: &Scan, header_valid: bool) -> io::Result<()> {
        if self.next_valid.is_some() {
            return Ok(());
        }
        let ended = found.footer.and_then(|footer| footer.ended);
        if let Some(ended) = ended.filter(|ended| ended.records_end > self.explained) {
            self.is_written = true;
            if self.last.is_none_or(|last| last < ended.last) {
                let is_found = self.unnamed(ended.last.next(), ended.records_end)?;
                if is_found.is_break() {
                    return Ok(());
                }
            } else {
                self.lost.is_complete = false;
            }
            self.explained = ended.records_end;
        } else if !self.is_written && found.garbage > 0 && self.has_slot_too_many(found)? {
            self.is_written = true;
            self.lost = LostRecords::unknown();
        }
        if self.is_written || !header_valid {
            // A record that was written after those that are lost, and has no slot.
            let next = record_at(self.file, self.explained, self.file.bytes()?)?;
            let is_later = |zxid: Zxid| self.last.is_none_or(|last| zxid > last);
            if let Some(next) = next.filter(|next| is_later(next.zxid)) {
                self.is_written = true;
                self.next_valid = Some((self.explained, next.zxid));
            } else if self.is_written && found.footer.is_none() {
                self.without_slots(found.junk_end)?;
            }
        }
        Ok(())
    }

    /// Finds a valid record behind damage, where the slots of the last records are missing, and no footer says that
    /// they were never completed.
    fn without_slots(&mut self, junk_end: Option<u64>) -> io::Result<()> {
        let Some(end) = junk_end.filter(|end| *end > self.explained) else { return Ok(()) };
        self.search.extend_to(end);
        let is_later = |zxid: Zxid| self.last.is_none_or(|last| zxid > last);
        let next = self.search.next_valid(self.explained)?.filter(|(_, zxid)| is_later(*zxid));
        if let Some((offset, zxid)) = next {
            self.lost.push_between(self.last, zxid, Some(offset - self.explained));
            self.next_valid = Some((offset, zxid));
            self.explained = offset;
        }
        self.lost.is_complete &= !self.search.gave_up();
        Ok(())
    }

    /// Whether there are more unreadable slots than valid records without one: then a record is gone.
    fn has_slot_too_many(&self, found: &Scan) -> io::Result<bool> {
        let mut at = found.last.map_or(HEADER_BYTES, |slot| slot.record_end());
        let mut records = 0;
        while at + RECORD_HEAD_BYTES as u64 <= self.start && records < found.garbage {
            let mut head = [0; RECORD_HEAD_BYTES];
            crate::log::ending::read_exactly(self.file, at, &mut head)?;
            let (_, length) = parse_head(&head);
            let Some(length) = u64::try_from(length).ok().filter(|length| *length > 0) else {
                break;
            };
            at += length + super::RECORD_EXTRA_BYTES as u64;
            records += 1;
        }
        Ok(records < found.garbage)
    }
}

//! Cuts files with a table: removes records or a torn write, and writes the table again at the new end.
//!
//! **A crash between any two steps** leaves a valid table or none, never one that lacks a slot of a durable record
//! without saying so. A file system may write zeros behind the new end of a file, up to the end of its block, before
//! the new length is durable, so a cut can take a part of the old table. First the old footer says where the file is
//! going to end, and the slots of records that are removed are overwritten, so that nothing claims them; then the file
//! is cut; then the new table is appended. Each of these steps is durable before the next. *Crash:* the old footer,
//! none, or the new one; records that stay are never touched.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use herdsman_proto::Zxid;

use super::scan::scan;
use super::{EndedFile, FOOTER_BYTES, Footer, SLOT_BYTES, Slot, compact_table_end, slots_bytes};
use crate::disk::{Disk, ReadFile, TolerantDisk, WriteFile, is_full};
use crate::log::HEADER_BYTES;
use crate::log::search::record_at;
use crate::names::LogName;

/// A file with more records loses its table when it is cut. A file of 64 MiB has fewer.
const CUT_SLOTS_MAX: usize = 1 << 20;

/// Cuts a log file after a record, durably, and its table with it. No writer may be open on it.
pub(crate) fn cut_file(disk: &dyn Disk, path: &Path, records_end: u64) -> io::Result<()> {
    // What cannot be read behind the records is cut off.
    let table = OldTable::read(&TolerantDisk::new(disk), path, records_end)?;
    let mut file = disk.open_write(path)?;
    file.sync_data()?;
    if table.as_ref().is_some_and(|table| table.is_final) {
        return Ok(());
    }
    if let Some(table) = &table {
        table.disclaim(&mut *file, records_end)?;
    }
    if file.bytes()? > records_end {
        file.set_len(records_end)?;
        file.sync_data()?;
    }
    table.map_or(Ok(()), |it| {
        let previous = it.footer.and_then(|footer| footer.previous);
        append_table(&mut *file, (previous, it.first), &it.slots, records_end)
    })
}

/// Adds a table to a file that holds a header and valid records, and ends after them. The file is durable then. `first`
/// is the txn of its first record, and `previous` the one right before it, if that is known.
pub fn add_table(
    disk: &dyn Disk,
    path: &Path,
    (previous, first): (Option<Zxid>, Zxid),
) -> io::Result<()> {
    let source = disk.open_read(path)?;
    let records_end = source.bytes()?;
    let slots = with_missing(&*source, Vec::new(), records_end)?;
    let mut file = disk.open_write(path)?;
    file.sync_data()?;
    append_table(&mut *file, (previous, first), &slots, records_end)
}

/// The table of a file that is to be cut.
struct OldTable {
    /// The first txn of the file.
    first: Zxid,
    footer: Option<Footer>,
    /// The slots of the records that stay; `None` stands for records that are unreadable.
    slots: Vec<Option<Slot>>,
    /// The lowest slot of those, and the lowest one of all.
    kept_from: u64,
    lowest: u64,
    /// The file ends there already, and its table is as close to the records as it can be.
    is_final: bool,
}

impl OldTable {
    /// Reads the table of a file; `None` if it has none, or a larger one than is ever written.
    fn read(disk: &dyn Disk, path: &Path, records_end: u64) -> io::Result<Option<Self>> {
        let file = disk.open_read(path)?;
        let bytes = file.bytes()?;
        let name = path.file_name().and_then(|name| LogName::parse(name.to_str()?));
        let mut slots = Vec::new();
        let (mut kept_from, mut lowest) = (bytes, bytes);
        let found = scan(
            &*file,
            (records_end, bytes),
            name.map(|name| name.zxid),
            &mut |slot, position| {
                lowest = position;
                if slot.record_end() <= records_end {
                    kept_from = position;
                    slots.push(*slot);
                }
                let is_too_large = slots.len() > CUT_SLOTS_MAX;
                Ok(if is_too_large { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        )?;
        let has_table = found.footer.is_some() || !slots.is_empty();
        let Some(first) = found.first.filter(|_| has_table) else { return Ok(None) };
        let ended = found.footer.and_then(|footer| footer.ended);
        let table_end = found.footer.map_or(bytes, |footer| footer.table_end);
        let is_final = ended.is_some_and(|ended| {
            let compact = compact_table_end(records_end, slots.len() as u64) + FOOTER_BYTES;
            ended.records_end == records_end
                && ended.records as usize == slots.len()
                && found.junk_end.is_none()
                && table_end + FOOTER_BYTES == bytes
                && (bytes == compact || compact > lowest)
        });
        kept_from = kept_from.min(table_end);
        lowest = lowest.min(table_end).saturating_sub(found.garbage * SLOT_BYTES);
        let slots = if is_final { Vec::new() } else { with_missing(&*file, slots, records_end)? };
        let table = OldTable { first, footer: found.footer, slots, kept_from, lowest, is_final };
        Ok(Some(table).filter(|table| table.slots.len() <= CUT_SLOTS_MAX))
    }

    /// Makes the table say durably that the file ends after the records that stay.
    fn disclaim(&self, file: &mut dyn WriteFile, records_end: u64) -> io::Result<()> {
        let last = self.slots.iter().rev().find_map(|slot| *slot);
        if let (Some(footer), Some(last)) = (self.footer, last) {
            let records = u32::try_from(self.slots.len()).expect("not more than can be cut");
            let ended = Some(EndedFile { records, last: last.zxid, records_end });
            file.write_at(footer.table_end, &Footer { ended, ..footer }.encode())?;
        }
        let removed = usize::try_from(self.kept_from - self.lowest).expect("it was read");
        if removed > 0 {
            file.write_at(self.lowest, &vec![0; removed])?;
        }
        file.sync_data()
    }
}

/// Adds slots of valid records that have none.
fn with_missing(
    file: &dyn ReadFile,
    slots: Vec<Slot>,
    records_end: u64,
) -> io::Result<Vec<Option<Slot>>> {
    let mut complete = Vec::with_capacity(slots.len());
    let mut at = HEADER_BYTES;
    for slot in slots {
        at = add_records(file, (at, slot.offset), &mut complete)?;
        if at < slot.offset {
            complete.push(None);
        }
        complete.push(Some(slot));
        at = slot.record_end();
    }
    add_records(file, (at, records_end), &mut complete)?;
    Ok(complete)
}

/// Adds the valid records that follow each other from one offset on, and returns where they end.
fn add_records(
    file: &dyn ReadFile,
    (mut at, end): (u64, u64),
    slots: &mut Vec<Option<Slot>>,
) -> io::Result<u64> {
    while slots.len() < CUT_SLOTS_MAX
        && let Some(found) = record_at(file, at, end)?
    {
        slots.push(Some(found));
        at = found.record_end();
    }
    Ok(at)
}

/// Appends a table to a file that ends with its last record, durably. Without room there is none.
fn append_table(
    file: &mut dyn WriteFile,
    (previous, first): (Option<Zxid>, Zxid),
    slots: &[Option<Slot>],
    records_end: u64,
) -> io::Result<()> {
    let Some(last) = slots.iter().rev().find_map(|slot| *slot) else { return Ok(()) };
    let table_end = compact_table_end(records_end, slots.len() as u64);
    let records = u32::try_from(slots.len()).expect("not more than can be cut");
    let ended = Some(EndedFile { records, last: last.zxid, records_end });
    let (mut bytes, lowest) = slots_bytes(first, table_end, slots);
    bytes.extend_from_slice(&Footer { first, previous, table_end, ended }.encode());
    // The length first: a part of a slot is never the last thing in the file.
    let appended = file.allocate(table_end + FOOTER_BYTES);
    match appended.and_then(|()| file.write_at(lowest, &bytes)) {
        Err(error) if is_full(&error) => {
            tracing::warn!("no room for the table of a log file that was cut");
            file.set_len(records_end)?;
        }
        other => other?,
    }
    file.sync_data()
}

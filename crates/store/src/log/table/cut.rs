//! Ends files with a table: moves the table to the new end, so that nothing of it is lost with the space that is freed.
//!
//! **A crash between any two steps** leaves a valid table or none, never one that lacks a slot of a durable record:
//! - [`end_table`] ends the file that is being written. The new table is written between the records and the old
//!   table, then the file is cut, without a sync in between. *Crash before the cut:* the old footer is still the last
//!   thing in the file; what is there of the new table is recognized as left over. *Crash after it:* if the new footer
//!   is there, it says what the file holds, whether or not all slots are; without it the rule of
//!   [`crate::log::ending`] decides, and slots only add to it. If the new table would overlap the old one, the file
//!   keeps its length, and only the footer is replaced.
//! - [`cut_file`] removes records or a torn write. The file is cut first, durably, and the new table is appended to it.
//!   *Crash:* the file has no footer, or the new one; its records are durable either way.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use herdsman_proto::Zxid;

use super::scan::scan;
use super::verdict::read_footer;
use super::{
    EndedFile, FOOTER_BYTES, Footer, OpenTable, SLOT_BYTES, Slot, compact_table_end, slots_bytes,
};
use crate::disk::{Disk, ReadFile, WriteFile, is_full};
use crate::log::HEADER_BYTES;
use crate::log::ending::read_exactly;
use crate::log::search::record_at;
use crate::names::LogName;

/// Slots that are copied at a time.
const COPIED_SLOTS: u64 = 2048;
/// A file with more records loses its table when it is cut. A file of 64 MiB has fewer.
const CUT_SLOTS_MAX: usize = 1 << 20;

/// Ends the table of a file that was written up to `records_end`, and cuts the file after it. `is_durable`: so are its
/// records. Needs a sync.
pub(in crate::log) fn end_table(
    disk: &dyn Disk,
    path: &Path,
    file: &mut dyn WriteFile,
    table: &OpenTable,
    (records_end, is_durable): (u64, bool),
) -> io::Result<()> {
    let OpenTable { first, table_end: old_end, lowest, last, .. } = *table;
    let records = (old_end - lowest) / SLOT_BYTES;
    let ended = u32::try_from(records).ok().filter(|_| is_durable);
    let ended = ended.map(|records| EndedFile { records, last, records_end });
    let new_end = compact_table_end(records_end, records);
    if new_end + FOOTER_BYTES > lowest {
        let footer = Footer { first, table_end: old_end, ended };
        return file.write_at(old_end, &footer.encode());
    }
    let source = disk.open_read(path)?;
    let moved_by = old_end - new_end;
    let mut chunk = Vec::new();
    let mut copied = 0;
    while copied < records {
        let count = COPIED_SLOTS.min(records - copied);
        let from = old_end - (copied + count) * SLOT_BYTES;
        chunk.resize(usize::try_from(count * SLOT_BYTES).expect("a few slots"), 0);
        read_exactly(&*source, from, &mut chunk)?;
        for (index, bytes) in chunk.chunks_exact_mut(SLOT_BYTES as usize).enumerate() {
            let position = from + index as u64 * SLOT_BYTES;
            let slot = Slot::decode(first, position, bytes)
                .ok_or_else(|| io::Error::other("a slot of its table cannot be read back"))?;
            bytes.copy_from_slice(&slot.encode(first, position - moved_by));
        }
        file.write_at(from - moved_by, &chunk)?;
        copied += count;
    }
    let footer = Footer { first, table_end: new_end, ended };
    file.write_at(new_end, &footer.encode())?;
    file.set_len(new_end + FOOTER_BYTES)
}

/// Cuts a log file after a record, durably, and its table with it. No writer may be open on it.
pub(crate) fn cut_file(disk: &dyn Disk, path: &Path, records_end: u64) -> io::Result<()> {
    let table = read_table(disk, path, records_end)?;
    let mut file = disk.open_write(path)?;
    if matches!(table, TableFound::Ended) {
        return file.sync_data();
    }
    if file.bytes()? > records_end {
        file.set_len(records_end)?;
    }
    file.sync_data()?;
    match table {
        TableFound::Slots(first, slots) => append_table(&mut *file, first, &slots, records_end),
        TableFound::None | TableFound::Ended => Ok(()),
    }
}

/// Adds a table to a file that holds a header and valid records, and ends after them. The file is durable then. `first`
/// is the txn of its first record.
pub fn add_table(disk: &dyn Disk, path: &Path, first: Zxid) -> io::Result<()> {
    let source = disk.open_read(path)?;
    let records_end = source.bytes()?;
    let slots = with_missing(&*source, Vec::new(), records_end)?;
    let mut file = disk.open_write(path)?;
    file.sync_data()?;
    append_table(&mut *file, first, &slots, records_end)
}

/// The table of a file that is to be cut.
enum TableFound {
    /// It has none, or too large a one.
    None,
    /// The file was ended there already.
    Ended,
    /// The first txn, and the slots of the records that stay; `None` stands for records that are unreadable.
    Slots(Zxid, Vec<Option<Slot>>),
}

fn read_table(disk: &dyn Disk, path: &Path, records_end: u64) -> io::Result<TableFound> {
    let file = disk.open_read(path)?;
    let bytes = file.bytes()?;
    let footer = read_footer(&*file, bytes)?;
    if footer.and_then(|footer| footer.ended).is_some_and(|it| it.records_end == records_end) {
        return Ok(TableFound::Ended);
    }
    let name = path.file_name().and_then(|name| LogName::parse(name.to_str()?));
    let mut slots = Vec::new();
    let found = scan(&*file, (records_end, bytes), name.map(|name| name.zxid), &mut |slot| {
        let stays = slot.record_end() <= records_end && slots.len() < CUT_SLOTS_MAX;
        slots.extend(stays.then_some(*slot));
        Ok(if stays { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    let Some(first) = found.first.filter(|_| found.footer.is_some() || !slots.is_empty()) else {
        return Ok(TableFound::None);
    };
    let slots = with_missing(&*file, slots, records_end)?;
    Ok(match slots.len() {
        1..CUT_SLOTS_MAX => TableFound::Slots(first, slots),
        _ => TableFound::None,
    })
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
    first: Zxid,
    slots: &[Option<Slot>],
    records_end: u64,
) -> io::Result<()> {
    let Some(last) = slots.iter().rev().find_map(|slot| *slot) else { return Ok(()) };
    let table_end = compact_table_end(records_end, slots.len() as u64);
    let records = u32::try_from(slots.len()).expect("not more than can be cut");
    let ended = Some(EndedFile { records, last: last.zxid, records_end });
    let (mut bytes, lowest) = slots_bytes(first, table_end, slots);
    bytes.extend_from_slice(&Footer { first, table_end, ended }.encode());
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

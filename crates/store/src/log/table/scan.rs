//! Reads a table from the end of a file downwards, slot by slot, and finds out what else is there.
//!
//! Nothing is believed of which the checksum or the place in the chain of slots is wrong: each slot describes a record
//! that lies behind that of the slot above it, and before the slot itself. Memory does not grow with the table.

use std::io;
use std::ops::ControlFlow;

use herdsman_proto::Zxid;

use super::{FOOTER_BYTES, Footer, RECORD_BYTES_MIN, SLOT_BYTES, Slot, offset_min};
use crate::disk::ReadFile;
use crate::log::HEADER_BYTES;
use crate::log::ending::{CHUNK_BYTES, ZEROS, read_exactly};

const BLOCK: usize = FOOTER_BYTES as usize;
const CELL: usize = SLOT_BYTES as usize;

/// Called for each valid slot, in the order of the records.
pub(super) type VisitSlot<'a> = dyn FnMut(&Slot) -> io::Result<ControlFlow<()>> + 'a;

/// What was found at the end of a file.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The first txn of the file: as the footer says, or else as the caller does.
    pub(super) first: Option<Zxid>,
    /// The footer, if it is valid.
    pub(super) footer: Option<Footer>,
    /// The last valid slot.
    pub(super) last: Option<Slot>,
    /// Slots right below it that are neither valid nor zero.
    pub(super) garbage: u64,
    /// The end of what is neither zero nor part of the table.
    pub(super) junk_end: Option<u64>,
    /// What the next slot must fit to.
    above: Option<Above>,
    /// The cell above is part of the table.
    touching: bool,
}

/// The slot above, or the footer.
#[derive(Clone, Copy, Debug)]
struct Above {
    zxid: Zxid,
    record_end: u64,
    position: u64,
}

/// Reads from the end of a file down to `start`. A file without a valid footer is taken to start with the txn `first`.
pub(super) fn scan(
    file: &dyn ReadFile,
    (start, end): (u64, u64),
    first: Option<Zxid>,
    visit: &mut VisitSlot<'_>,
) -> io::Result<Scan> {
    let mut scan = Scan { first, ..Scan::default() };
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut chunk_end = end;
    while chunk_end > start {
        let chunk_start = (chunk_end - 1) / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
        let from = chunk_start.max(start);
        let bytes = usize::try_from(chunk_end - from).expect("at most a chunk");
        read_exactly(file, from, &mut chunk[..bytes])?;
        // Mostly padding, which a comparison of slices skips quickly.
        if chunk[..bytes] == ZEROS[..bytes] {
            scan.touching = false;
        } else if scan.chunk(from, &chunk[..bytes], visit)?.is_break() {
            break;
        }
        chunk_end = from;
    }
    Ok(scan)
}

impl Scan {
    /// Reads blocks of 64 bytes, each in its place; the first and the last one may be incomplete.
    fn chunk(
        &mut self,
        from: u64,
        bytes: &[u8],
        visit: &mut VisitSlot<'_>,
    ) -> io::Result<ControlFlow<()>> {
        let end = from + bytes.len() as u64;
        let mut position = (end - 1) / FOOTER_BYTES * FOOTER_BYTES;
        loop {
            let block_from = position.max(from);
            let block_end = end.min(position + FOOTER_BYTES);
            let at = |offset: u64, base: u64| usize::try_from(offset - base).expect("in the chunk");
            let part = &bytes[at(block_from, from)..at(block_end, from)];
            if part == &ZEROS[..part.len()] {
                self.touching = false;
            } else {
                let mut block = [0; BLOCK];
                let start = at(block_from, position);
                block[start..start + part.len()].copy_from_slice(part);
                if self.block(position, &block, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if position <= from {
                return Ok(ControlFlow::Continue(()));
            }
            position -= FOOTER_BYTES;
        }
    }

    fn block(
        &mut self,
        position: u64,
        block: &[u8; BLOCK],
        visit: &mut VisitSlot<'_>,
    ) -> io::Result<ControlFlow<()>> {
        if let Some(footer) = Footer::decode(position, block) {
            // Another one below is left over from an interrupted cut.
            if self.footer.is_none() && self.last.is_none() {
                self.start_table(footer);
            } else {
                self.touching = false;
            }
            return Ok(ControlFlow::Continue(()));
        }
        for at in [CELL, 0] {
            let cell = &block[at..at + CELL];
            if self.cell(position + at as u64, cell, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn start_table(&mut self, footer: Footer) {
        let before_first = Zxid(footer.first.0.saturating_sub(1));
        self.first = Some(footer.first);
        self.above = Some(Above {
            zxid: before_first,
            record_end: HEADER_BYTES,
            position: footer.table_end,
        });
        self.footer = Some(footer);
        self.junk_end = None;
        self.touching = true;
    }

    fn cell(
        &mut self,
        position: u64,
        cell: &[u8],
        visit: &mut VisitSlot<'_>,
    ) -> io::Result<ControlFlow<()>> {
        if cell == &ZEROS[..CELL] {
            self.touching = false;
            return Ok(ControlFlow::Continue(()));
        }
        match self.first.and_then(|first| Slot::decode(first, position, cell)) {
            Some(slot) if self.fits(&slot, position) => {
                let Slot { zxid, .. } = slot;
                self.above = Some(Above { zxid, record_end: slot.record_end(), position });
                self.last = Some(slot);
                (self.garbage, self.junk_end, self.touching) = (0, None, true);
                return visit(&slot);
            }
            // Left over from an interrupted cut.
            Some(_) => self.touching = false,
            None if self.touching => self.garbage += 1,
            None => {
                let last = cell.iter().rposition(|byte| *byte != 0).unwrap_or_default();
                self.junk_end.get_or_insert(position + last as u64 + 1);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the record of a slot can lie behind that of the slot above.
    fn fits(&self, slot: &Slot, position: u64) -> bool {
        let is_possible = slot.offset >= HEADER_BYTES
            && u64::from(slot.payload_bytes) + super::RECORD_EXTRA_BYTES as u64 >= RECORD_BYTES_MIN
            && slot.record_end() <= position
            && self.first.is_some_and(|first| slot.zxid >= first);
        let is_next = self.above.is_none_or(|above| {
            let between = (above.position - position) / SLOT_BYTES - 1;
            let offset_min = above.record_end + (offset_min(between) - HEADER_BYTES);
            slot.zxid > above.zxid
                && slot.offset >= offset_min
                && (between > 0 || slot.offset == offset_min)
        });
        is_possible && is_next
    }
}

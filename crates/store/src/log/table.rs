//! The persist table: which records of a log file were written, in a place that Apache never reads.
//!
//! A log file that is preallocated ends with a footer, and a slot for each record grows downwards from it:
//! ```text
//! 16             record 0, record 1, …
//!                zeros, at least 64 bytes
//! end - 32 n     slot n - 1
//!                …
//! end - 32       slot 0
//! end            footer, 64 bytes; the last ones of the file
//! ```
//! Apache stops at the first record whose length is 0, so it reads the records and nothing else. The bytes are drawn
//! in docs/formats.md.
//!
//! **What it is for.** A slot says that a record with this zxid, length and checksum was durable here. So a write that
//! a crash has torn can be told from records that were damaged later, and damaged records have names. Let E be "the
//! record is valid" and P "its slot is valid":
//!
//! | E | P | a later P | verdict |
//! |---|---|---|---|
//! | yes | any | any | good |
//! | no | yes | any | damaged; its name is known |
//! | no | no | yes | damaged; its name follows from its neighbours if both are of one epoch |
//! | no | no | no | never completed: it and everything after it is dropped |
//!
//! **When a slot is written.** Right after the sync of its batch, and without one of its own: the next batch's sync
//! covers it, or the system writes it when it has time. So there is one sync per batch, and a slot is never there
//! without its record, whatever a power failure leaves: no server takes a write for damaged that was only interrupted.
//! (If slots were in the same sync as their records, as in the paper, a power failure could leave a slot without its
//! record on every server of an ensemble, and nobody could tell whether it was acknowledged.) In return the slots of
//! the last batch may be missing after a power failure. Its records are there, because they were synced; only if they
//! are damaged in addition, they are taken for a torn write.
//!
//! **Invariants.**
//! - A slot is checked with the file's first zxid and its own position, so no slot is valid anywhere else, and a
//!   client's data cannot pass for one.
//! - Slots and footers are aligned to their size, so none of them crosses a sector: after a crash it is there or not.
//! - A file that ends before its footer has no table or only the newest part of one. A part proves what was written,
//!   never what was not: then the rule of [`super::ending`] decides about torn writes.
//! - The footer of an ended file says how many records there are, where they end and what the last one is. It is
//!   written only when all of them are durable, and without a sync: before it is on the disk, the file reads as one
//!   that is still being written, which the next file proves to be complete.
//! - An ended file keeps its length and its table, so nothing is copied on the thread that writes the log. The space
//!   between records and table is freed. A file that is cut gets its table again right behind the records ([`cut`]).
//!
//! Apache has nothing like it. The idea is that of the paper "Protocol-Aware Recovery for Consensus-Based Storage".

mod cut;
mod scan;
mod verdict;

use std::ops::Range;

use herdsman_proto::Zxid;

pub use cut::add_table;
pub(crate) use cut::cut_file;
pub(super) use verdict::{TableVerdict, content_bytes, has_footer, judge};
pub(crate) use verdict::{txn_before_table, txns_before};

use super::lost::{RECORD_BYTES_MIN, RecordId};
use super::{HEADER_BYTES, RECORD_EXTRA_BYTES};

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = 32;
/// Bytes of a footer.
pub const FOOTER_BYTES: u64 = 64;
/// Zero bytes between the last record and the lowest slot, at least. Apache needs 16 to stop there; this much always
/// contains a whole slot of zeros, which separates the table from a torn record.
pub const ZEROS_BYTES_MIN: u64 = 64;
/// Files that are preallocated with less have no table.
pub const PRE_ALLOC_BYTES_MIN: u64 = 16 << 10;
const MAGIC: [u8; 8] = *b"HRDTABLE";
const VERSION: u32 = 1;
/// Files are preallocated in multiples of this, so that their ends are aligned.
const ALIGNMENT: u64 = 4096;

/// Bounds of [`ahead_bytes`].
const AHEAD_BYTES_MIN: u64 = 64 << 10;
const AHEAD_BYTES_MAX: u64 = 1 << 20;

/// What a slot says about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) zxid: Zxid,
    /// Where the record starts.
    pub(crate) offset: u64,
    pub(crate) payload_bytes: u32,
    pub(crate) adler: u32,
    /// The number of its batch in the file, from 1 on; 0: unknown.
    pub(crate) batch: u32,
}

impl Slot {
    /// Where the record ends.
    pub(crate) fn record_end(&self) -> u64 {
        self.offset.saturating_add(RECORD_EXTRA_BYTES as u64 + u64::from(self.payload_bytes))
    }

    /// The name of the record.
    fn id(&self) -> RecordId {
        let Slot { zxid, payload_bytes, adler, .. } = *self;
        RecordId { zxid, payload_bytes: Some(payload_bytes), adler: Some(adler) }
    }

    /// Its bytes at a position of a file that starts with the txn `first`.
    pub(crate) fn encode(&self, first: Zxid, position: u64) -> [u8; SLOT_BYTES as usize] {
        let mut bytes = [0; SLOT_BYTES as usize];
        self.encode_into(first_crc(first), position, &mut bytes);
        bytes
    }

    /// Writes its bytes, which are zeros, at a position of a file whose first txn has this checksum.
    fn encode_into(&self, first_crc: u32, position: u64, bytes: &mut [u8; SLOT_BYTES as usize]) {
        bytes[..8].copy_from_slice(&self.zxid.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.payload_bytes.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.adler.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.batch.to_be_bytes());
        let crc = slot_crc(first_crc, position, bytes);
        bytes[28..].copy_from_slice(&crc.to_be_bytes());
    }

    /// Reads a slot; `None` if these bytes are none.
    pub(crate) fn decode(first: Zxid, position: u64, bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SLOT_BYTES as usize] = bytes.try_into().ok()?;
        if slot_crc(first_crc(first), position, bytes) != u32_at(bytes, 28) {
            return None;
        }
        Some(Slot {
            zxid: Zxid(i64_at(bytes, 0)),
            offset: i64_at(bytes, 8).cast_unsigned(),
            payload_bytes: u32_at(bytes, 16),
            adler: u32_at(bytes, 20),
            batch: u32_at(bytes, 24),
        })
    }
}

/// The checksum of a file's first txn, with which that of each slot begins.
fn first_crc(first: Zxid) -> u32 {
    crc32fast::hash(&first.0.to_be_bytes())
}

/// The checksum of a slot: of the file's first txn, of its position, and of all its bytes but the last four.
fn slot_crc(first_crc: u32, position: u64, slot: &[u8; SLOT_BYTES as usize]) -> u32 {
    let mut bytes = [0; 36];
    bytes[..8].copy_from_slice(&position.to_be_bytes());
    bytes[8..].copy_from_slice(&slot[..28]);
    let mut hasher = crc32fast::Hasher::new_with_initial(first_crc);
    hasher.update(&bytes);
    hasher.finalize()
}

/// The last bytes of a file with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The first txn of the file.
    pub(crate) first: Zxid,
    /// The txn right before that one in this server's log, if it is known. Zxids do not show it if an epoch ended
    /// there.
    pub(crate) previous: Option<Zxid>,
    /// Where it is, and the end of slot 0.
    pub(crate) table_end: u64,
    /// What the file holds, once it is ended.
    pub(crate) ended: Option<EndedFile>,
}

/// What a file that was ended holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedFile {
    /// Its records, each with a slot.
    pub(crate) records: u32,
    /// The last txn.
    pub(crate) last: Zxid,
    /// The end of the last record.
    pub(crate) records_end: u64,
}

impl Footer {
    pub(crate) fn encode(&self) -> [u8; FOOTER_BYTES as usize] {
        let mut bytes = [0; FOOTER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.first.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.table_end.to_be_bytes());
        if let Some(EndedFile { records, last, records_end }) = self.ended {
            bytes[12..16].copy_from_slice(&records.to_be_bytes());
            bytes[32..40].copy_from_slice(&last.0.to_be_bytes());
            bytes[40..48].copy_from_slice(&records_end.to_be_bytes());
        }
        let previous = self.previous.unwrap_or(Zxid::ZERO);
        bytes[48..56].copy_from_slice(&previous.0.to_be_bytes());
        let crc = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Reads a footer; `None` if these bytes are none, or one of another place.
    pub(crate) fn decode(position: u64, bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FOOTER_BYTES as usize] = bytes.try_into().ok()?;
        let is_footer = bytes[..8] == MAGIC
            && u32_at(bytes, 8) == VERSION
            && i64_at(bytes, 24).cast_unsigned() == position
            && u32_at(bytes, 60) == crc32fast::hash(&bytes[..60]);
        if !is_footer {
            return None;
        }
        let ended = EndedFile {
            records: u32_at(bytes, 12),
            last: Zxid(i64_at(bytes, 32)),
            records_end: i64_at(bytes, 40).cast_unsigned(),
        };
        let (first, previous) = (Zxid(i64_at(bytes, 16)), Zxid(i64_at(bytes, 48)));
        Some(Footer {
            first,
            previous: Some(previous).filter(|it| it.counter() > 0 && *it < first),
            table_end: position,
            ended: Some(ended).filter(|ended| ended.records > 0 && ended.records_end <= position),
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(number)
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    i64::from_be_bytes(number)
}

/// The table of a file that is being written.
#[derive(Debug)]
pub(super) struct OpenTable {
    first: Zxid,
    /// The txn before it.
    previous: Zxid,
    table_end: u64,
    /// Where the lowest slot starts.
    lowest: u64,
    /// Zeros were written from here on, for the slots to come.
    zeroed_from: u64,
    /// The last txn that has a slot.
    last: Zxid,
    batches: u32,
    /// Slots of records that are written and not durable.
    pending: Vec<Slot>,
}

impl OpenTable {
    /// The table of a new file, which starts with the txn `first`, right after `previous`, and has this length.
    pub(super) fn new((previous, first): (Zxid, Zxid), file_bytes: u64) -> Self {
        let table_end = file_bytes - FOOTER_BYTES;
        OpenTable {
            first,
            previous,
            table_end,
            lowest: table_end,
            zeroed_from: table_end,
            last: first,
            batches: 0,
            pending: Vec::new(),
        }
    }

    /// The footer, and where it goes.
    pub(super) fn footer(&self) -> (u64, [u8; FOOTER_BYTES as usize]) {
        (self.table_end, self.footer_with(None).encode())
    }

    fn footer_with(&self, ended: Option<EndedFile>) -> Footer {
        let &OpenTable { first, previous, table_end, .. } = self;
        // The start of an epoch, after which a leader's tree was installed, is not a txn.
        let previous = Some(previous).filter(|it| it.counter() > 0);
        Footer { first, previous, table_end, ended }
    }

    /// The footer that says what the file holds, and where it goes. All records up to `records_end` are durable.
    pub(super) fn ended_footer(&self, records_end: u64) -> (u64, [u8; FOOTER_BYTES as usize]) {
        let &OpenTable { table_end, lowest, last, .. } = self;
        let records = u32::try_from((table_end - lowest) / SLOT_BYTES).ok();
        let ended = records.map(|records| EndedFile { records, last, records_end });
        (table_end, self.footer_with(ended).encode())
    }

    /// Where the lowest slot starts.
    pub(super) fn lowest(&self) -> u64 {
        self.lowest
    }

    /// Whether a batch of records that ends there has room for its slots.
    pub(super) fn has_room(&self, batch_end: u64, records: usize) -> bool {
        let slots = (self.pending.len() + records) as u64;
        batch_end + ZEROS_BYTES_MIN <= self.lowest.saturating_sub(slots * SLOT_BYTES)
    }

    /// Whether nothing was written yet.
    pub(super) fn is_new(&self) -> bool {
        self.batches == 0
    }

    /// Whether all records have slots, and there are any.
    pub(super) fn is_complete(&self) -> bool {
        self.pending.is_empty() && self.lowest < self.table_end
    }

    /// Adds a batch that was written at `position`; the offsets in its slots are relative to that.
    pub(super) fn add_batch(&mut self, position: u64, batch: &[Slot]) {
        self.batches = self.batches.saturating_add(1);
        let number = self.batches;
        let placed = |slot: &Slot| Slot { offset: position + slot.offset, batch: number, ..*slot };
        self.pending.extend(batch.iter().map(placed));
    }

    /// Slots that wait until their records are durable.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Encodes the slots of records that have become durable, and returns where to write them.
    pub(super) fn encode_pending(&self, bytes: &mut Vec<u8>) -> u64 {
        bytes.clear();
        bytes.resize(self.pending.len() * SLOT_BYTES as usize, 0);
        let start = self.lowest - bytes.len() as u64;
        let first_crc = first_crc(self.first);
        let (cells, _) = bytes.as_chunks_mut();
        let positions = (start..).step_by(SLOT_BYTES as usize);
        for ((slot, cell), position) in self.pending.iter().rev().zip(cells).zip(positions) {
            slot.encode_into(first_crc, position, cell);
        }
        start
    }

    /// Where zeros are to be written before the slots that wait, if anywhere: below them, but not before `start`.
    pub(super) fn zeros_ahead(&mut self, start: u64) -> Range<u64> {
        let bytes = self.pending.len() as u64 * SLOT_BYTES;
        let lowest = self.lowest - bytes;
        if lowest >= self.zeroed_from {
            return 0..0;
        }
        let from = lowest.saturating_sub(ahead_bytes(bytes)) / ALIGNMENT * ALIGNMENT;
        self.zeroed_from = from.max(start).min(lowest);
        self.zeroed_from..lowest
    }

    /// Where the zeros begin that were written for slots.
    pub(super) fn zeroed_from(&self) -> u64 {
        self.zeroed_from
    }

    /// The encoded slots are in the file.
    pub(super) fn pending_written(&mut self) {
        self.lowest -= self.pending.len() as u64 * SLOT_BYTES;
        self.last = self.pending.last().map_or(self.last, |slot| slot.zxid);
        self.pending.clear();
    }
}

/// The bytes of all slots of a table, and where they start.
fn slots_bytes(first: Zxid, table_end: u64, slots: &[Option<Slot>]) -> (Vec<u8>, u64) {
    let lowest = table_end - slots.len() as u64 * SLOT_BYTES;
    let mut bytes = Vec::with_capacity(slots.len() * SLOT_BYTES as usize);
    for (index, slot) in slots.iter().rev().enumerate() {
        let position = lowest + index as u64 * SLOT_BYTES;
        let encoded = slot.map(|slot| slot.encode(first, position));
        bytes.extend_from_slice(&encoded.unwrap_or_default());
    }
    (bytes, lowest)
}

/// The length of a new file with room for a first batch; `None` if it is to have no table.
pub(super) fn new_file_bytes(step: u64, batch_bytes: u64, records: u64) -> Option<u64> {
    if step < PRE_ALLOC_BYTES_MIN {
        return None;
    }
    let needed = HEADER_BYTES + batch_bytes + ZEROS_BYTES_MIN + records * SLOT_BYTES + FOOTER_BYTES;
    needed.div_ceil(step).checked_mul(step)?.checked_next_multiple_of(ALIGNMENT)
}

/// How much is overwritten with zeros in advance when this much is written at a time: little if a server has little to
/// do, and otherwise so much that it happens with few batches.
pub(super) fn ahead_bytes(batch_bytes: u64) -> u64 {
    (16 * batch_bytes).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX)
}

/// Where the footer goes in a file that is cut after its records.
fn compact_table_end(records_end: u64, records: u64) -> u64 {
    (records_end + ZEROS_BYTES_MIN + records * SLOT_BYTES).next_multiple_of(FOOTER_BYTES)
}

/// The first offset at which the record with this number can start.
fn offset_min(records: u64) -> u64 {
    HEADER_BYTES + records.saturating_mul(RECORD_BYTES_MIN)
}

#[cfg(test)]
#[path = "table/crash_tests.rs"]
mod crash_tests;
#[cfg(test)]
#[path = "table/tests.rs"]
mod tests;

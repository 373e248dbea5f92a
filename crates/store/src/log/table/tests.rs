//! The format byte by byte, and what is read from files with damaged records, slots and footers.

use herdsman_proto::txn::Entry;

use super::*;
use crate::disk::MemoryDisk;
use crate::log::lost::LOST_MAX;
use crate::log::pieces::{LogFiles, PieceContent, read_pieces};
use crate::log::writer::{LogOptions, LogWriter, SyncMode};
use crate::log::{HEADER, RECORD_END, RECORD_HEAD_BYTES, parse_head};
use crate::names::LogName;
use crate::testing::*;

/// Sizes of the records' data, batch by batch. Some are smaller than a sector, one spans several.
const BATCHES: [&[usize]; 3] = [&[20], &[700, 5, 130], &[300, 60]];

/// A file with a table, and what is in it.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) first: i64,
    pub(super) content: Vec<u8>,
    pub(super) entries: Vec<Entry>,
    /// Where the records start; the last is where they end.
    pub(super) starts: Vec<usize>,
    /// The lowest position of the table, and that of the footer.
    pub(super) table: (usize, usize),
}

impl Sample {
    pub(super) fn new(zxids: &[i64], form: Form) -> Self {
        let disk = disk();
        let mut log = writer(&disk, Zxid(zxids[0] - 1));
        let mut entries = Vec::new();
        for batch in BATCHES {
            for bytes in batch {
                let entry = create_with(zxids[entries.len()], *bytes);
                log.append(entry.header.zxid, &payload(&entry)).unwrap();
                entries.push(entry);
            }
            log.flush(SyncMode::Sync).unwrap();
        }
        if form == Form::Ended {
            log.roll();
        }
        drop(log);
        if form == Form::Cut {
            let records_end = log_bytes(&entries).len() as u64;
            cut_file(&disk, &log_path(zxids[0]), records_end).unwrap();
        }
        Sample::of(&disk, entries)
    }

    /// The file of these txns, as it is on the disk.
    pub(super) fn of(disk: &MemoryDisk, entries: Vec<Entry>) -> Self {
        let first = entries[0].header.zxid.0;
        let content = disk.content(&log_path(first)).unwrap();
        let starts = (0..=entries.len()).map(|count| log_bytes(&entries[..count]).len()).collect();
        let footer = content.len() - 64;
        let table = (footer - 32 * entries.len(), footer);
        Sample { first, content, entries, starts, table }
    }

    pub(super) fn records(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn slot(&self, index: usize) -> usize {
        self.table.1 - 32 * (index + 1)
    }

    fn record_of(&self, offset: usize) -> Option<usize> {
        (0..self.records())
            .find(|index| (self.starts[*index]..self.starts[index + 1]).contains(&offset))
    }

    pub(super) fn read(&self) -> Reading {
        read(self.first, self.content.clone())
    }

    pub(super) fn zxid(&self, index: usize) -> i64 {
        self.entries[index].header.zxid.0
    }

    fn id(&self, index: usize) -> RecordId {
        let payload = payload(&self.entries[index]);
        let adler = u32::try_from(crate::log::checksum(&payload)).unwrap();
        let payload_bytes = Some(u32::try_from(payload.len()).unwrap());
        RecordId { zxid: Zxid(self.zxid(index)), payload_bytes, adler: Some(adler) }
    }

    pub(super) fn break_record(&mut self, index: usize, how: Break) {
        let range = self.starts[index]..self.starts[index + 1];
        let record = &mut self.content[range];
        let end = record.len() - 1;
        match how {
            Break::Zeros => record.fill(0),
            Break::Length => record[8] ^= 0x40,
            Break::Body => record[RECORD_HEAD_BYTES + 40] ^= 1,
            Break::EndMark => record[end] = 0,
            Break::Tail => record[end / 2..].fill(0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Preallocated, being written.
    Open,
    /// Ended, with its table where it was.
    Ended,
    /// Cut to its records, with its table behind them.
    Cut,
}

pub(super) const FORMS: [Form; 3] = [Form::Open, Form::Ended, Form::Cut];

#[derive(Clone, Copy, Debug)]
pub(super) enum Break {
    Zeros,
    Length,
    Body,
    EndMark,
    Tail,
}

const BREAKS: [Break; 5] = [Break::Zeros, Break::Length, Break::Body, Break::EndMark, Break::Tail];

/// Like `create`, with a counter that fits into a byte.
fn create_with(zxid: i64, bytes: usize) -> Entry {
    let mut entry = create(zxid & 0x7f, bytes);
    entry.header.zxid = Zxid(zxid);
    entry
}

/// What is read from a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) good: Vec<i64>,
    pub(super) lost: Vec<RecordId>,
    pub(super) is_complete: bool,
    pub(super) damages: usize,
    pub(super) torn: bool,
}

impl Reading {
    pub(super) fn lost_zxids(&self) -> Vec<i64> {
        self.lost.iter().map(|id| id.zxid.0).collect()
    }
}

pub(super) fn read(first: i64, content: Vec<u8>) -> Reading {
    let disk = disk();
    disk.put(&log_path(first), content);
    read_file(&disk, first)
}

pub(super) fn read_file(disk: &MemoryDisk, first: i64) -> Reading {
    let files = [LogName { zxid: Zxid(first) }];
    let after = Zxid(first - 1);
    let log = LogFiles { dir: dir(), files: &files, after, until: None, known: &[], open: None };
    let found = read_pieces(disk, &log, &mut |_| Ok(())).unwrap();
    let mut reading = Reading { is_complete: true, ..Reading::default() };
    for piece in &found.pieces {
        match piece.content {
            PieceContent::Run { first, last, .. } => reading.good.extend(first.0..=last.0),
            PieceContent::Damage { .. } => {
                reading.damages += 1;
                reading.lost.extend(&piece.lost);
                reading.is_complete &= piece.lost_is_complete;
            }
            PieceContent::Torn => reading.torn = true,
            PieceContent::End => {}
            PieceContent::Undecodable { .. } => panic!("every txn can be decoded"),
        }
    }
    reading
}

/// Reads a file as Apache does (`FileTxnIterator.next`): up to a length of 0, a missing end mark or the end.
pub(super) fn apache_zxids(content: &[u8]) -> Vec<i64> {
    let mut zxids = Vec::new();
    let mut rest = content.strip_prefix(&HEADER).expect("Apache refuses another header");
    while let Some((head, behind)) = rest.split_at_checked(RECORD_HEAD_BYTES) {
        let (crc, length) = parse_head(head);
        let length = usize::try_from(length).expect("Apache throws an exception");
        if length == 0 {
            break;
        }
        let Some((payload, behind)) = behind.split_at_checked(length) else { break };
        let Some((mark, behind)) = behind.split_first() else { break };
        if *mark != RECORD_END {
            break;
        }
        assert_eq!(crc, u64::from(simd_adler32::adler32(&payload)), "Apache does not start");
        zxids.push(crate::log::payload_zxid(payload).unwrap().0);
        rest = behind;
    }
    zxids
}

const ZXIDS: [i64; 6] = [1, 2, 3, 4, 5, 6];

fn sample(form: Form) -> Sample {
    Sample::new(&ZXIDS, form)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// docs/formats.md draws these bytes.
#[test]
fn the_bytes_of_the_table() {
    let disk = disk();
    let mut log = writer(&disk, Zxid(0x4_0000_0009));
    for zxids in [0x5_0000_0001..=0x5_0000_0001, 0x5_0000_0002..=0x5_0000_0003] {
        for zxid in zxids {
            let entry = create_with(zxid, 3);
            log.append(Zxid(zxid), &payload(&entry)).unwrap();
        }
        log.flush(SyncMode::Sync).unwrap();
    }
    let content = disk.content(&log_path(0x5_0000_0001)).unwrap();
    assert_eq!(content.len(), 16384);
    let slot = |at: usize| hex(&content[at..at + 32]);
    let zxid = "0000000500000001";
    assert_eq!(
        slot(16288),
        format!("{zxid}{}{}", "0000000000000010", "0000004ef845087a00000001abad05ee")
    );
    assert_eq!(&slot(16256)[..40], "0000000500000002000000000000006b0000004e");
    assert_eq!(&slot(16224)[..40], "000000050000000300000000000000c60000004e");
    assert_eq!((&slot(16256)[48..56], &slot(16224)[48..56]), ("00000002", "00000002"));
    let footer = format!("4852445441424c45{}{}{zxid}{:016x}", "00000001", "00000000", 16320);
    assert_eq!(slot(16320), footer);
    let previous = format!("{}{}", "0000000400000009", "00".repeat(4));
    assert_eq!(slot(16352), format!("{}{previous}628711eb", "00".repeat(16)));
    assert!(content[0x121..16224].iter().all(|byte| *byte == 0));
    log.roll();
    let last = format!("{}{:016x}", "0000000500000003", 0x121);
    let ended = disk.content(&log_path(0x5_0000_0001)).unwrap();
    let footer = format!("4852445441424c45{}{}{zxid}{:016x}", "00000001", "00000003", 16320);
    assert_eq!(hex(&ended[16320..16352]), footer);
    assert_eq!(hex(&ended[16352..16380]), format!("{last}{previous}"));
    assert_eq!((ended.len(), &ended[..16320]), (16384, &content[..16320]));
    cut_file(&disk, &log_path(0x5_0000_0001), 0x121).unwrap();
    let cut = disk.content(&log_path(0x5_0000_0001)).unwrap();
    assert_eq!(cut.len(), 576);
    let footer = format!("4852445441424c45{}{}{zxid}{:016x}", "00000001", "00000003", 512);
    assert_eq!(hex(&cut[512..544]), footer);
    assert_eq!(hex(&cut[544..572]), format!("{last}{previous}"));
    assert_eq!(cut[..0x121], content[..0x121]);
    assert!(cut[0x121..416].iter().all(|byte| *byte == 0));
    // The same slots, elsewhere.
    assert_eq!(cut[416..440], content[16224..16248]);
    assert_ne!(cut[444..448], content[16252..16256]);
}

#[test]
fn a_whole_file_is_clean_and_apache_reads_the_same() {
    for form in FORMS {
        let sample = sample(form);
        assert_eq!(
            sample.read(),
            Reading { good: ZXIDS.into(), is_complete: true, ..Reading::default() }
        );
        assert_eq!(apache_zxids(&sample.content), ZXIDS);
        let zeros = &sample.content[sample.starts[6]..sample.table.0];
        assert!(zeros.len() >= 64 && zeros.iter().all(|byte| *byte == 0));
        assert_eq!(sample.content.len() % 64, 0);
    }
}

/// Any one byte of the file is changed. A record that it belongs to is damaged and named; nothing else is lost.
#[test]
fn every_byte() {
    for form in FORMS {
        let whole = sample(form);
        let used = (0..whole.starts[6]).chain(whole.table.0..whole.content.len());
        for offset in used {
            for change in [|_| 0, |byte: u8| !byte, |byte: u8| byte ^ 1, |byte: u8| byte ^ 0x80] {
                let mut sample = whole.clone();
                sample.content[offset] = change(whole.content[offset]);
                if sample.content == whole.content {
                    continue;
                }
                let reading = sample.read();
                let hit = whole.record_of(offset);
                let good: Vec<i64> = (0..6)
                    .filter(|index| Some(*index) != hit)
                    .map(|index| whole.zxid(index))
                    .collect();
                let lost: Vec<RecordId> = hit.into_iter().map(|index| whole.id(index)).collect();
                let damages = usize::from(hit.is_some() || offset < 8);
                let expected = Reading { good, lost, is_complete: true, damages, torn: false };
                assert_eq!(reading, expected, "{form:?}, byte {offset}");
            }
        }
    }
}

/// What the decision table says about records and slots, in order.
pub(super) fn expected(whole: &Sample, valid: &[bool], has_slot: &[bool]) -> Reading {
    let mut reading = Reading { is_complete: true, ..Reading::default() };
    let mut before_is_lost = false;
    for index in 0..valid.len() {
        let later_slot = has_slot[index..].contains(&true);
        if !valid[index] && !later_slot {
            reading.torn = true;
            break;
        }
        if valid[index] {
            reading.good.push(whole.zxid(index));
        } else {
            reading.damages += usize::from(!before_is_lost);
            let id = whole.id(index);
            reading.lost.push(if has_slot[index] { id } else { RecordId::of(id.zxid) });
        }
        before_is_lost = !valid[index];
    }
    reading
}

/// Every set of damaged records with every set of missing slots.
#[test]
fn the_decision_table() {
    let whole = sample(Form::Open);
    for how in BREAKS {
        for records in 0..64 {
            for slots in 0..64 {
                let bits =
                    |bits: i32| (0..6).map(|bit| bits >> bit & 1 == 1).collect::<Vec<bool>>();
                let (valid, has_slot) = (bits(records), bits(slots));
                let mut sample = whole.clone();
                for index in 0..6 {
                    if !valid[index] {
                        sample.break_record(index, how);
                    }
                    if !has_slot[index] {
                        let slot = sample.slot(index);
                        sample.content[slot..slot + 32].fill(0);
                    }
                }
                let mut expected = expected(&whole, &valid, &has_slot);
                // Zeros to the end are not even a torn write, and after damage nothing else is reported.
                let read = expected.good.len() + expected.lost.len();
                let rest = &sample.content[whole.starts[read]..whole.starts[6]];
                let after_good = read == 0 || valid[read - 1];
                expected.torn &= after_good && rest.iter().any(|byte| *byte != 0);
                assert_eq!(sample.read(), expected, "{how:?} {valid:?} {has_slot:?}");
            }
        }
    }
}

/// An ended file says what it held, so a slot is not needed to know that a record was written.
#[test]
fn an_ended_file_has_no_torn_writes() {
    for form in [Form::Ended, Form::Cut] {
        check_nothing_is_torn(&sample(form));
    }
}

fn check_nothing_is_torn(whole: &Sample) {
    for how in BREAKS {
        for index in 0..6 {
            for slots_gone in index..=6 {
                let mut sample = whole.clone();
                sample.break_record(index, how);
                let (start, end) = (sample.table.0, sample.slot(slots_gone) + 32);
                sample.content[start..end].fill(0);
                let reading = sample.read();
                assert_eq!(
                    reading.lost_zxids(),
                    [whole.zxid(index)],
                    "{how:?} {index} {slots_gone}"
                );
                assert!(reading.is_complete && !reading.torn && reading.good.len() == 5);
            }
        }
    }
}

/// A slot of garbage was a slot: the record was written.
#[test]
fn a_damaged_slot_of_a_damaged_last_record_proves_that_it_was_written() {
    for damaged_slots in 1..=3 {
        let mut sample = sample(Form::Open);
        sample.break_record(5, Break::EndMark);
        for index in 6 - damaged_slots..6 {
            let slot = sample.slot(index);
            sample.content[slot + 3] ^= 0x55;
        }
        let reading = sample.read();
        assert_eq!((reading.good.len(), reading.torn, reading.damages), (5, false, 1));
        assert!(!reading.is_complete);
    }
    // Without it nothing is wrong with the records.
    let mut sample = sample(Form::Open);
    for index in 0..6 {
        let slot = sample.slot(index);
        sample.content[slot + 3] ^= 0x55;
    }
    assert_eq!(sample.read().good, ZXIDS);
    assert_eq!(sample.read().damages, 0);
}

/// Any range of sectors is zeroed, in the records or in the table.
#[test]
fn zeroed_sectors() {
    for form in FORMS {
        let whole = sample(form);
        let sectors = whole.content.len().div_ceil(512);
        for first in 0..sectors {
            for count in 1..4 {
                let mut sample = whole.clone();
                let end = (512 * (first + count)).min(whole.content.len());
                sample.content[512 * first..end].fill(0);
                let reading = sample.read();
                let is_whole = |index: &usize| {
                    let range = whole.starts[*index]..whole.starts[index + 1];
                    sample.content[range.clone()] == whole.content[range]
                };
                let good: Vec<i64> =
                    (0..6).filter(is_whole).map(|index| whole.zxid(index)).collect();
                let table_gone = sample.content[whole.table.0..].iter().all(|byte| *byte == 0);
                if !table_gone || good.len() == 6 {
                    assert_eq!(reading.good, good, "{form:?} {first} {count}");
                    assert_eq!(reading.good.len() + reading.lost.len(), 6);
                    assert!(reading.is_complete && !reading.torn);
                }
            }
        }
    }
}

/// The table goes with the end of the file; what is left of it does not count as damage, and no record is lost
/// before its own bytes are.
#[test]
fn a_file_cut_anywhere() {
    for form in FORMS {
        let whole = sample(form);
        for bytes in 0..whole.content.len() {
            let reading = read(1, whole.content[..bytes].to_vec());
            let good = (0..6).filter(|index| whole.starts[index + 1] <= bytes).count();
            assert_eq!(reading.good, ZXIDS[..good], "{form:?} {bytes}");
            // A part of the last slot alone could be anything.
            let slot = whole.table.0..bytes.max(whole.table.0);
            let cuts_last_slot = slot.len() < 32 && whole.content[slot].iter().any(|it| *it != 0);
            assert_eq!(reading.damages, usize::from(cuts_last_slot), "{form:?} {bytes}");
            let rest = whole.starts[good].min(whole.starts[6])..whole.starts[6].min(bytes);
            let rest = if good == 0 && bytes < 16 { 0..bytes } else { rest };
            let is_torn =
                whole.content.get(rest).is_some_and(|rest| rest.iter().any(|it| *it != 0));
            assert_eq!(reading.torn, is_torn, "{form:?} {bytes}");
        }
    }
}

/// What is left of the table of a file that was cut still names what is lost.
#[test]
fn the_rest_of_a_cut_table_names_damaged_records() {
    let whole = sample(Form::Open);
    for bytes in whole.table.0 + 32..whole.content.len() {
        let mut sample = whole.clone();
        sample.break_record(5, Break::EndMark);
        sample.content.truncate(bytes);
        let reading = sample.read();
        assert_eq!(reading.lost, [whole.id(5)], "{bytes}");
        assert!(reading.is_complete);
    }
}

/// Zeros or garbage behind the footer do not hide it.
#[test]
fn a_longer_file() {
    for form in FORMS {
        for more in [1, 63, 64, 500, 5000] {
            for byte in [0, 0xa5] {
                for index in 0..6 {
                    let mut sample = sample(form);
                    sample.content.resize(sample.content.len() + more, byte);
                    assert_eq!(sample.read().good, ZXIDS);
                    assert_eq!(sample.read().damages, 0);
                    sample.break_record(index, Break::EndMark);
                    assert_eq!(sample.read().lost, [sample.id(index)]);
                }
            }
        }
    }
}

/// Between two epochs the names of records without a slot are not known.
#[test]
fn names_at_a_new_epoch() {
    let epoch = Zxid::start_of(2).0;
    let zxids = [7, 8, 9, epoch + 1, epoch + 2, epoch + 3];
    let lost = |records: &[usize], slots: &[usize]| {
        let mut sample = Sample::new(&zxids, Form::Open);
        for index in records {
            sample.break_record(*index, Break::Zeros);
        }
        for index in slots {
            let slot = sample.slot(*index);
            sample.content[slot..slot + 32].fill(0);
        }
        let reading = sample.read();
        (reading.lost_zxids(), reading.is_complete)
    };
    assert_eq!(lost(&[2, 3], &[]), (vec![9, epoch + 1], true));
    assert_eq!(lost(&[2, 3], &[2]), (vec![epoch + 1], false));
    assert_eq!(lost(&[2, 3], &[3]), (vec![9, epoch + 1], false));
    assert_eq!(lost(&[2, 3], &[2, 3]), (vec![epoch + 1], false));
    assert_eq!(lost(&[1, 2], &[1]), (vec![8, 9], true));
    // The first txn of the file is known by the file's name.
    assert_eq!(lost(&[0, 1], &[0]), (vec![7, 8], true));
}

/// A record is found even if it has no slot and lies behind one that is lost.
#[test]
fn a_valid_record_without_a_slot_between_lost_ones() {
    let mut sample = sample(Form::Open);
    for index in [1, 3] {
        sample.break_record(index, Break::Body);
    }
    for index in [1, 2, 3] {
        let slot = sample.slot(index);
        sample.content[slot..slot + 32].fill(0);
    }
    let reading = sample.read();
    assert_eq!(
        (reading.good.as_slice(), reading.lost_zxids().as_slice()),
        (&[1, 3, 5, 6][..], &[2, 4][..])
    );
}

/// A file without its footer and its first slots: the rule for files without a table decides what is torn.
#[test]
fn without_a_footer_the_content_decides() {
    let mut torn = sample(Form::Open);
    let (footer, last) = (torn.table.1, torn.slot(5));
    torn.content[footer..].fill(0);
    torn.content[last..last + 32].fill(0);
    torn.break_record(5, Break::Tail);
    assert!(torn.read().torn);
    torn.break_record(4, Break::Body);
    assert_eq!((torn.read().lost, torn.read().good.len()), (vec![torn.id(4)], 4));
}

/// A file of slots that name more records than there can be costs little memory.
#[test]
fn hostile_tables() {
    let bytes = 40 << 20;
    let table_end = bytes as u64 - 64;
    let mut content = vec![0; bytes];
    content[..16].copy_from_slice(&HEADER);
    let (mut offset, mut position, mut zxid) = (16, table_end, 1);
    while offset + 45 + 64 < position - 32 {
        position -= 32;
        let slot = Slot { zxid: Zxid(zxid), offset, payload_bytes: 32, adler: 1, batch: 0 };
        let at = usize::try_from(position).unwrap();
        content[at..at + 32].copy_from_slice(&slot.encode(Zxid(1), position));
        offset = slot.record_end();
        zxid += 1;
    }
    let footer = Footer { first: Zxid(1), previous: None, table_end, ended: None };
    content[bytes - 64..].copy_from_slice(&footer.encode());
    assert!(zxid as usize > LOST_MAX);
    let reading = read(1, content.clone());
    assert_eq!((reading.lost.len(), reading.is_complete), (LOST_MAX, false));
    // Every other slot is missing, and zxids jump.
    let footer = Footer {
        first: Zxid(1),
        previous: None,
        table_end,
        ended: Some(EndedFile { records: 9, last: Zxid(i64::MAX), records_end: table_end }),
    };
    content[bytes - 64..].copy_from_slice(&footer.encode());
    content[offset as usize + 64..bytes - 64].fill(0);
    let reading = read(1, content.clone());
    assert_eq!((reading.lost.len(), reading.is_complete), (0, false));
    content[bytes / 2..bytes - 64].fill(0x5a);
    assert_eq!(read(1, content).damages, 1);
}

#[test]
fn random_bytes_never_panic() {
    let mut seed = 1u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed >> 8
    };
    for _ in 0..3000 {
        let mut sample = sample(FORMS[random() as usize % 3]);
        for _ in 0..random() % 5 {
            let areas = [0..sample.starts[6], sample.table.0..sample.content.len()];
            let area = areas[random() as usize % 2].clone();
            let start = area.start + random() as usize % area.len();
            let end = (start + 1 + random() as usize % 200).min(area.end);
            for byte in &mut sample.content[start..end] {
                *byte = if random() % 3 == 0 { 0 } else { random() as u8 };
            }
        }
        if random() % 4 == 0 {
            sample.content.truncate(random() as usize % sample.content.len());
        }
        let reading = sample.read();
        let mut all = reading.good.clone();
        all.extend(reading.lost_zxids());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), reading.good.len() + reading.lost.len());
        assert!(all.iter().all(|zxid| ZXIDS.contains(zxid)));
    }
}

/// A batch that the file has no room for starts a new one, and the full one keeps its table where it is. What is
/// zeroed in advance, for records and for slots, is never something that was written before.
#[test]
fn a_full_file_is_left() {
    for file_bytes in [16 << 10, 512 << 10] {
        let disk = disk();
        let options = LogOptions { pre_alloc_bytes: file_bytes as u64, ..OPTIONS };
        let mut log = LogWriter::new(std::sync::Arc::new(disk.clone()), DIR, Zxid::ZERO, options);
        let (mut last, mut batch) = (0, 0);
        while names(&disk).len() < 2 {
            batch = 1 + (7 * batch + 3) % 20;
            write_batch(&mut log, last + 1, last + batch);
            last += batch;
        }
        let content = disk.content(&log_path(1)).unwrap();
        let zxids = apache_zxids(&content);
        assert_eq!(content.len(), file_bytes);
        assert_eq!(zxids, (1..=last - batch).collect::<Vec<_>>());
        assert_eq!(
            read_file(&disk, 1),
            Reading { good: zxids.clone(), is_complete: true, ..Reading::default() }
        );
        let (table_end, footer) = (file_bytes - 64, &content[file_bytes - 64..]);
        let ended = Footer::decode(table_end as u64, footer).unwrap().ended.unwrap();
        assert_eq!((ended.records as usize, ended.last), (zxids.len(), Zxid(last - batch)));
        for (index, zxid) in zxids.iter().enumerate() {
            let at = table_end - 32 * (index + 1);
            let slot = Slot::decode(Zxid(1), at as u64, &content[at..at + 32]);
            assert_eq!(slot.map(|slot| slot.zxid.0), Some(*zxid));
        }
        assert_eq!(read_file(&disk, last - batch + 1).good.len(), batch as usize);
    }
}

/// Few batches write zeros: what is zeroed once lasts for several.
#[test]
fn slots_are_zeroed_in_advance() {
    let mut table = OpenTable::new((Zxid::ZERO, Zxid(1)), 4 << 20);
    let slot = Slot { zxid: Zxid(1), offset: 0, payload_bytes: 40, adler: 0, batch: 0 };
    let (mut zeroed, mut zeroed_from) = (0, table.lowest());
    for _ in 0..200 {
        table.add_batch(16, &[slot; 64]);
        let lowest = table.lowest() - 64 * SLOT_BYTES;
        let zeros = table.zeros_ahead(1 << 20);
        if !zeros.is_empty() {
            assert!(
                zeros.end == lowest
                    && zeros.start.is_multiple_of(ALIGNMENT)
                    && lowest < zeroed_from
            );
            (zeroed, zeroed_from) = (zeroed + 1, zeros.start);
        }
        assert_eq!(table.zeroed_from(), zeroed_from);
        table.pending_written();
    }
    assert!((5..20).contains(&zeroed), "{zeroed}");
    // Not before the records.
    table.add_batch(16, &vec![slot; 40_000]);
    assert_eq!(table.zeros_ahead(2 << 20).start, 2 << 20);
}

/// A first batch that one step does not hold gets several.
#[test]
fn a_large_first_batch_has_a_table_too() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    write_batch(&mut log, 1, 1000);
    let content = disk.content(&log_path(1)).unwrap();
    assert_eq!((content.len() % (16 << 10), apache_zxids(&content).len()), (0, 1000));
    assert!(Footer::decode(content.len() as u64 - 64, &content[content.len() - 64..]).is_some());
    assert_eq!(read_file(&disk, 1).good.len(), 1000);
}

#[test]
fn files_without_a_table() {
    for (pre_alloc_bytes, persist_table) in [(0, true), (16383, true), (16384, false)] {
        let disk = disk();
        let options = LogOptions { pre_alloc_bytes, persist_table, ..OPTIONS };
        let mut log = LogWriter::new(std::sync::Arc::new(disk.clone()), DIR, Zxid::ZERO, options);
        write_batch(&mut log, 1, 2);
        let records = log_bytes(&creates(1..=2));
        let content = disk.content(&log_path(1)).unwrap();
        assert!(content[records.len()..].iter().all(|byte| *byte == 0));
        log.roll();
        assert_eq!(disk.content(&log_path(1)).unwrap(), records);
    }
}

/// The footer is damaged, and the power failed before the slots of the last batch were durable: what is left of the
/// table proves that a record before it is damaged, and says nothing about that batch.
#[test]
fn records_behind_damage_are_found_without_slots() {
    let whole = Sample::new(&ZXIDS, Form::Open);
    let last_batch = whole.records() - BATCHES[BATCHES.len() - 1].len();
    let mut sample = Sample::new(&ZXIDS, Form::Open);
    sample.content[whole.table.0..whole.slot(last_batch) + 32].fill(0);
    sample.content[whole.table.1 + 20] ^= 1;
    sample.break_record(last_batch - 1, Break::Body);
    sample.break_record(last_batch, Break::Zeros);
    let reading = sample.read();
    let zxids = whole.entries.iter().map(|entry| entry.header.zxid.0).collect::<Vec<_>>();
    assert_eq!(reading.lost_zxids(), zxids[last_batch - 1..=last_batch]);
    assert_eq!(reading.good[last_batch - 1..], zxids[last_batch + 1..]);
}

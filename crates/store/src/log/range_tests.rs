//! Reads parts of every kind of log.

use super::*;
use crate::disk::MemoryDisk;
use crate::testing::*;

/// These files, each with its txns.
fn logs(files: &[Vec<i64>]) -> MemoryDisk {
    let disk = disk();
    for zxids in files {
        disk.put(&log_path(zxids[0]), log_bytes(&creates(zxids.clone())));
    }
    disk
}

fn open(disk: &MemoryDisk, after: i64, before: PrecedingTxn, to: i64) -> LogRange {
    LogRange::open(Arc::new(disk.clone()), &dirs(), (Zxid(after), before), Zxid(to)).unwrap()
}

/// The returned zxids, and whether all requested txns are among them.
fn read(disk: &MemoryDisk, after: i64, before: PrecedingTxn, to: i64) -> (Vec<i64>, bool) {
    let mut range = open(disk, after, before, to);
    let mut found = Vec::new();
    loop {
        match range.next_txn() {
            Ok(Some((zxid, bytes))) => {
                assert_eq!(bytes, payload(&create(zxid.0, 40)));
                found.push(zxid.0);
            }
            Ok(None) => return (found, true),
            Err(RangeError::Missing { .. }) => return (found, false),
            Err(error) => panic!("{error}"),
        }
    }
}

fn check(disk: &MemoryDisk, after: i64, before: PrecedingTxn, to: i64, expected: &[i64]) {
    assert_eq!(read(disk, after, before, to), (expected.to_vec(), true), "after {after:x}");
}

/// Nothing at all is returned.
fn check_missing(disk: &MemoryDisk, after: i64, before: PrecedingTxn, to: i64) {
    assert_eq!(read(disk, after, before, to), (Vec::new(), false), "after {after:x}");
}

const FIRST: i64 = 1 << 32;
const SECOND: i64 = 2 << 32;

#[test]
fn a_part_is_read_across_files() {
    let disk = logs(&[(15..=17).collect(), (18..=22).collect(), vec![23]]);
    for before in [PrecedingTxn::Known, PrecedingTxn::MustBeOurs] {
        check(&disk, 16, before, 23, &(17..=23).collect::<Vec<_>>());
        check(&disk, 17, before, 20, &[18, 19, 20]);
        check(&disk, 22, before, 23, &[23]);
        check(&disk, 23, before, 23, &[]);
        // The txn before the first one of the log must have been in it.
        check(&disk, 14, before, 16, &[15, 16]);
        check_missing(&disk, 13, before, 23);
    }
}

#[test]
fn another_servers_last_txn_must_be_in_our_history() {
    let disk = logs(&[epoch(1, 1..=3), epoch(2, 1..=2)]);
    check(&disk, FIRST | 3, PrecedingTxn::MustBeOurs, SECOND | 2, &epoch(2, 1..=2));
    check(&disk, SECOND, PrecedingTxn::MustBeOurs, SECOND | 2, &epoch(2, 1..=2));
    // It has more of the first epoch than we.
    check_missing(&disk, FIRST | 4, PrecedingTxn::MustBeOurs, SECOND | 2);
    // A txn that is known to be ours needs no proof.
    check(&disk, FIRST | 4, PrecedingTxn::Known, SECOND | 2, &epoch(2, 1..=2));
}

#[test]
fn a_hole_ends_it() {
    let disk = logs(&[(1..=3).collect(), (5..=7).collect()]);
    assert_eq!(read(&disk, 1, PrecedingTxn::Known, 7), (vec![2, 3], false));
    let disk = logs(&[epoch(1, 1..=3), epoch(2, 1..=3)]);
    // A snapshot whose txn is not in the log came from a leader.
    disk.put(&dir().join(format!("snapshot.{:x}", FIRST | 9)), Vec::new());
    assert_eq!(read(&disk, FIRST | 1, PrecedingTxn::Known, SECOND | 3), (epoch(1, 2..=3), false));
}

#[test]
fn damage_ends_it_unless_the_very_next_txn_follows() {
    let flip_last = |first: i64, files: &[Vec<i64>]| {
        let disk = logs(files);
        let at = disk.content(&log_path(first)).unwrap().len() - 20;
        disk.flip_bit(&log_path(first), at, 1);
        disk
    };
    let disk = flip_last(FIRST | 1, &[epoch(1, 1..=3), epoch(2, 1..=3)]);
    assert_eq!(read(&disk, FIRST | 1, PrecedingTxn::Known, SECOND | 3), (epoch(1, 2..=2), false));
    // An earlier start has dropped what is damaged.
    let disk = flip_last(1, &[(1..=3).collect(), (3..=5).collect()]);
    check(&disk, 1, PrecedingTxn::Known, 5, &[2, 3, 4, 5]);
}

#[test]
fn what_is_written_later_is_not_looked_at() {
    let disk = disk();
    let mut writer = writer(&disk, Zxid(0));
    write_batch(&mut writer, 1, 5);
    let mut range = open(&disk, 2, PrecedingTxn::MustBeOurs, 4);
    write_batch(&mut writer, 6, 9);
    assert_eq!(range.next_txn().unwrap().unwrap().0, Zxid(3));
    assert_eq!(range.next_txn().unwrap().unwrap().0, Zxid(4));
    assert_eq!(range.next_txn().unwrap(), None);
}

/// Also if the log was rolled meanwhile.
#[test]
fn the_next_part_begins_where_one_has_ended() {
    let disk = disk();
    let mut writer = writer(&disk, Zxid(0));
    write_batch(&mut writer, 1, 5);
    let mut range = open(&disk, 2, PrecedingTxn::MustBeOurs, 4);
    while range.next_txn().unwrap().is_some() {}
    let position = range.position().unwrap();
    writer.roll();
    write_batch(&mut writer, 6, 9);
    let shared = || Arc::new(disk.clone());
    let resume =
        |after| LogRange::resume(shared(), &dirs(), Some(position), Zxid(after), Zxid(8)).unwrap();
    let mut range = resume(4);
    assert_eq!(range.reader.as_ref().unwrap().offset(), position.offset);
    let mut zxids = Vec::new();
    while let Some((zxid, _)) = range.next_txn().unwrap() {
        zxids.push(zxid.0);
    }
    assert_eq!(zxids, [5, 6, 7, 8]);
    // A part behind it begins there, too, and one before it does not.
    let mut later = resume(6);
    assert_eq!(later.next_txn().unwrap().unwrap().0, Zxid(7));
    assert_eq!(resume(2).next_txn().unwrap().unwrap().0, Zxid(3));
}

#[test]
fn files_that_are_purged_are_missing() {
    let disk = logs(&[(1..=3).collect(), (4..=6).collect(), (7..=9).collect()]);
    let mut range = open(&disk, 1, PrecedingTxn::Known, 9);
    assert_eq!(range.next_txn().unwrap().unwrap().0, Zxid(2));
    disk.remove(&log_path(1)).unwrap();
    disk.remove(&log_path(4)).unwrap();
    assert_eq!(range.next_txn().unwrap().unwrap().0, Zxid(3));
    assert!(matches!(range.next_txn(), Err(RangeError::Missing { after: Zxid(3) })));
}

#[test]
fn the_size_is_known_before_anything_is_sent() {
    let disk = logs(&[(1..=3).collect(), (4..=6).collect()]);
    let record = (payload(&create(1, 40)).len() + RECORD_EXTRA_BYTES) as u64;
    let fits = |after, to, bytes| {
        open(&disk, after, PrecedingTxn::MustBeOurs, to)
            .fits(bytes, &mut || ControlFlow::Continue(()))
    };
    let start = fits(2, 6, 4 * record).unwrap().unwrap();
    let shared = Arc::new(disk.clone());
    let mut range = LogRange::resume(shared, &dirs(), Some(start), Zxid(2), Zxid(6)).unwrap();
    assert_eq!(range.reader.as_ref().unwrap().offset(), 16 + 2 * record);
    assert_eq!(range.next_txn().unwrap().unwrap().0, Zxid(3));
    assert_eq!(fits(2, 6, 4 * record - 1).unwrap(), None);
    assert!(fits(2, 7, 100 * record).is_err());
}

/// Many files are not read to find out that they are too much.
#[test]
fn the_lengths_of_files_tell_that_it_is_too_much() {
    let disk =
        logs(&[(1..=3).collect(), (4..=6).collect(), (7..=9).collect(), (10..=12).collect()]);
    let between = disk.content(&log_path(4)).unwrap().len() as u64 * 2;
    let mut reads = 0;
    let mut count = || {
        reads += 1;
        ControlFlow::Continue(())
    };
    let range = open(&disk, 2, PrecedingTxn::MustBeOurs, 12);
    assert_eq!(range.fits(between - 1, &mut count).unwrap(), None);
    assert_eq!(reads, 0);
}

/// An ended file keeps its length, most of which takes no space.
#[test]
fn the_unused_space_of_ended_files_does_not_count() {
    let disk = disk();
    let mut writer = writer(&disk, Zxid(0));
    for first in [1, 4, 7, 10] {
        write_batch(&mut writer, first, first + 2);
        writer.roll();
    }
    let records = log_bytes(&creates(1..=12)).len() as u64;
    assert!(disk.content(&log_path(4)).unwrap().len() as u64 > records);
    let range = open(&disk, 2, PrecedingTxn::MustBeOurs, 12);
    let start = range.fits(records, &mut || ControlFlow::Continue(())).unwrap();
    assert_eq!(start.unwrap().last, Zxid(2));
}

#[test]
fn looking_can_be_given_up() {
    let disk = logs(&[(1..=9).collect()]);
    let mut steps = 0;
    let mut step = || {
        steps += 1;
        if steps == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let fits = open(&disk, 8, PrecedingTxn::MustBeOurs, 9).fits(1_000, &mut step);
    assert!(matches!(fits, Err(RangeError::Stopped)));
}

#[test]
fn a_txn_that_nobody_can_read_is_missing() {
    let disk = disk();
    let mut bytes = log_bytes(&creates(1..=2));
    let mut strange = payload(&create(3, 40));
    strange.truncate(40);
    crate::log::encode_record(&strange, &mut bytes);
    disk.put(&log_path(1), bytes);
    let fits =
        open(&disk, 1, PrecedingTxn::MustBeOurs, 3).fits(1_000, &mut || ControlFlow::Continue(()));
    assert!(matches!(fits, Err(RangeError::Missing { .. })));
}

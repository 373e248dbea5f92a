//! Which records a server offers, and whether it has all of a part.

use super::*;
use crate::testing::*;
use crate::{Disk, MemoryDisk};

fn read(disk: &MemoryDisk, after: i64, before: i64) -> (Vec<i64>, bool) {
    let mut records =
        read_records(Arc::new(disk.clone()), &dirs(), Zxid(after), Zxid(before)).unwrap();
    let mut zxids = Vec::new();
    while let Some((zxid, bytes)) = records.next_record().unwrap() {
        assert_eq!(bytes, payload(&create(zxid.0, 40)));
        zxids.push(zxid.0);
    }
    (zxids, records.is_unbroken())
}

/// A server with these txns, each list in a file of its own.
fn server(files: &[Vec<i64>]) -> MemoryDisk {
    let disk = disk();
    snapshot(&disk, &tree_of(&[]));
    for zxids in files {
        disk.put(&log_path(zxids[0]), log_bytes(&creates(zxids.iter().copied())));
    }
    disk
}

fn numbers(range: std::ops::RangeInclusive<i64>) -> Vec<i64> {
    range.collect()
}

/// Damages the n-th record of a file.
fn damage(disk: &MemoryDisk, file: i64, record: usize) {
    let head = log_bytes(&[]).len();
    let bytes = disk.content(&log_path(file)).unwrap().len() - head;
    let count = zxids(disk, &log_path(file)).len();
    disk.flip_bit(&log_path(file), head + record * (bytes / count) + 30, 1);
}

#[test]
fn a_part_is_read_across_files() {
    let disk = server(&[numbers(1..=7), numbers(8..=12), numbers(13..=20)]);
    assert_eq!(read(&disk, 5, 15), (numbers(6..=14), true));
    assert_eq!(read(&disk, 7, 8), (vec![], true));
    assert_eq!(read(&disk, 0, 3), (vec![1, 2], true));
    assert_eq!(read(&disk, 8, i64::MAX), (numbers(9..=20), false));
    assert_eq!(read(&disk, 30, 40), (vec![], false));
    assert_eq!(read(&disk, 15, 25), (numbers(16..=20), false));
}

/// Whoever asked for it may have gone.
#[test]
fn reading_can_be_stopped_in_and_between_files() {
    let long: Vec<_> = (1..=40).map(|zxid| create(zxid, 100_000)).collect();
    let disk = server(&[]);
    disk.put(&log_path(1), log_bytes(&long));
    disk.put(&log_path(41), log_bytes(&creates(41..=43)));
    let disk = Arc::new(disk);
    let stopped_after = |checks_max: usize| {
        let mut records = read_records(disk.clone(), &dirs(), Zxid(40), Zxid(43)).unwrap();
        let checks = std::cell::Cell::new(0);
        let is_wanted = || checks.replace(checks.get() + 1) < checks_max;
        let first = records.next_wanted(&is_wanted);
        (matches!(first, Err(RangeError::Stopped)), checks.get())
    };
    assert_eq!(stopped_after(0), (true, 1));
    assert_eq!(stopped_after(2), (true, 3));
    assert_eq!(stopped_after(100), (false, 5));
}

#[test]
fn damage_is_passed_and_breaks_the_part() {
    let disk = server(&[numbers(1..=7), numbers(8..=12)]);
    damage(&disk, 1, 3);
    assert_eq!(read(&disk, 1, 10), (vec![2, 3, 5, 6, 7, 8, 9], false));
    assert_eq!(read(&disk, 4, 10), (vec![5, 6, 7, 8, 9], true));
    assert_eq!(read(&disk, 5, 10), (vec![6, 7, 8, 9], true));
    assert_eq!(read(&disk, 1, 4), (vec![2, 3], false));
    disk.remove(&log_path(1)).unwrap();
    assert_eq!(read(&disk, 4, 10), (vec![8, 9], false));
    assert_eq!(read(&disk, 7, 10), (vec![8, 9], true));
}

#[test]
fn unreadable_blocks_are_damage() {
    let disk = server(&[numbers(1..=60), numbers(61..=62)]);
    let bytes = disk.content(&log_path(1)).unwrap().len() as u64;
    assert!(bytes > 5000);
    disk.fail_reads(&log_path(1), 5000..5001);
    let (found, unbroken) = read(&disk, 0, 62);
    assert!(found.len() > 25 && found.len() < 60 && found.contains(&1) && found.contains(&61));
    assert!(!unbroken);
    disk.fail_open(&log_path(1));
    assert_eq!(read(&disk, 0, 62), (vec![61], false));
}

/// Zxids do not show how many txns an epoch had, so everything else must.
#[test]
fn before_a_new_epoch_nothing_may_be_in_doubt() {
    let (old, new) = (epoch(1, 1..=7), epoch(2, 1..=5));
    let around = (old[4], new[2]);
    let between = [&old[5..], &new[..2]].concat();
    let whole = server(&[old.clone(), new.clone()]);
    assert_eq!(read(&whole, around.0, around.1), (between.clone(), true));
    // The txn before the part was purged.
    let purged = server(&[old[5..].to_vec(), new.clone()]);
    assert_eq!(read(&purged, around.0, around.1), (between.clone(), true));
    let purged = server(&[old[6..].to_vec(), new.clone()]);
    assert_eq!(read(&purged, around.0, around.1), (between[1..].to_vec(), false));
    let purged = server(std::slice::from_ref(&new));
    assert_eq!(read(&purged, around.0, around.1), (between[2..].to_vec(), false));
    // Damage at the end of the old epoch.
    damage(&whole, old[0], 6);
    assert_eq!(read(&whole, around.0, around.1).0, [&between[..1], &between[2..]].concat());
    assert!(!read(&whole, around.0, around.1).1);
    // A name shows that there was more.
    let named = server(&[old.clone(), new.clone()]);
    named.put(&dir().join(format!("snapshot.{:x}", old[6] + 2)), vec![1]);
    assert!(!read(&named, around.0, around.1).1);
    // The txn after the part is not there.
    assert!(!read(&server(&[old, new]), around.0, 2 << 32 | 6).1);
}

/// A history from the very beginning has the txn before the first one.
#[test]
fn the_beginning_is_proven_by_the_first_snapshot() {
    let first = epoch(1, 1..=5);
    let disk = server(std::slice::from_ref(&first));
    assert_eq!(read(&disk, 0, first[2]), (first[..2].to_vec(), true));
    disk.remove(&dir().join("snapshot.0")).unwrap();
    assert_eq!(read(&disk, 0, first[2]), (first[..2].to_vec(), false));
}

#[test]
fn a_file_that_vanishes_breaks_the_part() {
    let (old, new) = (epoch(1, 1..=7), epoch(2, 1..=5));
    let disk = server(&[old[..5].to_vec(), old[5..].to_vec(), new.clone()]);
    let opened = read_records(Arc::new(disk.clone()), &dirs(), Zxid(old[0]), Zxid(new[0]));
    let mut records = opened.unwrap();
    disk.remove(&log_path(old[5])).unwrap();
    while records.next_record().unwrap().is_some() {}
    assert!(!records.is_unbroken());
}

/// A torn write was never completed, and what an earlier start dropped does not count.
#[test]
fn a_torn_end_is_no_damage() {
    let (old, new) = (epoch(1, 1..=3), epoch(2, 1..=3));
    let disk = server(&[old.clone(), new.clone()]);
    let torn = log_bytes(&[create(old[2] + 1, 40)])[16..60].to_vec();
    disk.put(&log_path(old[0]), [disk.content(&log_path(old[0])).unwrap(), torn].concat());
    assert!(read(&disk, old[0], new[1]).1);
}

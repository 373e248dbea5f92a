//! The window of txns at the end of every kind of log.

use herdsman_proto::txn::Entry;

use super::*;
use crate::disk::MemoryDisk;
use crate::testing::*;

const ALL: HistoryLimits = HistoryLimits { txns_max: 1000, bytes_max: 1 << 20, after: Zxid::ZERO };

fn history(disk: &MemoryDisk, last: Zxid, limits: HistoryLimits) -> TxnHistory {
    read_history(disk, &dirs(), last, limits).unwrap()
}

/// These files, each with its txns.
fn logs(files: &[Vec<i64>]) -> (MemoryDisk, Vec<Entry>) {
    let disk = disk();
    for zxids in files {
        disk.put(&log_path(zxids[0]), log_bytes(&creates(zxids.clone())));
    }
    (disk, creates(files.concat()))
}

fn put_snapshot(disk: &MemoryDisk, zxid: i64) {
    disk.put(&dir().join(format!("snapshot.{zxid:x}")), Vec::new());
}

/// The window starts after `base` and holds the last `count` txns.
fn check(disk: &MemoryDisk, entries: &[Entry], limits: HistoryLimits, base: i64, count: usize) {
    let last = entries.last().unwrap().header.zxid;
    let history = history(disk, last, limits);
    assert_eq!(history.base, Zxid(base));
    let expected: Vec<(Zxid, Bytes)> = entries[entries.len() - count..]
        .iter()
        .map(|entry| (entry.header.zxid, Bytes::from(payload(entry))))
        .collect();
    assert_eq!(history.txns, expected);
}

fn txns(txns_max: usize) -> HistoryLimits {
    HistoryLimits { txns_max, ..ALL }
}

#[test]
fn limits_are_kept() {
    let (disk, entries) = logs(&[(15..=17).collect(), (18..=22).collect(), vec![23]]);
    check(&disk, &entries, ALL, 14, 9);
    for count in 1..9 {
        check(&disk, &entries, txns(count), 23 - count as i64, count);
    }
    check(&disk, &entries, txns(9), 14, 9);
    let bytes = payload(&create(15, 40)).len();
    for count in 1..9 {
        for more in [0, bytes - 1] {
            let limits = HistoryLimits { bytes_max: bytes * count + more, ..ALL };
            check(&disk, &entries, limits, 23 - count as i64, count);
        }
    }
    // Room for nothing, or not asked for at all.
    check(&disk, &entries, HistoryLimits { bytes_max: bytes - 1, ..ALL }, 23, 0);
    check(&disk, &entries, HistoryLimits::default(), 23, 0);
    // Nothing is returned of a log that ends elsewhere.
    assert_eq!(history(&disk, Zxid(30), ALL), TxnHistory { base: Zxid(30), txns: Vec::new() });
    // Nor of txns after the requested end.
    check(&disk, &entries[..6], ALL, 14, 6);
}

#[test]
fn a_hole_ends_it() {
    let (disk, entries) = logs(&[(1..=3).collect(), (5..=7).collect()]);
    check(&disk, &entries, ALL, 4, 3);
    let (disk, entries) = logs(&[(1..=3).collect(), vec![4, 6, 7]]);
    check(&disk, &entries, ALL, 5, 2);
}

/// Damaged txns are not offered; those after them are, if nothing is missing from there on.
#[test]
fn damage_ends_it() {
    let (disk, entries) = logs(&[(1..=6).collect(), (7..=8).collect()]);
    disk.flip_bit(&log_path(1), 16 + 128 * 3 + 40, 1);
    check(&disk, &entries, ALL, 4, 4);
    // After the damaged end of a file, a new epoch may follow a gap.
    let (disk, entries) = logs(&[epoch(1, 1..=3), epoch(2, 1..=3)]);
    let last = disk.content(&log_path(1 << 32 | 1)).unwrap().len() - 20;
    disk.flip_bit(&log_path(1 << 32 | 1), last, 1);
    check(&disk, &entries, ALL, 2 << 32 | 1, 2);
}

/// A file is named by its first txn. If that is not in it, it is missing.
#[test]
fn a_file_without_the_txn_that_names_it_ends_it() {
    let (disk, entries) = logs(&[epoch(1, 1..=3), epoch(2, 1..=3)]);
    disk.rename(&log_path(2 << 32 | 1), &log_path(1 << 32 | 4)).unwrap();
    check(&disk, &entries, ALL, 2 << 32 | 1, 2);
}

#[test]
fn epochs_follow_each_other() {
    let (disk, entries) = logs(&[epoch(1, 3..=5), [epoch(1, 6..=6), epoch(2, 1..=3)].concat()]);
    check(&disk, &entries, ALL, 1 << 32 | 2, 7);
    check(&disk, &entries, txns(3), 1 << 32 | 6, 3);
    // A snapshot whose txn is in the log does not end the window.
    put_snapshot(&disk, 1 << 32 | 5);
    put_snapshot(&disk, 2 << 32 | 2);
    check(&disk, &entries, ALL, 1 << 32 | 2, 7);
}

/// Txns before a snapshot from a leader may be from another history.
#[test]
fn a_snapshot_that_the_log_does_not_go_through_ends_it() {
    for (zxid, base, count) in [
        // The first txn of an epoch has nothing before it that could be named, except by a snapshot.
        (1 << 32 | 9, 2 << 32 | 1, 2),
        (2 << 32, 2 << 32, 3),
    ] {
        let (disk, entries) = logs(&[epoch(1, 1..=5), epoch(2, 1..=3)]);
        put_snapshot(&disk, zxid);
        check(&disk, &entries, ALL, base, count);
    }
}

#[test]
fn a_beginning_without_a_past_is_the_base() {
    let (disk, entries) = logs(&[epoch(2, 1..=3)]);
    check(&disk, &entries, ALL, 2 << 32 | 1, 2);
    put_snapshot(&disk, 2 << 32);
    check(&disk, &entries, ALL, 2 << 32, 3);
    // The first of all.
    let (disk, entries) = logs(&[(1..=3).collect()]);
    put_snapshot(&disk, 0);
    check(&disk, &entries, ALL, 0, 3);
}

#[test]
fn without_a_log_there_is_none() {
    let disk = disk();
    assert_eq!(history(&disk, Zxid(7), ALL), TxnHistory { base: Zxid(7), txns: Vec::new() });
    disk.put(&log_path(8), crate::log::HEADER.to_vec());
    assert_eq!(history(&disk, Zxid(7), ALL).base, Zxid(7));
}

//! Logs with records that repeat a zxid, as Apache 3.9.5 writes them.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::ServerId;
use herdsman_proto::txn::Entry;

use super::*;
use crate::disk::MemoryDisk;
use crate::repair::{Answer, Repair};
use crate::testing::*;
use crate::{
    Assessment, Damage, HistoryLimits, LogRange, PrecedingTxn, RecoverOptions, TxnHistory, assess,
    read_history, read_records, splice,
};

/// A server with log files of these names and records, and its first snapshot.
fn server(files: &[(i64, &[Entry])]) -> MemoryDisk {
    let disk = disk();
    snapshot(&disk, &tree_of(&[]));
    for (name, entries) in files {
        disk.put(&log_path(*name), log_bytes(entries));
    }
    disk
}

/// The records between two txns that another server may be sent.
fn offered(disk: &MemoryDisk, after: i64, before: i64) -> (Vec<(Zxid, Bytes)>, bool) {
    let mut records =
        read_records(Arc::new(disk.clone()), &dirs(), Zxid(after), Zxid(before)).unwrap();
    let mut found = Vec::new();
    while let Some(record) = records.next_record().unwrap() {
        found.push(record);
    }
    (found, records.is_unbroken())
}

/// The txns after one, as a leader reads them for a learner; `None` if it cannot.
fn range(disk: &MemoryDisk, after: i64, to: i64) -> Option<Vec<(Zxid, Bytes)>> {
    let after = (Zxid(after), PrecedingTxn::Known);
    let mut range = LogRange::open(Arc::new(disk.clone()), &dirs(), after, Zxid(to)).unwrap();
    let mut found = Vec::new();
    while let Some(txn) = range.next_txn().ok()? {
        found.push(txn);
    }
    Some(found)
}

fn window(disk: &MemoryDisk, last: i64) -> TxnHistory {
    let limits = HistoryLimits { txns_max: 100, bytes_max: 1 << 20, after: Zxid::ZERO };
    read_history(disk, &dirs(), Zxid(last), limits).unwrap()
}

fn payloads(entries: &[Entry]) -> Vec<(Zxid, Bytes)> {
    entries.iter().map(|entry| (entry.header.zxid, payload(entry).into())).collect()
}

/// Everything that reads these logs finds these txns, and nothing else.
#[track_caller]
fn check(files: &[(i64, &[Entry])], txns: &[Entry]) {
    let disk = server(files);
    let (first, last) = (txns[0].header.zxid.0, txns[txns.len() - 1].header.zxid.0);
    assert_eq!(assess(&disk, &dirs(), &RecoverOptions::default()).unwrap(), Assessment::Whole);
    assert_eq!(window(&disk, last), TxnHistory { base: Zxid::ZERO, txns: payloads(txns) });
    assert_eq!(range(&disk, 0, last), Some(payloads(txns)));
    let inner = &txns[1..txns.len() - 1];
    assert_eq!(offered(&disk, first, last), (payloads(inner), true));
    for (index, txn) in txns.iter().enumerate() {
        let zxid = txn.header.zxid.0;
        assert_eq!(range(&disk, zxid, last), Some(payloads(&txns[index + 1..])), "{zxid}");
    }
    let found = recovered(&disk);
    assert!(same(&found.tree, &tree_of(txns)));
    assert_eq!(found.txns_replayed, txns.len() as u64);
}

#[test]
fn a_record_that_repeats_a_zxid_changes_nothing() {
    let txns = creates(1..=4);
    let [one, two, three, four] = [0, 1, 2, 3].map(|index| txns[index].clone());
    let again = |zxid| undecodable(zxid);
    check(&[(1, &[one.clone(), two.clone(), again(2), three.clone(), four.clone()])], &txns);
    let end = [one.clone(), two.clone(), three.clone(), again(3), again(3), four.clone(), again(4)];
    check(&[(1, &end)], &txns);
    // A server started in between: the record names a file.
    let (before, after) = ([one, two], [again(2), three, four]);
    check(&[(1, &before), (2, &after)], &txns);
    check(&[(1, &before), (2, &[again(2)]), (3, &txns[2..])], &txns);
    check(&[(1, &txns), (4, &[again(4)])], &txns);
}

/// A txn of this kind with a zxid of its own counts, also as the first one of a file.
#[test]
fn a_txn_of_a_request_that_cannot_be_decoded_may_have_its_own_zxid() {
    let mut txns = creates(1..=5);
    (txns[2], txns[4]) = (undecodable(3), undecodable(5));
    check(&[(1, &txns)], &txns);
    check(&[(1, &txns[..2]), (3, &txns[2..])], &txns);
    check(&[(1, &txns[..4]), (5, &txns[4..])], &txns);
    check(&[(1, &txns[..3]), (3, &[undecodable(3), txns[3].clone(), txns[4].clone()])], &txns);
}

/// A leader that has not given a zxid yet logs counter 0, which no txn has.
#[test]
fn counter_zero_is_not_a_txn() {
    let txns = creates([vec![1, 2], epoch(2, 1..=3)].concat());
    let start = undecodable(2 << 32);
    let first = txns[2].header.zxid.0;
    let with_start = [std::slice::from_ref(&start), &txns[2..]].concat();
    check(&[(txns[0].header.zxid.0, &txns[..2]), (2 << 32, &with_start)], &txns);
    let alone = std::slice::from_ref(&start);
    check(&[(txns[0].header.zxid.0, &txns[..2]), (2 << 32, alone), (first, &txns[2..])], &txns);
    let one_file = [&txns[..2], alone, &txns[2..]].concat();
    check(&[(txns[0].header.zxid.0, &one_file)], &txns);
}

/// It is not the record that is missing, however well it would fit.
#[test]
fn a_repeat_does_not_stand_in_for_a_damaged_record() {
    let txns = creates(1..=5);
    let stored = [&txns[..3], &[undecodable(3)], &txns[3..]].concat();
    let disk = server(&[(1, &stored)]);
    disk.flip_bit(&log_path(1), log_bytes(&txns[..2]).len() + 30, 3);
    let Assessment::Damaged(damage) = assess(&disk, &dirs(), &RecoverOptions::default()).unwrap()
    else {
        panic!("a record is damaged");
    };
    let Damage { gaps, end, .. } = &damage;
    assert_eq!(gaps[0].known.iter().map(|id| id.zxid.0).collect::<Vec<_>>(), [3]);
    assert_eq!((gaps.len(), *end), (1, Some(Zxid(5))));
    assert!(crate::recover(&disk, &dirs(), &RecoverOptions::default(), &mut |_| {}).is_err());
    // Nobody is sent it for the txn either.
    assert_eq!(offered(&disk, 2, 4), (Vec::new(), false));
    assert_eq!(range(&disk, 2, 5), None);
    assert_eq!(window(&disk, 5).txns, payloads(&txns[3..]));
    // With the right record, everything is there.
    let mut repair = Repair::new(damage);
    let mut offer = repair.offer_of(ServerId(2), (Zxid(2), Zxid(4)));
    assert!(offer.push(Zxid(3), payload(&txns[2]).into()));
    repair.offer(offer, Answer::default());
    assert!(repair.is_complete());
    splice(&disk, &dirs(), &RecoverOptions::default(), &repair).unwrap();
    assert!(same(&recovered(&disk).tree, &tree_of(&txns)));
}

/// The same where a file ends with the damage, and the next one begins with the repeat.
#[test]
fn a_repeat_after_a_damaged_file_does_not_stand_in_either() {
    let txns = creates(1..=5);
    let disk = server(&[(1, &txns[..3]), (3, &[&[undecodable(3)], &txns[3..]].concat())]);
    disk.flip_bit(&log_path(1), log_bytes(&txns[..2]).len() + 30, 3);
    assert!(crate::recover(&disk, &dirs(), &RecoverOptions::default(), &mut |_| {}).is_err());
    assert_eq!(offered(&disk, 2, 4).0, Vec::new());
    assert_eq!(range(&disk, 2, 5), None);
    assert_eq!(window(&disk, 5).txns, payloads(&txns[3..]));
}

/// A snapshot right before the txn whose zxid names the second file: the txn is in the first one.
#[test]
fn the_file_before_is_read_too_if_a_repeat_names_one() {
    let txns = creates(1..=5);
    let disk = server(&[(1, &txns[..3]), (3, &[&[undecodable(3)], &txns[3..]].concat())]);
    snapshot(&disk, &tree_of(&txns[..2]));
    assert!(same(&recovered(&disk).tree, &tree_of(&txns)));
}

//! Batches, preallocation, full disks and failed syncs.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::disk::{MemoryDisk, RealDisk};
use crate::log::ending::{RecordsEnd, classify};
use crate::log::record::RecordReader;
use crate::testing::*;

fn sizes(disk: &MemoryDisk) -> Vec<(String, u64)> {
    let entries = disk.list(dir()).unwrap();
    entries.into_iter().map(|entry| (entry.name, entry.bytes)).collect()
}

/// The zxids of all whole records of all files.
fn all_zxids(disk: &MemoryDisk) -> Vec<i64> {
    let names = sizes(disk).into_iter().filter_map(|(name, _)| LogName::parse(&name));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.iter().flat_map(|name| zxids(disk, &name.path(dir()))).collect()
}

#[test]
fn the_bytes_are_apaches() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    let entry = create(1, 3);
    log.append(Zxid(1), &payload(&entry)).unwrap();
    log.flush(SyncMode::Sync).unwrap();
    let content = disk.content(&log_path(1)).unwrap();
    assert_eq!(content.len(), 16 << 10);
    let expected = log_bytes(&[entry]);
    assert_eq!(content[..expected.len()], expected);
    // What follows is the footer and one slot.
    let table = content.len() - 96;
    assert!(content[expected.len()..table].iter().all(|byte| *byte == 0));
    assert_eq!(&content[..16], b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0");
}

#[test]
fn files_grow_by_apaches_rule() {
    let check = |start, bytes, end, expected| {
        let options = LogOptions { pre_alloc_bytes: 1000, ..OPTIONS };
        assert_eq!(grown_bytes(start, bytes, end, options), expected);
    };
    check(16, 16, 100, 1016);
    check(500, 6000, 600, 6000);
    check(1903, 6000, 2000, 6000);
    check(1904, 6000, 2000, 7000);
    check(7500, 6000, 7600, 8000);
    // A batch that one step does not hold takes several.
    check(16, 16, 5000, 5016);
    let off = LogOptions { pre_alloc_bytes: 0, ..OPTIONS };
    assert_eq!(grown_bytes(16, 16, 5000, off), 16);
    let apache = LogOptions::default();
    assert_eq!(grown_bytes(16, 16, 100, apache), 67_108_880);
}

#[test]
fn a_batch_is_one_sync_and_all_of_it_survives() {
    let disk = disk();
    let options = LogOptions { pre_alloc_bytes: 64 << 10, ..OPTIONS };
    let mut log = LogWriter::new(Arc::new(disk.clone()), DIR, Zxid::ZERO, options);
    write_batch(&mut log, 1, 100);
    assert_eq!(disk.syncs(), 1);
    write_batch(&mut log, 101, 120);
    assert_eq!(disk.syncs(), 2);
    assert_eq!(log.last_zxid(), Zxid(120));
    disk.crash(|_| false);
    assert_eq!(zxids(&disk, &log_path(1)), (1..=120).collect::<Vec<_>>());
}

#[test]
fn without_sync_nothing_is_waited_for_and_a_later_sync_covers_all() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    log.append(Zxid(1), &payload(&create(1, 9))).unwrap();
    log.flush(SyncMode::NoSync).unwrap();
    assert_eq!(disk.syncs(), 0);
    log.flush(SyncMode::Sync).unwrap();
    disk.crash(|_| false);
    assert_eq!(zxids(&disk, &log_path(1)), [1]);
}

/// What a flush with a sync has reported survives, also what was written to files that were ended before.
#[test]
fn a_sync_covers_files_that_were_rolled_without_one() {
    for files in 1..=2 * UNSYNCED_FILES_MAX as i64 {
        let disk = disk();
        let mut log = writer(&disk, Zxid::ZERO);
        for zxid in 1..=files {
            log.append(Zxid(zxid), &payload(&create(zxid, 9))).unwrap();
            log.flush(SyncMode::NoSync).unwrap();
            log.roll();
        }
        log.append(Zxid(files + 1), &payload(&create(files + 1, 9))).unwrap();
        log.flush(SyncMode::Sync).unwrap();
        disk.crash(|_| false);
        for zxid in 1..=files + 1 {
            assert_eq!(zxids(&disk, &log_path(zxid)), [zxid], "of {files}");
        }
    }
    // There may be no file open when the sync comes.
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    log.append(Zxid(1), &payload(&create(1, 9))).unwrap();
    log.flush(SyncMode::NoSync).unwrap();
    log.roll();
    disk.fail_sync(0);
    assert!(log.flush(SyncMode::Sync).is_err());
}

/// Without syncs the number of files that wait for one is limited.
#[test]
fn few_files_wait_for_a_sync() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    for zxid in 1..=20 {
        log.append(Zxid(zxid), &payload(&create(zxid, 9))).unwrap();
        log.flush(SyncMode::NoSync).unwrap();
        log.roll();
        assert!(log.unsynced.len() <= UNSYNCED_FILES_MAX);
    }
    disk.fail_sync(0);
    log.append(Zxid(21), &payload(&create(21, 9))).unwrap();
    log.flush(SyncMode::NoSync).unwrap();
    log.roll();
    assert!(log.append(Zxid(22), &payload(&create(22, 9))).is_err());
}

#[test]
fn a_rolled_file_keeps_its_table_and_the_next_is_named_by_its_first_txn() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    write_batch(&mut log, 1, 3);
    log.roll();
    assert!(log.current_file().is_none());
    write_batch(&mut log, 4, 5);
    // The roll waits for a buffered batch.
    log.append(Zxid(6), &payload(&create(6, 9))).unwrap();
    log.roll();
    log.flush(SyncMode::Sync).unwrap();
    write_batch(&mut log, 7, 7);
    assert_eq!(sizes(&disk)[0], ("log.1".to_owned(), 16 << 10));
    assert_eq!(zxids(&disk, &log_path(1)), [1, 2, 3]);
    assert_eq!(zxids(&disk, &log_path(4)), [4, 5, 6]);
    assert_eq!(zxids(&disk, &log_path(7)), [7]);
}

#[test]
fn a_file_over_the_limit_is_its_batchs_last() {
    let disk = disk();
    let options = LogOptions { file_bytes_max: Some(300), ..OPTIONS };
    let mut log = LogWriter::new(Arc::new(disk.clone()), DIR, Zxid::ZERO, options);
    for zxid in 1..=6 {
        write_batch(&mut log, zxid, zxid);
    }
    let names: Vec<String> = sizes(&disk).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["log.1", "log.4"]);
}

#[test]
fn a_txn_that_no_reader_accepts_is_not_written() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    let payload = vec![1; OPTIONS.payload_bytes_max + 1];
    assert!(matches!(log.append(Zxid(1), &payload), Err(AppendError::TooLarge { .. })));
    write_batch(&mut log, 1, 1);
}

#[test]
fn a_full_disk_keeps_the_batch_for_later() {
    // Room for nothing, for the header, for half a batch; with and without preallocation.
    for pre_alloc_bytes in [0, 16 << 10] {
        for room in [0, 16, 30, 200] {
            let disk = disk();
            let options = LogOptions { pre_alloc_bytes, ..OPTIONS };
            let mut log = LogWriter::new(Arc::new(disk.clone()), DIR, Zxid::ZERO, options);
            write_batch(&mut log, 1, 2);
            // Fill what is preallocated.
            while pre_alloc_bytes > 0 && log.current_file().unwrap().1 + 5000 < pre_alloc_bytes {
                let next = log.last_zxid().0 + 1;
                write_batch(&mut log, next, next + 9);
            }
            let last = log.last_zxid().0;
            let used: u64 = sizes(&disk).iter().map(|(_, bytes)| bytes).sum();
            disk.set_capacity(Some(used + room));
            log.append(Zxid(last + 1), &payload(&create(last + 1, 9000))).unwrap();
            log.append(Zxid(last + 2), &payload(&create(last + 2, 9000))).unwrap();
            for _ in 0..2 {
                let error = log.flush(SyncMode::Sync).unwrap_err();
                assert!(matches!(error, AppendError::Full { .. }), "{error}");
                assert_eq!(all_zxids(&disk).last(), Some(&last));
            }
            disk.set_capacity(None);
            let flushed = log.flush(SyncMode::Sync).unwrap();
            assert_eq!((flushed.records, flushed.last_zxid), (2, Zxid(last + 2)));
            disk.crash(|_| false);
            assert_eq!(all_zxids(&disk), (1..=last + 2).collect::<Vec<_>>());
        }
    }
}

/// There is nothing wrong with the disk when a file cannot be opened: the batch is flushed once it can, and is
/// in the log once.
#[test]
fn no_file_descriptors_keep_the_batch_for_later() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    write_batch(&mut log, 1, 2);
    log.roll();
    disk.set_openable(false);
    log.append(Zxid(3), &payload(&create(3, 40))).unwrap();
    for _ in 0..2 {
        let error = log.flush(SyncMode::Sync).unwrap_err();
        assert!(matches!(error, AppendError::NotOpened { .. }), "{error}");
    }
    disk.set_openable(true);
    // The descriptor of the new file is the last one: its name cannot be made durable yet.
    log.flush(SyncMode::NoSync).unwrap();
    log.append(Zxid(4), &payload(&create(4, 40))).unwrap();
    disk.set_openable(false);
    for _ in 0..2 {
        let error = log.flush(SyncMode::Sync).unwrap_err();
        assert!(error.is_temporary(), "{error}");
    }
    // A roll comes in between.
    log.roll();
    disk.set_openable(true);
    let flushed = log.flush(SyncMode::Sync).unwrap();
    assert_eq!((flushed.records, flushed.last_zxid), (1, Zxid(4)));
    write_batch(&mut log, 5, 5);
    disk.crash(|_| false);
    assert_eq!(zxids(&disk, &log_path(3)), [3, 4]);
    assert_eq!(zxids(&disk, &log_path(5)), [5]);
}

/// Files that were ended without a sync stay in the list until their names can be made durable.
#[test]
fn ended_files_wait_for_a_file_descriptor_too() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    log.append(Zxid(1), &payload(&create(1, 9))).unwrap();
    log.flush(SyncMode::NoSync).unwrap();
    log.roll();
    disk.set_openable(false);
    assert!(log.flush(SyncMode::Sync).unwrap_err().is_temporary());
    disk.set_openable(true);
    log.flush(SyncMode::Sync).unwrap();
    disk.crash(|_| false);
    assert_eq!(zxids(&disk, &log_path(1)), [1]);
}

/// A disk that has room for the batch, but not for growing ahead, is not full yet.
#[test]
fn the_last_room_is_used_without_growing_ahead() {
    let disk = disk();
    disk.set_capacity(Some(OPTIONS.pre_alloc_bytes / 2));
    let mut log = writer(&disk, Zxid::ZERO);
    write_batch(&mut log, 1, 4);
    write_batch(&mut log, 5, 8);
    disk.crash(|_| false);
    assert_eq!(zxids(&disk, &log_path(1)), (1..=8).collect::<Vec<_>>());
}

#[test]
fn a_failed_sync_is_final() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    write_batch(&mut log, 1, 2);
    disk.fail_sync(0);
    log.append(Zxid(3), &payload(&create(3, 40))).unwrap();
    let syncs = disk.syncs();
    for _ in 0..3 {
        let error = log.flush(SyncMode::Sync).unwrap_err();
        assert!(matches!(error, AppendError::Failed { action: "sync", .. }));
        assert!(log.append(Zxid(4), b"").is_err());
    }
    // It was called once and never again.
    assert_eq!(disk.syncs(), syncs + 1);
    assert_eq!(log.last_zxid(), Zxid(2));
}

#[test]
fn a_log_of_that_name_is_never_overwritten() {
    let disk = disk();
    disk.put(&log_path(1), b"precious".to_vec());
    let mut log = writer(&disk, Zxid::ZERO);
    log.append(Zxid(1), &payload(&create(1, 40))).unwrap();
    assert!(matches!(log.flush(SyncMode::Sync), Err(AppendError::Failed { action: "create", .. })));
    assert_eq!(disk.content(&log_path(1)).unwrap(), b"precious");
}

#[test]
#[should_panic(expected = "appended after")]
fn zxids_must_rise() {
    let disk = disk();
    let mut log = writer(&disk, Zxid(5));
    let _ = log.append(Zxid(5), b"");
}

#[test]
fn a_real_disk_does_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions::default();
    let mut log = LogWriter::new(Arc::new(RealDisk), dir.path(), Zxid::ZERO, options);
    write_batch(&mut log, 1, 50);
    let path = dir.path().join("log.1");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 64 << 20);
    log.roll();
    let entries: Vec<_> = (1..=50).map(|zxid| create(zxid, 40)).collect();
    let records = log_bytes(&entries);
    let content = std::fs::read(&path).unwrap();
    assert_eq!(content[..records.len()], records);
    // Where the file system frees it, the space between records and table is gone.
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 64 << 20);
    assert!(metadata.blocks() * 512 < 1 << 20 || metadata.blocks() * 512 >= 64 << 20);
}

proptest::proptest! {
    #[test]
    fn random_payloads_come_back(
        payloads in proptest::collection::vec(
            proptest::collection::vec(proptest::prelude::any::<u8>(), 32..3000),
            1..30,
        ),
        batch in 1..7usize,
    ) {
        let disk = disk();
        let mut log = writer(&disk, Zxid::ZERO);
        for (index, payload) in payloads.iter().enumerate() {
            log.append(Zxid(index as i64 + 1), payload).unwrap();
            if index % batch == 0 {
                log.flush(SyncMode::Sync).unwrap();
            }
        }
        log.flush(SyncMode::Sync).unwrap();
        disk.crash(|_| false);
        let names = sizes(&disk).into_iter().filter_map(|(name, _)| LogName::parse(&name));
        let mut names: Vec<_> = names.collect();
        names.sort();
        let mut found = Vec::new();
        for name in names {
            let mut reader = RecordReader::open(&disk, &name.path(dir())).unwrap();
            while let Some(record) = reader.next_record().unwrap() {
                found.push(record.payload.to_vec());
            }
            proptest::prop_assert_eq!(classify(&reader).unwrap(), RecordsEnd::Clean);
        }
        proptest::prop_assert_eq!(found, payloads);
    }
}

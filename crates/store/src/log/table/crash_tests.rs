//! Power cuts: any part of a batch may be missing, and a file may be ended or cut in the middle of any step.

use std::path::Path;
use std::sync::Arc;

use herdsman_proto::txn::Entry;

use super::tests::{Break, Reading, Sample, apache_zxids, expected, read, read_file};
use super::*;
use crate::disk::{Disk, MemoryDisk, Unsynced};
use crate::log::walk::LogWalkError;
use crate::log::writer::{LogWriter, SyncMode};
use crate::recover::{RecoverError, RecoverOptions, recover};
use crate::testing::*;

/// A number from 0 to below `end`, different for each seed and step.
fn random(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % end
}

fn disk_with_snapshot() -> MemoryDisk {
    let disk = disk();
    snapshot(&disk, &tree_of(&[]));
    disk
}

fn append(log: &mut LogWriter, entries: &[Entry]) {
    for entry in entries {
        log.append(entry.header.zxid, &payload(entry)).unwrap();
    }
}

/// The last txn after a recovery; an error names the txns that are damaged.
fn recover_last(disk: &MemoryDisk) -> Result<i64, Vec<i64>> {
    match recover(disk, &dirs(), &RecoverOptions::default(), &mut |_| {}) {
        Ok(recovered) => Ok(recovered.tree.last_zxid().0),
        Err(RecoverError::Log { source: LogWalkError::Damaged { lost, .. }, .. }) => {
            assert!(lost.is_complete);
            Err(lost.ids.iter().map(|id| id.zxid.0).collect())
        }
        Err(error) => panic!("{error}"),
    }
}

/// Writes some batches, of which the last one is not synced; then the power fails, and any subset of its sectors
/// survives.
fn crash_in_batch(durable: &[Entry], batch: &[Entry], check: &mut dyn FnMut(&Sample, &MemoryDisk)) {
    let mut sectors: Option<u32> = None;
    let mut subset = 0u32;
    while sectors.is_none_or(|sectors| subset < 1u32 << sectors) {
        let disk = disk_with_snapshot();
        let mut log = writer(&disk, Zxid::ZERO);
        append(&mut log, durable);
        log.flush(SyncMode::Sync).unwrap();
        append(&mut log, batch);
        log.flush(SyncMode::NoSync).unwrap();
        let whole = Sample::of(&disk, [durable, batch].concat());
        let mut questions = 0;
        disk.crash(|unsynced| {
            assert!(matches!(unsynced, Unsynced::Sector(..)));
            questions += 1;
            subset >> (questions - 1) & 1 == 1
        });
        assert_eq!(*sectors.get_or_insert(questions), questions);
        check(&whole, &disk);
        subset += 1;
    }
}

/// Any subset of the sectors of a batch survives, and of the slots of the batch before. What was synced is always
/// there, and the server always starts: nothing is taken for damaged.
#[test]
fn any_part_of_a_batch() {
    let durable = [create(1, 20), create(2, 100)];
    let many: Vec<Entry> = (3..20).map(|zxid| create(zxid, 30)).collect();
    let few = [create(3, 300), create(4, 300), create(5, 300), create(6, 10)];
    let (mut whole_batches, mut parts) = (0, 0);
    for batch in [&[create(3, 900)][..], &few, &many] {
        crash_in_batch(&durable, batch, &mut |whole, disk| {
            let content = disk.content(&log_path(1)).unwrap();
            let is_same = |from: usize, to: usize| content[from..to] == whole.content[from..to];
            let records = 0..whole.records();
            let valid: Vec<bool> = records
                .clone()
                .map(|index| is_same(whole.starts[index], whole.starts[index + 1]))
                .collect();
            let slots = records.map(|index| &content[whole.slot(index)..whole.slot(index) + 32]);
            let has_slot: Vec<bool> = slots.map(|slot| slot != [0; 32]).collect();
            let expected = expected(whole, &valid, &has_slot);
            let reading = read_file(disk, 1);
            assert_eq!(reading.good, expected.good);
            assert!(reading.damages == 0 && reading.good.starts_with(&[1, 2]));
            let last = expected.good.last().copied().unwrap();
            assert_eq!(recover_last(disk), Ok(last));
            let files = files(disk);
            assert_eq!(apache_zxids(&files[0].1), expected.good);
            assert!(check_damage_is_noticed(disk, &whole.entries[..expected.good.len()]));
            assert_eq!(recover_last(disk), Ok(last));
            assert_eq!(self::files(disk), files, "the first recovery has mended everything");
            let all = valid.iter().all(|valid| *valid);
            *if all { &mut whole_batches } else { &mut parts } += 1;
        });
    }
    assert!(whole_batches == 6 && parts > 100, "{whole_batches} {parts}");
}

/// The first batch of a file: nothing in the file was acknowledged, so all of it may be missing.
#[test]
fn any_part_of_a_new_file() {
    let batch = [create(1, 300), create(2, 10), create(3, 400)];
    let (mut refused, mut started) = (0, 0);
    for subset in 0..1 << 6 {
        let disk = disk_with_snapshot();
        let mut log = writer(&disk, Zxid::ZERO);
        append(&mut log, &batch);
        log.flush(SyncMode::NoSync).unwrap();
        let mut questions = 0;
        disk.crash(|_| {
            questions += 1;
            subset >> (questions - 1) & 1 == 1
        });
        assert!(questions <= 6);
        let has_footer = disk.content(&log_path(1)).is_some_and(|content| {
            content.len() == 16384 && Footer::decode(16320, &content[16320..]).is_some()
        });
        match recover(&disk, &dirs(), &RecoverOptions::default(), &mut |_| {}) {
            Ok(recovered) => {
                assert!(recovered.tree.last_zxid() <= Zxid(3));
                started += 1;
            }
            // By the rule for files without a table.
            Err(RecoverError::Log { source: LogWalkError::Damaged { .. }, .. }) => {
                assert!(!has_footer);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused < 10 && started + refused == 64, "{refused}");
}

/// Runs `steps` on a disk that `prepare` makes, cuts the power before each of its changes, lets different parts of
/// what was not synced survive, and checks what is left.
fn cut_power_everywhere(
    prepare: &dyn Fn() -> MemoryDisk,
    steps: &dyn Fn(&MemoryDisk),
    check: &mut dyn FnMut(&MemoryDisk),
) {
    let disk = prepare();
    let before = disk.changes();
    steps(&disk);
    let changes = disk.changes() - before;
    assert!(changes > 0);
    for cut in 0..=changes {
        for seed in 0..24 {
            let disk = prepare();
            disk.cut_power_after(cut);
            steps(&disk);
            let mut state = seed * 1000 + cut;
            let odds = [0, 5, 10, 8][seed as usize % 4];
            let length = |name: &String| disk.content(&dir().join(name)).unwrap().len() as u64;
            let lengths: Vec<_> =
                names(&disk).iter().map(|name| (dir().join(name), length(name))).collect();
            disk.crash(|unsynced| {
                // A file system that cuts a file writes zeros in its last block only.
                let is_cut_off = |path: &Path, at: u64| {
                    let file = lengths.iter().find(|(name, _)| name == path);
                    file.is_some_and(|(_, bytes)| at >= bytes.next_multiple_of(4096))
                };
                match unsynced {
                    Unsynced::Sector(path, at) if is_cut_off(path, at) => false,
                    _ => random(&mut state, 10) < odds,
                }
            });
            check(&disk);
        }
    }
}

/// If a file has a footer, no damage to an acknowledged record is taken for a torn write.
fn check_damage_is_noticed(disk: &MemoryDisk, entries: &[Entry]) -> bool {
    let entries = entries.to_vec();
    let content = disk.content(&log_path(1)).unwrap();
    let start = content.len() as u64 - 64;
    if Footer::decode(start, &content[start as usize..]).is_none() {
        return false;
    }
    let starts = (0..=entries.len()).map(|count| log_bytes(&entries[..count]).len()).collect();
    let table = (content.len() - 64, content.len() - 64);
    let whole = Sample { first: 1, content, entries, starts, table };
    // Of many records, the first and the last ones.
    for index in (0..whole.records()).filter(|index| index % 90 < 7) {
        for how in [Break::EndMark, Break::Zeros] {
            let mut sample = whole.clone();
            sample.break_record(index, how);
            let reading = sample.read();
            assert_eq!(reading.lost_zxids(), [whole.zxid(index)]);
            assert!(reading.good.len() + 1 >= whole.records());
        }
    }
    true
}

/// A file is ended, and its unused space is freed.
#[test]
fn the_power_fails_while_a_file_is_ended() {
    // With unused space between records and table, and without.
    for records in [7, 80, 95] {
        let acknowledged: Vec<i64> = (1..=records).collect();
        let writer_at_end = |disk: &MemoryDisk| {
            let mut log = writer(disk, Zxid::ZERO);
            for zxid in &acknowledged {
                write_batch(&mut log, *zxid, *zxid);
            }
            log
        };
        let changes = {
            let disk = disk_with_snapshot();
            let mut log = writer_at_end(&disk);
            let before = disk.changes();
            log.roll();
            disk.changes() - before
        };
        assert!(changes > 0);
        for cut in 0..=changes {
            for seed in 0..24u64 {
                let disk = disk_with_snapshot();
                let mut log = writer_at_end(&disk);
                disk.cut_power_after(cut);
                log.roll();
                let mut state = seed * 1000 + cut;
                disk.crash(|_| random(&mut state, 10) < [0, 5, 10, 8][seed as usize % 4]);
                let whole = disk.content(&log_path(1)).unwrap();
                assert_eq!((whole.len(), apache_zxids(&whole)), (16 << 10, acknowledged.clone()));
                let expected =
                    Reading { good: acknowledged.clone(), is_complete: true, ..Reading::default() };
                assert_eq!(read_file(&disk, 1), expected);
                // The slot of the last batch may be missing, as before the end.
                assert!(check_damage_is_noticed(&disk, &creates(1..records)));
                assert_eq!(recover_last(&disk), Ok(records));
                assert!(check_damage_is_noticed(&disk, &creates(1..=records)));
            }
        }
    }
}

/// A log is cut after a txn: what stays is there at every moment, and its table in the end.
#[test]
fn the_power_fails_while_a_log_is_truncated() {
    for (form, kept) in [(false, 1), (false, 5), (true, 1), (true, 6)] {
        let prepare = || {
            let disk = disk_with_snapshot();
            let mut log = writer(&disk, Zxid::ZERO);
            write_batch(&mut log, 1, 4);
            write_batch(&mut log, 5, 7);
            if form {
                log.roll();
            }
            disk.sync_file(&log_path(1)).unwrap();
            disk
        };
        let steps = |disk: &MemoryDisk| {
            let _ = crate::reload::truncate(disk, &dirs(), Zxid(kept));
        };
        let mut cut = 0;
        cut_power_everywhere(&prepare, &steps, &mut |disk| {
            let reading = read_file(disk, 1);
            assert!(reading.lost.is_empty() && reading.good.len() as i64 >= kept, "{reading:?}");
            check_damage_is_noticed(disk, &creates(1..=kept));
            let last = recover_last(disk).unwrap();
            assert!((kept..=7).contains(&last), "{last}");
            cut += usize::from(last == kept);
        });
        assert!(cut > 0);
        let disk = prepare();
        steps(&disk);
        assert!(check_damage_is_noticed(&disk, &creates(1..=kept)));
        assert_eq!(read_file(&disk, 1).good, (1..=kept).collect::<Vec<_>>());
    }
}

/// Recovery cuts a torn write, and the power fails again.
#[test]
fn the_power_fails_while_a_torn_write_is_cut() {
    let prepare = || {
        let disk = disk_with_snapshot();
        let mut log = writer(&disk, Zxid::ZERO);
        write_batch(&mut log, 1, 4);
        disk.sync_file(&log_path(1)).unwrap();
        append(&mut log, &[create(5, 900), create(6, 900)]);
        log.flush(SyncMode::NoSync).unwrap();
        disk.crash(|it| !matches!(it, Unsynced::Sector(_, at) if at < 1024));
        assert_eq!(read_file(&disk, 1).good, [1, 2, 3, 4]);
        assert!(read_file(&disk, 1).torn);
        disk
    };
    let steps = |disk: &MemoryDisk| {
        let _ = recover(disk, &dirs(), &RecoverOptions::default(), &mut |_| {});
    };
    cut_power_everywhere(&prepare, &steps, &mut |disk| {
        check_damage_is_noticed(disk, &creates(1..=4));
        assert_eq!(recover_last(disk), Ok(4));
        assert_eq!(apache_zxids(&disk.content(&log_path(1)).unwrap()), [1, 2, 3, 4]);
    });
    let disk = prepare();
    steps(&disk);
    assert!(check_damage_is_noticed(&disk, &creates(1..=4)));
}

/// The writer rolls: what was flushed is there whenever the power fails, also in the files before.
#[test]
fn the_power_fails_while_files_are_rolled() {
    let mut acknowledged = 0;
    let mut cut = 0;
    loop {
        let mut finished = false;
        for seed in 0..20u64 {
            let disk = disk_with_snapshot();
            disk.cut_power_after(cut);
            let mut log = LogWriter::new(Arc::new(disk.clone()), DIR, Zxid::ZERO, OPTIONS);
            acknowledged = 0;
            for zxid in 1..=9 {
                log.append(Zxid(zxid), &payload(&create(zxid, 200))).ok();
                if log.flush(SyncMode::Sync).is_err() {
                    break;
                }
                acknowledged = zxid;
                if zxid % 3 == 0 {
                    log.roll();
                }
            }
            finished = acknowledged == 9;
            let mut state = seed * 77 + cut;
            disk.crash(|_| random(&mut state, 10) < [0, 5, 10, 8][seed as usize % 4]);
            let last = recover_last(&disk).unwrap();
            assert!(last >= acknowledged, "{last} {acknowledged}");
        }
        if finished {
            break;
        }
        cut += 1;
    }
    assert!(cut > 20 && acknowledged == 9);
}

/// The disk is full while a torn file is cut: it loses its table, and nothing else.
#[test]
fn a_full_disk_costs_the_table_only() {
    let disk = disk_with_snapshot();
    let mut log = writer(&disk, Zxid::ZERO);
    write_batch(&mut log, 1, 4);
    let records = log_bytes(&creates(1..=4));
    let others: usize = files(&disk).iter().map(|(_, content)| content.len()).sum();
    let others = others - 16384;
    disk.set_capacity(Some((others + records.len() + 100) as u64));
    assert_eq!(recover_last(&disk), Ok(4));
    assert_eq!(disk.content(&log_path(1)).unwrap(), records);
    assert_eq!(read(1, records).good, [1, 2, 3, 4]);
}

/// Damage in the middle of a file that is cut, covered by a snapshot: the slots behind it stay valid.
#[test]
fn a_cut_keeps_slots_behind_damage() {
    let disk = disk_with_snapshot();
    let mut log = writer(&disk, Zxid::ZERO);
    write_batch(&mut log, 1, 6);
    drop(log);
    let whole = Sample::of(&disk, creates(1..=6));
    let mut damaged = whole.clone();
    damaged.break_record(1, Break::Zeros);
    let slot = damaged.slot(1);
    damaged.content[slot..slot + 32].fill(0);
    disk.put(&log_path(1), damaged.content.clone());
    snapshot(&disk, &tree_of(&creates(1..=3)));
    assert_eq!(recover_last(&disk), Ok(6));
    let content = disk.content(&log_path(1)).unwrap();
    assert!(content.len() < 2000);
    let mut cut = Sample { content, ..whole };
    assert_eq!(cut.read().lost_zxids(), [2]);
    cut.break_record(5, Break::EndMark);
    cut.break_record(3, Break::EndMark);
    let reading = cut.read();
    assert_eq!((reading.lost_zxids(), reading.is_complete), (vec![2, 4, 6], true));
}

/// A table can be made from the records.
#[test]
fn a_table_is_added() {
    let disk = disk();
    disk.put(&log_path(1), log_bytes(&creates(1..=9)));
    assert!(!check_damage_is_noticed(&disk, &creates(1..=9)));
    add_table(&disk, &log_path(1), (None, Zxid(1))).unwrap();
    disk.crash(|_| false);
    assert!(check_damage_is_noticed(&disk, &creates(1..=9)));
    assert_eq!(apache_zxids(&disk.content(&log_path(1)).unwrap()).len(), 9);
}

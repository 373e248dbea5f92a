//! Truncates to every txn of every kind of directory, with a crash at every point.

use herdsman_proto::txn::Entry;

use super::*;
use crate::disk::MemoryDisk;
use crate::snapshot::LastZxid;
use crate::testing::*;

fn reload(disk: &MemoryDisk, zxid: Zxid) -> Result<Recovered, ReloadError> {
    truncate_and_reload(disk, &dirs(), zxid, &RecoverOptions::default(), &mut |_| {})
}

/// Two epochs, in several files, with a snapshot at the given lengths of the history.
fn server(snapshots: &[usize]) -> (MemoryDisk, Vec<Entry>) {
    let disk = disk();
    let entries = creates([epoch(1, 1..=8), epoch(2, 1..=8)].concat());
    for &length in snapshots {
        snapshot(&disk, &tree_of(&entries[..length]));
    }
    for part in [0..5usize, 5..11, 11..16] {
        let last = part.start.checked_sub(1).map_or(Zxid::ZERO, |at| entries[at].header.zxid);
        write_entries(&disk, last, &entries[part]);
    }
    (disk, entries)
}

/// Fails without a change.
fn impossible(disk: &MemoryDisk, zxid: Zxid) -> String {
    let unchanged = files(disk);
    let error = reload(disk, zxid).unwrap_err();
    assert!(matches!(error, ReloadError::Impossible { .. }), "{error}");
    assert_eq!(files(disk), unchanged);
    error.to_string()
}

#[test]
fn every_txn_can_be_gone_back_to() {
    for snapshots in [&[0][..], &[0, 6], &[0, 6, 12], &[0, 16], &[0, 5, 11]] {
        for length in 1..=16 {
            let (disk, entries) = server(snapshots);
            let kept = &entries[..length];
            let zxid = kept[length - 1].header.zxid;
            let reloaded = reload(&disk, zxid).unwrap();
            assert!(same(&reloaded.tree, &tree_of(kept)), "{snapshots:?} {zxid}");
            disk.crash(|_| false);
            assert!(same(&recovered(&disk).tree, &tree_of(kept)), "{snapshots:?} {zxid}");
            // The log goes on in a file of its own, in an epoch of its own.
            let more = creates(epoch(3, 1..=2));
            write_entries(&disk, zxid, &more);
            assert!(same(&recovered(&disk).tree, &tree_of(&[kept, &more].concat())));
            // And from there back again.
            assert!(same(&reload(&disk, zxid).unwrap().tree, &tree_of(kept)));
        }
    }
}

/// Txns that the tree does not show are cut off without reading snapshots, with the same result.
#[test]
fn the_log_alone_can_be_cut_after_every_txn() {
    for length in 1..=16 {
        let (disk, entries) = server(&[0]);
        let kept = &entries[..length];
        let zxid = kept[length - 1].header.zxid;
        truncate(&disk, &dirs(), zxid).unwrap();
        disk.crash(|_| false);
        assert!(same(&recovered(&disk).tree, &tree_of(kept)), "{zxid}");
        let more = creates(epoch(3, 1..=2));
        write_entries(&disk, zxid, &more);
        assert!(same(&recovered(&disk).tree, &tree_of(&[kept, &more].concat())), "{zxid}");
    }
}

#[test]
fn a_log_is_not_cut_alone_before_a_snapshot_or_where_it_has_nothing() {
    let (disk, entries) = server(&[0, 6]);
    let unchanged = files(&disk);
    for zxid in [entries[4].header.zxid, Zxid(3 << 32 | 1), Zxid(1 << 32 | 9)] {
        let error = truncate(&disk, &dirs(), zxid).unwrap_err();
        assert!(matches!(error, ReloadError::Impossible { .. }), "{zxid}: {error}");
        assert_eq!(files(&disk), unchanged);
    }
}

#[test]
fn what_is_not_there_cannot_be_gone_back_to() {
    let (disk, entries) = server(&[6]);
    for zxid in [Zxid(1 << 32 | 9), Zxid(2 << 32 | 9), Zxid::start_of(3), Zxid(7 << 32 | 1)] {
        let message = impossible(&disk, zxid);
        assert!(message.contains("the log has txn"), "{message}");
    }
    // Before the only snapshot.
    for zxid in [entries[4].header.zxid, Zxid::start_of(1), Zxid::ZERO] {
        assert!(impossible(&disk, zxid).contains("no snapshot"));
    }
    assert!(same(&recovered(&disk).tree, &tree_of(&entries)));
}

/// The start of an epoch is not a txn; everything before it stays, if this server has been in that epoch.
#[test]
fn the_start_of_an_epoch_can_be_gone_back_to() {
    for snapshots in [&[0][..], &[0, 8], &[0, 10], &[8]] {
        let (disk, entries) = server(snapshots);
        let reloaded = reload(&disk, Zxid::start_of(2)).unwrap();
        assert!(same(&reloaded.tree, &tree_of(&entries[..8])));
        disk.crash(|_| false);
        assert!(same(&recovered(&disk).tree, &tree_of(&entries[..8])));
        write_entries(&disk, reloaded.tree.last_zxid(), &creates(epoch(2, 1..=1)));
        recovered(&disk);
    }
    // All the way back.
    let (disk, _) = server(&[0, 4]);
    assert!(same(&reload(&disk, Zxid::ZERO).unwrap().tree, &tree_of(&[])));
    assert_eq!(names(&disk), ["snapshot.0"]);
    // An epoch that this server missed is in its log, if a later one follows.
    let disk = self::disk();
    let entries = creates([epoch(1, 1..=3), epoch(5, 1..=2)].concat());
    snapshot(&disk, &tree_of(&[]));
    write_entries(&disk, Zxid::ZERO, &entries);
    assert!(same(&reload(&disk, Zxid::start_of(4)).unwrap().tree, &tree_of(&entries[..3])));
}

/// After a tree was installed there is no log before it.
#[test]
fn a_snapshots_own_zxid_can_be_gone_back_to() {
    for (zxid, more) in [(1 << 32 | 5, epoch(1, 6..=9)), (2 << 32, epoch(2, 1..=3))] {
        for logged in [0, 3] {
            let disk = disk();
            let mut loader = herdsman_tree::Loader::new(herdsman_tree::TreeOptions::default());
            loader.node("", None, -1, herdsman_proto::StatPersisted::default()).unwrap();
            let tree = loader.finish(Zxid(zxid)).unwrap();
            snapshot(&disk, &tree);
            if logged > 0 {
                write_entries(&disk, Zxid(zxid), &creates(more.clone())[..logged]);
            }
            assert!(same(&reload(&disk, Zxid(zxid)).unwrap().tree, &tree));
            assert_eq!(names(&disk), [format!("snapshot.{zxid:x}")]);
            assert!(same(&recovered(&disk).tree, &tree));
        }
    }
}

/// A snapshot whose name is early enough, but whose content is not.
#[test]
fn a_fuzzy_snapshot_that_is_ahead_goes() {
    for last_zxid in [LastZxid::Write, LastZxid::Omit] {
        let (disk, entries) = server(&[0]);
        // The deletion leaves no trace in what is written after it.
        let deletion = delete(entries[11].header.zxid.0, "/n4294967297");
        fuzzy_snapshot(&disk, &entries[..11], &[deletion], last_zxid);
        assert!(same(
            &reload(&disk, entries[10].header.zxid).unwrap().tree,
            &tree_of(&entries[..11])
        ));
        assert!(!names(&disk).contains(&"snapshot.200000003".to_owned()));
        disk.crash(|_| false);
        assert!(same(&recovered(&disk).tree, &tree_of(&entries[..11])));
    }
    // Without an older one there is no way back.
    for last_zxid in [LastZxid::Write, LastZxid::Omit] {
        let disk = disk();
        let entries = creates(epoch(1, 1..=8));
        fuzzy_snapshot(&disk, &entries[..4], &entries[4..6], last_zxid);
        write_entries(&disk, entries[3].header.zxid, &entries[4..]);
        assert!(impossible(&disk, entries[4].header.zxid).contains("surely without"));
        let reached = reload(&disk, entries[5].header.zxid);
        assert_eq!(reached.is_ok(), last_zxid == LastZxid::Write);
    }
}

#[test]
fn damage_behind_the_txn_is_cut_and_damage_before_it_is_not_passed() {
    let (disk, entries) = server(&[0]);
    let path = log_path(entries[5].header.zxid.0);
    disk.flip_bit(&path, 16 + 128 * 2 + 40, 1);
    assert!(impossible(&disk, entries[8].header.zxid).contains("is damaged at offset"));
    let reloaded = reload(&disk, entries[6].header.zxid).unwrap();
    assert!(same(&reloaded.tree, &tree_of(&entries[..7])));
    assert!(same(&recovered(&disk).tree, &tree_of(&entries[..7])));
}

/// Only the newest snapshot completes the old state: it must not be removed before the log is cut.
#[test]
fn a_log_that_needs_the_newest_snapshot_is_left_alone() {
    let (disk, entries) = server(&[0, 14]);
    disk.flip_bit(&log_path(entries[5].header.zxid.0), 16 + 128 * 2 + 40, 1);
    assert!(same(&recovered(&disk).tree, &tree_of(&entries)));
    impossible(&disk, entries[3].header.zxid);
    // The same with a gap that zxids alone do not show: the snapshot came from a leader.
    let disk = self::disk();
    let whole = creates([epoch(1, 1..=6), epoch(2, 1..=2)].concat());
    snapshot(&disk, &tree_of(&[]));
    write_entries(&disk, Zxid::ZERO, &whole[..3]);
    snapshot(&disk, &tree_of(&whole[..6]));
    write_entries(&disk, whole[5].header.zxid, &whole[6..]);
    assert!(same(&recovered(&disk).tree, &tree_of(&whole)));
    let message = impossible(&disk, whole[1].header.zxid);
    assert!(message.contains("txns are missing between 0x100000003 and 0x200000001"), "{message}");
}

#[test]
fn a_damaged_newer_snapshot_does_not_come_up_again() {
    let (disk, entries) = server(&[0, 6, 9]);
    disk.flip_bit(&dir().join("snapshot.100000006"), 60, 0);
    let reloaded = reload(&disk, entries[7].header.zxid).unwrap();
    assert!(same(&reloaded.tree, &tree_of(&entries[..8])));
    assert_eq!(reloaded.damaged_snapshots.len(), 1);
    assert_eq!(names(&disk), ["log.100000001", "log.100000006", "snapshot.0"]);
}

#[test]
fn a_failing_disk_is_no_impossibility() {
    let (disk, entries) = server(&[0, 9]);
    disk.cut_power_after(3);
    let error = reload(&disk, entries[3].header.zxid).unwrap_err();
    assert!(matches!(error, ReloadError::Failed(RecoverError::Io { .. })), "{error}");
}

/// Whenever the power fails, a prefix is left that is not too short; and a returned tree stays.
#[test]
fn a_crash_anywhere_leaves_a_prefix() {
    for (snapshots, length) in [(&[0][..], 3), (&[0, 9], 3), (&[0, 9], 12), (&[2, 6, 12, 16], 7)] {
        let changes = {
            let (disk, entries) = server(snapshots);
            let start = disk.changes();
            reload(&disk, entries[length - 1].header.zxid).unwrap();
            disk.changes() - start
        };
        for power in 0..=changes {
            for survivors in 0..10 {
                let (disk, entries) = server(snapshots);
                disk.cut_power_after(power);
                let reloaded = reload(&disk, entries[length - 1].header.zxid).is_ok();
                assert_eq!(reloaded, power == changes);
                let mut asked = 0;
                disk.crash(|_| {
                    asked += 1;
                    asked <= survivors
                });
                let tree = recovered(&disk).tree;
                let lengths = length..=if reloaded { length } else { 16 };
                let is_prefix = |length| same(&tree, &tree_of(&entries[..length]));
                assert!(lengths.into_iter().any(is_prefix), "power {power}, {survivors} survivors");
                let again = reload(&disk, entries[length - 1].header.zxid).unwrap();
                assert!(same(&again.tree, &tree_of(&entries[..length])));
            }
        }
    }
}

/// A bad block among the records is damage: the leader sends its tree instead. It is not a failure of the whole disk.
#[test]
fn a_log_with_a_bad_block_cannot_be_cut() {
    let (disk, entries) = server(&[0]);
    disk.fail_reads(&log_path(entries[5].header.zxid.0), 20..21);
    let error = truncate(&disk, &dirs(), entries[8].header.zxid).unwrap_err();
    assert!(matches!(error, ReloadError::Impossible { .. }), "{error}");
    impossible(&disk, entries[8].header.zxid);
}

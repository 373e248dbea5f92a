//! What is damaged in directories of every sort.

use super::*;
use crate::disk::MemoryDisk;
use crate::testing::*;

/// A server with these txns, each list in a file of its own, and their first snapshot.
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

fn damage(disk: &MemoryDisk) -> Damage {
    let before = files(disk);
    let found = assess(disk, &dirs(), &RecoverOptions::default());
    assert_eq!(files(disk), before, "nothing is changed");
    match found {
        Ok(Assessment::Damaged(damage)) => damage,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_whole(disk: &MemoryDisk) {
    let found = assess(disk, &dirs(), &RecoverOptions::default()).unwrap();
    assert_eq!(found, Assessment::Whole);
}

fn known(damage: &Damage) -> Vec<Vec<i64>> {
    damage.gaps.iter().map(|gap| gap.known.iter().map(|id| id.zxid.0).collect()).collect()
}

fn places(damage: &Damage) -> Vec<String> {
    damage.places.iter().map(ToString::to_string).collect()
}

#[test]
fn whole_directories() {
    assert_whole(&disk());
    assert_whole(&server(&[]));
    assert_whole(&server(&[numbers(1..=7), numbers(8..=12)]));
    let disk = server(&[numbers(1..=7)]);
    disk.put(&log_path(8), log_bytes(&[create(8, 40)])[..90].to_vec());
    assert_whole(&disk);
}

#[test]
fn damage_is_described() {
    let disk = server(&[numbers(1..=7), numbers(12..=14)]);
    disk.flip_bit(&log_path(1), log_bytes(&creates(1..=2)).len() + 30, 3);
    let damage = damage(&disk);
    assert_eq!((damage.good, damage.end, damage.needs_tree), (Zxid(2), Some(Zxid(14)), None));
    assert_eq!(known(&damage), [vec![3], numbers(8..=11)]);
    assert_eq!(
        places(&damage),
        [
            "/data/version-2/log.1 at offset 272: the record's checksum is wrong",
            "/data/version-2/log.8 at offset 0: txns are missing between 0x7 and 0xc",
        ]
    );
}

/// Each place used to be searched for among all pieces, so a million of them took minutes.
#[test]
fn places_without_number_are_counted() {
    let disk = server(&[(1..=20_000).map(|number| 2 * number).collect()]);
    let damage = damage(&disk);
    assert_eq!((damage.gaps.len(), damage.places.len()), (20_000, PLACES_MAX));
    let last = damage.places.last().map(ToString::to_string).unwrap_or_default();
    assert!(
        last.ends_with("txns are missing between 0xc6 and 0xc8 (and 19900 more places)"),
        "{last}"
    );
}

#[test]
fn bad_blocks_are_damage() {
    let disk = server(&[numbers(1..=60), numbers(61..=64)]);
    disk.fail_reads(&log_path(1), 5000..5001);
    let damage = damage(&disk);
    assert_eq!(damage.gaps.len(), 1);
    assert!(damage.gaps[0].is_complete && damage.end == Some(Zxid(64)));
    assert!(places(&damage)[0].ends_with("a part of it cannot be read (I/O error)"));
    // So is a file that cannot be opened; its length may be 0.
    for bytes in [0, 5000] {
        let disk = server(&[numbers(1..=7), numbers(8..=12)]);
        disk.put(&log_path(8), vec![0; bytes]);
        disk.fail_open(&log_path(8));
        let damage = self::damage(&disk);
        assert_eq!((damage.good, damage.end), (Zxid(7), None));
        assert!(places(&damage)[0].contains("log.8 at offset 0: a part of it cannot be read"));
    }
    let error = crate::recover(&disk, &dirs(), &RecoverOptions::default(), &mut |_| {});
    assert!(error.unwrap_err().to_string().contains("a part of it cannot be read (I/O error)"));
    // What a snapshot covers need not be readable, also to recovery.
    snapshot(&disk, &tree_of(&creates(1..=60)));
    assert_whole(&disk);
    assert_eq!(recovered(&disk).tree.last_zxid(), Zxid(64));
}

/// Other errors are not damage.
#[test]
fn a_lack_of_descriptors_is_an_error() {
    let disk = server(&[numbers(1..=7)]);
    disk.set_openable(false);
    assert!(assess(&disk, &dirs(), &RecoverOptions::default()).is_err());
}

#[test]
fn snapshots_count() {
    // An older one, and the log has everything.
    let disk = server(&[numbers(1..=7)]);
    let newest = snapshot(&disk, &tree_of(&creates(1..=5)));
    disk.flip_bit(&newest, 60, 0);
    assert_whole(&disk);
    // The log ends before the damaged one, or before the end of a fuzzy one.
    let disk = server(&[numbers(1..=7)]);
    let newest = snapshot(&disk, &tree_of(&creates(1..=9)));
    assert_whole(&disk);
    disk.flip_bit(&newest, 60, 0);
    let short = damage(&disk);
    assert_eq!((short.good, short.end, known(&short)), (Zxid(7), None, vec![vec![8, 9]]));
    assert!(!short.gaps[0].is_complete);
    let disk = server(&[]);
    let all = creates(1..=9);
    fuzzy_snapshot(&disk, &all[..5], &all[5..], crate::LastZxid::Write);
    let fuzzy = damage(&disk);
    assert_eq!((fuzzy.good, fuzzy.end, known(&fuzzy)), (Zxid(5), None, vec![numbers(6..=9)]));
}

#[test]
fn without_a_snapshot_only_a_tree_helps() {
    let disk = server(&[numbers(1..=7)]);
    let newest = snapshot(&disk, &tree_of(&creates(1..=5)));
    for path in [newest, dir().join("snapshot.0")] {
        disk.flip_bit(&path, 60, 0);
    }
    let damaged = damage(&disk);
    assert!(damaged.gaps.is_empty() && damaged.end.is_none());
    assert_eq!(damaged.needs_tree, Some(Irreparable::NoSnapshot));
    assert_eq!(damaged.places.len(), 2);
    for name in ["snapshot.0", "snapshot.5"] {
        disk.remove(&dir().join(name)).unwrap();
    }
    assert_eq!(damage(&disk).needs_tree, Some(Irreparable::NoSnapshot));
    let trusting = RecoverOptions { trust_empty: true, ..RecoverOptions::default() };
    assert_eq!(assess(&disk, &dirs(), &trusting).unwrap(), Assessment::Whole);
    // A leader's tree that was being installed.
    disk.put(&dir().join("install.snapshot.9"), vec![1, 2, 3]);
    assert_eq!(damage(&disk).needs_tree, Some(Irreparable::NoSnapshot));
}

/// A bad block in the only snapshot, or in one that the log continues.
#[test]
fn an_unreadable_snapshot_is_a_damaged_one() {
    for range in [0..1, 30..31, 100..101] {
        let disk = server(&[numbers(1..=7)]);
        let newest = snapshot(&disk, &tree_of(&creates(1..=5)));
        disk.fail_reads(&newest, range.clone());
        assert_whole(&disk);
        assert_eq!(recovered(&disk).tree.last_zxid(), Zxid(7));
        disk.fail_reads(&dir().join("snapshot.0"), range);
        assert_eq!(damage(&disk).needs_tree, Some(Irreparable::NoSnapshot));
        assert_eq!(refused(&disk), Some(damage(&disk)));
    }
}

/// A header that only a snapshot covers in part is written again, so that Apache can read the file.
#[test]
fn a_damaged_header_counts_if_the_file_is_needed() {
    let disk = server(&[numbers(1..=7), numbers(8..=12)]);
    disk.flip_bit(&log_path(1), 2, 1);
    let header = damage(&disk);
    assert!(header.gaps.is_empty() && header.end == Some(Zxid(12)));
    snapshot(&disk, &tree_of(&creates(1..=5)));
    assert!(damage(&disk).gaps.is_empty());
    snapshot(&disk, &tree_of(&creates(1..=7)));
    assert_whole(&disk);
}

/// What other servers can do about the refusal of recovery.
fn refused(disk: &MemoryDisk) -> Option<Damage> {
    let refusal = crate::recover(disk, &dirs(), &RecoverOptions::default(), &mut |_| {});
    let refusal = refusal.unwrap_err();
    assess_refusal(disk, &dirs(), &RecoverOptions::default(), &refusal).unwrap()
}

/// The files are of several histories: no record helps, a leader's tree does.
#[test]
fn zxids_that_go_back_need_a_tree() {
    let disk = server(&[]);
    disk.put(&log_path(1), log_bytes(&[create(1, 40), create(2, 40), create(2, 40)]));
    let damaged = refused(&disk).unwrap();
    assert_eq!(damaged, damage(&disk));
    assert_eq!((damaged.needs_tree, damaged.end), (Some(Irreparable::MixedHistories), None));
    let place = &places(&damaged)[0];
    assert!(place.ends_with("txn 0x2 comes after txn 0x2"), "{place}");
}

/// Zxids do not show a hole before a new epoch, digests do. If there is damage, too, it comes first.
#[test]
fn a_hole_before_a_new_epoch_needs_a_tree() {
    let epoch = 1 << 32;
    let all = with_digests(creates((1..=7).chain(epoch + 1..=epoch + 2)));
    let disk = server(&[]);
    disk.put(&log_path(1), log_bytes(&all[..5]));
    disk.put(&log_path(epoch + 1), log_bytes(&all[7..]));
    assert_whole(&disk);
    let damaged = refused(&disk).unwrap();
    assert_eq!((damaged.needs_tree, damaged.end), (Some(Irreparable::WrongTree), None));
    assert!(places(&damaged)[0].contains("the tree has digest"), "{:?}", places(&damaged));
    disk.flip_bit(&log_path(1), log_bytes(&all[..2]).len() + 30, 3);
    assert_eq!(known(&refused(&disk).unwrap()), [vec![3]]);
}

/// Any content of a log file is assessed without a panic, and never as whole if recovery refuses it.
#[test]
fn what_recovery_refuses_is_not_whole() {
    let whole = log_bytes(&creates(1..=4));
    for offset in 0..whole.len() {
        for byte in [0, 0x42, 0xff] {
            let disk = server(&[]);
            let mut content = whole.clone();
            content[offset] = byte;
            disk.put(&log_path(1), content);
            disk.put(&log_path(5), log_bytes(&creates(5..=6)));
            let assessed = assess(&disk, &dirs(), &RecoverOptions::default()).unwrap();
            let recovered = crate::recover(&disk, &dirs(), &RecoverOptions::default(), &mut |_| {});
            assert!(recovered.is_ok() || assessed != Assessment::Whole, "{offset}, {byte:#x}");
            if let Assessment::Damaged(damage) = assessed {
                assert_eq!(damage.end, Some(Zxid(6)), "{offset}, {byte:#x}");
            }
        }
    }
}

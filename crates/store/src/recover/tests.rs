//! From directories of every sort to a tree, or to a refusal that says why.

use std::sync::Arc;

use herdsman_proto::{Txn, TxnHeader};
use proptest::prelude::*;

use super::*;
use crate::disk::MemoryDisk;
use crate::log::writer::{AppendError, SyncMode};
use crate::names::Compression;
use crate::snapshot::LastZxid;
use crate::testing::*;

#[path = "digest_tests.rs"]
mod digests;

fn run(disk: &MemoryDisk, options: &RecoverOptions) -> Result<Recovered, RecoverError> {
    recover(disk, &dirs(), options, &mut |_| {})
}

fn refused(disk: &MemoryDisk) -> String {
    let before = files(disk);
    let message = match run(disk, &RecoverOptions::default()) {
        Ok(recovered) => panic!("recovered to {}", recovered.tree.last_zxid()),
        Err(error) => error.to_string(),
    };
    assert_eq!(files(disk), before, "a refusal changes nothing");
    message
}

fn tree_at(last: i64) -> Tree {
    let mut tree = Tree::new(TreeOptions::default());
    for zxid in 1..=last {
        tree.replay(&create(zxid, 40));
    }
    tree
}

/// A server's directory: `snapshot.0`, and a log of txns in files that start at `starts` and end
/// with `last`.
fn server(starts: &[i64], last: i64) -> MemoryDisk {
    let disk = disk();
    snapshot(&disk, &tree_at(0));
    let mut log = writer(&disk, Zxid::ZERO);
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(last, |next| next - 1);
        write_batch(&mut log, *start, end);
        log.roll();
    }
    disk
}

fn assert_tree(recovered: &Recovered, last: i64) {
    let expected = tree_at(last);
    assert_eq!(recovered.tree.last_zxid(), Zxid(last));
    assert_eq!(recovered.tree.digest(), expected.digest());
    assert_eq!(recovered.tree.node_count(), expected.node_count());
}

#[test]
fn an_empty_directory_is_a_fresh_server() {
    let disk = disk();
    let recovered = recovered(&disk);
    assert!(recovered.fresh);
    assert_tree(&recovered, 0);
    assert!(run(&MemoryDisk::new(), &RecoverOptions::default()).is_err());
}

#[test]
fn snapshot_and_logs_give_the_tree_and_the_log_goes_on_in_a_new_file() {
    let disk = server(&[1, 8, 20], 30);
    snapshot(&disk, &tree_at(12));
    let recovered = recovered(&disk);
    assert!(!recovered.fresh);
    assert_tree(&recovered, 30);
    assert_eq!(recovered.txns_replayed, 18);
    assert_eq!(recovered.snapshot.unwrap().name.zxid, Zxid(12));
    write_batch(&mut writer(&disk, Zxid(30)), 31, 33);
    assert_tree(&crate::testing::recovered(&disk), 33);
}

#[test]
fn a_torn_tail_is_cut_at_any_byte() {
    let good = log_bytes(&[create(1, 40), create(2, 40)]);
    let whole = log_bytes(&[create(1, 40), create(2, 40), create(3, 40)]);
    for cut in 0..whole.len() {
        for padding in [0, 700] {
            let disk = server(&[], 0);
            let mut content = whole[..cut].to_vec();
            content.resize(cut + padding, 0);
            disk.put(&log_path(1), content);
            let recovered = recovered(&disk);
            let last = [log_bytes(&[create(1, 40)]).len(), good.len()]
                .iter()
                .filter(|end| cut >= **end)
                .count() as i64;
            assert_tree(&recovered, last);
            // What is left is clean, also once a newer file follows.
            write_batch(&mut writer(&disk, Zxid(last)), last + 1, last + 2);
            disk.crash(|_| false);
            let again = crate::testing::recovered(&disk);
            assert_tree(&again, last + 2);
            assert_eq!(again.cut, None);
        }
    }
}

#[test]
fn a_flipped_bit_is_refused_or_harmless() {
    let disk = server(&[1], 4);
    let path = log_path(1);
    let bytes = disk.content(&path).unwrap().len();
    for offset in 0..bytes {
        for bit in 0..8 {
            disk.flip_bit(&path, offset, bit);
            match run(&disk, &RecoverOptions::default()) {
                Ok(recovered) => assert_tree(&recovered, 4),
                Err(error) => {
                    let message = error.to_string();
                    assert!(message.contains("log.1 is damaged at offset"), "{message}");
                }
            }
            disk.flip_bit(&path, offset, bit);
        }
    }
}

#[test]
fn damage_names_file_offset_and_what_to_do_and_can_be_accepted() {
    let disk = server(&[1, 8], 12);
    let offset = log_bytes(&[create(1, 40), create(2, 40)]).len();
    disk.flip_bit(&log_path(1), offset + 30, 3);
    let message = refused(&disk);
    for part in [
        "/data/version-2/log.1 is damaged at offset 272: the record's checksum is wrong",
        "The last good txn before it is 0x2",
        "the next valid record is txn 0x4 at offset",
        "-Dherdsman.acceptLossAfter=0x2",
    ] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    // Another txn than the last good one is no consent.
    let mut options =
        RecoverOptions { accept_loss_after: Some(Zxid(1)), ..RecoverOptions::default() };
    run(&disk, &options).unwrap_err();
    options.accept_loss_after = Some(Zxid(2));
    let recovered = run(&disk, &options).unwrap();
    assert_tree(&recovered, 2);
    assert!(recovered.accepted_loss.is_some());
    assert_eq!(names(&disk), ["damaged.log.1.from.272", "damaged.log.8", "log.1", "snapshot.0"]);
    write_batch(&mut writer(&disk, Zxid(2)), 3, 9);
    assert_tree(&crate::testing::recovered(&disk), 9);
}

/// What a snapshot covers need not be read: only what follows it must be whole.
#[test]
fn damage_that_a_snapshot_covers_does_not_matter() {
    let record = log_bytes(&[create(1, 40)]).len() - crate::log::HEADER.len();
    let at = |txn: usize| crate::log::HEADER.len() + (txn - 1) * record;
    let bytes = at(13) - at(1);
    for damaged in [at(3)..at(3) + 30, at(1)..at(9), 0..20, at(5) + 8..at(5) + 12] {
        let disk = server(&[1], 12);
        snapshot(&disk, &tree_at(8));
        let mut content = disk.content(&log_path(1)).unwrap();
        content[damaged.clone()].fill(0xa5);
        disk.put(&log_path(1), content);
        let recovered = recovered(&disk);
        assert_tree(&recovered, 12);
        assert_eq!(recovered.txns_replayed, 4);
        // The log goes on, and keeps what it has.
        write_batch(&mut writer(&disk, Zxid(12)), 13, 15);
        assert_tree(&crate::testing::recovered(&disk), 15);
        let limits = crate::HistoryLimits { txns_max: 100, bytes_max: 1 << 20, after: Zxid::ZERO };
        let history = crate::read_history(&disk, &dirs(), Zxid(15), limits).unwrap();
        let zxids: Vec<i64> = history.txns.iter().map(|(zxid, _)| zxid.0).collect();
        assert_eq!(zxids, (history.base.0 + 1..=15).collect::<Vec<_>>(), "{damaged:?}");
        assert!(history.base.0 <= 8, "{damaged:?}: {}", history.base);
    }
    // One txn more, and it is not covered.
    let disk = server(&[1], 12);
    snapshot(&disk, &tree_at(8));
    let mut content = disk.content(&log_path(1)).unwrap();
    content[at(2)..at(9) + 30].fill(0xa5);
    disk.put(&log_path(1), content.clone());
    let message = refused(&disk);
    assert!(message.contains("The last good txn before it is 0x8"), "{message}");
    // Nothing valid follows: what is damaged may have been more than the snapshot has.
    content.truncate(at(6));
    content.resize(bytes, 0xa5);
    disk.put(&log_path(1), content);
    assert!(refused(&disk).contains("acceptLossAfter=0x8"));
}

/// A member of an ensemble that gives up acknowledged txns must not vote, and that is durable before the log is cut.
#[test]
fn whoever_gives_up_txns_in_an_ensemble_does_not_vote() {
    let damaged = || {
        let disk = server(&[1, 8], 12);
        disk.flip_bit(&log_path(1), log_bytes(&[create(1, 40), create(2, 40)]).len() + 30, 3);
        disk
    };
    let accept_loss_after = Some(Zxid(2));
    let alone = RecoverOptions { accept_loss_after, ..RecoverOptions::default() };
    let serves = ServerKind::InEnsemble { empty: EmptyDirs::New };
    let member = RecoverOptions { serves, ..alone.clone() };
    let disk = damaged();
    run(&disk, &alone).unwrap();
    assert_eq!(voting::suspended(&disk, &dirs()).unwrap(), None);
    for power in 0..30 {
        let disk = damaged();
        let before = names(&disk);
        disk.cut_power_after(power);
        let result = run(&disk, &member);
        disk.crash(|_| true);
        let mut after = names(&disk);
        after.retain(|name| !name.starts_with("herdsman.votingSuspended"));
        let suspended = voting::suspended(&disk, &dirs()).unwrap();
        let is_cut = after != before || run(&disk, &RecoverOptions::default()).is_ok();
        assert!(suspended.is_some() || !is_cut, "{power}");
        assert!(suspended.is_some() || result.is_err(), "{power}");
    }
    // Nothing to give up: nothing is lost, and the setting may stay.
    let disk = server(&[1], 7);
    run(&disk, &member).unwrap();
    assert_eq!(voting::suspended(&disk, &dirs()).unwrap(), None);
}

#[test]
fn an_empty_member_does_not_vote_without_db_autocreate() {
    for (empty, is_suspended) in [(EmptyDirs::New, false), (EmptyDirs::Lost, true)] {
        let disk = disk();
        let serves = ServerKind::InEnsemble { empty };
        assert!(run(&disk, &RecoverOptions { serves, ..RecoverOptions::default() }).unwrap().fresh);
        disk.crash(|_| false);
        assert_eq!(voting::suspended(&disk, &dirs()).unwrap().is_some(), is_suspended);
    }
}

#[test]
fn a_hole_between_files_is_refused() {
    let disk = server(&[1, 8, 20], 30);
    disk.remove(&log_path(8)).unwrap();
    let message = refused(&disk);
    assert!(message.contains("txns are missing between 0x7 and 0x14"), "{message}");
    // A snapshot behind the hole makes it harmless.
    snapshot(&disk, &tree_at(19));
    assert_tree(&recovered(&disk), 30);
    // The first file that is needed may be the one that is missing.
    let disk = server(&[1, 8], 12);
    disk.remove(&log_path(1)).unwrap();
    assert!(refused(&disk).contains("between 0x0 and 0x8"));
}

#[test]
fn damage_that_the_next_file_makes_good_is_no_damage() {
    let disk = server(&[1, 8], 12);
    let mut content = disk.content(&log_path(1)).unwrap();
    content.extend_from_slice(&[0xee; 900]);
    disk.put(&log_path(1), content);
    assert_tree(&recovered(&disk), 12);
}

#[test]
fn an_older_snapshot_serves_if_the_log_has_the_rest() {
    let disk = server(&[1, 8], 12);
    snapshot(&disk, &tree_at(5));
    let newest = snapshot(&disk, &tree_at(10));
    disk.flip_bit(&newest, 60, 0);
    let recovered = recovered(&disk);
    assert_tree(&recovered, 12);
    assert_eq!(recovered.damaged_snapshots.len(), 1);
    assert_eq!(recovered.snapshot.unwrap().name.zxid, Zxid(5));
}

#[test]
fn an_older_snapshot_does_not_serve_if_the_log_ends_too_early() {
    let disk = server(&[1], 7);
    let newest = snapshot(&disk, &tree_at(10));
    assert_tree(&recovered(&disk), 10);
    disk.flip_bit(&newest, 60, 0);
    let message = refused(&disk);
    assert!(message.contains("the txn log ends at 0x7"), "{message}");
    assert!(message.contains("snapshot.a cannot be used"), "{message}");
    let options = RecoverOptions { accept_loss_after: Some(Zxid(7)), ..RecoverOptions::default() };
    assert_tree(&run(&disk, &options).unwrap(), 7);
    assert_tree(&recovered(&disk), 7);
}

/// The first txn of an epoch follows any txn of an older one, so zxids do not show what is missing
/// before it. The name of the snapshot that was taken there does.
#[test]
fn an_older_snapshot_does_not_serve_if_the_log_steps_over_the_newer_one() {
    let disk = disk();
    let entries = creates([epoch(1, 1..=6), epoch(2, 1..=2)].concat());
    snapshot(&disk, &tree_of(&[]));
    write_entries(&disk, Zxid::ZERO, &entries[..3]);
    let newest = snapshot(&disk, &tree_of(&entries[..6]));
    write_entries(&disk, entries[5].header.zxid, &entries[6..]);
    assert!(same(&recovered(&disk).tree, &tree_of(&entries)));
    disk.flip_bit(&newest, 60, 0);
    let message = refused(&disk);
    assert!(message.contains("txns are missing between 0x100000003 and 0x200000001"), "{message}");
    assert!(message.contains("an older snapshot was used because"), "{message}");
}

#[test]
fn without_any_whole_snapshot_nothing_is_invented() {
    let disk = server(&[1], 7);
    disk.put(&dir().join("snapshot.0"), Vec::new());
    let message = refused(&disk);
    assert!(message.contains("snapshot.0 cannot be used"), "{message}");
    assert!(message.contains("ends too early"), "{message}");
}

#[test]
fn logs_without_a_snapshot_need_consent() {
    let disk = server(&[1], 7);
    disk.remove(&dir().join("snapshot.0")).unwrap();
    assert!(refused(&disk).contains("snapshot.trust.empty"));
    let trusting = RecoverOptions { trust_empty: true, ..RecoverOptions::default() };
    assert_tree(&run(&disk, &trusting).unwrap(), 7);
    // Consent or not, a history without its beginning is none.
    let disk = server(&[1, 5], 7);
    disk.remove(&dir().join("snapshot.0")).unwrap();
    disk.remove(&log_path(1)).unwrap();
    run(&disk, &trusting).unwrap_err();
}

#[test]
fn a_log_must_reach_the_end_of_a_fuzzy_snapshot() {
    let disk = server(&[1, 8], 12);
    let mut dump = herdsman_tree::Dump::start(&tree_at(7));
    let later = tree_at(12);
    let head = (dump.zxid(), Compression::None);
    let memory = Arc::new(disk.clone());
    let mut writer = crate::SnapshotWriter::begin(memory, dir(), head, &[], &[]).unwrap();
    while dump.step(&later, 3, &mut |path, data, key, stat| {
        writer.encode_node(path, data, key, stat);
    }) {}
    let trailer = Trailer::of(&later, LastZxid::Write);
    writer.finish(&trailer, &mut |_| {}).unwrap();
    let fuzzy = recovered(&disk);
    assert_eq!(fuzzy.txns_replayed, 5);
    assert_tree(&fuzzy, 12);
    assert_eq!(fuzzy.digest_mismatch, None);
    disk.remove(&log_path(8)).unwrap();
    let message = refused(&disk);
    assert!(message.contains("holds effects of txns up to 0xc"), "{message}");
}

#[test]
fn empty_and_unfinished_files_go() {
    for content in [Vec::new(), vec![0; 5000], crate::log::HEADER.to_vec(), b"ZK".to_vec()] {
        let disk = server(&[1], 7);
        disk.put(&log_path(8), content);
        disk.put(&dir().join("tmp.snapshot.5.gz"), vec![1, 2, 3]);
        assert_tree(&recovered(&disk), 7);
        assert_eq!(names(&disk), ["log.1", "snapshot.0"]);
        write_batch(&mut writer(&disk, Zxid(7)), 8, 8);
    }
}

/// The empty file's name proves that an earlier start ended at txn 7, so what is damaged behind it was
/// dropped then. The proof must not be thrown away before the damage is.
#[test]
fn damage_before_an_empty_file_is_cut_before_the_file_goes() {
    let disk = server(&[1], 7);
    let mut content = disk.content(&log_path(1)).unwrap();
    let good = content.len();
    content.extend_from_slice(&[0xee; 900]);
    disk.put(&log_path(1), content);
    disk.put(&log_path(8), Vec::new());
    assert_tree(&recovered(&disk), 7);
    let cut = disk.content(&log_path(1)).unwrap();
    assert!(cut.len() < good && !cut.contains(&0xee));
    disk.crash(|_| false);
    assert_tree(&recovered(&disk), 7);
}

#[test]
fn an_empty_file_for_a_later_txn_shows_a_hole() {
    let disk = server(&[1], 7);
    disk.put(&log_path(9), Vec::new());
    let message = refused(&disk);
    assert!(message.contains("txns are missing between 0x7 and 0x9"), "{message}");
    disk.remove(&log_path(9)).unwrap();
    disk.put(&log_path(1 << 32 | 1), Vec::new());
    assert_tree(&recovered(&disk), 7);
}

#[test]
fn purging_leaves_what_recovery_needs() {
    let disk = disk();
    snapshot(&disk, &tree_at(0));
    let mut log = writer(&disk, Zxid::ZERO);
    for last in [10, 20, 30, 40] {
        write_batch(&mut log, last - 9, last - 3);
        snapshot(&disk, &tree_at(last - 3));
        write_batch(&mut log, last - 2, last);
        log.roll();
    }
    let removed = crate::purge(&disk, &dirs(), 3, None).unwrap();
    assert_eq!(removed.len(), 3);
    assert_eq!(
        names(&disk),
        ["log.15", "log.1f", "log.b", "snapshot.11", "snapshot.1b", "snapshot.25"]
    );
    assert!(crate::dir_bytes(&disk, dir()).unwrap() > 0);
    // Each snapshot that is left serves.
    for newest in ["snapshot.25", "snapshot.1b"] {
        assert_tree(&recovered(&disk), 40);
        disk.flip_bit(&dir().join(newest), 40, 1);
    }
    assert_tree(&recovered(&disk), 40);
}

#[test]
fn files_in_the_wrong_directory_are_pointed_out() {
    let disk = server(&[1], 7);
    let dirs = Dirs::below(Path::new("/data"), Path::new("/logs"));
    dirs.create(&disk).unwrap();
    let options = RecoverOptions::default();
    let error = recover(&disk, &dirs, &options, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("log.1 is a txn log in dataDir"), "{error}");
    let swapped = Dirs::below(Path::new("/logs"), Path::new("/data"));
    disk.rename(&log_path(1), Path::new("/other")).unwrap();
    let error = recover(&disk, &swapped, &options, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("a snapshot in dataLogDir"), "{error}");
}

#[test]
fn an_unknown_txn_is_refused_not_skipped() {
    let disk = server(&[], 0);
    let mut content = log_bytes(&[create(1, 40)]);
    let mut unknown = payload(&create(2, 40));
    unknown[31] = 99;
    crate::log::encode_record(&unknown, &mut content);
    disk.put(&log_path(1), content);
    assert!(refused(&disk).contains("the record of txn 0x2 at offset"));
}

#[test]
fn zxids_that_go_back_are_refused() {
    let disk = server(&[], 0);
    let entries = [create(1, 40), create(2, 40), create(2, 40)];
    disk.put(&log_path(1), log_bytes(&entries));
    assert!(refused(&disk).contains("txn 0x2 at offset"));
}

#[test]
fn ephemerals_of_sessions_that_are_not_open_are_reported() {
    let disk = server(&[], 0);
    let mut entry = create(1, 40);
    if let Txn::Create(create) = &mut entry.txn {
        create.kind = herdsman_proto::txn::CreateKind::Plain { ephemeral: true, with_stat: false };
    }
    let TxnHeader { session, .. } = entry.header;
    disk.put(&log_path(1), log_bytes(&[entry]));
    assert_eq!(recovered(&disk).orphan_ephemeral_sessions, [session]);
}

/// How the power fails.
#[derive(Clone, Copy, Debug)]
enum Tear {
    /// The unsynced batch survives up to a point.
    Prefix,
    /// Any of its sectors survive.
    Scatter,
}

proptest! {
    /// Batches of all sizes, files rolled, snapshots taken, a crash at any point: what was flushed is
    /// there, what was not appended is not.
    #[test]
    fn nothing_flushed_is_lost_and_nothing_is_invented(
        batches in prop::collection::vec((1..6i64, 1..2000usize, 0..10u8), 1..12),
        flushed_batches in 0..12usize,
        tear in prop_oneof![Just(Tear::Prefix), Just(Tear::Scatter)],
        dice in prop::collection::vec(any::<bool>(), 40),
        prefix in 0..40usize,
    ) {
        let disk = disk();
        snapshot(&disk, &tree_at(0));
        let mut log = writer(&disk, Zxid::ZERO);
        let (mut appended, mut flushed) = (0, 0);
        let mut tree = tree_at(0);
        for (index, (records, bytes, action)) in batches.into_iter().enumerate() {
            for _ in 0..records {
                appended += 1;
                log.append(Zxid(appended), &payload(&create(appended, bytes))).unwrap();
            }
            if index >= flushed_batches {
                // The batch is written, and the power fails before its sync has returned.
                log.flush(SyncMode::NoSync).unwrap();
                break;
            }
            log.flush(SyncMode::Sync).unwrap();
            for zxid in flushed + 1..=appended {
                tree.replay(&create(zxid, bytes));
            }
            flushed = appended;
            match action {
                0 => log.roll(),
                1 => { snapshot(&disk, &tree); }
                _ => {}
            }
        }
        drop(log);
        let mut asked = 0;
        disk.crash(|_| {
            asked += 1;
            match tear {
                Tear::Prefix => asked <= prefix,
                Tear::Scatter => dice[asked % dice.len()],
            }
        });
        match run(&disk, &RecoverOptions::default()) {
            Ok(recovered) => {
                let last = recovered.tree.last_zxid().0;
                prop_assert!(flushed <= last && last <= appended, "{flushed} {last} {appended}");
                prop_assert_eq!(recovered.tree.node_count() as i64, 4 + last);
                // And it stays so, whatever happens next.
                disk.crash(|_| false);
                prop_assert_eq!(crate::testing::recovered(&disk).tree.last_zxid(), Zxid(last));
            }
            Err(error) => prop_assert!(matches!(tear, Tear::Scatter), "{}", error),
        }
    }

    /// A disk that fills up at any point and is emptied again loses nothing.
    #[test]
    fn a_full_disk_loses_nothing(
        capacity in 500..40_000u64,
        batches in prop::collection::vec((1..5i64, 1..3000usize), 1..12),
        pre_alloc in any::<bool>(),
    ) {
        let disk = disk();
        snapshot(&disk, &tree_at(0));
        crate::recover_epochs(&disk, &dirs(), Zxid::ZERO).unwrap();
        disk.set_capacity(Some(capacity));
        let mut options = OPTIONS;
        if !pre_alloc {
            options.pre_alloc_bytes = 0;
        }
        let mut log =
            crate::LogWriter::new(Arc::new(disk.clone()), DIR, Zxid::ZERO, options).noted_in(DIR);
        let mut last = 0;
        for (records, bytes) in batches {
            for _ in 0..records {
                last += 1;
                log.append(Zxid(last), &payload(&create(last, bytes))).unwrap();
            }
            match log.flush(SyncMode::Sync) {
                Ok(_) => {}
                Err(AppendError::Full { .. }) => {
                    let copy = copy_of(&disk);
                    prop_assert_eq!(crate::testing::recovered(&copy).tree.last_zxid(), log.last_zxid());
                    disk.set_capacity(None);
                    log.flush(SyncMode::Sync).unwrap();
                }
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
        disk.crash(|_| false);
        prop_assert_eq!(crate::testing::recovered(&disk).tree.last_zxid(), Zxid(last));
    }
}

/// A member's directory with two log files; the second is ended or still open.
fn member(starts: [i64; 2], last: i64, is_ended: bool) -> MemoryDisk {
    let disk = disk();
    snapshot(&disk, &tree_at(0));
    disk.put(&dir().join("acceptedEpoch"), b"1".to_vec());
    disk.put(&dir().join("currentEpoch"), b"1".to_vec());
    crate::recover_epochs(&disk, &dirs(), Zxid::ZERO).unwrap();
    let mut log = writer(&disk, Zxid::ZERO).noted_in(DIR);
    write_batch(&mut log, starts[0], starts[1] - 1);
    log.roll();
    write_batch(&mut log, starts[1], last);
    if is_ended {
        log.roll();
    }
    disk
}

fn copy_of(disk: &MemoryDisk) -> MemoryDisk {
    let copy = MemoryDisk::new();
    for (name, content) in files(disk) {
        copy.put(&dir().join(name), content);
    }
    copy
}

/// The copies of the epochs show that there was more.
#[test]
fn a_member_whose_newest_log_is_gone_or_has_lost_its_end_is_refused() {
    for is_ended in [true, false] {
        let disk = member([1, 6], 9, is_ended);
        let path = log_path(6);
        let whole = disk.content(&path).unwrap();
        for bytes in 0..whole.len() {
            disk.put(&path, whole[..bytes].to_vec());
            assert!(
                run(&copy_of(&disk), &RecoverOptions::default()).is_err(),
                "{bytes}, {is_ended}"
            );
        }
        disk.remove(&path).unwrap();
        let message = refused(&disk);
        assert!(message.contains("its newest log file is missing"), "{message}");
        assert!(message.contains("acceptLossAfter=0x5"), "{message}");
        let loss = RecoverOptions { accept_loss_after: Some(Zxid(5)), ..Default::default() };
        assert_tree(&run(&disk, &loss).unwrap(), 5);
        assert_tree(&recovered(&disk), 5);
        disk.put(&path, whole);
        assert_tree(&recovered(&disk), 9);
    }
}

/// A damaged footer, or bytes behind the end, are not a lost end.
#[test]
fn a_newest_log_of_its_full_length_is_read() {
    let disk = member([1, 6], 9, false);
    let path = log_path(6);
    let whole = disk.content(&path).unwrap();
    disk.flip_bit(&path, whole.len() - 20, 1);
    assert_tree(&recovered(&copy_of(&disk)), 9);
    disk.put(&path, [&whole[..], &[0; 100]].concat());
    assert_tree(&recovered(&disk), 9);
}

/// As much log as is decoded on another thread: the same tree, and the same refusal of damage.
#[test]
fn a_long_log_is_replayed_whole_or_refused_where_it_is_damaged() {
    const LAST: i64 = 12_000;
    let disk = server(&[1, 3000], LAST);
    let path = log_path(3000);
    let bytes = disk.content(&path).unwrap();
    assert!(bytes.len() > 1 << 20, "{}", bytes.len());
    let recovered = recovered(&disk);
    assert_tree(&recovered, LAST);
    assert_eq!(recovered.txns_replayed, LAST as u64);
    let record = log_bytes(&creates([3000])).len() - crate::log::HEADER.len();
    let (damaged_at, txn) = (crate::log::HEADER.len() + 5000 * record, 3000 + 5000);
    let mut damaged = bytes;
    damaged[damaged_at + 20] ^= 1;
    disk.put(&path, damaged);
    let message = refused(&disk);
    assert!(message.contains(&format!("damaged at offset {damaged_at}")), "{message}");
    assert!(message.contains(&format!("before it is {}", Zxid(txn - 1))), "{message}");
}

/// No record was there, so nothing is missing.
#[test]
fn what_cannot_be_read_behind_the_records_is_cut_off() {
    for part in [5000..5001, 4096..8192, 7000..9000] {
        let disk = server(&[], 0);
        write_batch(&mut writer(&disk, Zxid::ZERO), 1, 7);
        disk.fail_reads(&log_path(1), part);
        for _ in 0..2 {
            assert_tree(&recovered(&disk), 7);
        }
        write_batch(&mut writer(&disk, Zxid(7)), 8, 9);
        assert_tree(&recovered(&disk), 9);
        assert_eq!(zxids(&disk, &log_path(1)), [1, 2, 3, 4, 5, 6, 7]);
    }
}

//! Installs a leader's tree over every kind of directory, with a crash at every point.

use herdsman_proto::txn::Entry;

use super::*;
use crate::disk::MemoryDisk;
use crate::names::GUARD;
use crate::recover::{RecoverError, RecoverOptions, recover};
use crate::testing::*;

fn install(disk: &MemoryDisk, tree: &Tree) -> Result<SnapshotFile, InstallError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    install_snapshot(&disk, &dirs(), tree, Compression::None, LastZxid::Write)
}

/// A directory and the txns that it holds.
struct OldState {
    disk: MemoryDisk,
    entries: Vec<Entry>,
}

/// Snapshots at the given lengths of the history, and the log from the first of them on.
fn before(zxids: Vec<i64>, snapshots: &[usize]) -> OldState {
    let (disk, entries) = (disk(), creates(zxids));
    for &length in snapshots {
        snapshot(&disk, &tree_of(&entries[..length]));
    }
    let (old, logged) = entries.split_at(snapshots[0]);
    if !logged.is_empty() {
        let last = old.last().map_or(Zxid::ZERO, |entry| entry.header.zxid);
        write_entries(&disk, last, logged);
    }
    OldState { disk, entries }
}

/// Crashes the installation at every change that it makes, with every number of unsynced things
/// surviving, and recovers: the old state or the new one, and from some point on only the new one.
fn check(before: impl Fn() -> OldState, new: &[Entry]) {
    let new_tree = tree_of(new);
    let changes = {
        let before = before();
        let start = before.disk.changes();
        install(&before.disk, &new_tree).unwrap();
        before.disk.changes() - start
    };
    for power in 0..=changes {
        for survivors in 0..12 {
            let OldState { disk, entries } = before();
            disk.cut_power_after(power);
            let installed = install(&disk, &new_tree).is_ok();
            // The last of the changes, the removal of the guard, may fail.
            assert!(installed || power < changes);
            let mut asked = 0;
            disk.crash(|_| {
                asked += 1;
                asked <= survivors
            });
            // Apache does not know the name, and must not start from the rest of the old files.
            let is_decided = names(&disk).iter().any(|name| name.starts_with(INSTALLING));
            assert!(!is_decided || disk.content(&dirs().log.join(GUARD)).is_some());
            let tree = recovered(&disk).tree;
            let old = same(&tree, &tree_of(&entries)) && !installed;
            assert!(old || same(&tree, &new_tree), "power {power}, {survivors} survivors");
            // And so it stays.
            disk.crash(|_| false);
            assert!(same(&recovered(&disk).tree, &tree));
            if !old {
                assert_eq!(names(&disk), [format!("snapshot.{:x}", tree.last_zxid().0)]);
            }
        }
    }
}

#[test]
fn over_a_history_that_is_behind() {
    check(|| before(epoch(1, 1..=6), &[0, 3]), &creates(epoch(1, 1..=12)));
    check(|| before(epoch(1, 1..=6), &[4]), &creates([epoch(1, 1..=5), epoch(2, 1..=3)].concat()));
}

/// The server's last txns were never agreed on, and other txns replaced them.
#[test]
fn over_a_history_that_went_another_way() {
    let new = || creates([epoch(1, 1..=4), epoch(3, 1..=1)].concat());
    check(|| before([epoch(1, 1..=4), epoch(2, 1..=6)].concat(), &[0, 7]), &new());
    // It even ends later than what replaces it, and no snapshot is old enough to go back to.
    let old = || [epoch(1, 1..=4), epoch(4, 1..=6)].concat();
    check(|| before(old(), &[0, 7]), &new());
    check(|| before(old(), &[6]), &new());
    check(|| before(old(), &[10]), &new());
}

#[test]
fn over_a_fuzzy_snapshot_that_is_ahead() {
    let entries = || creates([epoch(1, 1..=4), epoch(4, 1..=6)].concat());
    let before = || {
        let (disk, entries) = (disk(), entries());
        fuzzy_snapshot(&disk, &entries[..4], &entries[4..9], LastZxid::Write);
        write_entries(&disk, entries[3].header.zxid, &entries[4..]);
        OldState { disk, entries }
    };
    check(before, &creates([epoch(1, 1..=4), epoch(2, 1..=2)].concat()));
}

#[test]
fn over_nothing_and_with_nothing() {
    check(|| before(Vec::new(), &[0]), &creates(epoch(1, 1..=3)));
    check(|| before(epoch(1, 1..=3), &[0, 2]), &[]);
}

/// Logs in a separate directory, and every kind of leftover file.
#[test]
fn two_directories_are_cleared() {
    let disk = MemoryDisk::new();
    let dirs = Dirs::below(Path::new("/data"), Path::new("/logs"));
    dirs.create(&disk).unwrap();
    for path in ["/data/version-2/snapshot.5.gz", "/data/version-2/tmp.snapshot.9", "/data/myid"] {
        disk.put(Path::new(path), b"x".to_vec());
    }
    disk.put(Path::new("/logs/version-2/log.6"), b"x".to_vec());
    let tree = tree_of(&creates(1..=9));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    install_snapshot(&shared, &dirs, &tree, Compression::Gzip, LastZxid::Omit).unwrap();
    disk.crash(|_| false);
    assert_eq!(disk.list(&dirs.log).unwrap(), []);
    assert_eq!(disk.list(&dirs.data).unwrap().len(), 1);
    let recovered = recover(&disk, &dirs, &RecoverOptions::default(), &mut |_| {}).unwrap();
    assert!(same(&recovered.tree, &tree));
    assert_eq!(recovered.snapshot.unwrap().path, dirs.data.join("snapshot.9.gz"));
}

/// The log continues after the installed tree, also if a new epoch begins there.
#[test]
fn the_log_goes_on_behind_it() {
    let OldState { disk, .. } = before(epoch(1, 1..=6), &[0]);
    let mut entries = creates(epoch(1, 1..=9));
    install(&disk, &tree_of(&entries)).unwrap();
    let more = creates(epoch(2, 1..=2));
    write_entries(&disk, entries[8].header.zxid, &more);
    entries.extend(more);
    assert!(same(&recovered(&disk).tree, &tree_of(&entries)));
}

/// A tree with effects of txns that were not received has never existed anywhere.
#[test]
fn a_tree_between_two_times_is_refused() {
    let OldState { disk, entries } = before(epoch(1, 1..=3), &[0]);
    let unchanged = files(&disk);
    let entries = [entries, creates(epoch(1, 4..=6))].concat();
    let mut tree = tree_of(&entries[..5]);
    let mut snapshot = crate::WireSnapshot::start(&tree);
    let mut bytes = Vec::new();
    snapshot.step(&tree, 1, &mut bytes);
    tree.replay(&set_data(entries[5].header.zxid.0, "/n4294967297"));
    while snapshot.step(&tree, 9, &mut bytes) {}
    let (zxid, options) = (snapshot.zxid(), tree.options().clone());
    let received = crate::receive_snapshot(&mut &bytes[..], zxid, options, 1 << 20).unwrap();
    let error = install(&disk, &received.tree).unwrap_err();
    assert!(matches!(error, InstallError::Fuzzy { newest_effect, .. }
        if newest_effect == received.newest_effect && newest_effect == entries[5].header.zxid));
    assert_eq!(files(&disk), unchanged);
}

/// The membership's znode carries the version of a configuration in a zxid's place.
#[test]
fn the_membership_is_no_effect_of_a_txn() {
    let mut tree = tree_of(&creates(1..=3));
    tree.replay(&set_data(99, herdsman_proto::path::CONFIG));
    let mut bytes = Vec::new();
    let mut snapshot = crate::WireSnapshot::start(&tree);
    while snapshot.step(&tree, 9, &mut bytes) {}
    let options = tree.options().clone();
    let received = crate::receive_snapshot(&mut &bytes[..], Zxid(3), options, 1 << 20).unwrap();
    assert_eq!(received.newest_effect, Zxid(3));
    let disk = disk();
    install(&disk, &received.tree).unwrap();
    assert_eq!(recovered(&disk).tree.last_zxid(), Zxid(3));
}

#[test]
fn a_full_disk_changes_nothing() {
    let tree = tree_of(&creates(epoch(1, 1..=40)));
    for room in [0, 100, 2000] {
        let OldState { disk, entries } = before(epoch(1, 1..=6), &[0, 3]);
        let unchanged = files(&disk);
        let used: usize = unchanged.iter().map(|(_, content)| content.len()).sum();
        disk.set_capacity(Some((used + room) as u64));
        assert!(install(&disk, &tree).unwrap_err().is_full());
        assert_eq!(files(&disk), unchanged);
        assert!(same(&recovered(&disk).tree, &tree_of(&entries)));
        disk.set_capacity(None);
        install(&disk, &tree).unwrap();
        assert!(same(&recovered(&disk).tree, &tree));
    }
}

/// A failed sync decides nothing.
#[test]
fn a_failed_sync_changes_nothing() {
    let OldState { disk, entries } = before(epoch(1, 1..=6), &[0, 3]);
    disk.fail_sync(0);
    let error = install(&disk, &tree_of(&creates(epoch(1, 1..=9)))).unwrap_err();
    assert!(matches!(error, InstallError::Write(_)));
    disk.crash(|_| true);
    assert!(same(&recovered(&disk).tree, &tree_of(&entries)));
}

/// An installation that was decided and then failed is finished by the next call.
#[test]
fn a_second_try_finishes_the_first() {
    let (first, second) = (creates(epoch(1, 1..=8)), creates(epoch(1, 1..=9)));
    for power in 0..30 {
        let OldState { disk, .. } = before(epoch(1, 1..=6), &[0, 3]);
        disk.cut_power_after(power);
        let _ = install(&disk, &tree_of(&first));
        // The power is back before anything was forgotten.
        disk.crash(|_| true);
        install(&disk, &tree_of(&second)).unwrap();
        disk.crash(|_| false);
        assert!(same(&recovered(&disk).tree, &tree_of(&second)));
        assert_eq!(names(&disk).len(), 1);
    }
}

#[test]
fn a_damaged_tree_in_the_making_is_refused_and_nothing_is_removed() {
    let OldState { disk, .. } = before(epoch(1, 1..=6), &[0, 3]);
    disk.put(&dir().join("install.snapshot.100000009"), b"ZKSN".to_vec());
    let unchanged = files(&disk);
    let error = recover(&disk, &dirs(), &RecoverOptions::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, RecoverError::InstallingDamaged(_)));
    assert!(error.to_string().contains("copies everything from them"), "{error}");
    assert_eq!(files(&disk), unchanged);
}

/// A snapshot of the old tree that was being written cannot appear beside the new one.
#[test]
fn a_forgotten_snapshot_writer_is_harmless() {
    let OldState { disk, .. } = before(epoch(1, 1..=6), &[0, 3]);
    let memory = Arc::new(disk.clone());
    let head = (Zxid(7), Compression::None);
    let forgotten = crate::SnapshotWriter::begin(memory, dir(), head, &[], &[]).unwrap();
    install(&disk, &tree_of(&creates(epoch(1, 1..=9)))).unwrap();
    forgotten.finish(&Trailer::default(), &mut |_| {}).unwrap_err();
    assert_eq!(names(&disk), ["snapshot.100000009"]);
}

#[test]
fn a_real_disk_does_the_same() {
    let root = tempfile::tempdir().unwrap();
    let dirs = Dirs::below(&root.path().join("data"), &root.path().join("logs"));
    let disk: Arc<dyn Disk> = Arc::new(crate::RealDisk);
    dirs.create(&*disk).unwrap();
    let entries = creates([epoch(1, 1..=8), epoch(2, 1..=4)].concat());
    let (old, new) = (tree_of(&entries[..4]), tree_of(&entries[..8]));
    let options = RecoverOptions::default();
    for _ in 0..2 {
        install_snapshot(&disk, &dirs, &old, Compression::None, LastZxid::Write).unwrap();
        let mut log = crate::LogWriter::new(Arc::clone(&disk), &dirs.log, old.last_zxid(), OPTIONS);
        for entry in &entries[4..] {
            log.append(entry.header.zxid, &payload(entry)).unwrap();
        }
        log.flush(crate::SyncMode::Sync).unwrap();
        drop(log);
        let start = Zxid::start_of(2);
        let back = crate::truncate_and_reload(&*disk, &dirs, start, &options, &mut |_| {}).unwrap();
        assert!(same(&back.tree, &new));
        let recovered = recover(&*disk, &dirs, &options, &mut |_| {}).unwrap();
        assert!(same(&recovered.tree, &new));
    }
}

/// The old logs are removed for the tree, so a full disk must not prevent it for lack of the small file that keeps
/// Apache from starting. Before, each attempt failed and left a snapshot of the whole tree.
#[test]
fn a_full_disk_leaves_nothing_behind_and_may_be_freed_by_the_tree() {
    let before = || before(epoch(1, 1..=20), &[5]);
    let new = creates(epoch(2, 1..=3));
    let new_tree = tree_of(&new);
    let sizes = |disk: &MemoryDisk| -> u64 {
        disk.list(&dirs().data).unwrap().iter().map(|entry| entry.bytes).sum()
    };
    let used = sizes(&before().disk);
    let snapshot_bytes = install(&before().disk, &new_tree).unwrap().bytes;
    let (mut refused, mut without_guard) = (0, 0);
    for room in 0..snapshot_bytes + 500 {
        let OldState { disk, entries } = before();
        disk.set_capacity(Some(used + room));
        let installed = install(&disk, &new_tree);
        disk.set_capacity(None);
        let left = names(&disk).into_iter().any(|name| name.starts_with("tmp.") || name == GUARD);
        assert!(!left, "{room}: {:?}", names(&disk));
        let expected = if installed.is_ok() { &new } else { &entries };
        assert!(same(&recovered(&disk).tree, &tree_of(expected)), "{room}");
        match installed {
            Ok(_) if room < snapshot_bytes + 300 => without_guard += 1,
            Ok(_) => {}
            Err(error) => {
                assert!(error.is_full(), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && without_guard > 0, "{refused} {without_guard}");
}

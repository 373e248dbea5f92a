//! Replaces a server's state by a restored snapshot, with a crash at every point.

use herdsman_proto::txn::Entry;

use super::*;
use crate::disk::MemoryDisk;
use crate::epoch::{read_epoch, recover_epochs, write_epoch};
use crate::log::writer::{LogWriter, SyncMode};
use crate::names::{list_logs, list_snapshots};
use crate::recover::{RecoverOptions, recover};
use crate::testing::*;

const OLD_EPOCHS: Epochs = Epochs { current: 6, accepted: 7 };
const NEW_EPOCHS: Epochs = Epochs { current: 1, accepted: 7 };

fn both_layouts() -> [Dirs; 2] {
    [dirs(), Dirs::below(Path::new("/data"), Path::new("/logs"))]
}

fn entries() -> Vec<Entry> {
    creates([epoch(1, 1..=4), epoch(4, 1..=6)].concat())
}

/// Two snapshots and the log, epochs, and a reason not to vote.
fn before(dirs: &Dirs) -> MemoryDisk {
    let disk = MemoryDisk::new();
    dirs.create(&disk).unwrap();
    let entries = entries();
    snapshot(&disk, &tree_of(&[]));
    snapshot(&disk, &tree_of(&entries[..3]));
    for part in [&entries[..4], &entries[4..]] {
        let last = entries.iter().map(|entry| entry.header.zxid).rev();
        let last = last.into_iter().find(|zxid| *zxid < part[0].header.zxid);
        let shared = Arc::new(disk.clone());
        let mut log = LogWriter::new(shared, &dirs.log, last.unwrap_or_default(), OPTIONS);
        for entry in part {
            log.append(entry.header.zxid, &payload(entry)).unwrap();
        }
        log.flush(SyncMode::Sync).unwrap();
    }
    write_epoch(&disk, &dirs.data, EpochFile::Accepted, OLD_EPOCHS.accepted).unwrap();
    write_epoch(&disk, &dirs.data, EpochFile::Current, OLD_EPOCHS.current).unwrap();
    // Makes the copies.
    recover_epochs(&disk, dirs, entries[9].header.zxid).unwrap();
    voting::suspend(&disk, dirs, "lost").unwrap();
    disk
}

fn replace(disk: &MemoryDisk, dirs: &Dirs, tree: &Tree) -> Result<(), InstallError> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let staged = stage(&shared, dirs, tree, NEW_EPOCHS, &[])?;
    let name = staged.name;
    staged.decide(disk).map_err(io_at(&dirs.data))?;
    finish(disk, dirs, name)
}

fn epochs(disk: &MemoryDisk, dirs: &Dirs) -> Epochs {
    let read = |file| read_epoch(disk, &dirs.data, file).unwrap().unwrap();
    Epochs { current: read(EpochFile::Current), accepted: read(EpochFile::Accepted) }
}

/// Every number of changes up to all of them, with this many unsynced things surviving the crash.
fn at_every_crash(dirs: &Dirs, new: &Tree, mut check: impl FnMut(&MemoryDisk, bool, &str)) {
    let changes = {
        let disk = before(dirs);
        let start = disk.changes();
        replace(&disk, dirs, new).unwrap();
        disk.changes() - start
    };
    assert!(changes > 15);
    for power in 0..=changes {
        for survivors in 0..10 {
            let disk = before(dirs);
            disk.cut_power_after(power);
            let is_done = replace(&disk, dirs, new).is_ok();
            // The last of the changes, the removal of the guard, may fail.
            assert!(is_done || power < changes);
            let mut asked = 0;
            disk.crash(|_| {
                asked += 1;
                asked <= survivors
            });
            check(&disk, is_done, &format!("power {power}, {survivors} survivors"));
        }
    }
}

#[test]
fn a_crash_leaves_the_old_state_or_the_new_one() {
    let (old, new) = (tree_of(&entries()), tree_of(&creates(epoch(1, 1..=9))));
    for dirs in both_layouts() {
        let mut seen = [0, 0];
        at_every_crash(&dirs, &new, |disk, is_done, at| {
            let options = RecoverOptions::default();
            let recovered = recover(disk, &dirs, &options, &mut |_| {}).unwrap();
            let is_new = same(&recovered.tree, &new);
            assert!(is_new || (same(&recovered.tree, &old) && !is_done), "{at}");
            seen[usize::from(is_new)] += 1;
            disk.crash(|_| false);
            let expected = if is_new { NEW_EPOCHS } else { OLD_EPOCHS };
            assert_eq!(epochs(disk, &dirs), expected, "{at}");
            // Copies of the old epochs do not count.
            let last = recovered.tree.last_zxid();
            assert_eq!(recover_epochs(disk, &dirs, last).unwrap(), expected, "{at}");
            assert_eq!(voting::suspended(disk, &dirs).unwrap().is_some(), !is_new, "{at}");
            let names: Vec<String> =
                disk.list(&dirs.data).unwrap().into_iter().map(|entry| entry.name).collect();
            assert!(!names.iter().any(|name| name.starts_with(INSTALLING) || name == GUARD));
            assert_eq!(disk.content(&dirs.log.join(GUARD)), None, "{at}");
            if is_new {
                assert_eq!(list_snapshots(disk, &dirs.data).unwrap().len(), 1, "{at}");
                assert_eq!(list_logs(disk, &dirs.log).unwrap(), [], "{at}");
            }
        });
        assert!(seen[0] > 50 && seen[1] > 50, "{seen:?}");
    }
}

/// Apache reads `snapshot.*` and `log.*` and nothing else, and refuses a log that does not begin as one.
#[test]
fn apache_sees_the_old_state_or_the_new_one_or_refuses() {
    let (old, new) = (tree_of(&entries()), tree_of(&creates(epoch(1, 1..=9))));
    for dirs in both_layouts() {
        let mut refused = 0;
        at_every_crash(&dirs, &new, |disk, _, at| {
            let guard = disk.content(&dirs.log.join(GUARD));
            if guard.is_some_and(|content| content == GUARD_TEXT.as_bytes()) {
                refused += 1;
                return;
            }
            for entry in disk.list(&dirs.data).unwrap() {
                if entry.name.starts_with(INSTALLING) {
                    disk.remove(&dirs.data.join(entry.name)).unwrap();
                }
            }
            let options = RecoverOptions::default();
            let recovered = recover(disk, &dirs, &options, &mut |_| {}).unwrap();
            let expected = if same(&recovered.tree, &new) { NEW_EPOCHS } else { OLD_EPOCHS };
            assert!(same(&recovered.tree, &new) || same(&recovered.tree, &old), "{at}");
            assert_eq!(epochs(disk, &dirs), expected, "{at}");
        });
        assert!(refused > 50, "{refused}");
    }
}

#[test]
fn it_can_be_repeated_after_a_crash() {
    let new = tree_of(&creates(epoch(1, 1..=9)));
    for dirs in both_layouts() {
        at_every_crash(&dirs, &new, |disk, _, at| {
            if let Some(name) = pending(disk, &dirs).unwrap() {
                finish(disk, &dirs, name).unwrap();
            }
            replace(disk, &dirs, &new).unwrap();
            disk.crash(|_| false);
            let options = RecoverOptions::default();
            let recovered = recover(disk, &dirs, &options, &mut |_| {}).unwrap();
            assert!(same(&recovered.tree, &new), "{at}");
            assert_eq!(epochs(disk, &dirs), NEW_EPOCHS, "{at}");
        });
    }
}

#[test]
fn what_was_staged_can_be_discarded() {
    for dirs in both_layouts() {
        let disk = before(&dirs);
        let list = || [disk.list(&dirs.data).unwrap(), disk.list(&dirs.log).unwrap()];
        let unchanged = list();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        stage(&shared, &dirs, &tree_of(&creates(epoch(1, 1..=9))), NEW_EPOCHS, &[]).unwrap();
        assert_ne!(list(), unchanged);
        discard(&disk, &dirs).unwrap();
        assert_eq!(list(), unchanged);
    }
}

/// A tree that cannot be read any more is replaced and kept.
#[test]
fn a_damaged_tree_in_the_making_makes_way() {
    let new = tree_of(&creates(epoch(1, 1..=9)));
    for dirs in both_layouts() {
        let damaged = dirs.data.join("install.snapshot.100000007");
        let disk = before(&dirs);
        disk.put(&damaged, b"ZKSN".to_vec());
        let options = RecoverOptions::default();
        recover(&disk, &dirs, &options, &mut |_| {}).unwrap_err();
        replace(&disk, &dirs, &new).unwrap();
        let recovered = recover(&disk, &dirs, &options, &mut |_| {}).unwrap();
        assert!(same(&recovered.tree, &new));
        let kept = dirs.data.join("damaged.install.snapshot.100000007");
        assert_eq!(disk.content(&kept).unwrap(), b"ZKSN");
    }
}

/// Apache could start from the rest of the old files, and the epochs would not match the tree.
#[test]
fn a_failed_restore_keeps_what_belongs_to_an_earlier_one() {
    let new = tree_of(&creates(epoch(1, 1..=9)));
    for dirs in both_layouts() {
        let disk = before(&dirs);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        stage(&shared, &dirs, &new, NEW_EPOCHS, &[]).unwrap().decide(&disk).unwrap();
        disk.put(&dirs.data.join("install.snapshot.100000009"), b"ZKSN".to_vec());
        let list = || [disk.list(&dirs.data).unwrap(), disk.list(&dirs.log).unwrap()];
        let unchanged = list();
        stage(&shared, &dirs, &tree_of(&entries()[..2]), NEW_EPOCHS, &[]).unwrap();
        discard(&disk, &dirs).unwrap();
        assert_eq!(list(), unchanged);
    }
}

/// With another log directory than before, the old log would stay and be replayed over the new snapshot.
#[test]
fn it_is_finished_only_with_the_same_log_directory() {
    let [wrong, right] = both_layouts();
    let new = tree_of(&creates(epoch(1, 1..=9)));
    let disk = before(&right);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    stage(&shared, &right, &new, NEW_EPOCHS, &[]).unwrap().decide(&disk).unwrap();
    let options = RecoverOptions::default();
    let error = recover(&disk, &wrong, &options, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("for another dataLogDir"), "{error}");
    assert_eq!(list_logs(&disk, &right.log).unwrap().len(), 2);
    let recovered = recover(&disk, &right, &options, &mut |_| {}).unwrap();
    assert!(same(&recovered.tree, &new));
    assert_eq!(list_logs(&disk, &right.log).unwrap(), []);
}

/// Files in the wrong directory, and copies that only Apache would read, go with the others.
#[test]
fn nothing_else_is_left_in_either_directory() {
    let [_, dirs] = both_layouts();
    let new = tree_of(&creates(epoch(1, 1..=9)));
    let others = [
        dirs.data.join("log.400000001"),
        dirs.data.join("snapshot.500000001.bak"),
        dirs.log.join("snapshot.400000009"),
        dirs.log.join("log.500000001.bak"),
    ];
    let disk = before(&dirs);
    for path in &others {
        disk.put(path, b"other".to_vec());
    }
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    stage(&shared, &dirs, &new, NEW_EPOCHS, &[]).unwrap().decide(&disk).unwrap();
    let recovered = recover(&disk, &dirs, &RecoverOptions::default(), &mut |_| {}).unwrap();
    assert!(same(&recovered.tree, &new));
    for path in &others {
        assert_eq!(disk.content(path), None, "{}", path.display());
    }
}

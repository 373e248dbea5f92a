//! Archives histories of every kind, with crashes, full disks and damage, and restores every point of them.

use herdsman_proto::txn::Entry;
use herdsman_tree::Tree;

use super::history::{ArchivedServer, HISTORY_FILE};
use super::*;
use crate::disk::MemoryDisk;
use crate::install::install_snapshot;
use crate::names::Compression;
use crate::recover::RecoverOptions;
use crate::reload::{ReloadError, load_as_of, truncate};
use crate::snapshot::LastZxid;
use crate::testing::*;

const FIRST: &str = "/archive/server/history-1/version-2";

/// A server that archives to another disk.
struct Server {
    disk: MemoryDisk,
    archive_disk: MemoryDisk,
    names: u32,
}

impl Server {
    fn new() -> Self {
        Server { disk: disk(), archive_disk: MemoryDisk::new(), names: 0 }
    }

    fn open(&mut self, last: i64) -> Result<Archive, ArchiveError> {
        let server = ArchivedServer {
            disk: &self.disk,
            dirs: &dirs(),
            name: "server",
            last_zxid: Zxid(last),
        };
        let disk: Arc<dyn Disk> = Arc::new(self.archive_disk.clone());
        let names = &mut self.names;
        history::open(&disk, Path::new("/archive"), server, &mut || {
            *names += 1;
            format!("name{names}")
        })
    }

    /// Opens the archive and makes one pass; everything up to `committed` is committed and all files are finished.
    fn pass(&mut self, finished: i64, committed: i64) -> Result<Pass, ArchiveError> {
        let mut archive = self.open(finished)?;
        let source = ArchiveSource {
            disk: &self.disk,
            dirs: &dirs(),
            finished: Zxid(finished),
            committed: Zxid(committed),
        };
        archive.pass(&source, &mut |_| ControlFlow::Continue(()))
    }

    fn archive_all(&mut self, last: i64) -> Pass {
        self.pass(last, last).unwrap()
    }

    /// The names of the archived files.
    fn archived(&self) -> Vec<String> {
        let entries = self.archive_disk.list(Path::new(FIRST)).unwrap();
        let names = entries.into_iter().map(|entry| entry.name);
        names.filter(|name| name != HISTORY_FILE).collect()
    }

    fn load(&self, zxid: i64) -> Result<Tree, ReloadError> {
        load_from(&self.archive_disk, FIRST, zxid)
    }

    /// Checks that every point of a history can be restored.
    fn check_points(&self, entries: &[Entry], from: usize) {
        for length in from..=entries.len() {
            let tree = tree_of(&entries[..length]);
            match self.load(tree.last_zxid().0) {
                Ok(loaded) => assert!(same(&loaded, &tree), "{length}"),
                Err(error) => panic!("{length}: {error}"),
            }
        }
    }
}

fn load_from(disk: &MemoryDisk, dir: &str, zxid: i64) -> Result<Tree, ReloadError> {
    let dirs = Dirs { data: dir.into(), log: dir.into() };
    let options = RecoverOptions::default();
    load_as_of(disk, &dirs, Zxid(zxid), None, &options, &mut |_| {}).map(|loaded| loaded.tree)
}

/// Writes each part to a log file of its own.
fn write_files(disk: &MemoryDisk, entries: &[Entry], parts: &[usize]) {
    let mut start = 0;
    for &end in parts {
        let last = start.max(1) - 1;
        let last = if start == 0 { Zxid::ZERO } else { entries[last].header.zxid };
        write_entries(disk, last, &entries[start..end]);
        start = end;
    }
}

fn archived_log(first: i64) -> PathBuf {
    LogName { zxid: Zxid(first) }.path(Path::new(FIRST))
}

#[test]
fn every_archived_point_can_be_restored() {
    let mut server = Server::new();
    let entries = creates(1..=9);
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[3, 5, 9]);
    fuzzy_snapshot(&server.disk, &entries[..4], &entries[4..7], LastZxid::Write);
    let pass = server.archive_all(9);
    assert_eq!((pass.files, pass.is_waiting, pass.damaged), (5, false, Vec::new()));
    assert_eq!(server.archived(), ["log.1", "log.4", "log.6", "snapshot.0", "snapshot.4"]);
    server.check_points(&entries, 0);
    // Its files are those of a server.
    let dirs = Dirs { data: FIRST.into(), log: FIRST.into() };
    let (recovered, _) =
        crate::recover::load(&server.archive_disk, &dirs, &RecoverOptions::default(), &mut |_| {})
            .unwrap();
    assert!(same(&recovered.tree, &tree_of(&entries)));
    assert_eq!(server.archive_all(9), Pass::default());
    assert!(matches!(server.load(10), Err(ReloadError::Impossible { .. })));
}

#[test]
fn a_log_file_that_is_written_or_not_committed_is_not_archived() {
    let mut server = Server::new();
    let entries = creates(1..=6);
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[3, 6]);
    let pass = server.pass(6, 5).unwrap();
    assert!(pass.is_waiting);
    assert_eq!(server.archived(), ["log.1", "snapshot.0"]);
    // The second one is still written.
    let pass = server.pass(3, 6).unwrap();
    assert!(!pass.is_waiting);
    assert_eq!(server.archived(), ["log.1", "snapshot.0"]);
    server.archive_all(6);
    server.check_points(&entries, 0);
}

/// A follower restarts with txns that are not committed, and the next leader truncates them.
/// Each pass used to list the archive three times: seconds for 100,000 files on another machine, for one new file.
#[test]
fn the_archive_is_listed_once() {
    let mut server = Server::new();
    let entries = creates(1..=6);
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[3, 5, 6]);
    let mut archive = server.open(6).unwrap();
    let pass = |archive: &mut Archive, finished| {
        let (disk, dirs) = (&server.disk, &dirs());
        let (finished, committed) = (Zxid(finished), Zxid(6));
        let source = ArchiveSource { disk, dirs, finished, committed };
        archive.pass(&source, &mut |_| ControlFlow::Continue(())).map(|pass| pass.files)
    };
    assert_eq!(pass(&mut archive, 3).unwrap(), 2);
    let lists = server.archive_disk.lists();
    assert_eq!(pass(&mut archive, 5).unwrap(), 1);
    assert_eq!(pass(&mut archive, 5).unwrap(), 0);
    assert_eq!(server.archive_disk.lists(), lists);
    // After a failure it is listed again, and now and then in case that an operator has removed something.
    server.archive_disk.set_openable(false);
    assert!(pass(&mut archive, 6).is_err());
    server.archive_disk.set_openable(true);
    server.archive_disk.remove(&archived_log(4)).unwrap();
    assert_eq!(pass(&mut archive, 6).unwrap(), 2);
    server.archive_disk.remove(&archived_log(1)).unwrap();
    assert_eq!(pass(&mut archive, 6).unwrap(), 0);
    archive.retry_damaged();
    assert_eq!(pass(&mut archive, 6).unwrap(), 1);
    server.check_points(&entries, 0);
}

#[test]
fn what_a_leader_truncates_never_gets_into_the_archive() {
    let mut server = Server::new();
    let mut zxids = epoch(1, 1..=6);
    let old = creates(zxids.clone());
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &old, &[4, 6]);
    // Snapshots that show what is not committed, one of them not by its name.
    snapshot(&server.disk, &tree_of(&old));
    fuzzy_snapshot(&server.disk, &old[..4], &old[4..], LastZxid::Write);
    let committed = zxids[3];
    assert!(server.pass(zxids[5], committed).unwrap().is_waiting);
    let log = format!("log.{:x}", zxids[0]);
    assert_eq!(server.archived(), [log.as_str(), "snapshot.0"]);
    for zxid in [committed, zxids[5]] {
        server.disk.remove(&dir().join(format!("snapshot.{zxid:x}"))).unwrap();
    }
    truncate(&server.disk, &dirs(), Zxid(committed)).unwrap();
    zxids.truncate(4);
    zxids.extend(epoch(2, 1..=3));
    let entries = creates(zxids.clone());
    write_entries(&server.disk, Zxid(committed), &entries[4..]);
    let pass = server.archive_all(zxids[6]);
    assert_eq!((pass.files, pass.is_waiting), (1, false));
    server.check_points(&entries, 0);
    assert!(list_gaps(&server.archive_disk, Path::new(FIRST)).unwrap().is_empty());
}

#[test]
fn a_damaged_file_is_reported_and_never_archived() {
    let entries = creates(1..=9);
    let bytes = log_bytes(&entries[3..6]).len();
    // Not in the dbid, which nobody reads.
    for offset in (0..8).chain(16..bytes) {
        let mut server = Server::new();
        snapshot(&server.disk, &tree_of(&[]));
        write_files(&server.disk, &entries, &[3, 6, 9]);
        snapshot(&server.disk, &tree_of(&entries[..7]));
        server.disk.flip_bit(&log_path(4), offset, 0);
        let pass = server.archive_all(9);
        assert_eq!(pass.damaged.len(), 1, "{offset}");
        let mark = format!("{GAP}3");
        let expected = [mark.as_str(), "log.1", "log.7", "snapshot.0", "snapshot.7"];
        assert_eq!(server.archived(), expected, "{offset}");
        for zxid in [0, 1, 3, 7, 9] {
            let tree = tree_of(&entries[..usize::try_from(zxid).unwrap()]);
            assert!(same(&server.load(zxid).unwrap(), &tree), "{offset} {zxid}");
        }
        for zxid in [4, 5, 6] {
            assert!(server.load(zxid).is_err(), "{offset} {zxid}");
        }
    }
}

#[test]
fn a_damaged_snapshot_is_never_archived_and_an_older_one_is_used() {
    let entries = creates(1..=6);
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
        let mut server = Server::new();
        snapshot(&server.disk, &tree_of(&[]));
        write_files(&server.disk, &entries, &[3, 6]);
        let memory = Arc::new(server.disk.clone());
        let tree = tree_of(&entries[..4]);
        let written =
            crate::write_snapshot(memory, dir(), compression, &tree, LastZxid::Write).unwrap();
        let middle = server.disk.content(&written.path).unwrap().len() / 2;
        server.disk.flip_bit(&written.path, middle, 2);
        let pass = server.archive_all(6);
        assert_eq!(pass.damaged.len(), 1, "{compression:?}");
        assert_eq!(server.archived(), ["log.1", "log.4", "snapshot.0"]);
        server.check_points(&entries, 0);
    }
}

/// Before a new epoch zxids do not show that txns are missing.
#[test]
fn a_hole_before_an_epoch_is_marked() {
    let zxids: Vec<i64> = epoch(1, 1..=6).into_iter().chain(epoch(2, 1..=3)).collect();
    let entries = creates(zxids.clone());
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[3, 6, 9]);
    let damaged = server.disk.content(&log_path(zxids[3])).unwrap();
    server.disk.flip_bit(&log_path(zxids[3]), 40, 1);
    server.archive_all(zxids[8]);
    assert!(server.archived().contains(&format!("{GAP}{:x}", zxids[2])));
    assert!(same(&server.load(zxids[2]).unwrap(), &tree_of(&entries[..3])));
    assert!(server.load(zxids[7]).is_err());
    let found = survey(&server.archive_disk, Path::new(FIRST), None).unwrap();
    assert_eq!(found.spans.len(), 2);
    assert_eq!(found.holes().next().unwrap().before.zxid, Zxid(zxids[6]));
    // A repair restores the file, and the archive becomes whole.
    server.disk.put(&log_path(zxids[3]), damaged);
    server.archive_all(zxids[8]);
    server.check_points(&entries, 0);
}

/// An ensemble is set back, but one member is left out: the new leader truncates what was committed and archived.
#[test]
fn a_history_that_was_cut_below_the_archive_is_not_continued() {
    let old = creates(epoch(1, 1..=6));
    let (kept, archived_last) = (old[3].header.zxid, old[5].header.zxid);
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &old, &[6]);
    server.archive_all(archived_last.0);
    truncate(&server.disk, &dirs(), kept).unwrap();
    let zxids: Vec<i64> = epoch(3, 1..=4);
    let entries = creates(epoch(1, 1..=4).into_iter().chain(zxids.clone()));
    write_entries(&server.disk, kept, &entries[4..6]);
    snapshot(&server.disk, &tree_of(&entries[..6]));
    write_entries(&server.disk, Zxid(zxids[1]), &entries[6..]);
    server.archive_all(zxids[3]);
    assert!(same(&server.load(archived_last.0).unwrap(), &tree_of(&old)));
    assert!(server.load(zxids[0]).is_err());
    for length in 6..=8 {
        let tree = tree_of(&entries[..length]);
        assert!(same(&server.load(tree.last_zxid().0).unwrap(), &tree), "{length}");
    }
}

/// A file that begins an epoch is archived late, so its predecessor is no longer followed by a hole.
#[test]
fn a_mark_goes_when_the_hole_is_filled() {
    let zxids: Vec<i64> = (1..=3).flat_map(|number| epoch(number, 1..=3)).collect();
    let entries = creates(zxids.clone());
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[3, 6, 9]);
    let whole = server.disk.content(&log_path(zxids[3])).unwrap();
    server.disk.flip_bit(&log_path(zxids[3]), 40, 1);
    server.archive_all(zxids[8]);
    assert!(server.load(zxids[8]).is_err());
    server.disk.put(&log_path(zxids[3]), whole);
    server.archive_all(zxids[8]);
    server.check_points(&entries, 0);
}

#[test]
fn a_file_that_runs_into_the_next_one_is_damaged() {
    let entries = creates(1..=6);
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    server.disk.put(&log_path(1), log_bytes(&entries[..5]));
    server.disk.put(&log_path(4), log_bytes(&entries[3..]));
    let pass = server.archive_all(6);
    assert_eq!(pass.damaged[0].1, "txn 0x4 should be in a later file");
}

/// A follower that is far behind takes a tree from its leader: txns are missing in its log, and in the archive.
#[test]
fn a_tree_from_the_leader_leaves_a_hole() {
    let zxids: Vec<i64> = epoch(1, 1..=8).into_iter().chain(epoch(2, 1..=3)).collect();
    let entries = creates(zxids.clone());
    for base_is_damaged in [false, true] {
        let mut server = Server::new();
        snapshot(&server.disk, &tree_of(&[]));
        write_files(&server.disk, &entries[..3], &[3]);
        server.archive_all(zxids[2]);
        let memory: Arc<dyn Disk> = Arc::new(server.disk.clone());
        let tree = tree_of(&entries[..8]);
        let installed =
            install_snapshot(&memory, &dirs(), &tree, Compression::None, LastZxid::Write).unwrap();
        write_entries(&server.disk, Zxid(zxids[7]), &entries[8..]);
        if base_is_damaged {
            server.disk.flip_bit(&installed.path, 100, 1);
        }
        server.archive_all(zxids[10]);
        assert!(same(&server.load(zxids[2]).unwrap(), &tree_of(&entries[..3])));
        assert!(server.load(zxids[4]).is_err());
        let found = survey(&server.archive_disk, Path::new(FIRST), None).unwrap();
        assert_eq!(found.holes().count(), 1);
        let loaded = server.load(zxids[9]);
        if base_is_damaged {
            assert!(loaded.is_err());
        } else {
            assert!(same(&loaded.unwrap(), &tree_of(&entries[..10])));
            // The hole stays known if that snapshot is damaged later.
            server.archive_disk.flip_bit(
                &Path::new(FIRST).join(format!("snapshot.{:x}", zxids[7])),
                100,
                1,
            );
            assert!(server.load(zxids[9]).is_err());
        }
    }
}

/// Cuts the power at every change that a pass makes to the archive.
#[test]
fn a_power_cut_leaves_whole_files_only() {
    let entries = creates(1..=9);
    let prepare = || {
        let server = Server::new();
        snapshot(&server.disk, &tree_of(&[]));
        write_files(&server.disk, &entries, &[3, 6, 9]);
        snapshot(&server.disk, &tree_of(&entries[..7]));
        server
    };
    let mut whole = prepare();
    whole.archive_all(9);
    for power in 0..whole.archive_disk.changes() {
        for survivors in [0, 1, 2, 5, usize::MAX] {
            let mut server = prepare();
            server.archive_disk.cut_power_after(power);
            assert!(server.pass(9, 9).is_err(), "{power}");
            let mut asked = 0;
            server.archive_disk.crash(|_| {
                asked += 1;
                asked <= survivors
            });
            let dir = server.open(9).unwrap().dir().to_owned();
            for entry in server.archive_disk.list(&dir).unwrap() {
                let path = dir.join(&entry.name);
                let same_file = Path::new(FIRST).join(&entry.name);
                if entry.name != HISTORY_FILE {
                    let expected = whole.archive_disk.content(&same_file);
                    assert_eq!(server.archive_disk.content(&path), expected, "{power} {path:?}");
                }
            }
            server.archive_all(9);
            let loaded = load_from(&server.archive_disk, dir.to_str().unwrap(), 8).unwrap();
            assert!(same(&loaded, &tree_of(&entries[..8])), "{power}");
        }
    }
}

#[test]
fn a_full_archive_is_tried_again() {
    let entries = creates(1..=9);
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[3, 6, 9]);
    let before = files(&server.disk);
    let mut bytes = 0;
    while server.pass(9, 9).is_err() {
        server.archive_disk.set_capacity(Some(bytes));
        bytes += 100;
        assert!(bytes < 10_000);
        let _ = server.pass(9, 9).map_err(|error| {
            assert!(matches!(error, ArchiveError::Archive { .. }), "{error}");
        });
    }
    server.check_points(&entries, 0);
    let after = files(&server.disk);
    assert!(before.iter().all(|file| after.contains(file)), "sources are never changed");
}

#[test]
fn a_restored_server_begins_a_new_history() {
    let entries = creates(1..=9);
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[5, 9]);
    server.archive_all(9);
    // Back to txn 5, and other txns with the same zxids.
    let memory: Arc<dyn Disk> = Arc::new(server.disk.clone());
    let back = tree_of(&entries[..5]);
    let epochs = crate::Epochs { current: 0, accepted: 0 };
    let staged = crate::replace::stage(&memory, &dirs(), &back, epochs, &[]).unwrap();
    staged.decide(&server.disk).unwrap();
    let name = SnapshotName { zxid: Zxid(5), compression: Compression::None };
    crate::replace::finish(&server.disk, &dirs(), name).unwrap();
    let other: Vec<Entry> =
        entries[..5].iter().cloned().chain((6..=12).map(|zxid| set_data(zxid, "/n1"))).collect();
    write_entries(&server.disk, Zxid(5), &other[5..]);
    server.archive_all(12);
    server.check_points(&entries, 0);
    let second = FIRST.replace("history-1", "history-2");
    for length in 5..=12 {
        let loaded = load_from(&server.archive_disk, &second, length as i64).unwrap();
        assert!(same(&loaded, &tree_of(&other[..length])), "{length}");
    }
}

#[test]
fn an_archive_ahead_of_the_server_is_of_another_history() {
    let entries = creates(1..=9);
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[5, 9]);
    server.archive_all(9);
    let same_history = server.open(9).unwrap();
    assert_eq!(same_history.dir(), Path::new(FIRST));
    // An older copy of the whole directory has been put in place.
    let other = server.open(8).unwrap();
    assert_eq!(other.dir(), Path::new(&FIRST.replace("history-1", "history-2")));
    let again = server.open(9).unwrap();
    assert_eq!(again.dir(), other.dir());
}

#[test]
fn purging_an_archive_keeps_every_later_point() {
    let entries = creates(1..=12);
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[3, 6, 9, 12]);
    for length in [2, 4, 8] {
        snapshot(&server.disk, &tree_of(&entries[..length]));
    }
    server.archive_all(12);
    let time_ms = |zxid: usize| entries[zxid - 1].header.time_ms;
    let mut archive = server.open(12).unwrap();
    assert_eq!(archive.purge_before(time_ms(5)).unwrap(), ArchivePurge { snapshots: 0, logs: 0 });
    // Txn 11 is in log.a, so snapshots 4 and 8 stay.
    assert_eq!(archive.purge_before(time_ms(11)).unwrap(), ArchivePurge { snapshots: 2, logs: 1 });
    assert_eq!(server.archived(), ["log.4", "log.7", "log.a", "snapshot.4", "snapshot.8"]);
    server.check_points(&entries, 4);
    assert!(server.load(3).is_err());
}

#[test]
fn a_time_stands_for_the_last_txn_before_the_first_later_one() {
    let mut entries = creates(1..=8);
    for (entry, time_ms) in entries.iter_mut().zip([10, 20, 20, 30, 50, 40, 60, 70]) {
        entry.header.time_ms = time_ms;
    }
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[3, 6, 8]);
    server.archive_all(8);
    let cut = |time_ms| survey(&server.archive_disk, Path::new(FIRST), Some(time_ms)).unwrap().cut;
    let last = |time_ms| cut(time_ms).unwrap().last.map(|txn| txn.zxid.0);
    assert_eq!(last(9), None);
    assert_eq!(last(10), Some(1));
    assert_eq!(last(29), Some(3));
    assert_eq!((last(30), cut(30).unwrap().clock_went_back), (Some(4), false));
    assert_eq!((last(45), cut(45).unwrap().clock_went_back), (Some(4), true));
    assert_eq!(last(69), Some(7));
    assert_eq!(cut(70), None);
    server.archive_disk.remove(&archived_log(4)).unwrap();
    assert!(cut(35).unwrap().is_in_hole);
}

/// The whole archive used to be read for it.
#[test]
fn the_last_txn_is_in_the_newest_log_that_can_be_read() {
    let mut server = Server::new();
    let entries = creates(1..=8);
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[3, 6, 8]);
    server.archive_all(8);
    let disk = &server.archive_disk;
    let last = || {
        let last = last_txn_point(disk, Path::new(FIRST)).unwrap();
        assert_eq!(last, survey(disk, Path::new(FIRST), None).unwrap().last());
        last.map(|txn| txn.zxid.0)
    };
    assert_eq!(last(), Some(8));
    // The end of a record; then all of the file.
    disk.put(&archived_log(7), log_bytes(&entries[6..])[..200].to_vec());
    assert_eq!(last(), Some(7));
    disk.fail_open(&archived_log(7));
    assert_eq!(last(), Some(6));
    disk.fail_reads(&archived_log(4), 0..1);
    assert_eq!(last(), Some(3));
    disk.remove(&archived_log(1)).unwrap();
    assert_eq!(last(), None);
}

#[test]
fn a_backup_can_be_the_base() {
    let entries = creates(1..=9);
    let mut server = Server::new();
    snapshot(&server.disk, &tree_of(&[]));
    write_files(&server.disk, &entries, &[9]);
    server.archive_all(9);
    server.archive_disk.remove(&Path::new(FIRST).join("snapshot.0")).unwrap();
    assert!(server.load(7).is_err());
    let backup = snapshot(&server.disk, &tree_of(&entries[..5]));
    let named = Path::new("/backup.zk");
    server.archive_disk.put(named, server.disk.content(&backup).unwrap());
    let dirs = Dirs { data: FIRST.into(), log: FIRST.into() };
    let load = |zxid| {
        let options = RecoverOptions::default();
        load_as_of(&server.archive_disk, &dirs, Zxid(zxid), Some(named), &options, &mut |_| {})
    };
    assert!(same(&load(7).unwrap().tree, &tree_of(&entries[..7])));
    assert!(same(&load(5).unwrap().tree, &tree_of(&entries[..5])));
    let error = load(4).unwrap_err().to_string();
    assert!(error.contains("shows effects of txns up to 0x5"), "{error}");
}

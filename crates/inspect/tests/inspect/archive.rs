//! `restore --at`, `restore --list` and `backup --at`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::txn::{CreateKind, CreateTxn, Entry};
use herdsman_proto::{Acl, Perms, SessionId, Txn, TxnHeader, Zxid};
use herdsman_store::archive::ArchiveSource;
use herdsman_store::archive::history::{self, ArchivedServer};
use herdsman_store::{
    Compression, Dirs, Disk, LastZxid, LogOptions, LogWriter, RealDisk, SyncMode, write_snapshot,
};
use herdsman_tree::{Tree, TreeOptions};
use tempfile::TempDir;

use crate::harness::{CommandResult, bytes_of, run};

/// 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Creates `/n<number>`, a minute after the one before.
fn entry(zxid: i64, number: i64) -> Entry {
    Entry {
        header: TxnHeader {
            session: SessionId(0x1000),
            cxid: 1,
            zxid: Zxid(zxid),
            time_ms: START_MS + number * 60_000,
        },
        txn: Txn::Create(CreateTxn {
            kind: CreateKind::Plain { ephemeral: false, with_stat: false },
            path: format!("/n{number}").into(),
            data: None,
            acl: vec![Acl::world(Perms::ALL)],
            parent_cversion: i32::try_from(number).unwrap(),
        }),
        digest: None,
    }
}

/// A server's directory and the archive of it: txns 1 to 9 in three files, with snapshots before the first and after
/// the fifth.
struct Archived {
    dir: TempDir,
}

impl Archived {
    fn new() -> Self {
        let archived = Archived { dir: tempfile::tempdir().unwrap() };
        archived.write(9);
        archived.archive(9);
        archived
    }

    fn dirs(&self) -> Dirs {
        Dirs::below(&self.data_dir(), &self.data_dir())
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("archive")
    }

    fn history(&self) -> PathBuf {
        self.root().join("server/history-1")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.history().join("version-2").join(name)
    }

    fn write(&self, last: i64) {
        let (disk, dirs): (Arc<dyn Disk>, _) = (Arc::new(RealDisk), self.dirs());
        dirs.create(&*disk).unwrap();
        let mut tree = Tree::new(TreeOptions::default());
        let options = LogOptions { pre_alloc_bytes: 4096, ..LogOptions::default() };
        let mut log = LogWriter::new(Arc::clone(&disk), &dirs.log, Zxid::ZERO, options);
        for number in 0..=last {
            if number > 0 {
                let entry = entry(number, number);
                let mut payload = Vec::new();
                entry.encode(&mut payload);
                log.append(entry.header.zxid, &payload).unwrap();
                log.flush(SyncMode::Sync).unwrap();
                tree.replay(&entry);
            }
            if number % 3 == 0 {
                log.roll();
            }
            if number == 0 || number == 5 {
                let disk = Arc::clone(&disk);
                write_snapshot(disk, &dirs.data, Compression::None, &tree, LastZxid::Write)
                    .unwrap();
            }
        }
    }

    fn archive(&self, last: i64) {
        let (disk, dirs): (Arc<dyn Disk>, _) = (Arc::new(RealDisk), self.dirs());
        let server =
            ArchivedServer { disk: &RealDisk, dirs: &dirs, name: "server", last_zxid: Zxid(last) };
        let mut name = || format!("name{last}");
        let mut archive = history::open(&disk, &self.root(), server, &mut name).unwrap();
        let source = ArchiveSource {
            disk: &RealDisk,
            dirs: &dirs,
            finished: Zxid(last),
            committed: Zxid(last),
        };
        archive.pass(&source, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    }

    /// Restores a point into a new directory.
    fn restore(&self, at: &str, more: &[&str]) -> (TempDir, CommandResult) {
        let target = tempfile::tempdir().unwrap();
        let (from, to) = (self.root(), target.path().join("data"));
        let arguments = ["restore", "--at", at, "--from", text(&from), "--data-dir", text(&to)];
        let ran = run(&[&arguments[..], more].concat());
        (target, ran)
    }

    #[track_caller]
    fn check(&self, at: &str, last: i64) {
        let (target, ran) = self.restore(at, &[]);
        ran.expect(0, &["restored", &format!("{} znodes as of txn 0x{last:x}", last + 4)]);
        let data_dir = target.path().join("data");
        let ran = run(&["inspect", "data-dir", text(&data_dir), "--json"]).expect(0, &[]);
        assert!(ran.out.contains(&format!("\"0x{last:x}\"")), "{}", ran.out);
    }

    #[track_caller]
    fn check_refused(&self, at: &str, pieces: &[&str]) {
        let (target, ran) = self.restore(at, &[]);
        ran.expect(2, &[pieces, &["nothing was changed"]].concat());
        assert!(!target.path().join("data").exists());
    }
}

#[test]
fn a_point_is_restored_by_zxid_and_by_time() {
    let archived = Archived::new();
    let before = bytes_of(&archived.root());
    for (at, last) in [
        ("0x0", 0),
        ("0x4", 4),
        ("0x5", 5),
        ("0x8", 8),
        ("latest", 9),
        ("2026-01-01T00:04:00Z", 4),
        ("2026-01-01T00:07:59.999Z", 7),
        ("2026-01-01T01:08:00+01:00", 8),
    ] {
        archived.check(at, last);
    }
    assert_eq!(bytes_of(&archived.root()), before, "an archive is only read");
}

#[test]
fn a_point_outside_of_the_archive_is_refused() {
    let archived = Archived::new();
    archived.check_refused("0xa", &["cannot go back to txn 0xa", "txn 0x9 and then ends"]);
    archived.check_refused(
        "2026-01-01T00:09:00Z",
        &["ends with txn 0x9 of 2026-01-01T00:09:00.000Z", "--at latest"],
    );
    archived.check_refused("2025-12-31", &["is before the first txn in the archive, txn 0x1"]);
    fs::remove_file(archived.file("snapshot.0")).unwrap();
    archived.check_refused("0x4", &["no snapshot"]);
    archived.check("0x5", 5);
}

#[test]
fn a_hole_and_damage_are_named() {
    let archived = Archived::new();
    let log = archived.file("log.4");
    let bytes = fs::read(&log).unwrap();
    let list = ["restore", "--list", "--from", text(&archived.root()).to_owned().leak()];
    run(&list).expect(0, &["9 txns, 2 snapshots", "from txn 0x0", "to txn 0x9 of 2026-01-01"]);
    fs::remove_file(&log).unwrap();
    run(&list).expect(1, &["missing  txns between txn 0x3", "and txn 0x7", "to txn 0x3 of"]);
    archived.check("0x3", 3);
    archived.check_refused("0x8", &["txns are missing between 0x5 and 0x7"]);
    archived.check_refused("2026-01-01T00:05:00Z", &["txns are missing in the archive at"]);
    let mut damaged = bytes.clone();
    // In the last record: what comes before the snapshot of txn 5 need not be intact.
    let last = damaged.len() - 10;
    damaged[last] ^= 1;
    fs::write(&log, damaged).unwrap();
    run(&list).expect(1, &["damaged  ", "log.4: damaged at offset"]);
    archived.check_refused("0x6", &["log.4 is damaged at offset"]);
    fs::write(&log, bytes).unwrap();
    // A damaged snapshot is replaced by an older one and the log.
    let snapshot = archived.file("snapshot.5");
    let mut bytes = fs::read(&snapshot).unwrap();
    bytes[50] ^= 1;
    fs::write(&snapshot, bytes).unwrap();
    run(&list).expect(1, &["snapshot.5 cannot be used"]);
    archived.check("0x7", 7);
    let (_target, ran) = archived.restore("0x7", &[]);
    ran.expect(0, &["an older one was used, nothing is missing"]);
}

#[test]
fn several_histories_are_told_apart() {
    let archived = Archived::new();
    // The directory was set back to txn 6, and other txns follow.
    fs::remove_file(archived.dirs().log.join("log.7")).unwrap();
    archived.archive(6);
    let (_target, ran) = archived.restore("0x4", &[]);
    ran.expect(2, &["there are 2 histories", "history-1", "history-2", "nothing was changed"]);
    let list = ["restore", "--list", "--from", text(&archived.root()).to_owned().leak()];
    run(&list).expect(0, &["history-1", "to txn 0x9", "history-2", "to txn 0x6"]);
    let target = tempfile::tempdir().unwrap();
    let to = target.path().join("data");
    let from = archived.history();
    run(&["restore", "--at", "0x9", "--from", text(&from), "--data-dir", text(&to)])
        .expect(0, &["restored"]);
}

#[test]
fn a_used_directory_is_kept_and_its_history_ends() {
    let archived = Archived::new();
    let (data_dir, from) = (archived.data_dir(), archived.root());
    fs::write(data_dir.join("myid"), "3").unwrap();
    let arguments =
        ["restore", "--at", "0x4", "--from", text(&from), "--data-dir", text(&data_dir)];
    run(&arguments).expect(2, &["is not empty", "Nothing was changed"]);
    let forced = [&arguments[..], &["--force"]].concat();
    run(&forced).expect(2, &["use --yes"]);
    let told = [&forced[..], &["--yes"]].concat();
    run(&told).expect(0, &["restored", "restore the same point on every other member"]);
    run(&told).expect(0, &["already has this state"]);
    let history = archived.dirs().data.join("herdsman.history");
    assert!(!history.exists(), "what follows belongs to a new history");
    // What the server had before is kept, and the archive still has it.
    run(&["restore", "--at", "0x9", "--from", text(&from), "--data-dir", text(&data_dir)])
        .expect(2, &["Nothing was changed"]);
}

#[test]
fn a_backup_is_a_base_and_a_point_is_a_backup() {
    let archived = Archived::new();
    let (dir, from) = (tempfile::tempdir().unwrap(), archived.root());
    let file = dir.path().join("five.gz");
    run(&["backup", "--at", "0x5", "--from", text(&from), "-o", text(&file)])
        .expect(0, &["as of txn 0x5", "read back and verified"]);
    let target = dir.path().join("data");
    run(&["restore", text(&file), "--data-dir", text(&target)]).expect(0, &["as of txn 0x5"]);
    for name in ["snapshot.0", "snapshot.5"] {
        fs::remove_file(archived.file(name)).unwrap();
    }
    archived.check_refused("0x8", &["no snapshot"]);
    let (_target, ran) = archived.restore("0x8", &["--base", text(&file)]);
    ran.expect(0, &["as of txn 0x8"]);
    let (_target, ran) = archived.restore("0x4", &["--base", text(&file)]);
    ran.expect(2, &["shows effects of txns up to 0x5", "nothing was changed"]);
}

#[test]
fn wrong_usage_is_explained() {
    for (arguments, piece) in [
        (&["restore", "--at", "0x5", "--data-dir", "d"][..], "--from <DIR>"),
        (&["restore", "--at", "soon", "--from", "a", "--data-dir", "d"], "0x and a zxid"),
        (&["restore", "f", "--from", "a", "--data-dir", "d"], "cannot be used with"),
        (&["restore", "--data-dir", "d"], "<FILE>"),
        (&["restore", "--list", "--data-dir", "d"], "cannot be used with"),
        (&["restore", "--from", "/", "--at", "0x5"], "--data-dir"),
        (&["restore", "--from", "/nowhere", "--list"], "/nowhere"),
        (&["restore", "--from", "/nowhere", "--data-dir", "d"], "--at"),
        (
            &["restore", "--at", "0x5", "--from", "a", "--admin", "http://127.0.0.1:1"],
            "herdsman backup --at POINT",
        ),
    ] {
        run(arguments).expect(2, &[piece]);
    }
}

//! Servers that archive: every point can be restored, nothing that fails stops them, and purges wait.

use std::path::{Path, PathBuf};

use herdsman_config::{Config, Purge};
use herdsman_proto::Zxid;
use herdsman_server::ServerHandle;
use herdsman_store::{Dirs, RealDisk, RecoverOptions, load_as_of};
use herdsman_testing::{TestEnsemble, TestServer};
use tempfile::TempDir;

use crate::client::Client;

use crate::metrics::scrape;
use crate::words::wait_for;

/// What a tree was like after a txn.
#[derive(Debug, PartialEq, Eq)]
struct Point {
    zxid: Zxid,
    digest: i64,
    znodes: usize,
}

fn point(handle: &ServerHandle) -> Point {
    let tree = handle.core().tree();
    Point { zxid: tree.last_zxid(), digest: tree.digest(), znodes: tree.node_count() }
}

fn restored(history: &Path, zxid: Zxid) -> Point {
    let dir = history.join("version-2");
    let dirs = Dirs { data: dir.clone(), log: dir };
    let options = RecoverOptions::default();
    let tree = load_as_of(&RealDisk, &dirs, zxid, None, &options, &mut |_| {}).unwrap().tree;
    Point { zxid: tree.last_zxid(), digest: tree.digest(), znodes: tree.node_count() }
}

fn archive_to(config: &mut Config, root: &Path) {
    config.archive.dir = Some(root.to_owned());
    config.archive.every_seconds = 1;
}

fn wait_until_archived(handle: &ServerHandle) {
    let last = handle.core().tree().last_zxid().0 as f64;
    wait_for("the archive", || scrape(handle)["herdsman_archive_last_zxid"] >= last);
}

/// The directories of histories below the root of an archive.
fn histories(root: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    };
    let mut found: Vec<PathBuf> = below(root).iter().flat_map(|server| below(server)).collect();
    found.sort();
    found
}

#[test]
fn every_point_of_a_running_server_can_be_restored() {
    let root = TempDir::new().unwrap();
    let mut server = TestServer::start_with(|config| archive_to(config, root.path()));
    let mut points = Vec::new();
    for round in 0..3 {
        let mut client = Client::connect(server.address());
        for number in 0..20 {
            client.create(&format!("/n{round}-{number}"), b"data", 0).ok();
            points.push(point(&server.handle()));
            if number == 10 {
                server.handle().write_snapshot().unwrap();
            }
        }
        wait_until_archived(&server.handle());
        let [history] = &histories(root.path())[..] else { panic!("one history") };
        for point in points.iter().step_by(1 + round) {
            assert_eq!(&restored(history, point.zxid), point);
        }
        server.kill();
        server.start_again();
    }
    let series = scrape(&server.handle());
    assert!(series["herdsman_archive_failures_total"] < 0.5);
    assert!(series["herdsman_archive_damaged_files_total"] < 0.5);
}

#[test]
fn an_archive_that_cannot_be_written_is_tried_again() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("archive");
    std::fs::write(&file, "not a directory").unwrap();
    let server = TestServer::start_with(|config| archive_to(config, &file));
    let mut client = Client::connect(server.address());
    client.create("/n", b"", 0).ok();
    let failures = || scrape(&server.handle())["herdsman_archive_failures_total"];
    wait_for("a failure", || failures() >= 1.0);
    assert!(scrape(&server.handle())["herdsman_archive_behind_txns"] >= 1.0);
    client.create("/m", b"", 0).ok();
    let expected = point(&server.handle());
    std::fs::remove_file(&file).unwrap();
    wait_until_archived(&server.handle());
    assert_eq!(restored(&histories(&file)[0], expected.zxid), expected);
}

/// Servers share the root; each has all txns, also of an epoch that it led and one in which it followed.
#[test]
fn members_archive_the_same_history() {
    let root = TempDir::new().unwrap();
    let mut ensemble = TestEnsemble::start_with("", |_, config| archive_to(config, root.path()));
    let mut points = Vec::new();
    for round in 0..2 {
        let leader = ensemble.await_leader();
        let mut client = Client::connect(ensemble.address(leader));
        for number in 0..5 {
            client.create(&format!("/n{round}-{number}"), b"data", 0).ok();
            points.push(point(&ensemble.handle(leader)));
        }
        ensemble.kill(leader);
        ensemble.start_again(leader);
    }
    ensemble.await_leader();
    let last = points.last().unwrap().zxid;
    for id in ensemble.ids() {
        wait_for("the archive", || {
            scrape(&ensemble.handle(id))["herdsman_archive_last_zxid"] >= last.0 as f64
        });
    }
    let histories = histories(root.path());
    assert_eq!(histories.len(), 3);
    for history in &histories {
        for point in &points {
            assert_eq!(&restored(history, point.zxid), point, "{}", history.display());
        }
    }
}

#[test]
fn a_purge_keeps_what_is_not_archived() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("archive");
    std::fs::write(&file, "not a directory").unwrap();
    let server = TestServer::start_with(|config| {
        archive_to(config, &file);
        config.storage.snapshot_txns = 4;
        config.storage.purge =
            Some(Purge { interval_ms: 20, snapshots_kept: 3, is_default: false });
    });
    let mut client = Client::connect(server.address());
    let mut points = Vec::new();
    for number in 0..60 {
        client.create(&format!("/n{number}"), b"", 0).ok();
        points.push(point(&server.handle()));
    }
    for _ in 0..4 {
        server.handle().write_snapshot().unwrap();
    }
    let dir = server.version_dir();
    assert!(dir.join("snapshot.0").exists() && dir.join("log.1").exists());
    std::fs::remove_file(&file).unwrap();
    wait_until_archived(&server.handle());
    for point in &points {
        assert_eq!(&restored(&histories(&file)[0], point.zxid), point);
    }
    wait_for("a purge", || !dir.join("log.1").exists());
}

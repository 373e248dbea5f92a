//! Damage on the disk of a running server is found, reported and repaired, so that a restart works.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use herdsman_config::{Config, Purge, Scrub};
use herdsman_proto::{ConnectRequest, SessionId};
use herdsman_testing::{TestEnsemble, TestServer};

use crate::client::{Client, connect_request};
use crate::log;

/// A test that waits longer for something has failed.
const LIMIT: Duration = Duration::from_secs(60);

fn scrub_often(config: &mut Config) {
    config.storage.scrub = Some(Scrub { bytes_per_second: NonZeroU64::MAX, pause_ms: 5 });
}

fn scrub_never(config: &mut Config) {
    config.storage.scrub = None;
}

fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_true() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Files that are damaged, and how many of them a start needs.
fn damaged(server: &TestServer) -> (u64, u64) {
    let handle = server.handle();
    let stats = &handle.core().stats.scrub;
    let damaged = stats.damaged_files.load(Ordering::Acquire);
    (damaged, stats.needed_files.load(Ordering::Relaxed))
}

fn wait_for_passes(server: &TestServer, passes: u64) {
    let count = || server.handle().core().stats.scrub.passes.get();
    let before = count();
    wait_for("passes", || count() >= before + passes);
}

fn files(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let starts = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(prefix);
    let mut paths: Vec<PathBuf> = entries.filter(starts).collect();
    let zxid = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        i64::from_str_radix(name.trim_start_matches(prefix), 16).unwrap_or(0)
    };
    paths.sort_by_key(zxid);
    paths
}

fn flip(path: &Path, offset: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
}

/// The end of the last record of a log: zeros follow it.
fn end_of_records(path: &Path) -> u64 {
    let content = std::fs::read(path).unwrap();
    let mut end = 16;
    loop {
        let length = content[end + 8..end + 12].try_into().unwrap();
        match usize::try_from(i32::from_be_bytes(length)).unwrap() {
            0 => return end as u64,
            payload => end += 13 + payload,
        }
    }
}

/// A server with one log and some znodes.
fn with_znodes(adjust: impl FnOnce(&mut Config)) -> (TestServer, PathBuf) {
    let server = TestServer::start_with(adjust);
    // The end of its session would be a txn, too.
    let request =
        ConnectRequest { timeout_ms: 60_000, ..connect_request(SessionId::NONE, &[0; 16]) };
    let mut client = Client::connect_as(server.address(), &request).unwrap();
    for i in 0..10 {
        client.create(&format!("/n{i}"), b"data", 0).ok();
    }
    let logs = files(&server.version_dir(), "log.");
    assert_eq!(logs.len(), 1);
    (server, logs[0].clone())
}

fn check_znodes(server: &TestServer) {
    let mut client = Client::connect(server.address());
    for i in 0..10 {
        assert_eq!(client.get(&format!("/n{i}"), false).unwrap().0, b"data");
    }
}

/// Damages a log that is being written; with a scrub, a restart works all the same.
fn check_damaged_log(offset: impl Fn(&Path) -> u64) -> TestServer {
    let (mut server, path) = with_znodes(scrub_never);
    flip(&path, offset(&path));
    server.kill();
    assert!(server.try_start().is_err(), "without a scrub the damage is found when it is too late");

    log::listen();
    let (mut server, path) = with_znodes(scrub_often);
    flip(&path, offset(&path));
    let is_repaired = || !log::lines_with(&path.display()).is_empty() && damaged(&server).1 == 0;
    let newest = || files(&server.version_dir(), "snapshot.").len() > 1;
    wait_for("the repair", || is_repaired() && newest());
    let warned = log::lines_with(&format!("{}: damaged at offset", path.display()));
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("WARN") && warned[0].contains("; txns "), "{warned:?}");
    wait_for_passes(&server, 2);
    let warned = log::lines_with(&format!("{}: damaged at offset", path.display()));
    assert_eq!(warned.len(), 1, "it is reported once: {warned:?}");
    server.kill();
    server.start_again();
    check_znodes(&server);
    server
}

#[test]
fn a_damaged_record_is_replaced_by_a_snapshot() {
    let server = check_damaged_log(|_| 16 + 40);
    // The damaged file stays, and is no longer needed.
    wait_for("a pass", || damaged(&server) == (1, 0));
    assert_eq!(files(&server.version_dir(), "damaged.").len(), 0);
}

/// Recovery cannot see that the snapshot has the last record, too, while no record follows it.
#[test]
fn a_damaged_end_of_the_log_is_put_out_of_the_way() {
    let mut server = check_damaged_log(|path| end_of_records(path) - 10);
    assert_eq!(files(&server.version_dir(), "damaged.log.").len(), 1);
    Client::connect(server.address()).create("/more", b"", 0).ok();
    server.restart();
    check_znodes(&server);
    wait_for_passes(&server, 1);
    assert_eq!(damaged(&server), (0, 0));
}

#[test]
fn a_log_that_is_deleted_is_replaced_by_a_snapshot() {
    let (mut server, path) = with_znodes(scrub_often);
    std::fs::remove_file(&path).unwrap();
    let snapshots = || files(&server.version_dir(), "snapshot.").len();
    wait_for("the repair", || snapshots() > 1 && damaged(&server) == (0, 0));
    // What comes now must not be written to the deleted file.
    Client::connect(server.address()).create("/later", b"", 0).ok();
    server.kill();
    server.start_again();
    check_znodes(&server);
    assert!(Client::connect(server.address()).get("/later", false).is_ok());
}

#[test]
fn a_damaged_snapshot_is_replaced() {
    let (mut server, _) = with_znodes(scrub_often);
    let mut client = Client::connect(server.address());
    server.handle().write_snapshot().unwrap();
    client.create("/after", b"", 0).ok();
    let directory = server.version_dir();
    let newest = files(&directory, "snapshot.").pop().unwrap();
    flip(&newest, 200);
    // The old one stays, and is no longer needed.
    let snapshots = || files(&directory, "snapshot.").len();
    wait_for("the repair", || snapshots() == 3 && damaged(&server) == (1, 0));
    server.kill();
    server.start_again();
    check_znodes(&server);
    assert!(Client::connect(server.address()).get("/after", false).is_ok());
}

#[test]
fn work_is_not_taken_for_damage() {
    let server = TestServer::start_with(|config| {
        config.storage.scrub = Some(Scrub { bytes_per_second: NonZeroU64::MAX, pause_ms: 1 });
        config.storage.snapshot_txns = 20;
        config.storage.purge =
            Some(Purge { interval_ms: 10, snapshots_kept: 3, is_default: false });
    });
    let mut client = Client::connect(server.address());
    client.create("/n", b"", 0).ok();
    let passes = || server.handle().core().stats.scrub.passes.get();
    wait_for("passes while it works", || {
        for _ in 0..20 {
            client.set("/n", b"x");
        }
        assert_eq!(damaged(&server), (0, 0));
        passes() > 50
    });
    assert!(server.handle().core().stats.scrub.bytes.get() > 0);
}

#[test]
fn a_slow_pass_does_not_delay_a_stop() {
    let mut server = TestServer::start_with(|config| {
        config.storage.scrub = Some(Scrub { bytes_per_second: NonZeroU64::MIN, pause_ms: 1 });
    });
    Client::connect(server.address()).create("/n", b"", 0).ok();
    wait_for("the first read", || server.handle().core().stats.scrub.bytes.get() > 0);
    let start = Instant::now();
    server.stop();
    // At this rate the pass takes hours.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_follower_repairs_its_log_while_the_ensemble_works() {
    let directories = RefCell::new(Vec::new());
    let mut ensemble = TestEnsemble::start_with("", |_, config| {
        scrub_often(config);
        directories.borrow_mut().push(config.storage.data_dir.join("version-2"));
    });
    ensemble.await_leader();
    let follower = ensemble.follower();
    let directory = directories.borrow()[follower - 1].clone();
    let mut client = Client::connect(ensemble.address(follower));
    client.create("/n", b"", 0).ok();
    let path = files(&directory, "log.").pop().unwrap();
    let snapshots = files(&directory, "snapshot.").len();
    flip(&path, 16 + 40);
    wait_for("the repair", || {
        client.set("/n", b"x").ok();
        let handle = ensemble.handle(follower);
        let stats = &handle.core().stats.scrub;
        stats.damaged_files.load(Ordering::Acquire) == 1
            && stats.needed_files.load(Ordering::Relaxed) == 0
            && files(&directory, "snapshot.").len() > snapshots
    });
    client.set("/n", b"last").ok();
    ensemble.kill(follower);
    ensemble.start_again(follower);
    ensemble.await_leader();
    let mut client = Client::connect(ensemble.address(follower));
    assert_eq!(client.get("/n", false).unwrap().0, b"last");
    for id in ensemble.ids() {
        assert_eq!(ensemble.handle(id).core().stats.scrub.needed_files.load(Ordering::Relaxed), 0);
    }
}

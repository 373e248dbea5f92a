//! Snapshots during writes, rolled logs, and the removal of old files.

use std::path::Path;

use herdsman_config::Config;
use herdsman_config::Purge;
use herdsman_testing::TestServer;

use crate::client::{Client, set};

fn count(directory: &Path, prefix: &str) -> usize {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with(prefix)).count()
}

#[test]
fn snapshots_are_taken_logs_roll_and_old_files_go() {
    let mut server = TestServer::start_with(|config| {
        config.storage.snapshot_txns = 20;
        config.storage.purge =
            Some(Purge { interval_ms: 10, snapshots_kept: 3, is_default: false });
    });
    let mut client = Client::connect(server.address());
    client.create("/n", b"", 0).ok();
    let directory = server.version_dir();
    // One at a time, so that snapshots fall between writes, until far more than three were taken.
    let mut newest = 0;
    while newest < 200 || count(&directory, "snapshot.") > 4 {
        newest = client.set("/n", b"x").zxid.0;
    }
    let (snapshots, logs) = (count(&directory, "snapshot."), count(&directory, "log."));
    assert!((1..=4).contains(&snapshots), "{snapshots} snapshots");
    assert!(logs < 12, "{logs} logs, although {newest} txns made a new one every 20 at most");
    let before = client.get("/n", false).unwrap();
    server.kill();
    server.start_again();
    assert_eq!(Client::connect(server.address()).get("/n", false).unwrap(), before);
}

/// The directory may come from Apache's server, which kept every snapshot: nothing is removed before the log has
/// said what will be removed.
#[test]
fn a_start_on_an_existing_directory_deletes_nothing() {
    let keep_all = |config: &mut Config| config.storage.purge = None;
    let mut server = TestServer::start_with(keep_all);
    let mut client = Client::connect(server.address());
    for i in 0..6 {
        client.create(&format!("/n{i}"), b"", 0).ok();
        server.handle().write_snapshot().unwrap();
    }
    let directory = server.version_dir();
    let before = count(&directory, "snapshot.");
    assert!(before > 6, "{before}");
    server.kill();
    server.configure(|config| {
        config.storage.purge =
            Some(Purge { interval_ms: 3_600_000, snapshots_kept: 3, is_default: true });
    });
    server.start_again();
    // The thread that purges has had its first turn when it has written this.
    server.handle().write_snapshot().unwrap();
    server.kill();
    assert!(count(&directory, "snapshot.") >= before);
}

/// A snapshot shows some changes that are later than its name; replay must make it exact.
#[test]
fn a_snapshot_taken_under_load_recovers_exactly() {
    let mut server = TestServer::start_with(|config| config.storage.snapshot_txns = 50);
    let mut client = Client::connect(server.address());
    for i in 0..300 {
        client.create(&format!("/n{i}"), b"0", 0).ok();
    }
    for round in 0..4 {
        for i in 0..300 {
            client.send(&set(&format!("/n{i}"), round.to_string().as_bytes()));
        }
        for _ in 0..300 {
            client.receive_reply().unwrap().ok();
        }
    }
    client.delete("/n7").ok();
    client.create("/n7", b"again", 0).ok();
    let state = |client: &mut Client| -> Vec<_> {
        (0..300).map(|i| client.get(&format!("/n{i}"), false).unwrap()).collect()
    };
    let before = state(&mut client);
    server.kill();
    server.start_again();
    assert_eq!(state(&mut Client::connect(server.address())), before);
}

//! Acknowledged writes survive any end of the process.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use herdsman_server::ServesAs;
use herdsman_testing::{TestEnsemble, TestServer};

use crate::client::{Client, create};

/// Several clients create znodes as fast as they are answered, until the server is killed. Every acknowledged
/// znode must exist afterwards, and the server must work.
#[test]
fn a_kill_at_any_moment_loses_no_acknowledged_write() {
    let mut server = TestServer::start_with(|config| config.storage.snapshot_txns = 100);
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..5 {
        let address = server.address();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (acknowledged, stop) = (&acknowledged, &stop);
                scope
                    .spawn(move || write_until_cut_off(address, round, worker, acknowledged, stop));
            }
            while acknowledged.lock().unwrap().len() < (round + 1) * 150 {
                std::thread::yield_now();
            }
            server.kill();
            stop.store(true, Ordering::Release);
        });
        server.start_again();
        let mut client = Client::connect(server.address());
        let there: std::collections::BTreeSet<_> = client.children("/").into_iter().collect();
        for name in acknowledged.lock().unwrap().iter() {
            assert!(
                there.contains(name),
                "{name} was acknowledged and is gone after round {round}"
            );
        }
    }
}

fn write_until_cut_off(
    address: std::net::SocketAddr,
    round: usize,
    worker: usize,
    acknowledged: &Mutex<Vec<String>>,
    stop: &AtomicBool,
) {
    let mut client = Client::connect(address);
    for i in 0.. {
        let name = format!("r{round}w{worker}i{i}");
        let path = format!("/{name}");
        match client.try_call(&create(&path, b"payload", 0)) {
            Some(reply) => {
                reply.ok();
                acknowledged.lock().unwrap().push(name);
            }
            None => return,
        }
        if stop.load(Ordering::Acquire) {
            return;
        }
    }
}

#[test]
fn a_torn_tail_is_cut_and_the_rest_is_kept() {
    let mut server = TestServer::start();
    let mut client = Client::connect(server.address());
    for i in 0..10 {
        client.create(&format!("/n{i}"), b"x", 0).ok();
    }
    drop(client);
    server.stop();
    let log = newest_log(&server);
    let bytes = std::fs::read(&log).unwrap();
    let end = bytes.iter().rposition(|&byte| byte == b'B').unwrap();
    std::fs::write(&log, &bytes[..end - 3]).unwrap();
    server.start_again();
    let mut client = Client::connect(server.address());
    let there = client.children("/");
    assert!(there.len() >= 10, "only the torn record may go: {there:?}");
}

#[test]
fn a_damaged_record_before_the_tail_stops_the_start_and_says_where() {
    let mut server = TestServer::start();
    let mut client = Client::connect(server.address());
    for i in 0..10 {
        client.create(&format!("/n{i}"), b"payload-to-damage", 0).ok();
    }
    drop(client);
    server.stop();
    let log = newest_log(&server);
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.windows(17).position(|window| window == b"payload-to-damage").unwrap();
    bytes[at] ^= 0xff;
    std::fs::write(&log, &bytes).unwrap();
    let message = server.try_start().unwrap_err().to_string();
    let name = log.file_name().unwrap().to_string_lossy().into_owned();
    assert!(message.contains(&name) && message.contains("offset"), "{message}");
    assert_eq!(std::fs::read(&log).unwrap(), bytes, "a refused start changes nothing");

    // The message says how to start without the damaged part.
    let zxid = message.split("-Dherdsman.acceptLossAfter=0x").nth(1).unwrap();
    let zxid =
        i64::from_str_radix(zxid.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap(), 16);
    server.configure(|config| config.storage.accept_loss_after = zxid.ok());
    server.start_again();
    let mut client = Client::connect(server.address());
    client.create("/goes-on", b"", 0).ok();
    drop(client);
    server.configure(|config| config.storage.accept_loss_after = None);
    server.restart();
    assert!(Client::connect(server.address()).get("/goes-on", false).is_ok());
}

/// Checksum and length of a record in the middle are garbage, and the length reaches beyond the last byte. The records
/// after it were acknowledged, so it must not pass for a write that a crash interrupted.
#[test]
fn garbage_over_the_head_of_a_record_stops_the_start() {
    const RECORD_EXTRA_BYTES: usize = 13;
    let mut server = TestServer::start();
    let mut client = Client::connect(server.address());
    for i in 0..100 {
        client.create(&format!("/n{i}"), b"x", 0).ok();
    }
    drop(client);
    server.stop();
    let log = newest_log(&server);
    let mut bytes = std::fs::read(&log).unwrap();
    let mut at = 16;
    for _ in 0..50 {
        let length: [u8; 4] = bytes[at + 8..at + 12].try_into().unwrap();
        at += RECORD_EXTRA_BYTES + u32::from_be_bytes(length) as usize;
    }
    bytes[at..at + 8].fill(0xa5);
    bytes[at + 8..at + 12].copy_from_slice(&0x0100_0000u32.to_be_bytes());
    std::fs::write(&log, &bytes).unwrap();
    let message = server.try_start().unwrap_err().to_string();
    assert!(message.contains(&format!("is damaged at offset {at}")), "{message}");
    assert_eq!(std::fs::read(&log).unwrap(), bytes, "a refused start changes nothing");
}

/// A server that has lost its epoch files must not vote, unless the operator confirms that nothing is lost.
#[test]
fn initialize_lets_a_server_without_epoch_files_vote() {
    let dirs = Mutex::new(std::collections::BTreeMap::new());
    let mut ensemble = TestEnsemble::start_with("", |id, config| {
        dirs.lock().unwrap().insert(id, config.storage.data_dir.clone());
    });
    let leader = ensemble.await_leader();
    Client::connect(ensemble.address(leader)).create("/a", b"", 0).ok();
    let follower = ensemble.follower();
    let data_dir = dirs.lock().unwrap()[&follower].clone();
    let suspended = data_dir.join("version-2/herdsman.votingSuspended");
    ensemble.stop(follower);
    for file in ["currentEpoch", "acceptedEpoch"] {
        std::fs::remove_file(data_dir.join("version-2").join(file)).unwrap();
    }
    std::fs::write(data_dir.join("initialize"), "").unwrap();
    ensemble.start_again(follower);
    assert!(!suspended.exists());
    assert!(!data_dir.join("initialize").exists(), "it is used up");
    // Without its vote there is no quorum for a leader.
    ensemble.stop(leader);
    let leader = ensemble.await_leader();
    assert!(Client::connect(ensemble.address(leader)).get("/a", false).is_ok());
}

/// It learns without a vote, and votes again when a leader has brought it up to date, without any operator. The
/// simulator's script `lost_disk_does_not_vote` shows that it has no vote before.
#[test]
fn a_server_without_epoch_files_votes_again_when_it_is_up_to_date() {
    let dirs = Mutex::new(std::collections::BTreeMap::new());
    let mut ensemble = TestEnsemble::start_with("", |id, config| {
        dirs.lock().unwrap().insert(id, config.storage.data_dir.clone());
    });
    let leader = ensemble.await_leader();
    Client::connect(ensemble.address(leader)).create("/a", b"", 0).ok();
    let follower = ensemble.follower();
    let version_dir = dirs.lock().unwrap()[&follower].join("version-2");
    let suspended = version_dir.join("herdsman.votingSuspended");
    ensemble.stop(follower);
    for file in ["currentEpoch", "acceptedEpoch"] {
        std::fs::remove_file(version_dir.join(file)).unwrap();
    }
    ensemble.start_again(follower);
    ensemble.await_that("its vote", || (!suspended.exists()).then_some(()));
    ensemble.await_role(follower, ServesAs::Follower);
    // Without its vote there is no quorum for a leader.
    let leader = ensemble.await_leader();
    ensemble.stop(leader);
    let leader = ensemble.await_leader();
    assert!(Client::connect(ensemble.address(leader)).get("/a", false).is_ok());
}

fn newest_log(server: &TestServer) -> std::path::PathBuf {
    let mut logs: Vec<_> = std::fs::read_dir(server.version_dir())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log."))
        .collect();
    logs.sort();
    logs.pop().unwrap()
}

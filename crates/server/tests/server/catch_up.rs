//! Servers that restart with less data than the other servers have.

use herdsman_proto::Request;
use herdsman_server::ServesAs;
use herdsman_testing::TestEnsemble;

use crate::client::{Client, open};

/// A number that `mntr` shows.
fn metric(ensemble: &TestEnsemble, id: usize, name: &str) -> u64 {
    use std::io::{Read, Write};
    let mut stream = open(ensemble.address(id));
    stream.write_all(b"mntr").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{name}\t")));
    line.unwrap_or_else(|| panic!("{name} is not shown: {text}")).parse().unwrap()
}

/// Sends requests together and waits for all replies.
fn pipeline(client: &mut Client, requests: &[Request<'_>]) {
    for batch in requests.chunks(100) {
        client.send_all(batch);
        for _ in batch {
            client.receive_reply().unwrap().ok();
        }
    }
}

fn create_all(client: &mut Client, paths: &[String], data: &[u8]) {
    let requests: Vec<_> = paths.iter().map(|path| crate::client::create(path, data, 0)).collect();
    pipeline(client, &requests);
}

fn set_all(client: &mut Client, paths: &[String], data: &[u8]) {
    let requests: Vec<_> = paths.iter().map(|path| crate::client::set(path, data)).collect();
    pipeline(client, &requests);
}

fn paths(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("/n{number}")).collect()
}

/// Kills a follower of an ensemble with this many znodes, changes some of them, and starts it again. Returns how many
/// DIFFs and SNAPs its leader has sent for that.
fn catch_up(lines: &str, znodes: usize, changes: usize) -> (u64, u64) {
    let mut ensemble = TestEnsemble::start_with(lines, |_, _| {});
    let leader = ensemble.await_leader();
    let mut client = Client::connect(ensemble.address(leader));
    let paths = paths(znodes);
    create_all(&mut client, &paths, &[b'x'; 100]);
    let follower = ensemble.follower();
    ensemble.kill(follower);
    set_all(&mut client, &paths[..changes], b"new");
    let sent = |ensemble: &TestEnsemble| {
        (metric(ensemble, leader, "diff_count"), metric(ensemble, leader, "snap_count"))
    };
    let before = sent(&ensemble);
    ensemble.start_again(follower);
    ensemble.await_role(follower, ServesAs::Follower);
    let mut other = Client::connect(ensemble.address(follower));
    other.call(&Request::Sync { path: "/".into() }).ok();
    for path in [&paths[0], &paths[changes - 1]] {
        assert_eq!(other.get(path, false).unwrap().0, b"new");
    }
    assert_eq!(other.get(&paths[changes], false).unwrap().0, [b'x'; 100]);
    let after = sent(&ensemble);
    (after.0 - before.0, after.1 - before.1)
}

/// More changes than the leader keeps in memory, which is 500.
#[test]
fn what_is_not_in_memory_any_more_comes_from_the_log() {
    assert_eq!(catch_up("", 6_000, 1_500), (1, 0));
}

#[test]
fn a_log_that_is_longer_than_the_tree_is_not_sent() {
    assert_eq!(catch_up("", 1_600, 1_500), (0, 1));
}

#[test]
fn a_negative_factor_sends_no_log() {
    assert_eq!(catch_up("snapshotSizeFactor=-1\n", 6_000, 1_500), (0, 1));
}

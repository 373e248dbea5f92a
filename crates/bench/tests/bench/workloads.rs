//! Every workload, alone and with others.

use herdsman_testing::{TestEnsemble, TestServer};

use crate::{check_rounds, measured, znodes};

#[test]
fn every_workload_succeeds_and_leaves_nothing_behind() {
    let server = TestServer::start();
    let all = "get set create delete exists children multi mixed ephemeral session watch lock";
    let znodes_before = znodes(&server);
    let report = measured(&format!("{all} --keys 50"), &[&server]);
    let names: Vec<&str> = report.rows.iter().map(|row| row.workload.as_str()).collect();
    assert_eq!(names, all.split(' ').collect::<Vec<_>>());
    check_rounds(&report);
    assert_eq!(znodes(&server), znodes_before);
    assert_eq!(server.session_count(), 0, "every session was closed");
}

#[test]
fn targets_alternate_and_each_gets_its_rows() {
    let (one, other) = (TestServer::start(), TestServer::start());
    let report = measured("get set --keys 20 --value-bytes 10", &[&one, &other]);
    let rows: Vec<(&str, &str, usize)> = report
        .rows
        .iter()
        .map(|row| (row.workload.as_str(), row.target.as_str(), row.rounds.len()))
        .collect();
    assert_eq!(rows, [("get", "t0", 2), ("get", "t1", 2), ("set", "t0", 2), ("set", "t1", 2)]);
    check_rounds(&report);
}

#[test]
fn other_shapes_succeed_too() {
    let server = TestServer::start();
    for words in [
        "mixed --read-percent 50 --distribution zipf --keys 2500 --rounds 1",
        "mixed create delete --threads 2 --parents 1 --rounds 1",
        "get set multi --value-bytes 0 --rounds 1",
        "get --value-bytes 300000 --keys 3 --connections 2 --depth 2 --rounds 1",
        "children --children 2000 --rounds 1",
        "get --connections 1 --depth 1 --keys 1 --rounds 1",
    ] {
        check_rounds(&measured(words, &[&server]));
    }
}

#[test]
fn connections_are_spread_over_the_servers_of_an_ensemble() {
    let ensemble = TestEnsemble::start();
    ensemble.await_leader();
    let servers: Vec<String> = ensemble.ids().map(|id| ensemble.address(id).to_string()).collect();
    let target = format!("--target three={}", servers.join(","));
    check_rounds(&measured(&format!("{target} mixed watch lock --keys 20 --rounds 1"), &[]));
}

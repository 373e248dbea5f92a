//! Four-letter words in an ensemble, role by role. The keys are those of Apache 3.9.5.

use std::collections::BTreeMap;

use herdsman_server::ServesAs;
use herdsman_testing::TestEnsemble;

use crate::client::Client;
use crate::words::ask_bytes;

const EPHEMERAL: i32 = 1;
/// Keys that only a leader shows.
const OF_LEADER: [&str; 9] = [
    "learners",
    "synced_followers",
    "synced_non_voting_followers",
    "synced_observers",
    "pending_syncs",
    "leader_uptime",
    "last_proposal_size",
    "max_proposal_size",
    "min_proposal_size",
];

fn ask(ensemble: &TestEnsemble, id: usize, word: &str) -> String {
    ask_bytes(ensemble.address(id), word.as_bytes())
}

fn mntr(ensemble: &TestEnsemble, id: usize) -> BTreeMap<String, String> {
    let text = ask(ensemble, id, "mntr");
    let pairs = text.lines().map(|line| line.split_once('\t').expect("a key and a value"));
    pairs.map(|(key, value)| (key.replacen("zk_", "", 1), value.to_owned())).collect()
}

/// An ensemble with one client on each server, which owns an ephemeral. Returns the leader and the other servers.
fn busy_ensemble() -> (TestEnsemble, usize, Vec<usize>, Vec<Client>) {
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let followers = ensemble.ids().filter(|id| *id != leader).collect();
    let clients = ensemble.ids().map(|id| {
        let mut client = Client::connect(ensemble.address(id));
        client.create(&format!("/of{id}"), b"", EPHEMERAL).ok();
        client
    });
    let clients = clients.collect();
    let zxid = |id| {
        let text = ask(&ensemble, id, "srvr");
        text.lines().find(|line| line.starts_with("Zxid: ")).map(str::to_owned)
    };
    for id in ensemble.ids() {
        ensemble.await_that("all of it everywhere", || (zxid(id) == zxid(leader)).then_some(()));
    }
    (ensemble, leader, followers, clients)
}

/// Apache's leader shows the first zxid of its epoch until it has created a txn.
#[test]
fn a_fresh_leader_shows_the_beginning_of_its_epoch() {
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let text = ask(&ensemble, leader, "srvr");
    assert!(text.contains("\nZxid: 0x100000000\n"), "{text}");
}

#[test]
fn mntr_shows_each_role_its_own() {
    let (ensemble, leader, followers, _clients) = busy_ensemble();
    let led = mntr(&ensemble, leader);
    assert_eq!((&*led["server_state"], &*led["peer_state"]), ("leader", "leading - broadcast"));
    for (key, value) in [
        ("quorum_size", "3"),
        ("linearizable_syncs", "1"),
        ("learners", "2"),
        ("synced_followers", "2"),
        ("synced_non_voting_followers", "0"),
        ("synced_observers", "0"),
        ("pending_syncs", "0"),
        ("global_sessions", "3"),
        ("proposal_count", "6"),
        ("commit_count", "6"),
        ("cnt_quorum_ack_latency", "6"),
        ("learner_commit_received_count", "0"),
    ] {
        assert_eq!(led[key], value, "{key} of the leader");
    }
    for key in ["looking_count", "diff_count", "cnt_leader_unavailable_time"] {
        assert_ne!(led[key], "0", "{key} of the leader");
    }
    for id in followers {
        ensemble.await_that("a ping of the leader", || {
            (mntr(&ensemble, id)["linearizable_syncs"] == "1").then_some(())
        });
        let followed = mntr(&ensemble, id);
        assert_eq!(ensemble.serves_as(id), Some(ServesAs::Follower));
        assert_eq!(followed["peer_state"], "following - broadcast");
        for key in OF_LEADER {
            assert!(led.contains_key(key) && !followed.contains_key(key), "{key}");
        }
        for (key, value) in [
            ("quorum_size", "3"),
            ("global_sessions", "3"),
            ("cnt_observer_sync_time", "0"),
            ("learner_proposal_received_count", "6"),
            ("learner_commit_received_count", "6"),
            ("proposal_count", "0"),
        ] {
            assert_eq!(followed[key], value, "{key} of a follower");
        }
        for key in ["looking_count", "cnt_election_time", "cnt_follower_sync_time"] {
            assert_ne!(followed[key], "0", "{key} of a follower");
        }
    }
}

#[test]
fn srvr_and_conf_tell_of_the_ensemble() {
    let (ensemble, leader, followers, _clients) = busy_ensemble();
    let led = ask(&ensemble, leader, "srvr");
    assert!(led.contains("Mode: leader\nNode count: 8\nProposal sizes last/min/max: "), "{led}");
    assert!(!led.contains("-1/"), "{led}");
    let conf = ask(&ensemble, leader, "conf");
    assert!(conf.contains(&format!("\nserverId={leader}\ninitLimit=")), "{conf}");
    assert!(conf.contains("\npeerType=0\nmembership: \nserver.1=127.0.0.1:"), "{conf}");
    assert!(conf.ends_with("version=0"), "{conf}");
    for id in followers {
        let followed = ask(&ensemble, id, "srvr");
        assert!(followed.ends_with("Mode: follower\nNode count: 8\n"), "{followed}");
    }
    ask(&ensemble, leader, "srst");
    assert!(ask(&ensemble, leader, "srvr").contains("Proposal sizes last/min/max: -1/-1/-1"));
}

#[test]
fn dump_of_a_learner_lists_sessions_without_their_end() {
    let (ensemble, leader, followers, clients) = busy_ensemble();
    let led = ask(&ensemble, leader, "dump");
    assert!(led.starts_with("SessionTracker dump:\nSession Sets ("), "{led}");
    let followed = ask(&ensemble, followers[0], "dump");
    assert!(followed.starts_with("SessionTracker dump:\nGlobal Sessions(3):\n0x"), "{followed}");
    for client in &clients {
        assert!(followed.contains(&format!("\n{}\t", client.session)), "{followed}");
        assert!(led.contains(&format!("\t{}\n", client.session)), "{led}");
    }
    assert!(followed.contains("Sessions with Ephemerals (3):\n"), "{followed}");
}

#[test]
fn a_server_without_a_leader_says_that_it_does_not_serve() {
    let mut ensemble = TestEnsemble::start();
    ensemble.await_leader();
    ensemble.stop(1);
    ensemble.stop(2);
    ensemble.await_that("server 3 alone", || ensemble.serves_as(3).is_none().then_some(()));
    for word in ["srvr", "mntr", "conf", "dump"] {
        let answer = ask(&ensemble, 3, word);
        assert_eq!(answer, "This ZooKeeper instance is not currently serving requests\n", "{word}");
    }
    assert_eq!((&*ask(&ensemble, 3, "ruok"), &*ask(&ensemble, 3, "isro")), ("imok", "null"));
}

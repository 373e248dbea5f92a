//! The root of the znodes: what is rejected, what is kept, what is removed.

use herdsman_bench::{Progress, Stop, measure};
use herdsman_testing::TestServer;

use crate::{arguments, check_rounds, measured, refused, znodes};

#[test]
fn a_foreign_root_is_rejected_and_not_changed() {
    let server = TestServer::start();
    let before = znodes(&server);
    let words = refused("get --root /zookeeperish/x --filled", &[&server]);
    assert!(words.contains("does not exist"), "{words}");
    // The simplest way to a znode that this program did not create is the parent of a root that it did.
    measured("get --root /mine/bench --keys 2 --rounds 1", &[&server]);
    assert_eq!(znodes(&server), before + 1, "the parent of the root is kept");
    let words = refused("get --root /mine --keys 2", &[&server]);
    assert!(words.contains("not created by this program"), "{words}");
    assert_eq!(znodes(&server), before + 1);
}

#[test]
fn kept_keys_are_used_by_the_next_run_and_deleted_by_the_one_after() {
    let server = TestServer::start();
    let before = znodes(&server);
    measured("get create --keys 1500 --rounds 1 --keep", &[&server]);
    let kept = znodes(&server);
    assert!(kept >= before + 1500, "{kept}");
    check_rounds(&measured("get set --keys 1200 --filled --rounds 1", &[&server]));
    assert!(znodes(&server) >= before + 1500, "--filled keeps the keys");
    let words = refused("get --keys 1501 --filled", &[&server]);
    assert!(words.contains("filled with 1500 keys of 100 bytes"), "{words}");
    let words = refused("get --keys 10 --value-bytes 5 --filled", &[&server]);
    assert!(words.contains("--value-bytes 100"), "{words}");
    check_rounds(&measured("get --keys 10 --rounds 1", &[&server]));
    assert_eq!(znodes(&server), before);
}

#[test]
fn an_unreachable_server_is_reported_before_anything_changes() {
    let server = TestServer::start();
    let before = znodes(&server);
    let mut down = TestServer::start();
    let address = down.address();
    down.stop();
    let words = refused(&format!("get --target down={address}"), &[&server]);
    assert!(words.contains("target down: cannot connect"), "{words}");
    assert_eq!(znodes(&server), before);
    let words = refused(&format!("get --target t0={address}"), &[&server]);
    assert!(words.contains("two targets have the name t0"), "{words}");
}

#[test]
fn a_stopped_run_measures_nothing_more_and_cleans_up() {
    let server = TestServer::start();
    let before = znodes(&server);
    let stop = Stop::never();
    stop.request();
    let arguments = arguments("get --keys 5000 --duration 3600", &[&server]);
    let report = measure(&arguments, Progress::Silent, &stop).unwrap();
    assert!(report.rows.is_empty());
    assert_eq!(znodes(&server), before);
}

//! Quotas: the znodes that servers read, and the checks before they are written.

use std::time::Duration;

use herdsman_testing::TestProxy;
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use serde_json::json;

use crate::world::{World, shell};

#[test]
fn a_quota_is_set_changed_shown_and_removed() {
    let world = World::start();
    world.pipe_ok("create /a\ncreate /a/b data\nsetquota -n 10 /a\n");
    let limits = world.run(&["get", "/zookeeper/quota/a/zookeeper_limits"]).ok();
    assert_eq!(limits, "count=10,bytes=-1=;byteHardLimit=-1;countHardLimit=-1\n");
    world.run(&["setquota", "-B", "1000", "/a"]).ok();
    let listed = world.run(&["listquota", "/a"]);
    assert_eq!(listed.code, 0);
    assert_eq!(listed.errors, "absolute path is /zookeeper/quota/a/zookeeper_limits\n");
    assert_eq!(
        listed.out,
        "Output quota for /a count=10,bytes=-1=;byteHardLimit=1000;countHardLimit=-1\n\
         Output stat for /a count=2,bytes=4\n"
    );
    world.run(&["delquota", "-n", "/a"]).ok();
    let listed = world.run(&["--json", "listquota", "/a"]).ok();
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("it is JSON");
    assert_eq!(
        (&listed["limits"]["count"], &listed["limits"]["byteHardLimit"]),
        (&json!(null), &json!(1000))
    );
    assert_eq!(listed["used"]["count"], 2);
    world.run(&["delquota", "/a"]).ok();
    assert_eq!(world.run(&["ls", "-R", "/zookeeper/quota"]).ok(), "/zookeeper/quota\n");
    assert_eq!(world.run(&["delquota", "/a"]).ok(), "Quota does not exist for /a\n");
    assert_eq!(world.run(&["listquota", "/a"]).failed(1), "quota for /a does not exist.");
}

#[test]
fn only_empty_parents_are_deleted_with_a_quota() {
    let world = World::start();
    world.pipe_ok(
        "create -p /a/b/c\ncreate /a/b/d\nsetquota -n 5 /a/b/c\nsetquota -n 5 /a/b/d\n\
         delquota /a/b/c\n",
    );
    let left = world.run(&["ls", "-R", "/zookeeper/quota/a"]).ok();
    assert!(
        left.ends_with("/zookeeper_limits\n/zookeeper/quota/a/b/d/zookeeper_stats\n"),
        "{left}"
    );
    assert!(!left.contains("/c"), "{left}");
}

#[test]
fn there_is_one_quota_on_the_path_to_the_root() {
    let world = World::start();
    world.pipe_ok("create -p /a/b/c\nsetquota -n 5 /a/b\n");
    let table = [
        ("/a", 1, "/a has a child /a/b which has a quota"),
        ("/a/b/c", 1, "/a/b/c has a parent /a/b which has a quota"),
        ("/none", 1, "Node does not exist: /none"),
        ("/zookeeper/quota", 2, "setquota: cannot set a quota under the path: /zookeeper/quota"),
    ];
    for (path, code, said) in table {
        assert_eq!(world.run(&["setquota", "-n", "5", path]).failed(code), said);
    }
    assert_eq!(world.run(&["setquota", "-n", "0", "/a/b"]).code, 2);
    assert_eq!(world.run(&["setquota", "/a/b"]).code, 2);
}

#[test]
fn a_quota_below_the_usage_is_a_warning() {
    let world = World::start();
    world.pipe_ok("create /a 12345\ncreate /a/b\n");
    let ran = world.run(&["setquota", "-n", "1", "-b", "2", "/a"]);
    assert_eq!(ran.code, 0);
    assert_eq!(
        ran.errors,
        "[Warning]: the count quota you create is less than the existing count:2\n\
         [Warning]: the bytes quota you create is less than the existing bytes:5\n"
    );
}

#[test]
fn with_a_chroot_the_quota_is_where_servers_read_it() {
    let world = World::start();
    world.pipe_ok("create -p /app/x\n");
    let servers = format!("{}/app", world.server.connect_string());
    shell(&["--server", &servers, "setquota", "-N", "3", "/x"], "").ok();
    let limits = world.run(&["get", "/zookeeper/quota/app/x/zookeeper_limits"]).ok();
    assert_eq!(limits, "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3\n");
    let root = shell(&["--server", &servers, "setquota", "-N", "3", "/"], "").failed(1);
    assert_eq!(root, "/app has a child /app/x which has a quota");
}

#[test]
fn a_hard_quota_is_enforced() {
    let mut world = World::start();
    world.server.stop();
    world.server.configure(|config| config.znodes.enforce_quota = true);
    world.server.start_again();
    let ran = world.pipe("create /a\nsetquota -N 2 /a\ncreate /a/b\ncreate /a/c\n");
    assert_eq!(ran.failed(1), "Quota has exceeded : /a/c");
}

/// A limit is set by reading and writing; a limit that another client sets in between is not lost.
#[test]
fn two_limits_that_are_set_at_once_are_both_kept() {
    let world = World::start();
    world.pipe_ok("create /app\nsetquota -n 5 /app\n");
    let proxy = TestProxy::start(world.server.address());
    let held = proxy.once(OpCode::SetData, Fault::HoldRequest);
    let servers = proxy.connect_string();
    let ran = std::thread::scope(|scope| {
        let setting = scope.spawn(|| shell(&["-s", &servers, "setquota", "-N", "9", "/app"], ""));
        assert!(held.wait_fired(Duration::from_secs(30)));
        world.run(&["setquota", "-B", "100", "/app"]).ok();
        held.release();
        setting.join().expect("it does not panic")
    });
    assert_eq!(
        ran.failed(1),
        "the quota of /app was changed by another client meanwhile; nothing was changed"
    );
    let quota = world.run(&["--json", "listquota", "/app"]).ok();
    assert!(quota.contains("100"), "{quota}");
}

/// A `delquota` that was stopped between two deletions used to make `setquota` fail with "Node already exists".
#[test]
fn a_quota_is_deleted_as_a_whole() {
    let world = World::start();
    world.pipe_ok("create /app\nsetquota -n 5 /app\n");
    let proxy = TestProxy::start(world.server.address());
    let cut = proxy.add_rule(Rule::new(Fault::CutBeforeReply).on(OpCode::Delete).on(OpCode::Multi));
    let ran = shell(&["-s", &proxy.connect_string(), "delquota", "/app"], "");
    assert_eq!((ran.code, cut.fired()), (1, 1), "{ran:?}");
    let left = world.run(&["ls", "-R", "/zookeeper/quota"]).ok();
    assert!(!left.contains("zookeeper_"), "{left}");
    world.run(&["setquota", "-n", "7", "/app"]).ok();
}

/// Older versions, and other tools, may have left it.
#[test]
fn leftovers_of_a_quota_are_removed_or_replaced() {
    let world = World::start();
    let leftover =
        "create /app\nsetquota -n 5 /app\ndelete /zookeeper/quota/app/zookeeper_limits\n";
    world.pipe_ok(leftover);
    world.run(&["setquota", "-n", "7", "/app"]).ok();
    let used = world.run(&["get", "/zookeeper/quota/app/zookeeper_stats"]).ok();
    assert_eq!(used, "count=1,bytes=0\n");
    world.run(&["delete", "/zookeeper/quota/app/zookeeper_limits"]).ok();
    assert_eq!(world.run(&["delquota", "/app"]).ok(), "Quota does not exist for /app\n");
    assert_eq!(world.run(&["ls", "-R", "/zookeeper/quota"]).ok(), "/zookeeper/quota\n");
}

//! Watches: events are printed after the command that caused them.

use crate::world::World;

/// The events in the output, without their zxids.
fn events(out: &str) -> Vec<String> {
    let lines = out.lines().filter_map(|line| line.strip_prefix("WatchedEvent "));
    lines.map(|line| line.split(" zxid").next().unwrap_or_default().to_owned()).collect()
}

fn check(lines: &str, expected: &[&str]) {
    let out = World::start().pipe_ok(lines);
    let expected: Vec<_> =
        expected.iter().map(|event| format!("state:SyncConnected {event}")).collect();
    assert_eq!(events(&out), expected, "{out}");
}

#[test]
fn a_watch_fires_once() {
    check("create /a\nget -w /a\nset /a x\nset /a y\n", &["type:NodeDataChanged path:/a"]);
    check("create /a\nls -w /a\ncreate /a/b\n", &["type:NodeChildrenChanged path:/a"]);
    check("create /a\nstat -w /a\ndelete /a\n", &["type:NodeDeleted path:/a"]);
    check("create /a\nget -w /a\nget -w /a\nset /a x\n", &["type:NodeDataChanged path:/a"]);
    check("create /a\nget -w /a\nls -w /a\ndelete /a\n", &["type:NodeDeleted path:/a"]);
}

#[test]
fn a_znode_that_is_missing_can_be_watched() {
    let ran = World::start().pipe("stat -w /a\n");
    assert_eq!(ran.failed(1), "Node does not exist: /a");
    let world = World::start();
    let servers = world.server.connect_string();
    let ran = crate::world::shell(&["-s", &servers, "--keep-going"], "stat -w /a\ncreate /a\n");
    assert_eq!(events(&ran.out), ["state:SyncConnected type:NodeCreated path:/a"]);
}

#[test]
fn a_whole_tree_is_watched() {
    check(
        "create /a\ncreate /a/b\nls -R -w /a\nset /a/b x\ncreate /a/b/c\n",
        &["type:NodeDataChanged path:/a/b", "type:NodeChildrenChanged path:/a/b"],
    );
    check(
        "create /a\naddWatch /a\ncreate /a/b\nset /a/b x\ndelete /a/b\n",
        &[
            "type:NodeCreated path:/a/b",
            "type:NodeDataChanged path:/a/b",
            "type:NodeDeleted path:/a/b",
        ],
    );
    check(
        "create /a\naddWatch -m PERSISTENT /a\nset /a x\nset /a y\ncreate /a/b\n",
        &[
            "type:NodeDataChanged path:/a",
            "type:NodeDataChanged path:/a",
            "type:NodeChildrenChanged path:/a",
        ],
    );
}

#[test]
fn watches_can_be_removed_and_silenced() {
    check("create /a\nget -w /a\nremovewatches /a\nset /a x\n", &[]);
    check("create /a\naddWatch /a\nremovewatches /a -r\nset /a x\n", &[]);
    check(
        "create /a\nget -w /a\nls -w /a\nremovewatches -c /a\nset /a x\ncreate /a/b\n",
        &["type:NodeDataChanged path:/a"],
    );
    check("create /a\nget -w /a\nprintwatches off\nset /a x\n", &[]);
    let world = World::start();
    assert_eq!(world.pipe("removewatches /a\n").failed(1), "No such watcher: /a");
    let kinds = world.pipe("create /a\nls -w /a\nremovewatches -d /a\n");
    assert_eq!(kinds.failed(1), "No such watcher: /a");
}

#[test]
fn the_text_is_zkclis() {
    let out = World::start().pipe_ok("create /a\nget -w /a\nset /a x\n");
    let (before, event) = out.split_once("WATCHER::\n").expect("there is an event");
    assert_eq!(before, "Created /a\n\n");
    let start = "\nWatchedEvent state:SyncConnected type:NodeDataChanged path:/a zxid: ";
    assert!(event.starts_with(start), "{event:?}");
}

//! Watches: which watchers get which events, once or repeatedly, and in which order.

use std::num::NonZeroU32;

use herdsman_tree::{Events, TreeOptions};

use crate::world::{USERS, World};

/// Setup, then a change, then the events it causes.
fn check(setup: &[&str], line: &str, expected: &[&str]) {
    let mut world = World::new(TreeOptions::default(), setup);
    let (_, events) = world.run_watched(line);
    assert_eq!(events, expected, "{line} after {setup:?}");
}

#[test]
fn each_op_notifies_the_matching_tables() {
    let base = |watch| ["create /a", "create /a/b", watch];
    check(&base("get /a/b watch"), "set /a/b x", &["anon NodeDataChanged /a/b @3"]);
    check(&base("get /a/b watch"), "delete /a/b", &["anon NodeDeleted /a/b @3"]);
    check(&base("get /a/b watch"), "create /a/b/c", &[]);
    check(&base("exists /a/b watch"), "set /a/b x", &["anon NodeDataChanged /a/b @3"]);
    check(&base("get /a watch"), "create /a/c", &[]);
    check(&base("ls /a watch"), "create /a/c", &["anon NodeChildrenChanged /a @3"]);
    check(&base("ls2 /a watch"), "delete /a/b", &["anon NodeChildrenChanged /a @3"]);
    check(&base("ls /a watch"), "set /a x", &[]);
    check(&base("ls /a watch"), "set /a/b x", &[]);
    check(&base("ls /a/b watch"), "delete /a/b", &["anon NodeDeleted /a/b @3"]);
    check(&base("ls / watch"), "create /c", &["anon NodeChildrenChanged / @3"]);
    check(&base("get /a watch"), "setacl /a world:anyone:r", &[]);
    check(&base("ls /a watch"), "setacl /a world:anyone:r", &[]);
    check(&base("ls /a watch"), "multi create /a/c ; delete /no", &[]);
}

/// exists watches a missing znode; get and ls on a missing znode set no watch.
#[test]
fn only_exists_waits_for_a_creation() {
    let check = |watch: &str, expected: &[&str]| {
        let mut world = World::new(TreeOptions::default(), &[]);
        assert_eq!(world.run(watch), "NoNode");
        assert_eq!(world.run_watched("create /new").1, expected);
    };
    check("exists /new watch", &["anon NodeCreated /new @1"]);
    check("get /new watch", &[]);
    check("ls /new watch", &[]);
}

/// A client that may not read sets no watch either.
#[test]
fn a_rejected_read_sets_no_watch() {
    let mut world = World::new(TreeOptions::default(), &["create /a '' acl=digest:u1:h:w"]);
    for read in ["exists", "get", "ls"] {
        assert_eq!(world.run(&format!("u2: {read} /a watch")), "NoAuth");
    }
    assert_eq!(world.tree.watches().count(), 0);
}

#[test]
fn one_delete_notifies_a_client_once() {
    check(
        &[
            "create /a",
            "create /a/b",
            "get /a/b watch",
            "ls /a/b watch",
            "ls /a watch",
            "u1: ls /a/b watch",
            "u2: get /a/b watch",
        ],
        "delete /a/b",
        &[
            "anon NodeDeleted /a/b @3",
            "u2 NodeDeleted /a/b @3",
            "u1 NodeDeleted /a/b @3",
            "anon NodeChildrenChanged /a @3",
        ],
    );
}

#[test]
fn the_creation_is_reported_before_the_list() {
    check(
        &["create /a", "ls /a watch", "addWatch /a"],
        "create /a/b",
        &["anon NodeChildrenChanged /a @2"],
    );
    let mut world = World::new(TreeOptions::default(), &["create /a", "ls /a watch"]);
    world.run("exists /a/b watch");
    let (_, events) = world.run_watched("create /a/b");
    assert_eq!(events, ["anon NodeCreated /a/b @2", "anon NodeChildrenChanged /a @2"]);
}

/// Executes lines one after the other, and checks the events that each causes.
fn check_sequence(lines: &[(&str, &[&str])]) {
    let mut world = World::new(TreeOptions::default(), &["create /a"]);
    for (line, expected) in lines {
        assert_eq!(world.run_watched(line).1, *expected, "{line}");
    }
}

#[test]
fn standard_watches_fire_once() {
    check_sequence(&[
        ("get /a watch", &[]),
        ("exists /a watch", &[]),
        ("set /a 1", &["anon NodeDataChanged /a @2"]),
        ("set /a 2", &[]),
    ]);
}

#[test]
fn persistent_watches_stay_and_report_children() {
    check_sequence(&[
        ("addWatch /a", &[]),
        ("set /a 1", &["anon NodeDataChanged /a @2"]),
        ("set /a 2", &["anon NodeDataChanged /a @3"]),
        ("create /a/b", &["anon NodeChildrenChanged /a @4"]),
        ("set /a/b x", &[]),
        ("delete /a/b", &["anon NodeChildrenChanged /a @6"]),
        ("delete /a", &["anon NodeDeleted /a @7"]),
        ("create /a", &["anon NodeCreated /a @8"]),
    ]);
}

/// Never NodeChildrenChanged: the child's own event covers it.
#[test]
fn recursive_watches_report_descendants() {
    check_sequence(&[
        ("addWatch /a recursive", &[]),
        ("set /a 1", &["anon NodeDataChanged /a @2"]),
        ("create /a/b", &["anon NodeCreated /a/b @3"]),
        ("create /a/b/c", &["anon NodeCreated /a/b/c @4"]),
        ("set /a/b/c x", &["anon NodeDataChanged /a/b/c @5"]),
        ("delete /a/b/c", &["anon NodeDeleted /a/b/c @6"]),
        ("create /ab", &[]),
    ]);
}

#[test]
fn several_modes_give_one_event() {
    check_sequence(&[
        ("addWatch / recursive", &[]),
        ("addWatch /a recursive", &[]),
        ("addWatch /a", &[]),
        ("get /a watch", &[]),
        ("ls /a watch", &[]),
        ("set /a 1", &["anon NodeDataChanged /a @2"]),
        ("set /a 1", &["anon NodeDataChanged /a @3"]),
        ("create /a/b", &["anon NodeCreated /a/b @4", "anon NodeChildrenChanged /a @4"]),
        ("delete /a/b", &["anon NodeDeleted /a/b @5", "anon NodeChildrenChanged /a @5"]),
        ("delete /a", &["anon NodeDeleted /a @6"]),
    ]);
}

#[test]
fn the_end_of_a_session_reports_deletions() {
    check(
        &[
            "u1: create /e '' flags=1",
            "create /p",
            "u1: create /p/e '' flags=1",
            "get /e watch",
            "ls /p watch",
            "ls / watch",
        ],
        "u1: close",
        &[
            "anon NodeDeleted /e @4",
            "anon NodeChildrenChanged / @4",
            "anon NodeChildrenChanged /p @4",
        ],
    );
}

#[test]
fn a_multi_reports_each_step() {
    check(
        &["create /a", "get /a watch", "addWatch / recursive"],
        "multi set /a 1 ; create /a/b ; delete /a/b",
        &["anon NodeDataChanged /a @2", "anon NodeCreated /a/b @2", "anon NodeDeleted /a/b @2"],
    );
}

const LATE: &[&str] = &[
    "create /old",
    "create /new",
    "set /old 1",
    "create /old/kid",
    "create /locked '' acl=digest:u1:h:rwcda",
];

/// Changes that a client missed become events immediately, without a zxid; the other watches are set again.
#[test]
fn set_watches_reports_missed_changes() {
    let check = |line: &str, expected: &[&str], watched: usize| {
        let mut world = World::new(TreeOptions::default(), LATE);
        let (_, events) = world.run_watched(line);
        assert_eq!(events, expected, "{line}");
        assert_eq!(world.tree.watches().count(), watched, "{line}");
    };
    check("setWatches 2 data=/old", &["NodeDataChanged /old @-1"], 0);
    check("setWatches 3 data=/old", &[], 1);
    check("setWatches 9 data=/no", &["NodeDeleted /no @-1"], 0);
    check("setWatches 9 exist=/old", &["NodeCreated /old @-1"], 0);
    check("setWatches 9 exist=/no", &[], 1);
    check("setWatches 3 child=/old", &["NodeChildrenChanged /old @-1"], 0);
    check("setWatches 4 child=/old", &[], 1);
    check("setWatches 9 child=/no", &["NodeDeleted /no @-1"], 0);
    check("setWatches 0 both=/old,/no", &[], 4);
    check("setWatches 0 deep=/old,/no", &[], 2);
    check("setWatches 0 data=/locked child=/locked exist=/locked", &[], 0);
    check("u1: setWatches 0 data=/locked", &["NodeDataChanged /locked @-1"], 0);
    check(
        "setWatches 0 data=/old,/no exist=/new child=/old",
        &[
            "NodeDataChanged /old @-1",
            "NodeDeleted /no @-1",
            "NodeCreated /new @-1",
            "NodeChildrenChanged /old @-1",
        ],
        0,
    );
}

#[test]
fn watches_set_again_work_again() {
    check_sequence(&[
        ("setWatches 9 data=/a exist=/b child=/a", &[]),
        ("set /a 1", &["anon NodeDataChanged /a @2"]),
        ("create /b", &["anon NodeCreated /b @3"]),
        ("create /a/c", &["anon NodeChildrenChanged /a @4"]),
    ]);
}

/// A read that would set a watch is rejected as a whole; a read without a watch is not.
#[test]
fn watches_of_a_connection_are_limited() {
    let options =
        TreeOptions { watches_per_watcher_max: NonZeroU32::new(2), ..TreeOptions::default() };
    let setup = ["create /a x", "get /a watch", "ls / watch"];
    let mut world = World::new(options, &setup);
    let refused = [
        "exists /b watch",
        "ls /a watch",
        "ls2 /a watch",
        "addWatch /b recursive",
        "addWatch /b",
        "setWatches 9 exist=/b",
        // There are no events for missed changes either: the client will read everything again.
        "setWatches 0 data=/a,/deleted exist=/b",
    ];
    for line in refused {
        assert_eq!(world.run_watched(line), ("QuotaExceeded".to_owned(), vec![]), "{line}");
    }
    assert_eq!(world.tree.watches().count(), 2);
    for line in ["exists /b", "ls /a", "get /a", "u1: get /a watch", "exists /a watch"] {
        assert_ne!(world.run(line), "QuotaExceeded", "{line}");
    }
    world.run("set /a y");
    assert_eq!(world.run("exists /b watch"), "NoNode", "the event made room");
}

/// For each way to watch, the kinds that are found and can be removed.
#[test]
fn watches_are_found_and_removed_by_kind() {
    const KINDS: [&str; 5] = ["children", "data", "any", "persistent", "recursive"];
    let check = |watch: &str, found: [&str; 2]| {
        for kind in KINDS {
            let mut world = World::new(TreeOptions::default(), &["create /a", watch]);
            let expected = if found.contains(&kind) { "ok" } else { "NoWatcher" };
            assert_eq!(world.run(&format!("u1: hasWatch /a {kind}")), "NoWatcher");
            assert_eq!(world.run(&format!("u1: removeWatch /a {kind}")), "NoWatcher");
            assert_eq!(world.run(&format!("hasWatch /a/b {kind}")), "NoWatcher");
            assert_eq!(world.run(&format!("hasWatch /a {kind}")), expected, "{watch} {kind}");
            let before = world.tree.watches().count();
            assert_eq!(world.run(&format!("removeWatch /a {kind}")), expected, "{watch} {kind}");
            let left = if expected == "ok" { 0 } else { before };
            assert_eq!(world.tree.watches().count(), left, "{watch} {kind}");
            assert_eq!(world.run(&format!("removeWatch /a {kind}")), "NoWatcher");
        }
    };
    check("get /a watch", ["data", "any"]);
    check("exists /a watch", ["data", "any"]);
    check("ls /a watch", ["children", "any"]);
    check("addWatch /a", ["persistent", "any"]);
    check("addWatch /a recursive", ["recursive", "any"]);
}

#[test]
fn removing_one_kind_leaves_the_others() {
    check_sequence(&[
        ("get /a watch", &[]),
        ("ls /a watch", &[]),
        ("addWatch /a", &[]),
        ("removeWatch /a persistent", &[]),
        ("set /a 1", &["anon NodeDataChanged /a @2"]),
        ("set /a 1", &[]),
        ("create /a/b", &["anon NodeChildrenChanged /a @4"]),
        ("create /a/c", &[]),
    ]);
}

/// A multi may change a znode tens of thousands of times, and each change notifies all persistent watchers.
#[test]
fn beyond_the_limit_watchers_lose_events_and_are_listed() {
    let setup = [
        "create /a",
        "create /a/b",
        "addWatch /a recursive",
        "u1: addWatch /a/b",
        "u2: get /a/b watch",
    ];
    let mut world = World::new(TreeOptions::default(), &setup);
    let changes = vec!["set /a/b x"; 100].join(" ; ");
    let mut events = Events::with_limit(5);
    world.write(USERS[0], &format!("multi {changes}"), &mut events);
    let counts: Vec<_> = events.iter().map(|event| event.watchers.len()).collect();
    // The first event also goes to the standard watch, and removes it.
    assert_eq!(counts, [3, 2]);
    let mut losers: Vec<_> = events.watchers_with_lost_events().map(|watcher| watcher.0).collect();
    losers.sort_unstable();
    let of = |name| USERS.iter().find(|user| user.name == name).map(|user| user.session.0 as u64);
    let mut expected = [of("anon").unwrap(), of("u1").unwrap()];
    expected.sort_unstable();
    assert_eq!(losers, expected);
    // The next txn begins with none.
    events.clear();
    world.write(USERS[0], "set /a/b y", &mut events);
    assert_eq!((events.iter().count(), events.watchers_with_lost_events().count()), (1, 0));
}

//! Reads: bodies of replies and their errors.

use herdsman_proto::{ReadRequest, SessionId};
use herdsman_tree::read::{REPLY_TOO_LARGE, ReadCaller};
use herdsman_tree::{TreeOptions, Watcher};

use crate::world::World;

const SETUP: &[&str] = &[
    "create /a data",
    "create /a/b -",
    "create /a/c",
    "create /a/b/d",
    "set /a/b/d xyz",
    "create /e '' flags=1",
    "create /a/e '' flags=1",
    "u1: create /a/other '' flags=1",
    "create /eel '' flags=1",
];

fn check(line: &str, expected: &str) {
    let mut world = World::new(TreeOptions::default(), SETUP);
    assert_eq!(world.run(line), expected, "{line:?}");
}

#[test]
fn reads_show_data_children_and_stats() {
    check("get /a", "data c1 m1 p8 v0 cv4 av0 len4 kids4");
    check("get /a/b", "- c2 m2 p4 v0 cv1 av0 len0 kids1");
    check("get /a/b/d", "xyz c4 m5 p4 v1 cv0 av0 len3 kids0");
    check("exists /e", "c6 m6 p6 v0 cv0 av0 len0 kids0 owner0x11");
    check("ls /a", "[b,c,e,other]");
    check("ls2 /a/b", "[d] c2 m2 p4 v0 cv1 av0 len0 kids1");
    check("ls /a/c", "[]");
    check("ls /", "[a,e,eel,zookeeper]");
    check("getacl /a", "world:anyone:31 c1 m1 p8 v0 cv4 av0 len4 kids4");
}

#[test]
fn the_service_has_its_own_znodes() {
    check("ls /zookeeper", "[config,quota]");
    check("getacl /zookeeper/config", "world:anyone:1 c0 m0 p0 v0 cv0 av-1 len0 kids0");
    check("set /zookeeper/config x", "NoAuth");
    check("get /zookeeper", "'' c0 m0 p0 v0 cv-2 av0 len0 kids2");
}

#[test]
fn missing_and_odd_paths() {
    for verb in ["exists", "get", "ls", "ls2", "getacl", "count"] {
        check(&format!("{verb} /no"), "NoNode");
        check(&format!("{verb} no"), "NoNode");
        check(&format!("{verb} /a/"), "NoNode");
    }
    check("exists /a\0", "BadArguments");
    check("get /a\0", "NoNode");
    // The root's own name in Apache's tables.
    check("ls ''", "[a,e,eel,zookeeper]");
}

#[test]
fn descendants_are_counted() {
    check("count /a", "5");
    check("count /a/b", "1");
    check("count /a/c", "0");
    check("count /", "11");
    check("count /zookeeper", "2");
}

#[test]
fn ephemerals_are_those_of_the_session_with_the_prefix() {
    check("ephemerals", "[/a/e,/e,/eel]");
    check("ephemerals ''", "[/a/e,/e,/eel]");
    check("ephemerals /", "[/a/e,/e,/eel]");
    check("ephemerals /\u{1f}", "[/a/e,/e,/eel]");
    check("ephemerals /e", "[/e,/eel]");
    check("ephemerals /a", "[/a/e]");
    check("ephemerals /a/", "[/a/e]");
    check("ephemerals a", "[]");
    check("u1: ephemerals", "[/a/other]");
    check("u2: ephemerals", "[]");
}

#[test]
fn who_am_i_shows_names_and_no_hashes() {
    check("whoami", "ip:127.0.0.1");
    check("u1: whoami", "ip:127.0.0.1,digest:u1");
    check("super: whoami", "ip:127.0.0.1,super:");
}

#[test]
fn each_read_of_a_multi_has_its_own_result() {
    check("multiRead", "[]");
    check(
        "multiRead get /a/c ; ls /no ; ls /a/b ; get /no",
        "['' c3 m3 p3 v0 cv0 av0 len0 kids0, NoNode, [d], NoNode]",
    );
}

/// cversion counts changes of the list: every creation and every deletion.
#[test]
fn cversion_counts_creations_and_deletions() {
    let mut world = World::new(TreeOptions::default(), &["create /a"]);
    for (line, cversion) in [
        ("create /a/x", 1),
        ("create /a/y", 2),
        ("delete /a/x", 3),
        ("create /a/x", 4),
        ("delete /a/x", 5),
        ("delete /a/y", 6),
        ("set /a 1", 6),
    ] {
        world.run(line);
        let stat = world.run("exists /a");
        assert!(stat.contains(&format!(" cv{cversion} ")), "{line}: {stat}");
    }
}

/// A client may request a list that is too long any number of times.
#[test]
fn a_list_that_is_too_long_is_rejected_and_sets_no_watch() {
    let options = TreeOptions { reply_bytes_max: 2200, ..TreeOptions::default() };
    let mut world = World::new(options, &["create /p"]);
    for i in 0..20 {
        world.run(&format!("create /p/{i:0100}"));
    }
    let reader = ReadCaller { session: SessionId(1), watcher: Watcher(1), ids: &[] };
    let children = |watch| ReadRequest::GetChildren { path: "/p".into(), watch, with_stat: false };
    let mut out = Vec::new();
    assert_eq!(world.tree.read(reader, &children(false), &mut out), Ok(()));
    assert_eq!(out.len(), 4 + 20 * 104);
    world.run(&format!("create /p/{:0200}", 0));
    let mut out = Vec::new();
    assert_eq!(world.tree.read(reader, &children(true), &mut out), Err(REPLY_TOO_LARGE));
    assert_eq!(world.tree.watches().count(), 0);
}

/// Such reads are answered under the same guard as the writes before them.
#[test]
fn the_size_of_a_reply_is_computed_from_names_and_data() {
    let mut world = World::new(TreeOptions::default(), &["create /p 12345"]);
    let children =
        || ReadRequest::GetChildren { path: "/p".into(), watch: false, with_stat: false };
    let data = || ReadRequest::GetData { path: "/p".into(), watch: false };
    assert!(world.tree.reply_fits(&data(), 5) && !world.tree.reply_fits(&data(), 4));
    assert!(world.tree.reply_fits(&children(), 4096));
    world.run(&format!("create /p/{:05000}", 0));
    assert!(!world.tree.reply_fits(&children(), 4096));
    assert!(world.tree.reply_fits(&children(), 5008));
}

/// Lists of wide znodes are cached in encoded form, and must not outlive a change or the znode.
#[test]
fn a_list_that_was_read_before_shows_later_changes() {
    const CHILDREN: usize = 4_200;
    let mut world = World::new(TreeOptions::default(), &["create /p"]);
    let reader = ReadCaller { session: SessionId(1), watcher: Watcher(1), ids: &[] };
    let list = |world: &World| {
        let request = ReadRequest::GetChildren { path: "/p".into(), watch: false, with_stat: true };
        let mut lists = (0..3).map(|_| {
            let mut out = Vec::new();
            assert_eq!(world.tree.read(reader, &request, &mut out), Ok(()));
            out
        });
        let first = lists.next().unwrap();
        assert!(lists.all(|list| list == first), "the same list each time");
        i32::from_be_bytes(first[..4].try_into().unwrap()) as usize
    };
    for i in 0..CHILDREN {
        world.run(&format!("create /p/{i}"));
    }
    assert_eq!(list(&world), CHILDREN);
    world.run("create /p/more");
    assert_eq!(list(&world), CHILDREN + 1);
    world.run("delete /p/0");
    assert_eq!(list(&world), CHILDREN);
    world.run("delete /p/more");
    for i in 1..CHILDREN {
        world.run(&format!("delete /p/{i}"));
    }
    world.run("delete /p");
    world.run("create /p");
    assert_eq!(list(&world), 0);
}

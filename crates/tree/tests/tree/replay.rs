//! Applies txns to trees that already contain them: twice, or over a snapshot that was taken during writes.
//! The result must always be the same tree.

use std::collections::BTreeMap;

use herdsman_proto::txn::Entry;
use herdsman_proto::{SessionId, Zxid};
use herdsman_tree::sweep::{SweepPosition, SweepTime};
use herdsman_tree::{Dump, Loader, StepLimit, Tree, TreeOptions};
use proptest::prelude::*;

use crate::model::ModelNode;
use crate::properties::nodes;
use crate::scripts::{Run, Step, churn, options};
use crate::world::World;

/// A step of any size.
pub const NO_LIMIT: StepLimit = StepLimit { znodes: usize::MAX, bytes: usize::MAX };

/// Everything about a tree that a client, an operator or another server could see.
#[derive(Debug, PartialEq)]
struct Seen {
    nodes: BTreeMap<String, ModelNode>,
    sessions: Vec<(SessionId, i32)>,
    ephemerals: Vec<(SessionId, Vec<String>)>,
    ephemeral_count: usize,
    /// Containers and TTL znodes, at the end of time.
    idle: Vec<Box<str>>,
    limited: Vec<String>,
    digest: i64,
    data_size: u64,
    last_zxid: Zxid,
}

fn seen(tree: &Tree) -> Seen {
    let ephemerals = |owner| {
        let paths = tree.ephemerals(owner).map(ToString::to_string);
        (owner, paths.collect())
    };
    let time = SweepTime { now_ms: i64::MAX, never_used_ms_max: Some(0) };
    Seen {
        nodes: nodes(tree),
        sessions: tree.sessions().collect(),
        ephemerals: tree.ephemeral_owners().into_iter().map(ephemerals).collect(),
        ephemeral_count: tree.ephemeral_count(),
        idle: tree.sweep_candidates(time, &mut SweepPosition::Start, NO_LIMIT),
        limited: tree.limited_paths().map(str::to_owned).collect(),
        digest: tree.digest(),
        data_size: tree.data_size(),
        last_zxid: tree.last_zxid(),
    }
}

/// The txns of a history, on top of quotas for `/a` and `/b/a`.
fn history(steps: &[Step]) -> (Vec<Entry>, Tree) {
    let mut log = Vec::new();
    let mut keep = |_: &Tree, applied: &crate::scripts::InFlight, _: &_| {
        log.push(applied.entry.clone());
    };
    let mut run = Run::new(options(true), &mut keep);
    for limited in ["/a", "/b", "/b/a"] {
        run.step(&Step::by_super(&format!("create /zookeeper/quota{limited}")), &mut keep);
    }
    for limited in ["/a", "/b/a"] {
        for (file, text) in [("limits", "count=1,bytes=1"), ("stats", "count=0,bytes=0")] {
            let line = format!("create /zookeeper/quota{limited}/zookeeper_{file} {text}");
            run.step(&Step::by_super(&line), &mut keep);
        }
    }
    for step in steps {
        run.step(step, &mut keep);
    }
    run.drain(0, &mut keep);
    (log, run.tree)
}

/// Takes a snapshot that starts before `log[start]` and continues while txns are applied.
fn fuzzy_snapshot(log: &[Entry], start: usize, pace: &[usize], options: TreeOptions) -> Tree {
    let mut tree = Tree::new(options.clone());
    log[..start].iter().for_each(|entry| tree.replay(entry));
    let mut dump = Dump::start(&tree);
    let mut loader = Loader::new(options);
    dump.sessions().iter().for_each(|&(session, timeout_ms)| loader.session(session, timeout_ms));
    dump.acls().iter().for_each(|(key, acl)| loader.acl(*key, acl.to_vec()));
    let mut during = log[start..].iter();
    let mut txns_between = pace.iter().copied().cycle();
    loop {
        let more = dump.step(&tree, 1, &mut |path, data, acl, stat| {
            loader.node(path, data, acl, *stat).expect("parents come first");
        });
        if !more {
            return loader.finish(dump.zxid()).expect("there is a root");
        }
        let txns = txns_between.next().expect("the iterator cycles");
        during.by_ref().take(txns).for_each(|entry| tree.replay(entry));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn applying_twice_changes_nothing(steps in churn(80)) {
        let (log, tree) = history(&steps);
        let mut again = Tree::new(options(true));
        for entry in &log {
            again.replay(entry);
            again.replay(entry);
        }
        prop_assert_eq!(seen(&again), seen(&tree));
    }

    #[test]
    fn a_snapshot_taken_during_writes_and_the_log_give_the_same_tree(
        steps in churn(80),
        start in 0.0..1.0,
        earlier in 0.0..1.0,
        pace in prop::collection::vec(1..4usize, 1..6),
    ) {
        let (log, tree) = history(&steps);
        let start = (log.len() as f64 * start) as usize;
        let mut recovered = fuzzy_snapshot(&log, start, &pace, options(true));
        prop_assert_eq!(recovered.last_zxid().0, start as i64);
        let from = (start as f64 * earlier) as usize;
        log[from..].iter().for_each(|entry| recovered.replay(entry));
        prop_assert_eq!(seen(&recovered), seen(&tree));
    }
}

/// Replays a whole history over the tree that results from it.
fn check_whole_replay(lines: &[&str]) {
    let mut world = World::new(options(true), &[]);
    let mut log = Vec::new();
    for line in lines {
        log.push(world.write(crate::world::USERS[0], line, &mut herdsman_tree::Events::new()).0);
    }
    let before = seen(&world.tree);
    log.iter().for_each(|entry| world.tree.replay(entry));
    assert_eq!(seen(&world.tree), before);
}

/// Deleting a znode that was created again with children must remove it, or changes of the old znode would
/// appear in the new one.
#[test]
fn a_replayed_delete_removes_later_children() {
    check_whole_replay(&[
        "create /a first",
        "set /a old",
        "create /a/x",
        "delete /a/x",
        "delete /a",
        "create /a second",
        "create /a/b",
        "createTTL /a/b/c",
        "create /a/e e flags=1",
    ]);
}

#[test]
fn a_replayed_close_removes_later_children() {
    check_whole_replay(&[
        "create /a first flags=1",
        "set /a old",
        "close",
        "create /a second",
        "create /a/b",
    ]);
}

/// Apache takes a znode's ACL from the table before the znodes of a snapshot. It sets it again when it replays a
/// setACL, and leaves it as it is when it replays the creation of a znode that is there already. So a key
/// must never mean one ACL in the table and another one later, and a znode that is younger than the table
/// must not be in the snapshot.
#[test]
fn a_snapshot_never_gives_a_znode_the_acl_of_another() {
    let setup = ["super: create /old x acl=digest:u1:h:r", "super: create /kept x"];
    let mut world = World::new(options(true), &setup);
    let mut dump = Dump::start(&world.tree);
    world.run("super: delete /old");
    world.run("super: setacl /kept digest:u2:h:r");
    world.run("super: create /new x acl=ip:10.0.0.1:r");
    let mut keys = BTreeMap::new();
    while dump.step(&world.tree, 1, &mut |path, _, key, _| _ = keys.insert(path.to_owned(), key)) {}
    let table: BTreeMap<_, _> = dump.acls().iter().map(|(key, acl)| (*key, acl)).collect();
    assert_eq!(table.len(), 2, "one of /old, one of /zookeeper/config");
    assert!(table.contains_key(&keys["/zookeeper/config"]));
    assert_eq!(table.get(&keys["/kept"]), None, "its ACL was added after the table");
    assert_eq!(keys.get("/new"), None, "its creation is replayed");
}

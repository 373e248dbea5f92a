//! Containers and TTL znodes: when they are found, and what the sweep may delete.

use herdsman_tree::sweep::{SweepPosition, SweepTime};
use herdsman_tree::{StepLimit, TreeOptions};

use crate::replay::NO_LIMIT;
use crate::scripts::options;
use crate::world::World;

const SETUP: &[&str] = &[
    "createContainer /new",
    "createContainer /used",
    "create /used/kid",
    "delete /used/kid",
    "createContainer /busy",
    "create /busy/kid",
    "createTTL /ttl ttl=5000",
    "createTTL /full ttl=1",
    "create /full/kid",
    "create /plain",
    "create /mine '' flags=1",
];

/// Time is 1000 for each txn.
#[test]
fn idle_znodes_are_found_when_they_are_due() {
    let world = World::new(options(true), SETUP);
    let check = |now_ms, never_used_ms_max, expected: &[&str]| {
        let time = SweepTime { now_ms, never_used_ms_max };
        for paths_max in [1, 2, 3, usize::MAX] {
            let (mut place, mut found) = (SweepPosition::Start, Vec::new());
            while place != SweepPosition::End {
                let limit = StepLimit { znodes: paths_max, bytes: usize::MAX };
                let next = world.tree.sweep_candidates(time, &mut place, limit);
                assert!(next.len() <= paths_max);
                found.extend(next);
            }
            assert_eq!(found, expected.iter().map(|&path| path.into()).collect::<Vec<Box<str>>>());
        }
    };
    check(12_000, None, &["/used"]);
    check(12_001, None, &["/used", "/ttl"]);
    check(1_000_000, None, &["/used", "/ttl"]);
    check(12_000, Some(11_000), &["/used"]);
    check(12_000, Some(10_999), &["/new", "/used"]);
}

#[test]
fn writing_to_a_ttl_znode_lets_it_live_longer() {
    let mut world = World::new(options(true), &["createTTL /ttl ttl=5000", "set /ttl x"]);
    let found = |world: &World, now_ms| {
        let time = SweepTime { now_ms, never_used_ms_max: None };
        world.tree.sweep_candidates(time, &mut SweepPosition::Start, NO_LIMIT)
    };
    assert!(found(&world, 7_000).is_empty());
    assert_eq!(found(&world, 7_001), ["/ttl".into()]);
    assert_eq!(world.run("delete /ttl"), "deleted");
    assert!(found(&world, i64::MAX).is_empty());
}

/// Only the number of paths used to count, and a znode is looked up name by name.
#[test]
fn fewer_long_paths_are_examined_at_a_time() {
    let long = |name: &str| format!("/{}{name}", "x".repeat(1000));
    let creates = ["a", "b", "c"].map(|name| format!("createContainer {}", long(name)));
    let world = World::new(options(true), &creates.each_ref().map(String::as_str));
    let time = SweepTime { now_ms: i64::MAX, never_used_ms_max: Some(0) };
    let mut place = SweepPosition::Start;
    for (bytes, found) in [(1003, 2), (1002, 1), (1, 0)] {
        let limit = StepLimit { znodes: 100, bytes };
        assert_eq!(world.tree.sweep_candidates(time, &mut place, limit).len(), found, "{bytes}");
    }
    assert_eq!(place, SweepPosition::End);
}

/// A znode that was idle when it was found may have been used, deleted or replaced since.
#[test]
fn the_sweep_deletes_only_idle_containers_and_ttl_znodes() {
    for (path, expected) in [
        ("/new", "BadVersion"),
        ("/used", "deleted"),
        ("/ttl", "deleted"),
        ("/busy", "NotEmpty"),
        ("/full", "NotEmpty"),
        ("/gone", "NoNode"),
        ("/mine", "BadVersion"),
        ("/plain", "BadVersion"),
        ("/zookeeper", "BadArguments"),
    ] {
        let mut world = World::new(options(true), SETUP);
        world.run("create /later");
        assert_eq!(world.run(&format!("sweep {path}")), expected, "{path}");
    }
}

/// Without the extended types the mark of a TTL is an ordinary session id.
#[test]
fn without_extended_types_there_are_no_ttl_znodes() {
    let mut world = World::new(TreeOptions::default(), &[]);
    assert_eq!(world.run("createTTL /ttl"), "Unimplemented");
    assert_eq!(world.run("createContainer /c"), "/c c2 m2 p2 v0 cv0 av0 len0 kids0");
}

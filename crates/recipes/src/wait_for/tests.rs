//! Deadlocks in small queues written as lines, in long ones, and in random ones, compared with plain reachability.

use super::*;
use LockKind::{Read, Write};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A lock in a line: `/x: a w, b r` has `a` first, as a writer, and `b` behind it, as a reader.
fn lock(line: &str) -> LockQueue {
    let (path, queue) = line.split_once(": ").unwrap();
    let queue = queue.split(", ").map(|entry| match entry.split_once(' ').unwrap() {
        (owner, "w") => (owner, Write),
        (owner, "r") => (owner, Read),
        other => panic!("{other:?}"),
    });
    LockQueue::new(path, queue)
}

fn check(lines: &[&str], expected: &[&str]) {
    let mut locks: Vec<_> = lines.iter().map(|line| lock(line)).collect();
    for _ in 0..2 {
        let found: Vec<_> =
            WaitForGraph::new(&locks).deadlocks().iter().map(Deadlock::to_string).collect();
        assert_eq!(found, expected, "{lines:?}");
        locks.reverse();
    }
}

fn check_edges(line: &str, expected: &[&str]) {
    let locks = [lock(line)];
    let edges: Vec<_> = WaitForGraph::new(&locks).edges().iter().map(Wait::to_string).collect();
    assert_eq!(edges, expected, "{line}");
}

#[test]
fn edges_follow_the_predecessor_rule() {
    check_edges("/x: a w", &[]);
    check_edges("/x: a r, b r", &[]);
    check_edges("/x: a w, b w, c w", &["b waits for /x held by a", "c waits for /x behind b"]);
    check_edges("/x: a r, b r, c w", &["c waits for /x held by a", "c waits for /x held by b"]);
    check_edges("/x: a w, b r, c r", &["b waits for /x held by a", "c waits for /x held by a"]);
    check_edges(
        "/x: a r, b w, c r, d r, e w",
        &[
            "b waits for /x held by a",
            "c waits for /x behind b",
            "d waits for /x behind b",
            "e waits for /x behind c",
            "e waits for /x behind d",
        ],
    );
    check_edges("/x: a w, a w", &["a waits for /x held by itself"]);
}

#[test]
fn two_owners_two_locks() {
    check(
        &["/locks/x: b w, a w", "/locks/y: a w, b w"],
        &["a waits for /locks/x held by b; b waits for /locks/y held by a"],
    );
}

#[test]
fn three_owners_over_read_write_locks() {
    check(
        &["/x: a r, z r, b w", "/y: b w, c r", "/z: c r, a w"],
        &["a waits for /z held by c; c waits for /y held by b; b waits for /x held by a"],
    );
}

#[test]
fn readers_block_only_writers() {
    check(&["/x: a r, b r", "/y: b r, a r"], &[]);
    // Both want to upgrade from reading to writing: neither ever can.
    check(&["/x: a r, b r, a w, b w"], &["a waits for /x held by itself (also stuck: b)"]);
}

#[test]
fn a_lock_that_is_not_reentrant_and_taken_twice() {
    check(&["/x: a w, a w"], &["a waits for /x held by itself"]);
    check(&["/x: a w, b w, a w"], &["a waits for /x held by itself (also stuck: b)"]);
    check(&["/x: a r, b w, a r"], &["a waits for /x held by itself (also stuck: b)"]);
    check(&["/x: a r, a r"], &[]);
}

#[test]
fn a_writer_that_also_reads_is_not_a_deadlock() {
    let mut reentrant = lock("/x: a w, a r, b w");
    reentrant.contenders[1].state = ContenderState::Holds;
    assert_eq!(WaitForGraph::new(&[reentrant]).deadlocks(), []);
}

#[test]
fn owners_merely_passed_in_a_queue_are_not_in_the_cycle() {
    check(
        &["/x: a w, m1 w, m2 r, b w", "/y: b w, m3 w, a w, m4 w"],
        &["a waits for /y held by b; b waits for /x held by a (also stuck: 3 others)"],
    );
}

#[test]
fn an_owner_that_waits_in_two_places_blocks_before_it_holds_anything() {
    check(
        &["/x: a w, c w, b w", "/y: b w, c w"],
        &["b waits for /x behind c; c waits for /y held by b"],
    );
}

#[test]
fn each_deadlock_is_found_and_they_are_in_order() {
    check(
        &["/1: d w, c w", "/2: c w, d w", "/3: b w, a w", "/4: a w, b w", "/5: a w, e w"],
        &[
            "a waits for /3 held by b; b waits for /4 held by a",
            "c waits for /1 held by d; d waits for /2 held by c",
        ],
    );
}

#[test]
fn of_two_cycles_through_an_owner_the_shorter_is_shown() {
    check(
        &["/1: b w, a w", "/2: c w, b w", "/3: a w, c w", "/4: a w, b w"],
        &["a waits for /1 held by b; b waits for /4 held by a (also stuck: c)"],
    );
}

/// Owner n waits for a lock that owner n + 1 holds.
fn chain(owners: usize) -> Vec<LockQueue> {
    (0..owners)
        .map(|n| {
            let queue = [(format!("o{:05}", n + 1), Write), (format!("o{n:05}"), Write)];
            LockQueue::new(format!("/locks/{n}"), queue)
        })
        .collect()
}

#[test]
fn a_chain_of_ten_thousand_is_not_a_deadlock() {
    let locks = chain(10_000);
    assert_eq!(WaitForGraph::new(&locks).deadlocks(), []);
    assert_eq!(WaitForGraph::new(&locks).edges().len(), 10_000);
}

#[test]
fn a_cycle_of_ten_thousand_is_found_whole() {
    let mut locks = chain(10_000);
    locks.push(LockQueue::new("/last", [("o00000", Write), ("o10000", Write)]));
    let deadlocks = WaitForGraph::new(&locks).deadlocks();
    assert_eq!(deadlocks.len(), 1);
    let cycle = &deadlocks[0].cycle;
    assert_eq!(cycle.len(), 10_001);
    assert_eq!(cycle[0].waiter, "o00000");
    assert_eq!(cycle[10_000].to_string(), "o10000 waits for /last held by o00000");
    assert!(cycle.windows(2).all(|pair| pair[0].blocker == pair[1].waiter));
}

#[test]
fn ten_thousand_in_a_queue_do_not_hide_a_cycle_of_two() {
    let crowd = |kind| (0..10_000).map(move |n| (format!("m{n:05}"), kind));
    for kind in [Read, Write] {
        let queue = std::iter::once(("a".to_owned(), Write)).chain(crowd(kind));
        let locks =
            [LockQueue::new("/x", queue.chain([("z".to_owned(), Write)])), lock("/y: z w, a w")];
        let deadlocks = WaitForGraph::new(&locks).deadlocks();
        assert_eq!(
            deadlocks[0].to_string(),
            "a waits for /y held by z; z waits for /x held by a \
             (also stuck: 10000 others)"
        );
    }
}

/// Returns which owner waits for which, directly or through others in the same queue, in the simplest way.
fn all_waits(locks: &[LockQueue]) -> BTreeSet<(String, String)> {
    let mut waits = BTreeSet::new();
    for lock in locks {
        for (place, waiter) in lock.contenders.iter().enumerate() {
            let before = &lock.contenders[..place];
            let blockers = match (waiter.state, waiter.kind) {
                (ContenderState::Holds, _) => 0,
                (ContenderState::Waits, Write) => place,
                (ContenderState::Waits, Read) => {
                    1 + before.iter().rposition(|b| b.kind == Write).unwrap()
                }
            };
            let blockers = before[..blockers].iter().map(|blocker| blocker.owner.clone());
            waits.extend(blockers.map(|blocker| (waiter.owner.clone(), blocker)));
        }
    }
    waits
}

/// Returns the number of owners on the shortest cycle through each owner that is on any: grown one step at a time.
fn shortest_cycles(waits: &BTreeSet<(String, String)>) -> BTreeMap<String, usize> {
    let mut cycles = BTreeMap::new();
    let mut reached = waits.clone();
    for steps in 1..=waits.len() {
        for (from, _) in reached.iter().filter(|(from, to)| from == to) {
            cycles.entry(from.clone()).or_insert(steps);
        }
        reached = reached
            .iter()
            .flat_map(|(from, to)| {
                let onward = waits.iter().filter(move |(waiter, _)| waiter == to);
                onward.map(move |(_, blocker)| (from.clone(), blocker.clone()))
            })
            .collect();
    }
    cycles
}

fn any_locks() -> impl Strategy<Value = Vec<LockQueue>> {
    let kind = prop_oneof![Just(Read), Just(Write)];
    let owner = (0..8_usize).prop_map(|n| format!("o{n}"));
    let queue = prop::collection::vec((owner, kind), 0..6);
    prop::collection::vec(queue, 0..6).prop_map(|queues| {
        let queues = queues.into_iter().enumerate();
        queues.map(|(n, queue)| LockQueue::new(format!("/{n}"), queue)).collect()
    })
}

proptest! {
    #[test]
    fn the_search_agrees_with_the_simplest_algorithm(locks in any_locks()) {
        let waits = all_waits(&locks);
        let mut cycles = shortest_cycles(&waits);
        for deadlock in WaitForGraph::new(&locks).deadlocks() {
            let cycle = &deadlock.cycle;
            for (index, wait) in cycle.iter().enumerate() {
                prop_assert_eq!(&wait.blocker, &cycle[(index + 1) % cycle.len()].waiter);
                prop_assert!(waits.contains(&(wait.waiter.clone(), wait.blocker.clone())));
            }
            let owners = cycle.iter().map(|wait| &wait.waiter).chain(&deadlock.stuck);
            let shortest = owners.map(|owner| cycles.remove(owner)).min();
            prop_assert_eq!(shortest, Some(Some(cycle.len())));
        }
        prop_assert!(cycles.is_empty(), "not found: {cycles:?}");
    }

    #[test]
    fn the_order_of_the_locks_does_not_matter(
        (locks, shuffled) in any_locks()
            .prop_flat_map(|locks| (Just(locks.clone()), Just(locks).prop_shuffle())),
    ) {
        let (graph, other) = (WaitForGraph::new(&locks), WaitForGraph::new(&shuffled));
        prop_assert_eq!(graph.deadlocks(), other.deadlocks());
        prop_assert_eq!(graph.edges(), other.edges());
    }
}

#[test]
fn blockers_are_the_places_that_block() {
    let blockers = |line| -> Vec<_> {
        let pair = |range: RangeInclusive<usize>| (*range.start(), *range.end());
        lock(line).blockers().into_iter().map(|range| range.map(pair)).collect()
    };
    assert_eq!(blockers("/x: a w, b w, c w"), [None, Some((0, 0)), Some((1, 1))]);
    let expected = [None, None, Some((0, 1)), Some((2, 2)), Some((2, 2)), Some((3, 4))];
    assert_eq!(blockers("/x: a r, b r, c w, d r, e r, f w"), expected);
}

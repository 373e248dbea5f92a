//! Tests of the order of a walk, the bounds of a step and of what is kept, and changes between steps.

use super::*;
use crate::visible::tests::{put, tree};
use herdsman_proto::{Acl, Id, Perms};

fn znodes(znodes: usize) -> StepLimit {
    StepLimit { znodes, bytes: usize::MAX }
}

fn walk_paths(walk: &mut TreeWalk, visible: VisibleTree<'_>, step: usize) -> Vec<String> {
    let mut seen = Vec::new();
    let mut note = |visit: VisitedZnode<'_>| {
        seen.push(format!("{}{}", visit.path, if visit.znode.is_some() { "" } else { "!" }));
        if visit.path == "/zookeeper" { WalkAction::SkipSubtree } else { WalkAction::Descend }
    };
    while walk.step(visible, znodes(step), &mut note) {}
    seen
}

#[test]
fn a_walk_is_ordered_by_name_and_skips_unreadable_subtrees() {
    let all = Perms::ALL;
    let znodes = [("/b", all), ("/a", all), ("/a/y", Perms::WRITE), ("/a/y/z", all)];
    let tree = tree(&[&znodes[..], &[("/a/x", all), ("/a/x/1", all)]].concat());
    let visible = tree.visible_to(&[]);
    for step in [1, 2, 100] {
        let mut walk = TreeWalk::start(visible, "/").unwrap();
        let seen = walk_paths(&mut walk, visible, step);
        assert_eq!(seen, ["/", "/a", "/a/x", "/a/x/1", "/a/y!", "/b", "/zookeeper"], "{step}");
        let mut walk = TreeWalk::start(visible, "/a/x").unwrap();
        assert_eq!(walk_paths(&mut walk, visible, step), ["/a/x", "/a/x/1"]);
    }
    assert_eq!(TreeWalk::start(visible, "/none").unwrap_err(), ErrorCode::NoNode);
}

#[test]
fn a_reused_slot_is_not_mistaken_for_the_old_znode() {
    let mut tree = tree(&[("/a", Perms::ALL), ("/a/x", Perms::ALL), ("/a/y", Perms::ALL)]);
    let mut walk = TreeWalk::start(tree.visible_to(&[]), "/a").unwrap();
    let mut listing = ChildListing::start(tree.visible_to(&[]), "/a").unwrap();
    assert!(walk.step(tree.visible_to(&[]), znodes(2), &mut |_| WalkAction::Descend));
    let y = tree.nodes.find("/a/y").unwrap();
    tree.nodes.remove(y);
    put(&mut tree, "/other", &[Acl::world(Perms::ALL)]);
    assert_eq!(tree.nodes.find("/other"), Some(y), "the slot is reused");
    assert!(walk_paths(&mut walk, tree.visible_to(&[]), 9).is_empty());
    let mut names = Vec::new();
    listing.step(tree.visible_to(&[]), znodes(9), &mut |name, _| names.push(name.to_owned()));
    assert_eq!(names, ["x"]);
}

/// Long names, data and ACLs used to make a step, and what its visitor copies, arbitrarily large.
#[test]
fn a_step_ends_after_a_number_of_bytes() {
    let mut tree = tree(&[]);
    let long = "n".repeat(1000);
    let acl: Vec<_> = (0..20)
        .map(|n| Acl { perms: Perms::ALL, id: Id::new("auth", &format!("{n}{long}")) })
        .chain([Acl::world(Perms::ALL)])
        .collect();
    for number in 0..50 {
        put(&mut tree, &format!("/{number:05}{long}"), &acl);
    }
    let visible = tree.visible_to(&[]);
    let limit = |bytes| StepLimit { znodes: 1000, bytes };
    let mut listing = ChildListing::start(visible, "/").unwrap();
    let mut shown = 0;
    assert!(listing.step(visible, limit(9_500), &mut |_, _| shown += 1));
    assert!((9..=11).contains(&shown), "{shown}");
    let visits = |bytes| {
        let (mut walk, mut visits) = (TreeWalk::start(visible, "/").unwrap(), 0);
        walk.step(visible, limit(bytes), &mut |_| {
            visits += 1;
            WalkAction::Descend
        });
        visits
    };
    assert_eq!(visits(0), 1, "one is always visited");
    // Each has a name and data of a thousand bytes, and twenty times that in its ACL. All names are looked
    // up when the root is visited.
    assert!((5..=7).contains(&visits(160_000)), "{}", visits(160_000));
}

/// All names of a list used to be copied in the step that reached it, whatever its limit.
#[test]
fn the_names_of_a_long_list_are_looked_up_in_steps() {
    let mut tree = tree(&[("/gone", Perms::ALL)]);
    let count = 2 * NAMES_PER_STEP;
    for number in 0..count {
        put(&mut tree, &format!("/{number:05}"), &[Acl::world(Perms::ALL)]);
    }
    let mut walk = TreeWalk::start(tree.visible_to(&[]), "/").unwrap();
    let mut seen = Vec::new();
    let mut step = |tree: &crate::Tree, limit| {
        let mut note = |visit: VisitedZnode<'_>| {
            seen.push(visit.path.to_owned());
            if visit.path == "/zookeeper" { WalkAction::SkipSubtree } else { WalkAction::Descend }
        };
        walk.settle();
        let more = walk.step(tree.visible_to(&[]), limit, &mut note);
        (more, walk.names.as_ref().map_or(0, NextNames::len), seen.len())
    };
    assert_eq!(step(&tree, znodes(100)), (true, 0, 1), "the root, and the ids of its children");
    assert_eq!(step(&tree, znodes(100)), (true, NAMES_PER_STEP, 1));
    let (_, named, _) = step(&tree, StepLimit { znodes: 1000, bytes: 50 });
    let named = named - NAMES_PER_STEP;
    assert!((8..=11).contains(&named), "{named}");
    let gone = tree.nodes.find("/gone").unwrap();
    tree.nodes.remove(gone);
    while step(&tree, znodes(100)).0 {}
    assert!(seen.is_sorted());
    assert_eq!(seen.iter().filter(|path| path.len() == 6).count(), count);
}

fn kept_bytes(walk: &TreeWalk) -> usize {
    let lists: usize = walk.levels.iter().map(Level::bytes).sum();
    lists + walk.names.as_ref().map_or(0, NextNames::kept_bytes)
}

/// Every list of children used to be kept with all its names until the walk had finished it.
#[test]
fn an_open_walk_keeps_a_bounded_number_of_bytes() {
    let mut tree = tree(&[("/a", Perms::ALL)]);
    let long = "n".repeat(1000);
    for parent in ["", "/a"] {
        for number in 0..4000 {
            put(&mut tree, &format!("{parent}/{number:05}{long}"), &[Acl::world(Perms::ALL)]);
        }
    }
    let visible = tree.visible_to(&[]);
    let mut walk = TreeWalk::start(visible, "/").unwrap();
    let (mut kept, mut seen) = (0, Vec::new());
    let mut note = |visit: VisitedZnode<'_>| {
        seen.push(visit.path.to_owned());
        if visit.path == "/zookeeper" { WalkAction::SkipSubtree } else { WalkAction::Descend }
    };
    while walk.step(visible, znodes(64), &mut note) {
        walk.settle();
        kept = kept.max(kept_bytes(&walk));
    }
    assert!(kept <= 2 * KEPT_BYTES_MAX, "{kept} bytes of 8,000,000");
    assert!(seen.is_sorted());
    assert_eq!(seen.len(), 8003);
}

#[test]
fn long_lists_are_sorted_between_steps() {
    let mut tree = tree(&[]);
    let count = NAMES_PER_STEP + 1;
    for number in (0..count).rev() {
        put(&mut tree, &format!("/{number:05}"), &[Acl::world(Perms::ALL)]);
    }
    let visible = tree.visible_to(&[]);
    let mut walk = TreeWalk::start(visible, "/").unwrap();
    let seen = walk_paths(&mut walk, visible, 100);
    assert!(seen.is_sorted());
    assert_eq!(seen.len(), count + 2);
    let mut listing = ChildListing::start(visible, "/").unwrap();
    assert_eq!(listing.total(), count + 1);
    let mut shown = 0;
    while listing.step(visible, znodes(100), &mut |_, znode| shown += usize::from(znode.is_some()))
    {
    }
    assert_eq!(shown, count + 1);
}

/// A tree in which many lists are longer than what a walk with a small bound keeps.
fn branching_tree() -> crate::Tree {
    let mut tree = tree(&[]);
    let mut parent = String::new();
    for depth in 0..6 {
        for number in (0..7).rev() {
            let path = format!("{parent}/{number}");
            put(&mut tree, &path, &[Acl::world(Perms::ALL)]);
            for leaf in 0..depth {
                put(&mut tree, &format!("{path}/leaf{leaf}"), &[Acl::world(Perms::ALL)]);
            }
        }
        parent += "/3";
    }
    tree
}

#[test]
fn lists_that_are_dropped_are_looked_up_again_where_the_walk_left_them() {
    let tree = branching_tree();
    let visible = tree.visible_to(&[]);
    for top in ["/", "/3", "/3/3"] {
        let expected = walk_paths(&mut TreeWalk::start(visible, top).unwrap(), visible, 9);
        for bytes_max in [0, 150, 300, 600, 1200] {
            for step in [1, 3, 100] {
                let mut walk = TreeWalk { bytes_max, ..TreeWalk::start(visible, top).unwrap() };
                assert_eq!(
                    walk_paths(&mut walk, visible, step),
                    expected,
                    "{top} {bytes_max} {step}"
                );
            }
        }
    }
}

/// Children are deleted and created while their names are looked up and visited, which changes their order.
#[test]
fn znodes_that_exist_all_the_time_are_visited_once() {
    for bytes_max in [0, 300, 1200, KEPT_BYTES_MAX] {
        let mut tree = branching_tree();
        for number in 0..200 {
            put(&mut tree, &format!("/w{number:03}"), &[Acl::world(Perms::ALL)]);
        }
        let mut walk =
            TreeWalk { bytes_max, ..TreeWalk::start(tree.visible_to(&[]), "/").unwrap() };
        let (mut seen, mut round) = (Vec::new(), 0);
        let limit = StepLimit { znodes: 3, bytes: 40 };
        loop {
            walk.settle();
            let mut note = |visit: VisitedZnode<'_>| {
                seen.push(visit.path.to_owned());
                if visit.path == "/zookeeper" {
                    WalkAction::SkipSubtree
                } else {
                    WalkAction::Descend
                }
            };
            if !walk.step(tree.visible_to(&[]), limit, &mut note) {
                break;
            }
            // Every other child is deleted, from the middle on, and some of the slots are reused.
            round += 1;
            let odd = (round * 62 + 101) % 100 * 2 + 1;
            if let Some(id) = tree.nodes.find(&format!("/w{odd:03}")) {
                tree.nodes.remove(id);
            }
            if round % 3 == 0 {
                put(&mut tree, &format!("/new{round}"), &[Acl::world(Perms::ALL)]);
            }
        }
        let mut once = seen.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), seen.len(), "{bytes_max}: something was visited twice");
        let stayed = (0..100).map(|number| format!("/w{:03}", number * 2));
        let branches = (0..7).map(|number| format!("/3/3/3/3/3/{number}/leaf4"));
        for path in stayed.chain(branches) {
            assert!(once.binary_search(&path).is_ok(), "{bytes_max}: {path} was skipped");
        }
    }
}

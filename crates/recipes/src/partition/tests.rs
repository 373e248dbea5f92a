//! Tests that the division is complete, even, and moves as little as possible.

use super::*;
use proptest::prelude::*;

fn names(prefix: &str, numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("{prefix}{number}")).collect()
}

/// Every item has one owner, and every owner is a member.
fn check_complete(assignment: &Assignment, items: &[String], members: &[String]) {
    let listed: Vec<_> = assignment.iter().map(|(member, _)| member.to_owned()).collect();
    assert_eq!(BTreeSet::from_iter(listed), members.iter().cloned().collect());
    let mut owned: Vec<_> = assignment.iter().flat_map(|(_, items)| items.clone()).collect();
    owned.sort();
    let mut wanted = if members.is_empty() { Vec::new() } else { items.to_vec() };
    wanted.sort();
    assert_eq!(owned, wanted);
}

fn check_balanced(assignment: &Assignment) {
    let shares = || assignment.iter().map(|(_, items)| items.len());
    assert!(shares().max().unwrap_or(0) - shares().min().unwrap_or(0) <= 1, "{assignment:?}");
}

/// The most items that can stay where they are, found by trying every choice of larger shares.
fn most_that_can_stay(before: &Assignment, items: &[String], members: &[String]) -> usize {
    let held: Vec<_> = members
        .iter()
        .map(|member| before.items_of(member).filter(|i| items.iter().any(|j| i == j)).count())
        .collect();
    let (small, larger) = (items.len() / members.len(), items.len() % members.len());
    (0_u32..1 << members.len())
        .filter(|choice| choice.count_ones() as usize == larger)
        .map(|choice| {
            let share = |index: usize| small + (choice >> index & 1) as usize;
            held.iter().enumerate().map(|(index, held)| share(index).min(*held)).sum()
        })
        .max()
        .unwrap()
}

fn staying(before: &Assignment, after: &Assignment) -> usize {
    before
        .iter()
        .map(|(member, items)| {
            items.iter().filter(|item| after.owner_of(item) == Some(member)).count()
        })
        .sum()
}

#[test]
fn without_members_no_item_has_an_owner() {
    let no_members: [&str; 0] = [];
    assert_eq!(rebalance(["x"], no_members, &Assignment::default()), Assignment::default());
    assert_eq!(rendezvous(["x"], no_members), Assignment::default());
    assert_eq!(rendezvous_owner("x", no_members), None);
}

#[test]
fn more_members_than_items_leaves_some_idle() {
    let shares = rebalance(["x", "y"], ["a", "b", "c"], &Assignment::default());
    assert_eq!(shares.iter().map(|(_, items)| items.len()).collect::<Vec<_>>(), [1, 1, 0]);
    assert_eq!(shares.items_of("c").count(), 0);
}

#[test]
fn a_member_that_leaves_moves_its_items_only() {
    let items = names("p", 0..12);
    let before = rebalance(&items, ["a", "b", "c"], &Assignment::default());
    let after = rebalance(&items, ["a", "c"], &before);
    assert!(before.handover(&after, "a").release.is_empty());
    assert!(before.handover(&after, "c").release.is_empty());
    let b = before.handover(&after, "b");
    assert_eq!((b.release.len(), b.acquire.len()), (4, 0));
}

#[test]
fn of_two_claims_the_first_member_by_name_counts() {
    for claims in [[("b", "x"), ("a", "x")], [("a", "x"), ("b", "x")]] {
        assert_eq!(Assignment::from_claims(claims).owner_of("x"), Some("a"));
    }
}

#[test]
fn removed_items_and_owners_are_forgotten() {
    let before = Assignment::from_claims([("a", "old"), ("gone", "x"), ("a", "y")]);
    let after = rebalance(["x", "y"], ["a", "b"], &before);
    assert_eq!(after.owner_of("old"), None);
    assert_eq!((after.owner_of("x"), after.owner_of("y")), (Some("b"), Some("a")));
}

#[test]
fn rendezvous_shares_are_equal_on_average() {
    let assignment = rendezvous(names("item-", 0..10_000), names("member-", 0..10));
    for (member, items) in assignment.iter() {
        assert!((850..1150).contains(&items.len()), "{member} has {}", items.len());
    }
}

prop_compose! {
    fn subset(prefix: &'static str, max: usize)
        (numbers in prop::collection::btree_set(0..max, 0..=max)) -> Vec<String> {
        names(prefix, numbers)
    }
}

proptest! {
    #[test]
    fn any_change_keeps_balance_and_moves_as_little_as_possible(
        old_items in subset("i", 20),
        items in subset("i", 20),
        steps in prop::collection::vec(subset("m", 6), 1..5),
        claims in prop::collection::vec((0..6_usize, 0..20_usize), 0..30),
    ) {
        let claims = claims.into_iter().map(|(m, i)| (format!("m{m}"), format!("i{i}")));
        let mut before = rebalance(&old_items, &steps[0], &Assignment::from_claims(claims));
        check_complete(&before, &old_items, &steps[0]);
        for members in &steps {
            let after = rebalance(&items, members, &before);
            check_complete(&after, &items, members);
            check_balanced(&after);
            if !members.is_empty() {
                let most = most_that_can_stay(&before, &items, members);
                prop_assert_eq!(staying(&before, &after), most);
            }
            before = after;
        }
    }

    #[test]
    fn any_claims_are_a_start(claims in prop::collection::vec((0..6_usize, 0..20_usize), 0..40)) {
        let claims = claims.into_iter().map(|(m, i)| (format!("m{m}"), format!("i{i}")));
        let before = Assignment::from_claims(claims);
        let (items, members) = (names("i", 0..17), names("m", 0..5));
        let after = rebalance(&items, &members, &before);
        check_complete(&after, &items, &members);
        check_balanced(&after);
        prop_assert_eq!(staying(&before, &after), most_that_can_stay(&before, &items, &members));
    }

    #[test]
    fn the_order_of_the_lists_does_not_matter(
        items in Just(names("i", 0..15)).prop_shuffle(),
        members in Just(names("m", 0..4)).prop_shuffle(),
    ) {
        let before = Assignment::from_claims([("m1", "i3"), ("m1", "i4"), ("m9", "i5")]);
        let sorted = rebalance(names("i", 0..15), names("m", 0..4), &before);
        prop_assert_eq!(rebalance(&items, &members, &before), sorted);
        let sorted = rendezvous(names("i", 0..15), names("m", 0..4));
        prop_assert_eq!(rendezvous(&items, &members), sorted);
    }

    #[test]
    fn rendezvous_moves_only_what_must(
        items in subset("i", 40), members in subset("m", 8), changed in 0..8_usize,
    ) {
        let changed = format!("m{changed}");
        let with = rendezvous(&items, members.iter().chain([&changed]));
        let without = rendezvous(&items, members.iter().filter(|member| **member != changed));
        for (member, items) in without.iter() {
            for item in items {
                let owner = with.owner_of(item).unwrap();
                prop_assert!(owner == member || owner == changed);
            }
        }
    }
}

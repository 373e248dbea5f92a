//! Who decides: tables, and two properties of any membership.

use std::collections::BTreeSet;

use herdsman_proto::{Membership, ServerId, Zxid};
use herdsman_zab::quorum::{Electorate, Quorum};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::network::membership;

fn ids(words: &str) -> BTreeSet<ServerId> {
    words.split_whitespace().map(|id| ServerId(id.parse().expect("a number"))).collect()
}

#[track_caller]
fn check(members: &str, is: &[&str], is_not: &[&str]) {
    let quorum = Quorum::of(&membership(members));
    for set in is {
        assert!(quorum.is_quorum(|id| ids(set).contains(&id)), "{set} of {members}");
    }
    for set in is_not {
        assert!(!quorum.is_quorum(|id| ids(set).contains(&id)), "{set} of {members}");
    }
}

#[test]
fn more_than_half_of_the_voters_decide() {
    check("1", &["1"], &["", "2"]);
    check("1 2", &["1 2"], &["1", "2"]);
    check("1 2 3", &["1 2", "2 3", "1 2 3"], &["1", "3", ""]);
    check("1 2 3 4", &["1 2 3"], &["1 2", "3 4"]);
    check("1 2 3 4 5", &["1 3 5"], &["2 4"]);
}

#[test]
fn observers_and_strangers_never_decide() {
    check("1 2 3 4o 5o", &["1 2 4 5"], &["1 4 5", "1 6 7 8"]);
}

#[test]
fn more_than_half_of_the_groups_decide() {
    let nine = "1 2 3 4 5 6 7 8 9 group 1:2:3 group 4:5:6 group 7:8:9";
    check(nine, &["1 2 4 5", "1 3 7 9", "1 2 4 5 7"], &["1 2 3", "1 2 3 4 7", "1 4 7"]);
    // Of two groups both are needed.
    check("1 2 3 4 group 1:2 group 3:4", &["1 2 3 4"], &["1 2", "1 2 3"]);
}

#[test]
fn weights_count_inside_a_group() {
    let heavy = "1 2 3 group 1:2:3 weight 1=3";
    check(heavy, &["1", "1 2"], &["2 3"]);
    // Exactly half is not enough.
    check("1 2 group 1:2 weight 1=1 weight 2=1", &["1 2"], &["1", "2"]);
    check("1 2 3 group 1:2:3 weight 1=2", &["1 2"], &["1", "2 3"]);
}

#[test]
fn a_group_without_weight_does_not_count() {
    let far = "1 2 3 4 5 group 1:2:3 group 4:5 weight 4=0 weight 5=0";
    check(far, &["1 2"], &["4 5", "1 4 5"]);
    let quorum = Quorum::of(&membership(far));
    assert!(quorum.is_voter(ServerId(4)));
    assert_eq!((quorum.weight(ServerId(4)), quorum.weight(ServerId(1))), (0, 1));
    // Without any weight nobody can decide anything.
    check("1 2 group 1:2 weight 1=0 weight 2=0", &[], &["", "1 2"]);
}

#[test]
fn a_weight_without_a_vote_makes_its_group_heavier() {
    check("1 2 3 4o group 1:2:3:4 weight 4=1", &["1 2 3"], &["1 2", "1 2 4"]);
    let never = Quorum::of(&membership("1 2o group 1:2 weight 2=5"));
    assert_eq!(never.agreed(|_| Zxid(7)), Zxid::ZERO);
}

#[test]
fn agreed_is_the_last_zxid_of_a_quorum() {
    for (members, acked, expected) in [
        ("1", &[5][..], 5),
        ("1 2", &[5, 9], 5),
        ("1 2 3", &[5, 9, 7], 7),
        ("1 2 3", &[5, 0, 0], 0),
        ("1 2 3 4", &[5, 9, 7, 8], 7),
        ("1 2 3 4 5", &[1, 2, 3, 4, 5], 3),
        ("1 2 3 4o", &[1, 2, 3, 9], 2),
        ("1 2 3 group 1:2:3 weight 1=3", &[4, 9, 9], 4),
        ("1 2 3 4 5 6 group 1:2 group 3:4 group 5:6", &[1, 2, 3, 4, 5, 6], 3),
        ("1 2 3 4 group 1:2 group 3:4", &[1, 2, 3, 4], 1),
        ("1 2 3 4 group 1:2:3 group 4 weight 4=0", &[1, 2, 3, 9], 2),
    ] {
        let quorum = Quorum::of(&membership(members));
        let agreed = quorum.agreed(|id| Zxid(acked[id.0 as usize - 1]));
        assert_eq!(agreed, Zxid(expected), "{members} {acked:?}");
    }
}

#[test]
fn a_change_of_membership_needs_both_quorums() {
    let current = membership("1 2 3 v 10");
    let electorate = Electorate::during_change(&current, Some(&membership("3 4 5 v 20")));
    let decides = |set: &str| electorate.is_quorum(|id| ids(set).contains(&id));
    assert!(decides("1 3 4") && decides("1 2 4 5"));
    assert!(!decides("1 2 3") && !decides("3 4 5"));
    assert_eq!(electorate.voters().collect::<BTreeSet<_>>(), ids("1 2 3 4 5"));
    assert!(electorate.is_voter(ServerId(5)) && !electorate.is_voter(ServerId(6)));
    assert_eq!(electorate.agreed(|id| Zxid(id.0)), Zxid(2));
    assert_eq!(electorate.agreed(|id| Zxid(10 - id.0)), Zxid(6));
    assert_eq!(electorate.version(), 0x10);

    let old = Electorate::during_change(&current, Some(&membership("3 4 5 v f")));
    assert_eq!(old, Electorate::of(&current), "only a newer membership counts");
}

#[test]
fn the_membership_in_force_says_who_may_lead() {
    let current = membership("1 2 3o group 1:2 weight 2=0 v 1");
    let electorate = Electorate::during_change(&current, Some(&membership("1 2 3 4 v 2")));
    let electable: Vec<_> = (1..=5).filter(|id| electorate.is_electable(ServerId(*id))).collect();
    assert_eq!(electable, [1, 3, 4]);
}

/// Servers 1 to N in groups of random weights, one of them perhaps an observer with a weight.
fn hierarchy() -> impl Strategy<Value = Membership> {
    vec((0_i64..4, 0_i64..4), 1..8).prop_map(|servers| {
        let mut membership = membership("1");
        let template = membership.members[&ServerId(1)].clone();
        membership.members.clear();
        for (index, (group, weight)) in servers.into_iter().enumerate() {
            let id = ServerId(index as i64 + 1);
            membership.members.insert(id, template.clone());
            membership.groups.entry(group).or_default().push(id);
            membership.weights.insert(id, weight);
        }
        membership
    })
}

fn any_membership() -> impl Strategy<Value = Membership> {
    (hierarchy(), any::<bool>()).prop_map(|(mut membership, flat)| {
        if flat {
            membership.groups.clear();
            membership.weights.clear();
        }
        membership
    })
}

/// By trying every zxid that somebody has acknowledged.
fn agreed_by_trial(quorum: &Quorum, acked: &[i64]) -> Zxid {
    let last = |id: ServerId| acked[id.0 as usize - 1];
    let tried = acked.iter().copied().filter(|zxid| quorum.is_quorum(|id| last(id) >= *zxid));
    Zxid(tried.max().unwrap_or(0))
}

proptest! {
    #[test]
    fn agreed_is_what_trial_finds(members in any_membership(), acked in vec(0_i64..6, 8)) {
        let quorum = Quorum::of(&members);
        let expected = agreed_by_trial(&quorum, &acked);
        prop_assert_eq!(quorum.agreed(|id| Zxid(acked[id.0 as usize - 1])), expected);
    }

    #[test]
    fn two_quorums_share_a_voter(members in any_membership(), one in 0_u8.., other in 0_u8..) {
        let quorum = Quorum::of(&members);
        let is_quorum = |set: u8| quorum.is_quorum(|id| set & 1 << (id.0 - 1) != 0);
        if is_quorum(one) && is_quorum(other) {
            prop_assert!(quorum.voters().any(|id| one & other & 1 << (id.0 - 1) != 0));
        }
    }
}

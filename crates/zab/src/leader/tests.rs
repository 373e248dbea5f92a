//! A leader by itself, packet by packet.

use herdsman_proto::EPOCH_MAX;
use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};

use super::*;
use crate::replica::EPOCHS_AHEAD_MAX;
use crate::testing;

fn replica() -> Replica {
    testing::replica(1, Zxid::ZERO, &[])
}

fn introduce(leader: &mut Leader, replica: &mut Replica, server: i64, kind: LearnerKind) {
    introduce_with(leader, replica, server, kind, 1);
}

fn introduce_with(
    leader: &mut Leader,
    replica: &mut Replica,
    server: i64,
    kind: LearnerKind,
    accepted_epoch: u32,
) {
    introduce_at(0, leader, replica, server, kind, accepted_epoch);
}

fn introduce_at(
    now_ms: u64,
    leader: &mut Leader,
    replica: &mut Replica,
    server: i64,
    kind: LearnerKind,
    accepted_epoch: u32,
) {
    introduce_on(now_ms, leader, replica, server as u64, server, kind, accepted_epoch);
}

fn introduce_on(
    now_ms: u64,
    leader: &mut Leader,
    replica: &mut Replica,
    link: u64,
    server: i64,
    kind: LearnerKind,
    accepted_epoch: u32,
) {
    let link = LinkId(link);
    let info = LearnerInfo {
        server: ServerId(server),
        protocol_version: PROTOCOL_VERSION,
        config_version: 0,
    };
    let packet = QuorumPacket::Info { kind, accepted_epoch, info: Some(info) };
    leader.handle_link_opened(now_ms, link, replica);
    leader.handle_packet(now_ms, link, packet, replica, &mut Vec::new());
}

fn promise(leader: &mut Leader, replica: &mut Replica, server: u64, current_epoch: Option<u32>) {
    let packet = QuorumPacket::AckEpoch { last_zxid: Zxid::ZERO, current_epoch };
    leader.handle_packet(0, LinkId(server), packet, replica, &mut Vec::new());
}

/// A leader that has announced epoch 2 to 2.
fn with_epoch(replica: &mut Replica) -> Leader {
    let mut leader = Leader::begin(0, replica);
    introduce(&mut leader, replica, 2, LearnerKind::Follower);
    assert_eq!(leader.stage, Stage::SavingAcceptedEpoch);
    replica.epochs.accepted = leader.epoch();
    leader.handle_epoch_saved(0, EpochKind::Accepted, replica, &mut Vec::new());
    leader
}

#[test]
fn an_epoch_that_no_quorum_can_promise_is_given_up() {
    let mut replica = replica();
    let mut leader = with_epoch(&mut replica);
    introduce(&mut leader, &mut replica, 3, LearnerKind::Follower);
    promise(&mut leader, &mut replica, 3, None);
    assert!(!leader.is_outbid(&replica), "2 may still promise");
    leader.handle_link_lost(LinkId(2)).unwrap();
    assert!(leader.is_outbid(&replica), "only 3 is left, and it cannot");
}

#[test]
fn a_voter_that_may_not_vote_does_not_count() {
    let mut replica = replica();
    let mut leader = with_epoch(&mut replica);
    introduce(&mut leader, &mut replica, 3, LearnerKind::Observer);
    promise(&mut leader, &mut replica, 3, Some(1));
    assert_eq!(leader.stage, Stage::AwaitingEpochAcks);
    promise(&mut leader, &mut replica, 2, Some(1));
    assert_eq!(leader.stage, Stage::AwaitingNewLeaderAcks);
}

/// 3 says at each of these times that it has promised this epoch, and is refused.
fn claim(leader: &mut Leader, replica: &mut Replica, times_ms: &[u64], epoch: u32) {
    for now_ms in times_ms {
        introduce_at(*now_ms, leader, replica, 3, LearnerKind::Follower, epoch);
        leader.handle_link_lost(LinkId(3)).unwrap();
    }
}

/// A voter that has promised a much later epoch costs one term, not one for each epoch in between.
#[test]
fn the_next_term_is_above_what_a_late_voter_has_promised() {
    let mut replica = replica();
    let mut leader = with_epoch(&mut replica);
    claim(&mut leader, &mut replica, &[0, 50, 100], 500);
    assert!(leader.is_outbid(&replica));
    let leader = with_epoch(&mut replica);
    assert_eq!(leader.epoch(), 501);
}

/// Anybody can send one packet with a voter's number.
#[test]
fn a_claim_that_is_not_repeated_for_a_tick_ends_no_term() {
    for times_ms in [&[0][..], &[0, 1, 2, 99], &[0, 20_000, 40_000]] {
        let mut replica = replica();
        let mut leader = with_epoch(&mut replica);
        claim(&mut leader, &mut replica, times_ms, 500);
        assert!(!leader.is_outbid(&replica), "{times_ms:?}");
        let leader = with_epoch(&mut replica);
        assert_eq!(leader.epoch(), 3, "nor does the next one begin above it");
    }
}

#[test]
fn a_server_is_not_outbid_over_and_over() {
    let mut replica = replica();
    let mut leader = with_epoch(&mut replica);
    claim(&mut leader, &mut replica, &[0, 100], 500);
    assert!(leader.is_outbid(&replica));
    let mut leader = with_epoch(&mut replica);
    claim(&mut leader, &mut replica, &[200, 300, 6000, 6099], 600);
    assert!(!leader.is_outbid(&replica));
    claim(&mut leader, &mut replica, &[6100], 600);
    assert!(leader.is_outbid(&replica));
}

/// A voter may be ahead by the attempts to lead that this server has missed, but no further.
#[test]
fn a_voter_with_an_implausible_epoch_is_dismissed() {
    for (accepted_epoch, is_taken) in [(1 + EPOCHS_AHEAD_MAX, true), (2 + EPOCHS_AHEAD_MAX, false)]
    {
        for kind in [LearnerKind::Follower, LearnerKind::Observer] {
            let mut replica = replica();
            let mut leader = Leader::begin(0, &replica);
            introduce_with(&mut leader, &mut replica, 3, kind, accepted_epoch);
            assert_eq!(leader.learners.contains_key(&LinkId(3)), is_taken);
            introduce(&mut leader, &mut replica, 2, LearnerKind::Follower);
            assert_eq!(leader.epoch(), if is_taken { accepted_epoch + 1 } else { 2 });
        }
    }
}

/// What an observer or a server that is not listed has promised binds no quorum.
#[test]
fn only_voters_raise_the_epoch() {
    for server in [4, 77] {
        for accepted_epoch in [500, EPOCH_MAX - 1] {
            let mut replica = replica();
            let mut leader = Leader::begin(0, &replica);
            introduce_with(
                &mut leader,
                &mut replica,
                server,
                LearnerKind::Observer,
                accepted_epoch,
            );
            introduce_with(
                &mut leader,
                &mut replica,
                server,
                LearnerKind::Follower,
                accepted_epoch,
            );
            introduce(&mut leader, &mut replica, 2, LearnerKind::Follower);
            assert_eq!(leader.epoch(), 2);
            assert!(!leader.is_outbid(&replica));
        }
    }
}

/// There is no panic and no epoch that nobody could remember: the leader says why and gives up.
#[test]
fn the_last_epoch_is_never_passed() {
    let last = EPOCH_MAX - 1;
    for (accepted, next) in [(last - 1, Some(last)), (last, None)] {
        let mut replica = replica();
        replica.epochs.accepted = accepted;
        let mut leader = Leader::begin(0, &replica);
        introduce(&mut leader, &mut replica, 2, LearnerKind::Follower);
        assert_eq!(leader.next_epoch(&replica), next);
        let is_chosen = leader.stage == Stage::SavingAcceptedEpoch;
        assert_eq!(is_chosen, next.is_some());
        let fall = leader.tick(500, &replica, &mut Vec::new());
        assert_eq!(fall, Err(if is_chosen { Fall::NoQuorum } else { Fall::NoEpochLeft }));
    }
}

//! A leader by itself, packet by packet.

use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};

use super::*;
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
    let link = LinkId(server as u64);
    let info = LearnerInfo {
        server: ServerId(server),
        protocol_version: PROTOCOL_VERSION,
        config_version: 0,
    };
    let packet = QuorumPacket::Info { kind, accepted_epoch, info: Some(info) };
    leader.handle_link_opened(0, link, replica);
    leader.handle_packet(0, link, packet, replica, &mut Vec::new());
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

/// A voter that has promised a much later epoch costs one term, not one for each epoch in between.
#[test]
fn the_next_term_is_above_what_a_late_voter_has_promised() {
    let mut replica = replica();
    let mut leader = with_epoch(&mut replica);
    introduce_with(&mut leader, &mut replica, 3, LearnerKind::Follower, 500);
    assert!(leader.is_outbid(&replica));
    let leader = with_epoch(&mut replica);
    assert_eq!(leader.epoch(), 501);
}

/// After the last epoch there are no zxids, so no real server can have promised it.
#[test]
fn a_learner_with_an_impossible_epoch_is_dismissed() {
    for (kind, accepted_epoch) in
        [(LearnerKind::Observer, u32::MAX), (LearnerKind::Follower, i32::MAX as u32 - 1)]
    {
        let mut replica = replica();
        let mut leader = Leader::begin(0, &replica);
        introduce_with(&mut leader, &mut replica, 3, kind, accepted_epoch);
        assert!(leader.learners.is_empty());
        introduce(&mut leader, &mut replica, 2, LearnerKind::Follower);
        assert_eq!(leader.epoch(), 2);
    }
}

//! A leader by itself, packet by packet.

use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};
use herdsman_proto::{EPOCH_MAX, Membership};

use std::sync::Arc;

use super::broadcast::SYNCS_MAX;
use super::*;
use crate::history::HistoryLimits;
use crate::learner_peer::needed_after;
use crate::log::{Log, LogStorage};
use crate::memberships::Memberships;
use crate::replica::{EPOCHS_AHEAD_MAX, EPOCHS_RAISED_MAX};
use crate::settings::Reconfig;
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

fn lose(leader: &mut Leader, replica: &mut Replica, link: u64) {
    leader.handle_link_lost(0, LinkId(link), replica, &mut Vec::new()).unwrap();
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

/// A leader that this server follows.
fn established(replica: &mut Replica, server: u64) -> Leader {
    let mut leader = Leader::begin(0, replica);
    introduce(&mut leader, replica, server as i64, LearnerKind::Follower);
    replica.epochs.accepted = leader.epoch();
    leader.handle_epoch_saved(0, EpochKind::Accepted, replica, &mut Vec::new());
    promise(&mut leader, replica, server, Some(1));
    replica.epochs.current = leader.epoch();
    leader.handle_epoch_saved(0, EpochKind::Current, replica, &mut Vec::new());
    // If it was sent a tree.
    leader.handle_sent(0, LinkId(server), None, replica, &mut Vec::new());
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(leader.epoch()) };
    leader.handle_packet(0, LinkId(server), ack, replica, &mut Vec::new());
    assert!(leader.is_established());
    leader
}

#[test]
fn an_epoch_that_no_quorum_can_promise_is_given_up() {
    let mut replica = replica();
    let mut leader = with_epoch(&mut replica);
    introduce(&mut leader, &mut replica, 3, LearnerKind::Follower);
    promise(&mut leader, &mut replica, 3, None);
    leader.tick(100, &mut replica, &mut Vec::new()).expect("2 may still promise");
    lose(&mut leader, &mut replica, 2);
    let reason = leader.tick(200, &mut replica, &mut Vec::new());
    assert_eq!(reason, Err(StepDownReason::EpochOutbid), "only 3 is left, and it cannot");
}

/// Anybody can be faster than the voters that promise it.
#[test]
fn an_epoch_is_not_given_up_within_a_tick() {
    let mut replica = replica();
    let mut leader = Leader::begin(0, &replica);
    introduce_at(90, &mut leader, &mut replica, 3, LearnerKind::Follower, 1);
    replica.epochs.accepted = leader.epoch();
    leader.handle_epoch_saved(90, EpochKind::Accepted, &mut replica, &mut Vec::new());
    promise(&mut leader, &mut replica, 3, None);
    assert!(!leader.is_outbid());
    leader.tick(100, &mut replica, &mut Vec::new()).expect("the epoch is new");
    introduce_at(110, &mut leader, &mut replica, 2, LearnerKind::Follower, 1);
    leader.tick(200, &mut replica, &mut Vec::new()).expect("2 may still promise");
    promise(&mut leader, &mut replica, 2, Some(1));
    assert_eq!(leader.stage, Stage::AwaitingNewLeaderAcks);
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
    claim_as(LearnerKind::Follower, leader, replica, times_ms, epoch);
}

fn claim_as(
    kind: LearnerKind,
    leader: &mut Leader,
    replica: &mut Replica,
    times_ms: &[u64],
    epoch: u32,
) {
    for now_ms in times_ms {
        introduce_at(*now_ms, leader, replica, 3, kind, epoch);
        lose(leader, replica, 3);
    }
}

/// It keeps its promise, so it can neither vote nor be brought up to date in an earlier epoch.
#[test]
fn a_voter_that_may_not_vote_can_claim_a_later_epoch() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 2);
    claim_as(LearnerKind::Observer, &mut leader, &mut replica, &[10, 60, 110], 500);
    assert!(leader.is_outbid());
    assert_eq!(with_epoch(&mut replica).epoch(), 501);
}

/// A voter whose log is in memory, which its own promise does not bind.
#[test]
fn a_voter_that_observes_needs_no_later_epoch() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 2);
    introduce(&mut leader, &mut replica, 3, LearnerKind::Observer);
    promise(&mut leader, &mut replica, 3, None);
    leader.handle_sent(0, LinkId(3), None, &replica, &mut Vec::new());
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(leader.epoch()) };
    leader.handle_packet(0, LinkId(3), ack, &mut replica, &mut Vec::new());
    for (link, now_ms) in [(10, 10), (11, 60), (12, 110)] {
        introduce_on(now_ms, &mut leader, &mut replica, link, 3, LearnerKind::Observer, 500);
    }
    assert!(!leader.is_outbid());
}

/// A voter that has promised a much later epoch costs one term, not one for each epoch in between.
#[test]
fn the_next_term_is_above_what_a_late_voter_has_promised() {
    let mut replica = replica();
    let mut leader = with_epoch(&mut replica);
    claim(&mut leader, &mut replica, &[0, 50, 100], 500);
    assert!(leader.is_outbid());
    let leader = with_epoch(&mut replica);
    assert_eq!(leader.epoch(), 501);
}

/// A leader that lacks the voters that are ahead may not last a tick, and so may the next ones.
#[test]
fn claims_outlive_a_leaders_term() {
    let mut replica = replica();
    for now_ms in [0, 50] {
        let mut leader = with_epoch(&mut replica);
        claim(&mut leader, &mut replica, &[now_ms], 500);
        assert!(!leader.is_outbid());
    }
    let mut leader = with_epoch(&mut replica);
    claim(&mut leader, &mut replica, &[100], 500);
    assert!(leader.is_outbid());
}

/// Otherwise a host that steps in for a voter would use up the epochs in a few thousand step-downs.
#[test]
fn a_claim_raises_the_epoch_by_a_limited_number() {
    let mut replica = replica();
    let claimed = 2 + EPOCHS_AHEAD_MAX;
    let mut now_ms = 0;
    for step_downs in 1..=16 {
        let mut leader = with_epoch(&mut replica);
        claim(&mut leader, &mut replica, &[now_ms, now_ms + 100], claimed);
        assert!(leader.is_outbid());
        let raised_max = 2 + step_downs * (EPOCHS_RAISED_MAX + 1);
        assert_eq!(replica.promised_by_voters, claimed.min(raised_max - 1));
        now_ms += 6100;
    }
    assert_eq!(replica.promised_by_voters, claimed, "a real one can follow at last");
}

/// Anybody can send one packet with a voter's number.
#[test]
fn a_claim_that_is_not_repeated_for_a_tick_ends_no_term() {
    for times_ms in [&[0][..], &[0, 1, 2, 99], &[0, 20_000, 40_000]] {
        let mut replica = replica();
        let mut leader = with_epoch(&mut replica);
        claim(&mut leader, &mut replica, times_ms, 500);
        assert!(!leader.is_outbid(), "{times_ms:?}");
        let leader = with_epoch(&mut replica);
        assert_eq!(leader.epoch(), 3, "nor does the next one begin above it");
    }
}

#[test]
fn a_voter_that_follows_has_promised_no_later_epoch() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 3);
    let claims_ms = [0, 50, 100, 150].map(|ms| ms + 10);
    for (link, now_ms) in (10..).zip(claims_ms) {
        introduce_on(now_ms, &mut leader, &mut replica, link, 3, LearnerKind::Follower, 500);
    }
    assert!(!leader.is_outbid());
    assert!(leader.is_active(LinkId(3)));
}

#[test]
fn a_server_is_not_outbid_over_and_over() {
    let mut replica = replica();
    let mut leader = with_epoch(&mut replica);
    claim(&mut leader, &mut replica, &[0, 100], 500);
    assert!(leader.is_outbid());
    let mut leader = with_epoch(&mut replica);
    claim(&mut leader, &mut replica, &[200, 300, 6000, 6099], 600);
    assert!(!leader.is_outbid());
    claim(&mut leader, &mut replica, &[6100], 600);
    assert!(leader.is_outbid());
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
            assert_eq!(leader.epoch(), 2);
        }
    }
}

/// A leader whose epoch a voter's word has raised as far as it can, and that failed, is not shut out by the next one.
#[test]
fn a_raised_epoch_is_not_implausible_to_others() {
    let mut one = replica();
    let mut leader = Leader::begin(0, &one);
    let claimed = 1 + EPOCHS_RAISED_MAX;
    introduce_with(&mut leader, &mut one, 3, LearnerKind::Follower, claimed);
    introduce(&mut leader, &mut one, 2, LearnerKind::Follower);
    assert_eq!(leader.epoch(), claimed + 1);

    let mut other = replica();
    let mut next = with_epoch(&mut other);
    claim(&mut next, &mut other, &[0, 100], claimed + 1);
    assert!(next.is_outbid());
    let mut next = Leader::begin(200, &other);
    introduce_with(&mut next, &mut other, 3, LearnerKind::Follower, claimed + 1);
    introduce(&mut next, &mut other, 2, LearnerKind::Follower);
    assert_eq!(next.epoch(), claimed + 2);
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
            assert!(!leader.is_outbid());
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
        let reason = leader.tick(500, &mut replica, &mut Vec::new());
        assert_eq!(
            reason,
            Err(if is_chosen { StepDownReason::NoQuorum } else { StepDownReason::NoEpochLeft })
        );
    }
}

/// Server 2 follows on link 2, and at 10 ms somebody says on link 9 that it is server 2, and promises the epoch.
fn contested(replica: &mut Replica) -> Leader {
    let mut leader = established(replica, 2);
    introduce_on(10, &mut leader, replica, 9, 2, LearnerKind::Follower, 2);
    assert!(leader.is_active(LinkId(2)), "a word is not enough");
    let packet = QuorumPacket::AckEpoch { last_zxid: Zxid::ZERO, current_epoch: Some(1) };
    leader.handle_packet(10, LinkId(9), packet, replica, &mut Vec::new());
    assert!(leader.is_active(LinkId(2)), "nor is a promise");
    assert_eq!(leader.learners[&LinkId(9)].step, Step::Contesting);
    leader
}

fn links(leader: &Leader) -> Vec<u64> {
    leader.learners.keys().map(|link| link.0).collect()
}

#[test]
fn a_newcomer_with_the_number_of_a_server_that_follows_is_dismissed() {
    let mut replica = replica();
    let mut leader = contested(&mut replica);
    leader.handle_heard(60, LinkId(2));
    let mut out = Vec::new();
    leader.tick(100, &mut replica, &mut out).unwrap();
    let reason = CloseReason::AlreadyConnected;
    assert!(out.contains(&Output::Close { link: LinkId(9), reason }), "{out:?}");
    assert_eq!(links(&leader), [2]);
}

/// Its host has crashed and is back, so nothing ends the older link.
#[test]
fn a_server_that_connects_again_waits_a_tick_for_its_silent_link() {
    let mut replica = replica();
    let mut leader = contested(&mut replica);
    leader.tick(100, &mut replica, &mut Vec::new()).unwrap();
    assert_eq!(links(&leader), [2, 9]);
    let mut out = Vec::new();
    leader.tick(200, &mut replica, &mut out).unwrap();
    let reason = CloseReason::Replaced;
    assert!(out.contains(&Output::Close { link: LinkId(2), reason }), "{out:?}");
    assert_eq!(links(&leader), [9]);
    assert_eq!(leader.learners[&LinkId(9)].step, Step::Syncing);
}

#[test]
fn a_server_that_connects_again_waits_no_longer_than_its_lost_link() {
    let mut replica = replica();
    let mut leader = contested(&mut replica);
    lose(&mut leader, &mut replica, 2);
    assert_eq!(links(&leader), [9]);
    assert_eq!(leader.learners[&LinkId(9)].step, Step::Syncing);
}

/// Two links wait for the older one of their server, and it is lost.
#[test]
fn of_several_newcomers_the_newest_goes_on() {
    let mut replica = replica();
    let mut leader = contested(&mut replica);
    introduce_on(20, &mut leader, &mut replica, 10, 2, LearnerKind::Follower, 2);
    promise(&mut leader, &mut replica, 10, Some(1));
    lose(&mut leader, &mut replica, 2);
    assert_eq!(leader.learners[&LinkId(10)].step, Step::Syncing);
    assert_eq!(leader.learners[&LinkId(9)].step, Step::Contesting);
}

/// A leader with a history that begins at a tree. 3 has promised the epoch and is being sent that tree.
fn sending_a_tree(replica: &mut Replica) -> Leader {
    *replica = testing::replica(1, testing::zxid(1, 50), &[]);
    let mut leader = established(replica, 2);
    introduce(&mut leader, replica, 3, LearnerKind::Follower);
    promise(&mut leader, replica, 3, Some(1));
    assert_eq!(leader.learners[&LinkId(3)].step, Step::Sending);
    leader
}

fn sent(out: &[Output], link: u64) -> Vec<QuorumPacket> {
    let to_link = out.iter().filter_map(|output| match output {
        Output::Send { link: to, packet } if *to == LinkId(link) => Some(packet.clone()),
        _ => None,
    });
    to_link.collect()
}

/// Proposes so many txns of epoch 2, commits and applies them.
fn commit(leader: &mut Leader, replica: &mut Replica, counters: std::ops::RangeInclusive<i64>) {
    for counter in counters {
        let (zxid, out) = (testing::zxid(2, counter), &mut Vec::new());
        leader.propose(0, zxid, "txn".into(), replica, out);
        assert!(sent(out, 3).is_empty(), "nothing is queued for who is being sent something");
        replica.log.handle_flushed(zxid, out);
        leader.handle_packet(0, LinkId(2), QuorumPacket::Ack { zxid }, replica, out);
        assert!(sent(out, 3).is_empty());
        replica.log.handle_applied(zxid, false);
    }
}

/// 3 has promised the epoch; its log ends with this txn.
fn behind(leader: &mut Leader, replica: &mut Replica, last_zxid: Zxid) -> Vec<Output> {
    introduce(leader, replica, 3, LearnerKind::Follower);
    let packet = QuorumPacket::AckEpoch { last_zxid, current_epoch: Some(1) };
    let mut out = Vec::new();
    leader.handle_packet(0, LinkId(3), packet, replica, &mut out);
    out
}

/// The window has ten txns, and more are applied while a part of the log is sent.
#[test]
fn a_learner_behind_the_window_gets_the_log_in_parts() {
    let mut replica = testing::replica(1, testing::zxid(1, 50), &[]);
    let mut leader = established(&mut replica, 2);
    commit(&mut leader, &mut replica, 1..=20);
    let (link, after) = (LinkId(3), testing::zxid(1, 40));
    let out = behind(&mut leader, &mut replica, after);
    let to = testing::zxid(2, 20);
    assert_eq!(out, [Output::SendLog { link, after, to, diff: Some(to) }]);
    assert_eq!(needed_after(&leader.learners, 0), Some(after));

    commit(&mut leader, &mut replica, 21..=40);
    let mut out = Vec::new();
    leader.handle_sent(0, link, Some(to), &replica, &mut out);
    let (after, to) = (to, testing::zxid(2, 40));
    assert_eq!(out, [Output::SendLog { link, after, to, diff: None }]);
    assert_eq!(needed_after(&leader.learners, 0), Some(after));

    commit(&mut leader, &mut replica, 41..=45);
    leader.propose(0, testing::zxid(2, 46), "txn".into(), &mut replica, &mut Vec::new());
    let mut out = Vec::new();
    leader.handle_sent(0, link, Some(to), &replica, &mut out);
    let packets = sent(&out, 3);
    assert_eq!(proposed_and_committed(&packets), (5, 5));
    assert!(matches!(packets.last(), Some(QuorumPacket::NewLeader { .. })));
    assert_eq!(packets.len(), 11);
    assert_eq!(needed_after(&leader.learners, 0), Some(testing::zxid(2, 45)));

    let mut out = Vec::new();
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(2) };
    leader.handle_packet(0, link, ack, &mut replica, &mut out);
    let packets = sent(&out, 3);
    assert_eq!(proposed_and_committed(&packets), (1, 0));
    assert_eq!(packets.last(), Some(&QuorumPacket::UpToDate));
    assert_eq!(needed_after(&leader.learners, 0), None);
}

fn proposed_and_committed(packets: &[QuorumPacket]) -> (usize, usize) {
    let proposed = packets.iter().filter(|packet| matches!(packet, QuorumPacket::Proposal { .. }));
    let committed = packets.iter().filter(|packet| matches!(packet, QuorumPacket::Commit { .. }));
    (proposed.count(), committed.count())
}

/// Nothing gathers for it while it stores a tree.
#[test]
fn what_comes_while_a_learner_stores_a_tree_is_sent_when_it_has() {
    let mut replica = replica();
    let mut leader = sending_a_tree(&mut replica);
    let link = LinkId(3);
    leader.handle_sent(0, link, None, &replica, &mut Vec::new());
    commit(&mut leader, &mut replica, 1..=30);
    let mut out = Vec::new();
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(2) };
    leader.handle_packet(0, link, ack, &mut replica, &mut out);
    let (after, to) = (testing::zxid(1, 50), testing::zxid(2, 30));
    assert_eq!(out, [Output::SendLog { link, after, to, diff: None }]);
    let mut out = Vec::new();
    leader.handle_sent(0, link, Some(to), &replica, &mut out);
    assert_eq!(sent(&out, 3), [QuorumPacket::UpToDate]);
    assert!(leader.is_active(link));
}

/// Apache's followers up to 3.9.2 do that with long DIFFs.
#[test]
fn an_early_acknowledgement_counts_only_with_that_of_newleader() {
    let mut replica = testing::replica(1, testing::zxid(1, 50), &[]);
    let mut leader = established(&mut replica, 2);
    commit(&mut leader, &mut replica, 1..=5);
    let link = LinkId(3);
    behind(&mut leader, &mut replica, testing::zxid(1, 50));
    let mut out = Vec::new();
    let ack = |zxid| QuorumPacket::Ack { zxid };
    leader.handle_packet(0, link, ack(testing::zxid(2, 3)), &mut replica, &mut out);
    assert_eq!((out.as_slice(), leader.learners[&link].acked), (&[][..], Zxid::ZERO));
    leader.handle_packet(0, link, ack(Zxid::start_of(2)), &mut replica, &mut out);
    assert_eq!(leader.learners[&link].acked, testing::zxid(2, 5));
}

/// What is queued for it has to be read before it can give a sign of life.
#[test]
fn a_large_rest_comes_from_the_log() {
    let mut replica = testing::replica(1, testing::zxid(1, 50), &[]);
    replica.log = Log::new(
        LogStorage::OnDisk,
        HistoryLimits { txns_max: 10, bytes_max: 100 << 20 },
        testing::zxid(1, 50),
        Vec::new(),
    );
    let mut leader = established(&mut replica, 2);
    let zxid = testing::zxid(2, 1);
    leader.propose(0, zxid, vec![0; 9 << 20].into(), &mut replica, &mut Vec::new());
    replica.log.handle_flushed(zxid, &mut Vec::new());
    leader.handle_packet(0, LinkId(2), QuorumPacket::Ack { zxid }, &mut replica, &mut Vec::new());
    let (link, after) = (LinkId(3), testing::zxid(1, 50));
    let out = behind(&mut leader, &mut replica, after);
    let diff = Output::Send { link, packet: QuorumPacket::Diff { zxid } };
    assert_eq!(out, [diff, Output::SendLog { link, after, to: zxid, diff: None }]);
}

/// A COMMIT by itself does not put a membership in force.
#[test]
fn a_learner_that_missed_a_new_membership_has_to_come_again() {
    let mut replica = replica();
    let mut leader = sending_a_tree(&mut replica);
    let link = LinkId(3);
    leader.handle_sent(0, link, None, &replica, &mut Vec::new());
    let next = Membership { version: 6, ..(**replica.memberships.in_force()).clone() };
    replica.memberships =
        Memberships::new(ServerId(1), Reconfig::Enabled(|_| None), Arc::new(next));
    let mut out = Vec::new();
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(2) };
    leader.handle_packet(0, link, ack, &mut replica, &mut out);
    let reason = CloseReason::MembershipChanged;
    assert_eq!(out, [Output::Close { link, reason }]);
}

#[test]
fn a_learner_that_the_log_does_not_help_gets_a_tree_and_what_came_meanwhile() {
    let mut replica = testing::replica(1, testing::zxid(1, 50), &[]);
    let mut leader = established(&mut replica, 2);
    commit(&mut leader, &mut replica, 1..=20);
    let link = LinkId(3);
    behind(&mut leader, &mut replica, testing::zxid(1, 40));
    let mut out = Vec::new();
    leader.handle_log_missed(link, &replica, &mut out);
    assert_eq!(out, [Output::SendSnapshot { link, zxid: testing::zxid(2, 20) }]);
    commit(&mut leader, &mut replica, 21..=25);
    let mut out = Vec::new();
    leader.handle_sent(0, link, None, &replica, &mut out);
    let packets = sent(&out, 3);
    assert_eq!(packets.len(), 2 * 5 + 1, "{packets:?}");
    assert_eq!(leader.learners[&link].synced_to, testing::zxid(2, 25));
}

/// Somebody says on link 9 that it is server 3, and promises the epoch.
fn contest_3(now_ms: u64, leader: &mut Leader, replica: &mut Replica) {
    introduce_on(now_ms, leader, replica, 9, 3, LearnerKind::Follower, 1);
    let packet = QuorumPacket::AckEpoch { last_zxid: Zxid::ZERO, current_epoch: Some(1) };
    leader.handle_packet(now_ms, LinkId(9), packet, replica, &mut Vec::new());
}

fn tick_with_2(now_ms: u64, leader: &mut Leader, replica: &mut Replica) {
    leader.handle_heard(now_ms, LinkId(2));
    leader.tick(now_ms, replica, &mut Vec::new()).unwrap();
}

#[test]
fn a_server_that_catches_up_keeps_its_link() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 2);
    introduce(&mut leader, &mut replica, 3, LearnerKind::Follower);
    promise(&mut leader, &mut replica, 3, Some(1));
    assert_eq!(leader.learners[&LinkId(3)].step, Step::Syncing);
    contest_3(10, &mut leader, &mut replica);
    assert_eq!(links(&leader), [2, 3, 9]);
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(leader.epoch()) };
    leader.handle_packet(50, LinkId(3), ack, &mut replica, &mut Vec::new());
    tick_with_2(100, &mut leader, &mut replica);
    assert_eq!(links(&leader), [2, 3]);
    assert!(leader.is_active(LinkId(3)));
}

#[test]
fn a_server_that_reads_a_tree_keeps_its_link() {
    let mut replica = replica();
    let mut leader = sending_a_tree(&mut replica);
    for now_ms in [100, 200, 300] {
        contest_3(now_ms - 40, &mut leader, &mut replica);
        leader.handle_heard(now_ms, LinkId(3));
        tick_with_2(now_ms, &mut leader, &mut replica);
        assert_eq!(links(&leader), [2, 3]);
    }
}

/// It cannot answer meanwhile.
#[test]
fn a_server_that_stores_a_tree_keeps_its_link_for_as_long_as_it_has_read() {
    let mut replica = replica();
    let mut leader = sending_a_tree(&mut replica);
    leader.handle_heard(300, LinkId(3));
    leader.handle_sent(310, LinkId(3), None, &replica, &mut Vec::new());
    contest_3(320, &mut leader, &mut replica);
    for now_ms in [420, 520] {
        tick_with_2(now_ms, &mut leader, &mut replica);
        assert_eq!(links(&leader), [2, 3, 9]);
    }
    tick_with_2(620, &mut leader, &mut replica);
    assert_eq!(links(&leader), [2, 9], "it may have lost the older link");
}

/// Its host has crashed and is back, so nothing ends the older link.
#[test]
fn a_server_that_connects_again_waits_a_tick_for_a_link_on_which_it_did_not_catch_up() {
    let mut replica = replica();
    let mut leader = sending_a_tree(&mut replica);
    contest_3(10, &mut leader, &mut replica);
    tick_with_2(110, &mut leader, &mut replica);
    assert_eq!(links(&leader), [2, 9]);
    assert_eq!(leader.learners[&LinkId(9)].step, Step::Sending);
}

/// However many come with its number, they count as one voter.
#[test]
fn newcomers_with_one_number_are_no_quorum() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 2);
    let text = (1..=5).map(|id| format!("server.{id}=a:1:2\n")).collect::<String>() + "version=5";
    let five = Membership::parse_text(&text).unwrap();
    for link in 9..15 {
        introduce_on(10, &mut leader, &mut replica, link, 3, LearnerKind::Follower, 1);
        let packet = QuorumPacket::AckEpoch { last_zxid: Zxid::ZERO, current_epoch: Some(1) };
        leader.handle_packet(10, LinkId(link), packet, &mut replica, &mut Vec::new());
        let ack = QuorumPacket::Ack { zxid: Zxid::start_of(leader.epoch()) };
        leader.handle_packet(10, LinkId(link), ack, &mut replica, &mut Vec::new());
        let of_3 = leader.learners().filter(|(_, server, _)| *server == ServerId(3)).count();
        assert_eq!(of_3, 1);
        lose(&mut leader, &mut replica, 2);
        assert!(!leader.has_quorum_of(&five, &replica));
    }
}

/// The number in the last ping that a follower was sent.
fn pinged(out: &[Output], link: u64) -> Option<Zxid> {
    let pings = sent(out, link).into_iter().filter_map(|packet| match packet {
        QuorumPacket::Ping { zxid, .. } => Some(zxid),
        _ => None,
    });
    pings.last()
}

fn answer_ping(leader: &mut Leader, replica: &mut Replica, link: u64, zxid: Zxid) -> Vec<Output> {
    let mut out = Vec::new();
    leader.handle_ping_answer(LinkId(link), zxid, replica, &mut out);
    out
}

fn passed(out: &[Output]) -> Option<Check> {
    let checks = out.iter().filter_map(|output| match output {
        Output::CheckPassed { check } => Some(*check),
        _ => None,
    });
    checks.last()
}

#[test]
fn a_check_is_passed_by_the_answer_to_a_ping_that_was_sent_after_it_began() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 2);
    let mut out = Vec::new();
    leader.tick(100, &mut replica, &mut out).expect("2 follows");
    let before = pinged(&out, 2).expect("pings are sent twice a tick");

    let mut out = Vec::new();
    let check = leader.begin_check(&mut replica, &mut out);
    assert_eq!(passed(&out), None, "nobody has answered");
    let ping = pinged(&out, 2).expect("a check does not wait for the next ping");
    assert_eq!(passed(&answer_ping(&mut leader, &mut replica, 2, before)), None);
    assert_eq!(passed(&answer_ping(&mut leader, &mut replica, 2, ping)), Some(check));
    assert_eq!(passed(&answer_ping(&mut leader, &mut replica, 2, ping)), None, "once is enough");
}

/// All that come while a follower has a ping to answer wait for the next one, and share it.
#[test]
fn checks_share_pings() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 2);
    let mut out = Vec::new();
    let first = leader.begin_check(&mut replica, &mut out);
    let ping = pinged(&out, 2).expect("nothing is under way");
    let mut out = Vec::new();
    let others: Vec<_> = (0..100).map(|_| leader.begin_check(&mut replica, &mut out)).collect();
    assert_eq!(pinged(&out, 2), None, "2 has one to answer");

    let out = answer_ping(&mut leader, &mut replica, 2, ping);
    assert_eq!(passed(&out), Some(first));
    let ping = pinged(&out, 2).expect("the others wait");
    let out = answer_ping(&mut leader, &mut replica, 2, ping);
    assert_eq!(passed(&out), others.last().copied());
    assert_eq!(pinged(&out, 2), None, "nobody waits");
}

#[test]
fn answers_that_do_not_count_pass_no_check() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 2);
    introduce(&mut leader, &mut replica, 4, LearnerKind::Observer);
    promise(&mut leader, &mut replica, 4, Some(1));
    leader.handle_sent(0, LinkId(4), None, &replica, &mut Vec::new());
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(leader.epoch()) };
    leader.handle_packet(0, LinkId(4), ack, &mut replica, &mut Vec::new());
    assert!(leader.is_active(LinkId(4)));

    let mut out = Vec::new();
    let check = leader.begin_check(&mut replica, &mut out);
    assert_eq!(pinged(&out, 4), None, "an observer has no say");
    assert_eq!(passed(&answer_ping(&mut leader, &mut replica, 4, check.in_ping())), None);
    let later = Check(check.0 + 1).in_ping();
    assert_eq!(passed(&answer_ping(&mut leader, &mut replica, 2, later)), None, "never asked");
    let apaches = testing::zxid(2, 1);
    assert_eq!(passed(&answer_ping(&mut leader, &mut replica, 2, apaches)), None);
    assert_eq!(passed(&answer_ping(&mut leader, &mut replica, 2, check.in_ping())), Some(check));
}

/// An acknowledgement of what was proposed after a sync shows as well that this server led then.
#[test]
fn a_learners_sync_is_answered_in_its_place_among_the_commits() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 2);
    let (before, behind) = (testing::zxid(2, 1), testing::zxid(2, 2));
    let mut out = Vec::new();
    leader.propose(0, before, "txn".into(), &mut replica, &mut out);
    leader.sync(LinkId(2), &mut replica, &mut out);
    leader.propose(0, behind, "txn".into(), &mut replica, &mut out);
    replica.log.handle_flushed(behind, &mut out);
    let ping = pinged(&out, 2).expect("a sync begins a check");

    let commit = |zxid| QuorumPacket::Commit { zxid };
    let ack = |zxid| QuorumPacket::Ack { zxid };
    let mut out = Vec::new();
    leader.handle_packet(0, LinkId(2), ack(before), &mut replica, &mut out);
    assert_eq!(sent(&out, 2), [commit(before)], "2 may have acknowledged that before the sync");
    let mut out = Vec::new();
    leader.handle_packet(0, LinkId(2), ack(behind), &mut replica, &mut out);
    assert_eq!(sent(&out, 2), [QuorumPacket::Sync, commit(behind)]);
    assert_eq!(sent(&answer_ping(&mut leader, &mut replica, 2, ping), 2), []);
}

#[test]
fn syncs_of_a_learner_go_with_its_link() {
    let mut replica = replica();
    let mut leader = established(&mut replica, 2);
    for _ in 0..SYNCS_MAX {
        leader.sync(LinkId(2), &mut replica, &mut Vec::new());
    }
    assert!(leader.is_active(LinkId(2)));
    let mut out = Vec::new();
    leader.sync(LinkId(2), &mut replica, &mut out);
    assert!(
        matches!(out[..], [Output::Close { reason: CloseReason::TooManyPending, .. }]),
        "{out:?}"
    );
    assert!(leader.syncs.is_empty());
}

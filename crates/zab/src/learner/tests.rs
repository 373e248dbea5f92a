//! A learner by itself, packet by packet.

use super::*;
use crate::testing::{replica, zxid};

const LINK: LinkId = LinkId(3);

/// A learner of epoch 1 that has been told of epoch 2 by server 2.
fn promising(replica: &mut Replica, not_ahead: bool) -> Vec<Output> {
    let leader = ServerId(2);
    let upstream = Upstream { leader, to: leader, door: Door::Quorum, not_ahead };
    let mut out = Vec::new();
    let mut learner = Learner::begin(0, upstream, replica, &mut out);
    learner.handle_connected(LINK, replica, &mut out);
    let info = QuorumPacket::LeaderInfo { epoch: 2, protocol_version: PROTOCOL_VERSION };
    learner.handle_packet(0, info, replica, &mut out).unwrap();
    assert_eq!(out.pop(), Some(Output::SaveEpoch { kind: EpochKind::Accepted, epoch: 2 }));
    out.clear();
    learner.handle_epoch_saved(EpochKind::Accepted, replica, &mut out);
    out
}

fn promise(last_zxid: Zxid, current_epoch: Option<u32>) -> Vec<Output> {
    let packet = QuorumPacket::AckEpoch { last_zxid, current_epoch };
    vec![Output::Send { link: LINK, packet }]
}

/// It asks for everything from the start, so its zxid does not show what it has: a leader that is behind it would
/// count its promise.
#[test]
fn who_starts_over_promises_only_to_a_leader_that_is_not_behind() {
    let mut replica = replica(1, zxid(1, 0), &[zxid(1, 1)]);
    assert_eq!(promising(&mut replica, false), promise(zxid(1, 1), Some(1)));
    replica.start_over = true;
    assert_eq!(promising(&mut replica, false), promise(Zxid::ZERO, None));
    assert_eq!(promising(&mut replica, true), promise(Zxid::ZERO, Some(1)));
}

/// A learner of this kind that has followed epoch 1 and promised epoch 5, and what it does in epoch `epoch`.
fn told_of(kind: LearnerKind, epoch: u32) -> (Learner, Replica, Result<(), Fall>, Vec<Output>) {
    let mut replica = replica(1, zxid(1, 0), &[zxid(1, 1)]);
    replica.epochs.accepted = 5;
    let leader = ServerId(2);
    let upstream = Upstream { leader, to: leader, door: Door::Quorum, not_ahead: true };
    let mut learner = Learner::begin(0, upstream, &replica, &mut Vec::new());
    learner.kind = kind;
    learner.handle_connected(LINK, &replica, &mut Vec::new());
    let info = QuorumPacket::LeaderInfo { epoch, protocol_version: PROTOCOL_VERSION };
    let mut out = Vec::new();
    let result = learner.handle_packet(0, info, &mut replica, &mut out);
    (learner, replica, result, out)
}

/// A leader does not look at what an observer has promised, so the observer does not hold it against the leader. It
/// gives no promise, and keeps the one that it gave.
#[test]
fn an_observer_follows_an_earlier_epoch_than_it_promised() {
    let (_, _, result, out) = told_of(LearnerKind::Observer, 4);
    assert_eq!((result, out), (Ok(()), promise(zxid(1, 1), None)));
    for (kind, epoch) in [(LearnerKind::Follower, 4), (LearnerKind::Observer, 0)] {
        assert_eq!(told_of(kind, epoch).2, Err(Fall::LeaderRefused), "{kind:?}");
    }
    for kind in [LearnerKind::Follower, LearnerKind::Observer] {
        assert_eq!(told_of(kind, EPOCH_MAX).2, Err(Fall::LeaderRefused), "{kind:?}");
    }
}

/// It could not be recovered: neither epoch file reaches it.
#[test]
fn what_is_of_a_later_epoch_than_the_leader_is_refused() {
    for packets in [
        vec![QuorumPacket::Snap { zxid: zxid(6, 1) }],
        vec![
            QuorumPacket::Diff { zxid: zxid(1, 1) },
            QuorumPacket::Proposal { zxid: zxid(6, 1), payload: "txn".into() },
        ],
    ] {
        let (mut learner, mut replica, _, _) = told_of(LearnerKind::Follower, 5);
        let mut take =
            |packet| learner.handle_packet(0, packet, &mut replica, &mut Vec::new()).is_err();
        let refused: Vec<_> = packets.into_iter().map(&mut take).collect();
        assert!(refused.ends_with(&[true]), "{refused:?}");
    }
}

#[test]
#[should_panic(expected = "Accepted epoch 4 after")]
fn a_promise_is_never_taken_back() {
    let mut replica = replica(1, zxid(1, 0), &[]);
    replica.epochs.accepted = 5;
    replica.save_epoch(EpochKind::Accepted, 4, &mut Vec::new());
}

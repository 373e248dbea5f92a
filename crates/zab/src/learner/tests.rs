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

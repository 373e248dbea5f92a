//! Very many sessions at once: what they cost the others.

use herdsman_node::{ConnId, Input};
use herdsman_proto::limits::PING_SESSIONS_MAX;
use herdsman_proto::{ConnectRequest, QuorumPacket, SessionId, Zxid};
use herdsman_zab::Output as PeerOutput;

use crate::driver::{address, settings};
use crate::room::Room;

fn connect(conn: u64) -> Input<'static> {
    let request = ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 20_000,
        session: SessionId::NONE,
        password: &[0; 16],
        read_only: Some(true),
    };
    Input::Connect { conn: ConnId(conn), request, ids: address() }
}

/// All of them in one packet could be more than the leader takes, and the learner would lose its link.
#[test]
fn a_learner_reports_very_many_sessions_in_several_packets() {
    let mut room = Room::new(&settings(), 3, &mut |_, _, _, _| {});
    room.wait(5_000, &mut |_, _, _, _| {});
    let follower = *room.seats.iter().find(|(_, seat)| !seat.leads()).expect("somebody follows").0;
    let count = PING_SESSIONS_MAX + 1;
    for conn in 1..=count as u64 {
        room.step(follower, connect(conn), &mut |_, _, _, _| {});
    }
    let mut reported = Vec::new();
    room.wait(1_000, &mut |place, _, output, _| {
        if let herdsman_node::Output::Peer(PeerOutput::Send { packet, .. }) = output
            && let QuorumPacket::Ping { touched, .. } = packet
            && place == follower
        {
            reported.push(touched.len());
        }
    });
    reported.retain(|&sessions| sessions > 0);
    assert_eq!(reported, [PING_SESSIONS_MAX, 1]);
}

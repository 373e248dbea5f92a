//! An observer master by itself, packet by packet.

use bytes::Bytes;

use super::*;
use crate::testing::{replica, zxid};

const LINK: LinkId = LinkId(7);
const EPOCH: u32 = 3;

/// Server 1, which follows and has logged (2:9, 3:1, 3:2, 3:3]; 3:1 is agreed on.
fn follower() -> Replica {
    let txns = [zxid(EPOCH, 1), zxid(EPOCH, 2), zxid(EPOCH, 3)];
    let mut replica = replica(EPOCH, zxid(2, 9), &txns);
    replica.log.commit(zxid(EPOCH, 1), &mut Vec::new());
    replica
}

fn introduction(kind: LearnerKind, config_version: u64) -> QuorumPacket {
    let server = ServerId(4);
    let info = LearnerInfo { server, protocol_version: PROTOCOL_VERSION, config_version };
    QuorumPacket::Info { kind, accepted_epoch: 1, info: Some(info) }
}

/// A master, and what it says to one who introduces himself like this.
fn introduced(replica: &Replica, packet: &QuorumPacket) -> (ObserverMaster, Vec<Output>) {
    let mut master = ObserverMaster::begin(0, EPOCH, replica);
    let mut out = Vec::new();
    master.handle_link_opened(0, LINK, replica);
    master.handle_packet(0, LINK, packet, replica, &mut out);
    (master, out)
}

/// A master with an observer whose log ends here, and what the master says to it.
fn promised(replica: &Replica, last_zxid: Zxid) -> (ObserverMaster, Vec<QuorumPacket>) {
    let (mut master, out) = introduced(replica, &introduction(LearnerKind::Observer, 5));
    let protocol_version = PROTOCOL_VERSION;
    assert_eq!(packets(out), [QuorumPacket::LeaderInfo { epoch: EPOCH, protocol_version }]);
    let mut out = Vec::new();
    let packet = QuorumPacket::AckEpoch { last_zxid, current_epoch: Some(2) };
    master.handle_packet(0, LINK, &packet, replica, &mut out);
    (master, packets(out))
}

fn packets(out: Vec<Output>) -> Vec<QuorumPacket> {
    let packets = out.into_iter().map(|output| match output {
        Output::Send { link: LINK, packet } => packet,
        other => panic!("{other:?}"),
    });
    packets.collect()
}

fn new_leader(replica: &Replica) -> QuorumPacket {
    QuorumPacket::NewLeader {
        zxid: Zxid::start_of(EPOCH),
        config: replica.memberships.for_new_leader(true).to_text().into(),
    }
}

fn payload() -> Bytes {
    Bytes::from_static(b"txn")
}

#[test]
fn only_observers_are_served() {
    let replica = follower();
    for (kind, version, reason) in [
        (LearnerKind::Follower, 5, CloseReason::NotAnObserver),
        (LearnerKind::Observer, 6, CloseReason::NewerConfig),
    ] {
        let (master, out) = introduced(&replica, &introduction(kind, version));
        assert_eq!(out, [Output::Close { link: LINK, reason }]);
        assert!(!master.knows(LINK));
    }
}

#[test]
fn an_observer_gets_what_is_agreed_on_and_then_every_commit() {
    let mut replica = follower();
    let (mut master, said) = promised(&replica, zxid(2, 9));
    let first = zxid(EPOCH, 1);
    assert_eq!(
        said,
        [
            QuorumPacket::Diff { zxid: first },
            QuorumPacket::Proposal { zxid: first, payload: payload() },
            QuorumPacket::Commit { zxid: first },
            new_leader(&replica),
        ]
    );
    let mut out = Vec::new();
    replica.log.commit(zxid(EPOCH, 2), &mut Vec::new());
    master.inform(0, None, &replica, &mut out);
    assert!(!master.is_active(LINK));
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(EPOCH) };
    master.handle_packet(0, LINK, &ack, &replica, &mut out);
    assert!(master.is_active(LINK));
    master.handle_packet(0, LINK, &ack, &replica, &mut out);
    replica.log.commit(zxid(EPOCH, 3), &mut Vec::new());
    master.inform(0, None, &replica, &mut out);
    assert_eq!(
        packets(out),
        [
            QuorumPacket::Proposal { zxid: zxid(EPOCH, 2), payload: payload() },
            QuorumPacket::Commit { zxid: zxid(EPOCH, 2) },
            QuorumPacket::UpToDate,
            QuorumPacket::Inform { zxid: zxid(EPOCH, 3), payload: payload() },
        ]
    );
}

#[test]
fn an_observer_that_is_further_on_waits_and_cuts_nothing() {
    let mut replica = follower();
    for ahead in [zxid(EPOCH, 2), zxid(EPOCH, 4)] {
        let (mut master, said) = promised(&replica, ahead);
        assert_eq!(said, []);
        let mut out = Vec::new();
        if ahead > replica.log.last() {
            replica.log.append(ahead, payload(), &mut Vec::new());
        }
        replica.log.commit(ahead, &mut Vec::new());
        master.inform(0, None, &replica, &mut out);
        assert_eq!(packets(out), [QuorumPacket::Diff { zxid: ahead }, new_leader(&replica)]);
    }
}

#[test]
fn what_nobody_agreed_on_in_an_older_epoch_is_cut_off() {
    let replica = follower();
    let (_, said) = promised(&replica, zxid(2, 11));
    assert_eq!(said[0], QuorumPacket::Trunc { zxid: zxid(2, 9) });
}

#[test]
fn a_new_membership_comes_with_its_leader() {
    let mut replica = follower();
    let (mut master, _) = promised(&replica, zxid(EPOCH, 1));
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(EPOCH) };
    master.handle_packet(0, LINK, &ack, &replica, &mut Vec::new());
    let mut out = Vec::new();
    replica.log.commit(zxid(EPOCH, 3), &mut Vec::new());
    let leader = ServerId(2);
    master.inform(0, Some((zxid(EPOCH, 3), leader)), &replica, &mut out);
    assert_eq!(
        packets(out),
        [
            QuorumPacket::Inform { zxid: zxid(EPOCH, 2), payload: payload() },
            QuorumPacket::InformAndActivate { zxid: zxid(EPOCH, 3), leader, payload: payload() },
        ]
    );
}

#[test]
fn a_silent_observer_is_sent_away() {
    let replica = follower();
    let (mut master, _) = promised(&replica, zxid(EPOCH, 1));
    let ack = QuorumPacket::Ack { zxid: Zxid::start_of(EPOCH) };
    master.handle_packet(0, LINK, &ack, &replica, &mut Vec::new());
    // The answer to UPTODATE.
    master.handle_packet(1, LINK, &ack, &replica, &mut Vec::new());
    let mut out = Vec::new();
    master.tick(100, &replica, &mut out);
    let ping = QuorumPacket::Ping { zxid: zxid(EPOCH, 1), touched: Vec::new() };
    assert_eq!(packets(out), [ping]);
    let mut out = Vec::new();
    master.tick(202, &replica, &mut out);
    assert_eq!(out, [Output::Close { link: LINK, reason: CloseReason::TimedOut }]);
}

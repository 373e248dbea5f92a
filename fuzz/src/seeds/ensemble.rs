//! Seeds from the protocols between the servers of an ensemble.

use herdsman_proto::notification::Hello;
use herdsman_proto::quorum::fetch::{Chain, FetchRequest, Fetched, MemberState, TO_THE_END};
use herdsman_proto::quorum::{LearnerInfo, LearnerKind, PROTOCOL_VERSION};
use herdsman_proto::{
    Id, Notification, QuorumPacket, ServerId, ServerState, SessionId, Vote, Zxid,
};

use super::{Seeds, numbered};

const MEMBERS: &str = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\n\
    server.2=[2001:db8:0:0:0:0:0:2]:2888:3888:participant\n\
    server.3=zk3:2888:3888:observer;zk3:2181\nversion=10000000a";

fn handshake() -> Vec<QuorumPacket> {
    let zxid = Zxid(0x5_0000_0009);
    let info = |kind, info| QuorumPacket::Info { kind, accepted_epoch: 5, info };
    let config_version = 0x1_0000_000a;
    let me =
        LearnerInfo { server: ServerId(2), protocol_version: PROTOCOL_VERSION, config_version };
    vec![
        info(LearnerKind::Follower, Some(me)),
        info(LearnerKind::Observer, Some(me)),
        info(LearnerKind::Follower, None),
        QuorumPacket::LeaderInfo { epoch: 6, protocol_version: PROTOCOL_VERSION },
        QuorumPacket::AckEpoch { last_zxid: zxid, current_epoch: Some(5) },
        QuorumPacket::AckEpoch { last_zxid: zxid, current_epoch: None },
        QuorumPacket::Diff { zxid },
        QuorumPacket::Trunc { zxid },
        QuorumPacket::Snap { zxid },
        QuorumPacket::NewLeader { zxid: Zxid::start_of(6), config: MEMBERS.into() },
        QuorumPacket::UpToDate,
    ]
}

fn broadcast() -> Vec<QuorumPacket> {
    let (zxid, leader, session) = (Zxid(0x6_0000_0001), ServerId(3), SessionId(0x1234));
    let payload = || "a txn".into();
    vec![
        QuorumPacket::Proposal { zxid, payload: payload() },
        QuorumPacket::Ack { zxid },
        QuorumPacket::Commit { zxid },
        QuorumPacket::CommitAndActivate { zxid, leader },
        QuorumPacket::Inform { zxid, payload: payload() },
        QuorumPacket::InformAndActivate { zxid, leader, payload: payload() },
        QuorumPacket::Request {
            session,
            cxid: 7,
            op: 1,
            body: payload(),
            ids: vec![Id::new("ip", "::1"), Id::new("digest", "user:hash")],
        },
        QuorumPacket::Revalidate { session, timeout_ms: 4_000 },
        QuorumPacket::Revalidated { session, valid: true },
        QuorumPacket::Sync,
        QuorumPacket::Ping { zxid, touched: Vec::new() },
        QuorumPacket::Ping { zxid, touched: vec![(session, 4_000), (SessionId(5), 30_000)] },
    ]
}

fn fetching() -> Vec<QuorumPacket> {
    let (after, zxid, from) = (Zxid(0x5_0000_0009), Zxid(0x5_0000_000a), ServerId(2));
    let fetched = |chain, state, damaged| {
        QuorumPacket::Fetched(Fetched { last_zxid: zxid, chain, state, damaged })
    };
    let damaged = vec![(Zxid(1), Zxid(3)), (after, TO_THE_END)];
    vec![
        QuorumPacket::Fetch(FetchRequest { from, after, before: TO_THE_END }),
        QuorumPacket::Record { zxid, payload: "a txn".into() },
        fetched(Chain::Unbroken, MemberState::FollowingQuorum, Vec::new()),
        fetched(Chain::Broken, MemberState::Repairing, damaged),
    ]
}

pub(super) fn packets() -> Seeds {
    let encoded = |packets: &[QuorumPacket]| {
        let mut bytes = Vec::new();
        packets.iter().for_each(|packet| packet.encode(&mut bytes));
        bytes
    };
    let (handshake, broadcast, fetching) = (handshake(), broadcast(), fetching());
    let single = handshake.chunks(1).chain(broadcast.chunks(1)).chain(fetching.chunks(1));
    let streams = [encoded(&handshake), encoded(&broadcast), encoded(&fetching)];
    numbered(single.map(encoded).chain(streams))
}

pub(super) fn notifications() -> Seeds {
    let encoded = |state, config: &str| {
        let vote = Vote { leader: ServerId(3), zxid: Zxid(0x5_0000_0009), epoch: 5 };
        let mut bytes = Vec::new();
        Notification { state, vote, round: 7, config: config.to_owned() }.encode(&mut bytes);
        bytes
    };
    let whole = encoded(ServerState::Looking, MEMBERS);
    // Older servers sent less.
    let old = [whole[..28].to_vec(), whole[..40].to_vec()];
    let states = [ServerState::Following, ServerState::Leading, ServerState::Observing];
    let states = states.map(|state| encoded(state, "version=0"));
    numbered([vec![whole], states.to_vec(), old.to_vec()].concat())
}

pub(super) fn hellos() -> Seeds {
    let addresses = ["", "zk1:3888", "[2001:db8::2]:3888", "zk1:3888|10.0.0.1:3889", "0.0.0.0:1"];
    numbered(addresses.map(|addresses| {
        let mut bytes = Vec::new();
        Hello { server: ServerId(2), addresses: addresses.to_owned() }.encode(&mut bytes);
        bytes
    }))
}

pub(super) fn memberships() -> Seeds {
    let texts = [
        MEMBERS,
        "version=0\nserver.1=a:1:2\nserver.2=b:1:2|c:3:4:observer\n",
        "server.1=a:1:2\nserver.2=b:1:2\ngroup.1=1\ngroup.2=2\nweight.1=3\nversion=7",
        "server.1=a:1:2;2181;[::]:2281\nserver.1=[::ffff:10.0.0.1]:1:2;;2281",
        "server.1=[fe80::1%2]:1:2:PARTICIPANT;[::1]:3",
    ];
    numbered(texts.map(|text| text.as_bytes().to_vec()))
}

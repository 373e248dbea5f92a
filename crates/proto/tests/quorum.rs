//! Packets between a leader and its learners, byte by byte as Apache ZooKeeper 3.9.5 writes them.

use bytes::Bytes;
use herdsman_proto::quorum::fetch::{
    Chain, DAMAGED_RANGES_MAX, FetchRequest, Fetched, MemberState, TO_THE_END,
};
use herdsman_proto::quorum::{LearnerInfo, LearnerKind, PROTOCOL_VERSION};
use herdsman_proto::{
    DecodeError, EPOCH_MAX, Id, JuteReader, QuorumPacket, ServerId, SessionId, Zxid,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A limit that all packets here keep.
const LIMIT: usize = 1024;
/// 0x500000009
const ZXID: &str = "0000000500000009";
const NO_ZXID: &str = "ffffffffffffffff";
const NULL: &str = "ffffffff";
/// 0x1234
const SESSION: &str = "0000000000001234";
/// `xy`
const PAYLOAD: &str = "7879";

fn hex(pieces: &[&str]) -> Vec<u8> {
    let digits: String = pieces.concat().chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn decode(bytes: &[u8]) -> Result<QuorumPacket, DecodeError> {
    QuorumPacket::decode(&mut JuteReader::with_limit(bytes, LIMIT))
}

fn encode(packet: &QuorumPacket) -> Vec<u8> {
    let mut out = Vec::new();
    packet.encode(&mut out);
    out
}

/// Both ways.
fn check(packet: &QuorumPacket, bytes: &[&str]) {
    let bytes = hex(bytes);
    assert_eq!(encode(packet), bytes, "{packet:?}");
    assert_eq!(decode(&bytes).as_ref(), Ok(packet));
}

/// One way: what others write and we do not.
fn check_read(bytes: &[&str], packet: &QuorumPacket) {
    assert_eq!(decode(&hex(bytes)).as_ref(), Ok(packet), "{bytes:?}");
}

fn zxid() -> Zxid {
    Zxid(0x5_0000_0009)
}

fn payload() -> Bytes {
    Bytes::from_static(b"xy")
}

fn info(
    kind: LearnerKind,
    server: i64,
    protocol_version: i32,
    config_version: u64,
) -> QuorumPacket {
    let info = LearnerInfo { server: ServerId(server), protocol_version, config_version };
    QuorumPacket::Info { kind, accepted_epoch: 5, info: Some(info) }
}

#[test]
fn learners_introduce_themselves() {
    let body = "00000014 0000000000000003 00010000 000000010000000a";
    let packet = |kind| info(kind, 3, PROTOCOL_VERSION, 0x1_0000_000a);
    check(&packet(LearnerKind::Follower), &["0000000b 0000000500000000", body, NULL]);
    check(&packet(LearnerKind::Observer), &["00000010 0000000500000000", body, NULL]);
    let nobody = QuorumPacket::Info { kind: LearnerKind::Follower, accepted_epoch: 5, info: None };
    check(&nobody, &["0000000b 0000000500000000", NULL, NULL]);
}

/// Fields were added in several versions, and Apache reads each only if it is complete.
#[test]
fn learners_of_all_ages_are_understood() {
    let check = |body: &str, server, version, config| {
        let packet = info(LearnerKind::Follower, server, version, config);
        check_read(&["0000000b 0000000500000000", body, NULL], &packet);
    };
    check("00000008 0000000000000003", 3, 1, 0);
    check("0000000b 0000000000000003 000100", 3, 1, 0);
    check("0000000c 0000000000000003 00010000", 3, 0x10000, 0);
    check("00000013 0000000000000003 00010000 00000001000000", 3, 0x10000, 0);
    check("00000014 0000000000000003 00010000 ffffffffffffffff", 3, 0x10000, 0);
    check("00000016 0000000000000003 00010000 0000000000000007 aabb", 3, 0x10000, 7);
}

#[test]
fn epochs() {
    let leader = QuorumPacket::LeaderInfo { epoch: 6, protocol_version: PROTOCOL_VERSION };
    check(&leader, &["00000011 0000000600000000 00000004 00010000", NULL]);
    let ack = |current_epoch| QuorumPacket::AckEpoch { last_zxid: zxid(), current_epoch };
    check(&ack(Some(5)), &["00000012", ZXID, "00000004 00000005", NULL]);
    check(&ack(None), &["00000012", ZXID, "00000004 ffffffff", NULL]);
}

/// No txn and no epoch is negative, except that Apache's server without data has epoch -1 and the last zxid -1.
#[test]
fn negative_epochs_and_zxids_are_refused() {
    let refused = |bytes: &[&str]| {
        let expected = DecodeError::Undefined { what: "epoch", value: i32::MIN };
        assert_eq!(decode(&hex(bytes)), Err(expected), "{bytes:?}");
    };
    let body = "00000014 0000000000000003 00010000 000000010000000a";
    refused(&["0000000b 8000000000000000", body, NULL]);
    refused(&["00000010 8000000000000000", body, NULL]);
    refused(&["00000011 8000000000000000 00000004 00010000", NULL]);
    for kind in ["02", "03", "04", "08", "09", "0a", "0d", "0e", "0f", "13"] {
        let body = "00000008 0000000000000003";
        refused(&["000000", kind, "8000000000000001", body, NULL]);
    }
    let fresh = LearnerInfo { server: ServerId(3), protocol_version: 0x10000, config_version: 7 };
    let kind = LearnerKind::Follower;
    let fresh = QuorumPacket::Info { kind, accepted_epoch: 0, info: Some(fresh) };
    let body = "00000014 0000000000000003 00010000 0000000000000007";
    check_read(&["0000000b ffffffff00000000", body, NULL], &fresh);
    let ack = QuorumPacket::AckEpoch { last_zxid: Zxid(-1), current_epoch: None };
    check_read(&["00000012", NO_ZXID, "00000004 ffffffff", NULL], &ack);
}

#[test]
fn packets_that_are_only_a_zxid() {
    let check = |packet: QuorumPacket, kind: &str| check(&packet, &[kind, ZXID, NULL, NULL]);
    check(QuorumPacket::Diff { zxid: zxid() }, "0000000d");
    check(QuorumPacket::Trunc { zxid: zxid() }, "0000000e");
    check(QuorumPacket::Snap { zxid: zxid() }, "0000000f");
    check(QuorumPacket::Commit { zxid: zxid() }, "00000004");
    check(QuorumPacket::Ack { zxid: zxid() }, "00000003");
}

#[test]
fn txns() {
    let body = ["00000002", PAYLOAD].concat();
    let (zxid, payload) = (zxid(), payload());
    let proposal = QuorumPacket::Proposal { zxid, payload: payload.clone() };
    check(&proposal, &["00000002", ZXID, &body, NULL]);
    let inform = QuorumPacket::Inform { zxid, payload: payload.clone() };
    check(&inform, &["00000008", ZXID, &body, NULL]);
    let leader = ServerId(3);
    let activate = QuorumPacket::CommitAndActivate { zxid, leader };
    check(&activate, &["00000009", ZXID, "00000008 0000000000000003", NULL]);
    let activate = QuorumPacket::InformAndActivate { zxid, leader, payload };
    check(&activate, &["00000013", ZXID, "0000000a 0000000000000003", PAYLOAD, NULL]);
}

#[test]
fn the_end_of_catching_up() {
    let zxid = Zxid(0x6_0000_0000);
    let config = Bytes::from_static(b"version=0");
    check(
        &QuorumPacket::NewLeader { zxid, config },
        &["0000000a 0000000600000000 00000009 76657273696f6e3d30", NULL],
    );
    check(&QuorumPacket::UpToDate, &["0000000c", NO_ZXID, NULL, NULL]);
    // Apache writes null to servers of the 3.4 era.
    let bare = QuorumPacket::NewLeader { zxid, config: Bytes::new() };
    check_read(&["0000000a 0000000600000000", NULL, NULL], &bare);
}

#[test]
fn requests_carry_what_the_client_is() {
    let request = |ids| QuorumPacket::Request {
        session: SessionId(0x1234),
        cxid: 7,
        op: 5,
        body: payload(),
        ids,
    };
    let front = ["00000001", NO_ZXID, "00000012", SESSION, "00000007 00000005", PAYLOAD].concat();
    let ids = "00000002 00000002 6970 00000003 3a3a31 00000006 646967657374 00000003 753a68";
    check(&request(vec![Id::new("ip", "::1"), Id::new("digest", "u:h")]), &[&front, ids]);
    check(&request(Vec::new()), &[&front, "00000000"]);
    check_read(&[&front, NULL], &request(Vec::new()));
    // Java takes any negative count for an empty list.
    check_read(&[&front, "80000000"], &request(Vec::new()));
    check_read(&[&front, "00000001", NULL, NULL], &request(vec![Id::new("", "")]));
}

#[test]
fn sessions() {
    let session = SessionId(0x1234);
    let question = QuorumPacket::Revalidate { session, timeout_ms: 4000 };
    check(&question, &["00000006", NO_ZXID, "0000000c", SESSION, "00000fa0", NULL]);
    for (valid, byte) in [(true, "01"), (false, "00")] {
        let answer = QuorumPacket::Revalidated { session, valid };
        check(&answer, &["00000006", NO_ZXID, "00000009", SESSION, byte, NULL]);
    }
    let ping = |touched| QuorumPacket::Ping { zxid: zxid(), touched };
    let one = [SESSION, "00000fa0"].concat();
    check(&ping(vec![(session, 4000)]), &["00000005", ZXID, "0000000c", &one, NULL]);
    check(&ping(vec![(session, 4000); 2]), &["00000005", ZXID, "00000018", &one, &one, NULL]);
    // The answer must not be null, or Apache's leader drops the learner.
    check(&ping(Vec::new()), &["00000005", ZXID, "00000000", NULL]);
    check_read(&["00000005", ZXID, NULL, NULL], &ping(Vec::new()));
    check(&QuorumPacket::Sync, &["00000007 0000000000000000", NULL, NULL]);
}

/// Not Apache's.
#[test]
fn records_for_a_damaged_server() {
    let from = ServerId(3);
    let request = |before| QuorumPacket::Fetch(FetchRequest { from, after: zxid(), before });
    let front = ["48530001", ZXID, "00000010 0000000000000003"].concat();
    check(&request(Zxid(0x5_0000_000c)), &[&front, "000000050000000c", NULL]);
    check(&request(TO_THE_END), &[&front, "7fffffffffffffff", NULL]);
    let record = QuorumPacket::Record { zxid: zxid(), payload: payload() };
    check(&record, &["48530002", ZXID, "00000002", PAYLOAD, NULL]);
    let fetched = |chain, state, damaged: &[_]| {
        let damaged = damaged.to_vec();
        QuorumPacket::Fetched(Fetched { last_zxid: zxid(), chain, state, damaged })
    };
    let whole = fetched(Chain::Unbroken, MemberState::LeadingQuorum, &[]);
    check(&whole, &["48530003", ZXID, "0000000c 00000001 00000004 00000000", NULL]);
    let damaged = [(Zxid(1), Zxid(3)), (zxid(), TO_THE_END)];
    let damaged = fetched(Chain::Broken, MemberState::Repairing, &damaged);
    let ranges = "0000000000000001 0000000000000003 0000000500000009 7fffffffffffffff";
    check(&damaged, &["48530003", ZXID, "0000002c 00000000 00000001 00000002", ranges, NULL]);
}

#[test]
fn records_for_a_damaged_server_have_limits() {
    let undefined = |what, value| DecodeError::Undefined { what, value };
    let fetched = |body: &str, error| check_refused(&["48530003", ZXID, body, NULL], error);
    fetched("0000000c 00000003 00000000 00000000", undefined("chain of fetched records", 3));
    fetched("0000000c 00000000 00000005 00000000", undefined("state of a member", 5));
    fetched("0000000c 00000000 00000000 00000401", DecodeError::Length(0x401));
    fetched("0000000c 00000000 00000000 ffffffff", DecodeError::Length(-1));
    let body = undefined("body of quorum packet", 0x4853_0003);
    fetched("0000000c 00000000 00000000 00000001", body);
    let negative = "00000010 0000000000000003 8000000000000000";
    check_refused(&["48530001", ZXID, negative, NULL], undefined("epoch", i32::MIN));
    check_refused(&["48530002", ZXID, NULL, NULL], DecodeError::Null);
    check_refused(&["48530000"], undefined("quorum packet", 0x4853_0000));
    check_refused(&["48530004"], undefined("quorum packet", 0x4853_0004));
    // What does not fit is not sent.
    let damaged = vec![(Zxid(1), Zxid(3)); DAMAGED_RANGES_MAX + 1];
    let (chain, state) = (Chain::Broken, MemberState::Looking);
    let packet = QuorumPacket::Fetched(Fetched { last_zxid: zxid(), chain, state, damaged });
    let bytes = encode(&packet);
    match QuorumPacket::decode(&mut JuteReader::new(&bytes)) {
        Ok(QuorumPacket::Fetched(fetched)) => {
            assert_eq!(fetched.damaged.len(), DAMAGED_RANGES_MAX);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_apache_does_not_look_at_is_passed_over() {
    let id = "00000001 00000002 6970 00000003 3a3a31";
    check_read(&["00000004", ZXID, NULL, id], &QuorumPacket::Commit { zxid: zxid() });
    check_read(&["00000004", ZXID, "00000002 7879", NULL], &QuorumPacket::Commit { zxid: zxid() });
    check_read(&["0000000c", ZXID, NULL, NULL], &QuorumPacket::UpToDate);
    let (session, leader) = (SessionId(0x1234), ServerId(3));
    let question = QuorumPacket::Revalidate { session, timeout_ms: 4000 };
    check_read(&["00000006", NO_ZXID, "0000000d", SESSION, "00000fa0 aa", NULL], &question);
    let activate = QuorumPacket::CommitAndActivate { zxid: zxid(), leader };
    check_read(&["00000009", ZXID, "00000009 0000000000000003 aa", NULL], &activate);
    let info = QuorumPacket::LeaderInfo { epoch: 5, protocol_version: PROTOCOL_VERSION };
    check_read(&["00000011", ZXID, "00000005 00010000 aa", NULL], &info);
    let ack = QuorumPacket::AckEpoch { last_zxid: zxid(), current_epoch: Some(5) };
    check_read(&["00000012", ZXID, "00000005 00000005 aa", NULL], &ack);
}

fn check_refused(bytes: &[&str], error: DecodeError) {
    let bytes = hex(bytes);
    let mut reader = JuteReader::with_limit(&bytes, LIMIT);
    assert_eq!(QuorumPacket::decode(&mut reader), Err(error), "{bytes:x?}");
    assert_eq!(reader.rest(), bytes, "the reader stays where it was");
}

#[test]
fn a_body_that_is_too_short_is_broken_and_not_late() {
    let check = |kind: &str, body: &[&str]| {
        let value = i32::from_str_radix(kind, 16).expect("hex");
        let error = DecodeError::Undefined { what: "body of quorum packet", value };
        check_refused(&[&[kind, ZXID], body, &[NULL]].concat(), error);
    };
    check("00000001", &[NULL]);
    check("00000001", &["0000000f", SESSION, "00000007 000000"]);
    check("00000005", &["0000000b", SESSION, "000000"]);
    check("00000006", &[NULL]);
    check("00000006", &["00000008", SESSION]);
    check("00000009", &[NULL]);
    check("0000000b", &["00000000"]);
    check("0000000b", &["00000007 00000000000000"]);
    check("00000010", &["00000007 00000000000000"]);
    check("00000011", &[NULL]);
    check("00000012", &["00000003 000000"]);
    check("00000013", &["00000007 00000000000000"]);
}

#[test]
fn what_is_no_packet_is_refused() {
    let undefined = |what, value| DecodeError::Undefined { what, value };
    check_refused(&["00000002", ZXID, NULL, NULL], DecodeError::Null);
    check_refused(&["00000008", ZXID, NULL, NULL], DecodeError::Null);
    check_refused(&["00000012", ZXID, "00000004 fffffffe", NULL], undefined("epoch", -2));
    // At once: what follows may never come.
    check_refused(&["00000000"], undefined("quorum packet", 0));
    check_refused(&["00000014"], undefined("quorum packet", 20));
    check_refused(&["ffffffff"], undefined("quorum packet", -1));
    check_refused(&["47455420"], undefined("quorum packet", 0x4745_5420));
}

/// Nothing is waited for, and nothing allocated, that is too long anyway.
#[test]
fn hostile_lengths_are_refused_as_soon_as_they_are_there() {
    let too_long = DecodeError::Length;
    check_refused(&["00000002", ZXID, "7fffffff"], too_long(i32::MAX));
    check_refused(&["00000002", ZXID, "00000401"], too_long(0x401));
    check_refused(&["00000002", ZXID, "fffffffe"], too_long(-2));
    check_refused(&["00000002", ZXID, "80000000"], too_long(i32::MIN));
    check_refused(&["00000001", ZXID, NULL, "00000001 7fffffff"], too_long(i32::MAX));
    check_refused(&["00000001", ZXID, NULL, "00000001 fffffffe"], too_long(-2));
    let late = |bytes: &[&str]| {
        let outcome = decode(&hex(bytes));
        assert!(matches!(outcome, Err(DecodeError::Truncated { .. })), "{bytes:?}: {outcome:?}");
    };
    late(&["00000002", ZXID, "00000400"]);
    late(&["00000001", ZXID, NULL, "00000080"]);
}

/// No field is too long, but all ids together are: an id has 8 bytes at least.
#[test]
fn ids_that_are_too_long_together_are_refused() {
    let too_long = DecodeError::Length(i32::try_from(LIMIT).expect("a small number") + 4);
    check_refused(&["00000001", ZXID, NULL, "7fffffff"], too_long);
    check_refused(&["00000001", ZXID, NULL, "00000081"], too_long);
    check_refused(&["00000001", ZXID, NULL, "00000080", "00000005"], too_long);
    check_refused(&["00000001", ZXID, NULL, "00000002", "000003f5"], too_long);
}

/// One that comes byte by byte is not read from its start each time.
#[test]
fn a_packet_that_is_not_whole_says_what_it_lacks() {
    let id_bytes = 1 << 20;
    for text in ["", "x", "some text", &"long".repeat(1000)] {
        let ids = vec![Id::new(text, ""); id_bytes / (8 + text.len())];
        let (session, body) = (SessionId(1), vec![0; 1000].into());
        let bytes = encode(&QuorumPacket::Request { session, cxid: 1, op: 1, body, ids });
        let mut end = 0;
        let mut tries = 0;
        while let Err(DecodeError::Truncated { wanted, available }) =
            QuorumPacket::decode(&mut JuteReader::with_limit(&bytes[..end], id_bytes))
        {
            end += wanted - available;
            tries += 1;
        }
        assert_eq!(end, bytes.len());
        assert!(tries < 1000, "{tries}");
    }
}

#[test]
fn ids_may_be_as_long_as_the_limit_and_packets_may_follow() {
    let ids = vec![Id::new(&"s".repeat(LIMIT / 2), &"i".repeat(LIMIT / 2 - 8))];
    let session = SessionId(1);
    let request = QuorumPacket::Request { session, cxid: 1, op: 1, body: Bytes::new(), ids };
    let bytes = [encode(&request), encode(&request), encode(&QuorumPacket::Sync)].concat();
    let mut reader = JuteReader::with_limit(&bytes, LIMIT);
    assert_eq!(QuorumPacket::decode(&mut reader).as_ref(), Ok(&request));
    assert_eq!(QuorumPacket::decode(&mut reader).as_ref(), Ok(&request));
    assert_eq!(QuorumPacket::decode(&mut reader), Ok(QuorumPacket::Sync));
    assert!(reader.is_empty());
}

fn any_zxid() -> impl Strategy<Value = Zxid> {
    (0..=i64::MAX).prop_map(Zxid)
}

fn any_payload() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn any_info() -> impl Strategy<Value = QuorumPacket> {
    let kind = prop_oneof![Just(LearnerKind::Follower), Just(LearnerKind::Observer)];
    let config_version = 0..=u64::try_from(i64::MAX).expect("it is positive");
    let info = (any::<i64>(), any::<i32>(), config_version);
    let info = info.prop_map(|(server, protocol_version, config_version)| LearnerInfo {
        server: ServerId(server),
        protocol_version,
        config_version,
    });
    (kind, 0..EPOCH_MAX, proptest::option::of(info))
        .prop_map(|(kind, accepted_epoch, info)| QuorumPacket::Info { kind, accepted_epoch, info })
}

fn any_request() -> impl Strategy<Value = QuorumPacket> {
    let ids = vec(("[a-z]{0,5}", "\\PC{0,5}"), 0..4);
    let ids = ids.prop_map(|ids| ids.iter().map(|(scheme, id)| Id::new(scheme, id)).collect());
    (any::<i64>(), any::<i32>(), any::<i32>(), any_payload(), ids).prop_map(
        |(session, cxid, op, body, ids)| QuorumPacket::Request {
            session: SessionId(session),
            cxid,
            op,
            body,
            ids,
        },
    )
}

/// Packets with a body of their own.
fn any_body() -> impl Strategy<Value = QuorumPacket> {
    let server = || any::<i64>().prop_map(ServerId);
    let session = || any::<i64>().prop_map(SessionId);
    let epoch = proptest::option::of(0..=u32::try_from(i32::MAX).expect("it is positive"));
    let touched = vec((session(), any::<i32>()), 0..5);
    prop_oneof![
        (0..EPOCH_MAX, any::<i32>()).prop_map(|(epoch, protocol_version)| {
            QuorumPacket::LeaderInfo { epoch, protocol_version }
        }),
        (any_zxid(), epoch).prop_map(|(last_zxid, current_epoch)| {
            QuorumPacket::AckEpoch { last_zxid, current_epoch }
        }),
        (any_zxid(), server())
            .prop_map(|(zxid, leader)| QuorumPacket::CommitAndActivate { zxid, leader }),
        (any_zxid(), server(), any_payload()).prop_map(|(zxid, leader, payload)| {
            QuorumPacket::InformAndActivate { zxid, leader, payload }
        }),
        (session(), any::<i32>())
            .prop_map(|(session, timeout_ms)| { QuorumPacket::Revalidate { session, timeout_ms } }),
        (session(), any::<bool>())
            .prop_map(|(session, valid)| QuorumPacket::Revalidated { session, valid }),
        (any_zxid(), touched).prop_map(|(zxid, touched)| QuorumPacket::Ping { zxid, touched }),
    ]
}

fn any_fetch() -> impl Strategy<Value = QuorumPacket> {
    let chain = prop_oneof![Just(Chain::Broken), Just(Chain::Unbroken), Just(Chain::Busy)];
    let state = prop_oneof![
        Just(MemberState::Looking),
        Just(MemberState::Repairing),
        Just(MemberState::Suspended),
        Just(MemberState::FollowingQuorum),
        Just(MemberState::LeadingQuorum),
    ];
    let request = (any::<i64>(), any_zxid(), any_zxid());
    let damaged = vec((any_zxid(), any_zxid()), 0..5);
    prop_oneof![
        request.prop_map(|(from, after, before)| {
            QuorumPacket::Fetch(FetchRequest { from: ServerId(from), after, before })
        }),
        (any_zxid(), any_payload())
            .prop_map(|(zxid, payload)| QuorumPacket::Record { zxid, payload }),
        (any_zxid(), chain, state, damaged).prop_map(|(last_zxid, chain, state, damaged)| {
            QuorumPacket::Fetched(Fetched { last_zxid, chain, state, damaged })
        }),
    ]
}

fn any_packet() -> impl Strategy<Value = QuorumPacket> {
    let bare = any_zxid().prop_flat_map(|zxid| {
        prop_oneof![
            Just(QuorumPacket::Diff { zxid }),
            Just(QuorumPacket::Trunc { zxid }),
            Just(QuorumPacket::Snap { zxid }),
            Just(QuorumPacket::Commit { zxid }),
            Just(QuorumPacket::Ack { zxid }),
            Just(QuorumPacket::UpToDate),
            Just(QuorumPacket::Sync),
        ]
    });
    let txn = (any_zxid(), any_payload()).prop_flat_map(|(zxid, payload)| {
        prop_oneof![
            Just(QuorumPacket::Proposal { zxid, payload: payload.clone() }),
            Just(QuorumPacket::Inform { zxid, payload: payload.clone() }),
            Just(QuorumPacket::NewLeader { zxid, config: payload }),
        ]
    });
    prop_oneof![bare, txn, any_info(), any_request(), any_body(), any_fetch()]
}

proptest! {
    #[test]
    fn packets_come_back(packet in any_packet(), behind in vec(any::<u8>(), 0..4)) {
        let bytes = [encode(&packet), behind.clone()].concat();
        let mut reader = JuteReader::with_limit(&bytes, LIMIT);
        prop_assert_eq!(QuorumPacket::decode(&mut reader), Ok(packet));
        prop_assert_eq!(reader.rest(), behind);
    }

    #[test]
    fn a_packet_that_is_not_whole_is_late(packet in any_packet()) {
        let bytes = encode(&packet);
        for end in 0..bytes.len() {
            let mut reader = JuteReader::with_limit(&bytes[..end], LIMIT);
            let outcome = QuorumPacket::decode(&mut reader);
            let Err(DecodeError::Truncated { wanted, available }) = outcome else {
                panic!("{end} {outcome:?}");
            };
            prop_assert!((1..=bytes.len() - end).contains(&(wanted - available)), "{end} {outcome:?}");
            prop_assert_eq!(reader.rest().len(), end);
        }
    }

    #[test]
    fn no_bytes_panic(kind in prop_oneof![0..21_i32, 0x4853_0000..0x4853_0005], bytes in vec(any::<u8>(), 0..64)) {
        let bytes = [&kind.to_be_bytes()[..], &bytes].concat();
        if let Ok(packet) = decode(&bytes) {
            prop_assert_eq!(decode(&encode(&packet)), Ok(packet));
        }
    }
}

//! The messages of an election, byte by byte as Apache ZooKeeper 3.9.5 writes them, and as older
//! releases did.

use herdsman_proto::membership::Endpoint;
use herdsman_proto::notification::{HELLO_ADDRESS_BYTES_MAX, Hello};
use herdsman_proto::{DecodeError, JuteReader, Notification, ServerId, ServerState, Vote, Zxid};
use proptest::prelude::*;

/// State 2, leader 3, zxid 0x500000009, round 7.
const FRONT: &str = "00000002 0000000000000003 0000000500000009 0000000000000007";
/// Epoch 6: not that of the zxid.
const EPOCH: &str = "0000000000000006";
/// Server 3.
const SERVER: &str = "0000000000000003";
const V1: &str = "ffffffffffff0000";
const V2: &str = "ffffffffffff0001";

fn hex(pieces: &[&str]) -> Vec<u8> {
    let digits: String = pieces.concat().chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn notification(state: ServerState, epoch: i64, config: &str) -> Notification {
    let vote = Vote { leader: ServerId(3), zxid: Zxid(0x5_0000_0009), epoch };
    Notification { state, vote, round: 7, config: config.to_owned() }
}

fn encode(notification: &Notification) -> Vec<u8> {
    let mut out = Vec::new();
    notification.encode(&mut out);
    out
}

#[test]
fn notifications() {
    for (state, code) in [
        (ServerState::Looking, "00000000"),
        (ServerState::Following, "00000001"),
        (ServerState::Leading, "00000002"),
        (ServerState::Observing, "00000003"),
    ] {
        let bytes = hex(&[code, &FRONT[8..], EPOCH, "00000002 00000009 76657273696f6e3d30"]);
        let notification = notification(state, 6, "version=0");
        assert_eq!(encode(&notification), bytes);
        assert_eq!(Notification::decode(&bytes), Ok(notification));
    }
}

/// An observer looks for a leader with the smallest numbers there are.
#[test]
fn notifications_of_observers() {
    let least = "8000000000000000";
    let bytes = hex(&["00000000", least, least, "0000000000000001", least, "00000002 00000000"]);
    let vote = Vote { leader: ServerId(i64::MIN), zxid: Zxid(i64::MIN), epoch: i64::MIN };
    let state = ServerState::Looking;
    let notification = Notification { state, vote, round: 1, config: String::new() };
    assert_eq!(encode(&notification), bytes);
    assert_eq!(Notification::decode(&bytes), Ok(notification));
}

#[test]
fn notifications_of_all_ages_are_understood() {
    let check = |more: &[&str], epoch, config: &str| {
        let bytes = hex(&[&[FRONT], more].concat());
        let expected = notification(ServerState::Leading, epoch, config);
        assert_eq!(Notification::decode(&bytes), Ok(expected), "{more:?}");
    };
    check(&[], 5, "");
    check(&[EPOCH, "00000001"], 6, "");
    // Of 40 bytes the last four are not looked at.
    check(&[EPOCH, "00000002"], 6, "");
    check(&[EPOCH, "00000001 aa"], 6, "");
    check(&[EPOCH, "00000000 00000001 78"], 6, "");
    check(&[EPOCH, "ffffffff 00000001 78"], 6, "");
    check(&[EPOCH, "00000002 00000000"], 6, "");
    check(&[EPOCH, "00000003 00000001 78 aabb"], 6, "x");
    check(&[EPOCH, "00000002 00000001 ff"], 6, "\u{fffd}");
}

/// Java shifts with the sign.
#[test]
fn the_epoch_of_an_old_notification_has_the_sign_of_its_zxid() {
    let bytes = hex(&["00000000 0000000000000003 8000000000000000 0000000000000007"]);
    let notification = Notification::decode(&bytes).expect("28 bytes are enough");
    assert_eq!(notification.vote.epoch, -0x8000_0000);
}

#[test]
fn notifications_that_are_broken_are_refused() {
    let whole = hex(&[FRONT, EPOCH, "00000002 00000001 78"]);
    for length in (0..28).chain(29..40).chain(41..whole.len()) {
        let outcome = Notification::decode(&whole[..length]);
        assert!(matches!(outcome, Err(DecodeError::Truncated { .. })), "{length}: {outcome:?}");
    }
    let check = |bytes: &[&str], error| {
        assert_eq!(Notification::decode(&hex(bytes)), Err(error), "{bytes:?}");
    };
    let state = |value| DecodeError::Undefined { what: "server state", value };
    check(&["00000004", &FRONT[8..]], state(4));
    check(&["ffffffff", &FRONT[8..]], state(-1));
    check(&[FRONT, EPOCH, "00000002 ffffffff"], DecodeError::Null);
    check(&[FRONT, EPOCH, "00000002 fffffffe"], DecodeError::Length(-2));
    let missing = DecodeError::Truncated { wanted: 0x7fff_ffff, available: 1 };
    check(&[FRONT, EPOCH, "00000002 7fffffff 78"], missing);
}

fn hello(addresses: &str) -> Hello {
    Hello { server: ServerId(3), addresses: addresses.to_owned() }
}

fn encode_hello(hello: &Hello) -> Vec<u8> {
    let mut out = Vec::new();
    hello.encode(&mut out);
    out
}

#[test]
fn hellos() {
    let check = |hello: Hello, bytes: &[&str]| {
        let bytes = hex(bytes);
        assert_eq!(encode_hello(&hello), bytes);
        let stream = [&bytes[..], b"next"].concat();
        let mut reader = JuteReader::new(&stream);
        assert_eq!(Hello::decode(&mut reader), Ok(hello));
        assert_eq!(reader.rest(), b"next");
        for end in 0..bytes.len() {
            let mut reader = JuteReader::new(&bytes[..end]);
            let outcome = Hello::decode(&mut reader);
            assert!(matches!(outcome, Err(DecodeError::Truncated { .. })), "{end}: {outcome:?}");
            assert_eq!(reader.rest().len(), end, "the reader stays where it was");
        }
    };
    check(hello("a:3888"), &[V1, SERVER, "00000006 613a33383838"]);
    check(hello("[::1]:3888"), &[V1, SERVER, "0000000a 5b3a3a315d3a33383838"]);
    check(hello("a:1|b:2"), &[V2, SERVER, "00000007 613a317c623a32"]);
    // A server that does not say where it is sends its number only.
    check(hello(""), &[SERVER]);
}

#[test]
fn the_version_of_a_hello_does_not_bind_its_addresses() {
    for (version, addresses) in [(V2, "00000003 613a31"), (V1, "00000007 613a317c623a32")] {
        let bytes = hex(&[version, SERVER, addresses]);
        assert!(Hello::decode(&mut JuteReader::new(&bytes)).is_ok(), "{version}");
    }
}

#[test]
fn hellos_that_are_wrong_are_refused_at_once() {
    let check = |bytes: &[&str], error| {
        assert_eq!(Hello::decode(&mut JuteReader::new(&hex(bytes))), Err(error), "{bytes:?}");
    };
    let version = |value| DecodeError::Undefined { what: "election protocol", value };
    check(&["ffffffffffffffff"], version(-1));
    check(&["ffffffffffff0002"], version(-65534));
    check(&[V1, SERVER, "00000000"], DecodeError::Length(0));
    check(&[V1, SERVER, "ffffffff"], DecodeError::Length(-1));
    check(&[V1, SERVER, "00000801"], DecodeError::Length(2049));
    check(&[V2, SERVER, "7fffffff"], DecodeError::Length(i32::MAX));
    check(&[V2, SERVER, "80000000"], DecodeError::Length(i32::MIN));
    let longest = [hex(&[V1, SERVER, "00000800"]), vec![b'x'; 2048]].concat();
    assert!(Hello::decode(&mut JuteReader::new(&longest)).is_ok());
}

fn endpoint(host: &str, port: u16) -> Endpoint {
    Endpoint { host: Some(host.to_owned()), port }
}

#[test]
fn addresses_of_a_hello() {
    let check = |endpoints: &[Endpoint], addresses: &str| {
        let hello = Hello::new(ServerId(3), endpoints);
        assert_eq!(hello.addresses, addresses);
        assert_eq!(hello.endpoints().as_deref(), Ok(endpoints));
    };
    check(&[], "");
    check(&[endpoint("a", 1)], "a:1");
    check(&[endpoint("0:0:0:0:0:0:0:1", 1), endpoint("b", 2)], "[0:0:0:0:0:0:0:1]:1|b:2");
}

#[test]
fn addresses_as_others_write_them() {
    let endpoints = |addresses: &str| hello(addresses).endpoints();
    // A wildcard is not an address to connect to.
    assert_eq!(endpoints("0.0.0.0:1"), Ok(Vec::new()));
    assert_eq!(endpoints("[::]:1|a:2|0.0.0.0:3"), Ok(vec![endpoint("a", 2)]));
    assert_eq!(endpoints("a:2|"), Ok(vec![endpoint("a", 2)]));
    for wrong in ["a", "a:b", "a:1:2", "a:1||b:2", "|a:1", "[::1", "[::1]", "a:65536", "a:-1"] {
        assert!(endpoints(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_hello_holds_no_more_than_receivers_accept() {
    let longest = "h".repeat(HELLO_ADDRESS_BYTES_MAX - 2);
    let one = Hello::new(ServerId(3), &[endpoint(&longest, 1), endpoint("a", 2)]);
    assert_eq!(one.addresses.len(), HELLO_ADDRESS_BYTES_MAX);
    let bytes = encode_hello(&one);
    assert_eq!(Hello::decode(&mut JuteReader::new(&bytes)), Ok(one));
    let other = Hello::new(ServerId(3), &[endpoint(&longest, 10), endpoint("a", 2)]);
    assert_eq!(other.addresses, "a:2");
}

proptest! {
    #[test]
    fn notifications_come_back(
        state in prop_oneof![
            Just(ServerState::Looking), Just(ServerState::Following),
            Just(ServerState::Leading), Just(ServerState::Observing)
        ],
        (leader, zxid, epoch, round) in any::<(i64, i64, i64, i64)>(),
        config in "\\PC{0,40}",
    ) {
        let vote = Vote { leader: ServerId(leader), zxid: Zxid(zxid), epoch };
        let notification = Notification { state, vote, round, config };
        prop_assert_eq!(Notification::decode(&encode(&notification)), Ok(notification));
    }

    #[test]
    fn hellos_come_back(server in 0..=i64::MAX, addresses in "[a-z0-9:|.]{0,40}") {
        let hello = Hello { server: ServerId(server), addresses };
        let bytes = encode_hello(&hello);
        prop_assert_eq!(Hello::decode(&mut JuteReader::new(&bytes)), Ok(hello));
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = Notification::decode(&bytes);
        if let Ok(hello) = Hello::decode(&mut JuteReader::new(&bytes)) {
            let _ = hello.endpoints();
        }
    }
}

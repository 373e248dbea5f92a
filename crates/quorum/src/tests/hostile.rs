//! Malformed and abusive connections to the ports: they are closed, and no other connection is affected.

use herdsman_proto::LearnerKind;
use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};

use super::*;

const NO_HELLO: [u8; 8] = (-1_i64).to_be_bytes();
const HELLO_V1: [u8; 8] = (-65536_i64).to_be_bytes();

/// A server, and a member with a larger id that is connected to it.
fn with_good_peer(settings: NetworkSettings) -> (Server, Raw) {
    let server = Server::start(settings);
    let mut good = Raw::connect(server.election());
    good.hello(8, "127.0.0.1:1");
    good.send_vote(1);
    assert_eq!(server.vote(), (8, 1));
    (server, good)
}

fn still_talks(server: &Server, good: &mut Raw) {
    good.send_vote(2);
    assert_eq!(server.vote(), (8, 2));
}

#[test]
fn a_broken_hello_ends_that_connection_only() {
    let (server, mut good) = with_good_peer(settings(2));
    let hello = |id: i64, length: i32, rest: &[u8]| {
        [&HELLO_V1[..], &id.to_be_bytes(), &length.to_be_bytes(), rest].concat()
    };
    for bytes in [
        NO_HELLO.to_vec(),
        hello(3, 0, &[]),
        hello(3, -1, &[]),
        hello(3, 2049, &[b'x'; 2049]),
        hello(3, i32::MAX, &[]),
        hello(-5, 11, b"127.0.0.1:1"),
        hello(i64::MAX, 11, b"127.0.0.1:1"),
        // This server's own id.
        hello(2, 11, b"127.0.0.1:1"),
    ] {
        let mut peer = Raw::connect(server.election());
        peer.send(&bytes);
        assert!(peer.is_ended(), "{bytes:?}");
    }
    still_talks(&server, &mut good);
    server.stop();
}

#[test]
fn a_hello_that_ends_in_the_middle_is_nothing() {
    let (server, mut good) = with_good_peer(settings(2));
    let mut whole = Vec::new();
    Hello { server: ServerId(3), addresses: "127.0.0.1:1".to_owned() }.encode(&mut whole);
    for length in 0..whole.len() {
        let mut peer = Raw::connect(server.election());
        peer.send(&whole[..length]);
        drop(peer);
    }
    still_talks(&server, &mut good);
    server.stop();
}

#[test]
fn a_browser_on_the_election_port_is_sent_away() {
    let (server, mut good) = with_good_peer(settings(2));
    let mut peer = Raw::connect(server.election());
    peer.send(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n");
    assert!(peer.is_ended());
    still_talks(&server, &mut good);
    server.stop();
}

#[test]
fn a_frame_of_impossible_length_ends_that_connection_only() {
    let (server, mut good) = with_good_peer(settings(2));
    for length in [0, -1, 524_289, i32::MIN, i32::MAX] {
        let mut peer = Raw::connect(server.election());
        peer.hello(3, "127.0.0.1:1");
        peer.send(&length.to_be_bytes());
        assert!(peer.is_ended(), "{length}");
    }
    still_talks(&server, &mut good);
    server.stop();
}

#[test]
fn a_message_that_is_no_vote_is_skipped() {
    let server = Server::alone(2);
    let mut peer = Raw::connect(server.election());
    peer.hello(3, "127.0.0.1:1");
    peer.send(&[0, 0, 0, 3, 1, 2, 3]);
    peer.send(&524_288_i32.to_be_bytes());
    peer.send(&vec![0xff; 524_288]);
    peer.send_vote(4);
    assert_eq!(server.vote(), (3, 4));
    server.stop();
}

#[test]
fn a_peer_without_a_hello_is_disconnected() {
    let hello_timeout = Duration::from_millis(50);
    let server = Server::start(NetworkSettings { hello_timeout, ..settings(2) });
    let mut silent = Raw::connect(server.election());
    let mut slow = Raw::connect(server.election());
    slow.send(&HELLO_V1);
    assert!(silent.is_ended());
    assert!(slow.is_ended());
    server.stop();
}

#[test]
fn silent_connections_do_not_keep_a_member_out() {
    let server = Server::alone(2);
    let silent: Vec<_> = (0..80).map(|_| Raw::connect(server.election())).collect();
    let (_listener, three) = stand_in();
    server.know(&[(3, three)]);
    // On a slow machine it may have to try more than once, as members do.
    let heard = (0..1000).any(|_| {
        let mut peer = Raw::connect(server.election());
        let mut hello = Vec::new();
        Hello { server: ServerId(3), addresses: "127.0.0.1:1".to_owned() }.encode(&mut hello);
        hello.extend_from_slice(&crate::election::frame_of(&vote(7)));
        _ = peer.0.write_all(&hello);
        server.tell(3, 8);
        let mut answer = [0; 4];
        peer.0.read_exact(&mut answer).is_ok()
    });
    assert!(heard);
    assert_eq!(server.vote(), (3, 7));
    drop(silent);
    server.stop();
}

#[test]
fn unlisted_servers_are_limited() {
    let server = Server::alone(2);
    let mut ended = 0;
    let mut kept = Vec::new();
    for id in 100..140 {
        let mut peer = Raw::connect(server.election());
        peer.hello(id, "127.0.0.1:1");
        peer.send_vote(id);
        if id < 132 {
            assert_eq!(server.vote(), (id, id));
            kept.push(peer);
        } else {
            assert!(peer.is_ended());
            ended += 1;
        }
    }
    assert_eq!((kept.len(), ended), (32, 8));
    server.stop();
}

#[test]
fn what_is_no_packet_loses_the_link_and_no_other() {
    let server = Server::start(NetworkSettings { field_bytes_max: 1000, ..settings(1) });
    let mut good = Raw::connect(server.quorum());
    good.send_packet(&commit(1));
    let good_link = server.opened();
    assert_eq!(server.packet(good_link), commit(1));
    let head = |kind: i32, length: i32| {
        [&kind.to_be_bytes()[..], &7_i64.to_be_bytes(), &length.to_be_bytes()].concat()
    };
    let many_ids = [&head(4, -1)[..], &i32::MAX.to_be_bytes(), &vec![0; 2 << 20]].concat();
    for bytes in [
        [head(99, -1), vec![0xff; 4]].concat(),
        head(2, 1001),
        head(2, -2),
        head(2, i32::MAX),
        // LEADERINFO without its version.
        [head(17, 0), vec![0xff; 4]].concat(),
        // SNAP: only a leader may send a tree.
        [head(15, -1), vec![0xff; 4]].concat(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        many_ids,
    ] {
        let mut peer = Raw::connect(server.quorum());
        // It may be ended while it still sends.
        _ = peer.0.write_all(&bytes);
        assert!(peer.is_ended(), "{:?}", &bytes[..16]);
    }
    good.send_packet(&commit(2));
    assert_eq!(server.packet(good_link), commit(2));
    server.stop();
}

#[test]
fn a_packet_that_ends_in_the_middle_is_no_packet() {
    let server = Server::alone(1);
    let mut bytes = Vec::new();
    commit(1).encode(&mut bytes);
    for length in 0..bytes.len() {
        let mut peer = Raw::connect(server.quorum());
        peer.send(&bytes[..length]);
        drop(peer);
    }
    // Nothing is reported about them.
    let mut whole = Raw::connect(server.quorum());
    whole.send_packet(&commit(2));
    let link = server.wait(|event| match event {
        Event::Input(Input::LinkOpened { link, .. }) => Some(link),
        other => panic!("{other:?}"),
    });
    assert_eq!(server.packet(link), commit(2));
    server.stop();
}

#[test]
fn packets_before_garbage_count() {
    let server = Server::alone(1);
    let mut peer = Raw::connect(server.quorum());
    let mut bytes = Vec::new();
    commit(1).encode(&mut bytes);
    commit(2).encode(&mut bytes);
    bytes.extend_from_slice(&[0xff; 20]);
    peer.send(&bytes);
    let link = server.opened();
    assert_eq!(server.packet(link), commit(1));
    assert_eq!(server.packet(link), commit(2));
    server.lost(link);
    server.stop();
}

#[test]
fn a_learner_that_does_not_introduce_itself_is_dropped() {
    let init_limit = Duration::from_millis(50);
    let server = Server::start(NetworkSettings { init_limit, ..settings(1) });
    let mut silent = Raw::connect(server.quorum());
    assert!(silent.is_ended());
    let mut slow = Raw::connect(server.quorum());
    slow.send(&[0, 0]);
    assert!(slow.is_ended());
    server.stop();
}

#[test]
fn a_learner_that_stops_reading_loses_its_link_at_the_limit() {
    let queue_bytes_max = 256 * 1024;
    let server = Server::start(NetworkSettings { queue_bytes_max, ..settings(1) });
    let mut peer = Raw::connect(server.quorum());
    peer.send_packet(&commit(1));
    let link = server.opened();
    assert_eq!(server.packet(link), commit(1));
    let proposal = QuorumPacket::Proposal { zxid: Zxid(2), payload: vec![7; 64 * 1024].into() };
    // The system's buffers come on top of the limit; their size is not known, but limited.
    let lost = (0..100_000).any(|_| {
        server.send(link, &proposal);
        matches!(server.events.try_recv(), Ok(Event::Input(Input::LinkLost { .. })))
    });
    if !lost {
        server.lost(link);
    }
    server.stop();
}

#[test]
fn silent_connections_do_not_keep_a_learner_out() {
    let server = Server::alone(1);
    let silent: Vec<_> = (0..50).map(|_| Raw::connect(server.quorum())).collect();
    let introduced = (0..1000).any(|_| {
        let mut peer = Raw::connect(server.quorum());
        let mut bytes = Vec::new();
        commit(1).encode(&mut bytes);
        // Either another connection was closed, or this one was rejected.
        let sent = peer.0.write_all(&bytes).is_ok();
        sent && !peer.is_ended_within(Duration::from_millis(200))
    });
    assert!(introduced);
    drop(silent);
    server.stop();
}

fn introduction(server: i64) -> QuorumPacket {
    let info = LearnerInfo {
        server: ServerId(server),
        protocol_version: PROTOCOL_VERSION,
        config_version: 0,
    };
    QuorumPacket::Info { kind: LearnerKind::Observer, accepted_epoch: 1, info: Some(info) }
}

/// Connects and claims to be this server; `None` if the link is lost.
fn introduce(server: &Server, id: i64) -> Option<(Raw, LinkId)> {
    let mut peer = Raw::connect(server.quorum());
    peer.send_packet(&introduction(id));
    let link = server.opened();
    server
        .wait(|event| match event {
            Event::Input(Input::Packet { link: of, .. }) if of == link => Some(true),
            Event::Input(Input::LinkLost { link: of }) if of == link => Some(false),
            _ => None,
        })
        .then_some((peer, link))
}

fn is_served(server: &Server, (peer, link): &mut (Raw, LinkId)) {
    server.send(*link, &commit(5));
    let mut bytes = Vec::new();
    commit(5).encode(&mut bytes);
    assert_eq!(peer.read::<20>()[..], bytes);
}

/// All of them claim to be servers, and none is.
#[test]
fn servers_that_are_not_listed_do_not_keep_a_member_out() {
    let server = Server::alone(1);
    let (_listener, three) = stand_in();
    server.know(&[(3, three)]);
    let unlisted: Vec<_> = (100..150).filter_map(|id| introduce(&server, id)).collect();
    assert_eq!(unlisted.len(), 32);
    let mut member = introduce(&server, 3).expect("has a slot of its own");
    is_served(&server, &mut member);
    server.stop();
}

/// All of them claim to be this very member.
#[test]
fn a_member_that_is_up_to_date_keeps_its_link() {
    let server = Server::alone(1);
    let (_listener, three) = stand_in();
    server.know(&[(3, three)]);
    let mut member = introduce(&server, 3).expect("has a slot of its own");
    server.network.keep(member.1);
    let liars: Vec<_> = (0..50).filter_map(|_| introduce(&server, 3)).collect();
    assert_eq!(liars.len(), 50);
    is_served(&server, &mut member);
    for (mut liar, _) in liars.into_iter().take(40) {
        assert!(liar.is_ended());
    }
    server.stop();
}

/// Otherwise any host could keep two members from exchanging votes, and vote for one of them.
#[test]
fn a_member_keeps_its_connection_for_votes_while_others_use_its_number() {
    // A server with a larger id connects to this one; this one connects to a server with a smaller id.
    for number in [3, 1] {
        let server = Server::alone(2);
        let (listener, member) = stand_in();
        server.know(&[(number, member)]);
        server.tell(number, 5);
        let mut good = Raw::accept(&listener);
        good.read_hello();
        if number == 3 {
            good = Raw::connect(server.election());
            good.hello(3, "127.0.0.1:1");
        }
        assert_eq!(good.read_vote(), 5);
        let (elsewhere, _) = stand_in();
        for _ in 0..3 {
            let mut hostile = Raw::connect(server.election());
            hostile.hello(number, &elsewhere.local_addr().unwrap().to_string());
            hostile.send_vote(666);
            assert!(hostile.is_ended());
        }
        // To check the connection, the last vote was sent again.
        assert_eq!(good.read_vote(), 5);
        good.send_vote(6);
        assert_eq!(server.vote(), (number, 6));
        elsewhere.set_nonblocking(true).unwrap();
        let called = elsewhere.accept().map(|_| ());
        assert_eq!(called.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        server.stop();
    }
}

/// Claiming that a member has moved does not redirect its connections, as long as it has not.
#[test]
fn a_member_is_called_where_the_membership_says_first() {
    let server = Server::alone(2);
    let (listener, one) = stand_in();
    let (elsewhere, _) = stand_in();
    server.know(&[(1, one)]);
    let mut hostile = Raw::connect(server.election());
    hostile.hello(1, &elsewhere.local_addr().unwrap().to_string());
    let mut called = Raw::accept(&listener);
    assert_eq!(called.read_hello().server, ServerId(2));
    called.send_vote(6);
    assert_eq!(server.vote(), (1, 6));
    server.stop();
}

/// A server without a leader would adopt it.
#[test]
fn a_membership_is_adopted_from_members_only() {
    let server = Server::alone(2);
    let (_listener, three) = stand_in();
    server.know(&[(3, three)]);
    let config = || {
        server.wait(|event| match event {
            Event::Input(Input::Notification { message, .. }) => Some(message.config),
            _ => None,
        })
    };
    for (number, expected) in [(9, ""), (3, "version=0")] {
        let mut peer = Raw::connect(server.election());
        peer.hello(number, "127.0.0.1:1");
        peer.send_vote(1);
        assert_eq!(config(), expected);
    }
    server.stop();
}

/// A server that has just started accepts the first connection that claims to be the member.
#[test]
fn a_member_is_asked_to_call_if_its_number_comes_from_elsewhere() {
    let server = Server::alone(2);
    let (listener, three) = stand_in();
    server.know(&[(3, three)]);
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 66], 0)).into()).unwrap();
    socket.connect(&server.election().into()).unwrap();
    let mut hostile = Raw::over(socket.into());
    hostile.hello(3, "127.0.0.66:1");
    hostile.send_vote(666);
    assert_eq!(server.vote(), (3, 666));
    assert_eq!(Raw::accept(&listener).read_hello().server, ServerId(2));
    let mut three = Raw::connect(server.election());
    three.hello(3, "127.0.0.1:1");
    assert!(hostile.is_ended());
    three.send_vote(6);
    assert_eq!(server.vote(), (3, 6));
    server.stop();
}

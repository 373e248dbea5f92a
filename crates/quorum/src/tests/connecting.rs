//! Connecting to a leader.

use socket2::{Domain, Socket, Type};

use super::*;

/// A port that is reserved, and that refuses connections until it listens.
pub(super) fn bound_but_closed() -> (Socket, Member) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    (socket, member(&[(port, port)]))
}

#[test]
fn a_port_that_opens_later_is_reached() {
    let server = Server::alone(2);
    let (socket, leader) = bound_but_closed();
    server.know(&[(1, leader)]);
    let requested = server.network.connect(ServerId(1), LearnerPort::Quorum);
    socket.listen(8).unwrap();
    assert_eq!(server.connected(), (requested, ConnectResult::Connected));
    let mut leader = Raw::accept(&socket.into());
    server.send(requested, &commit(1));
    let mut expected = Vec::new();
    commit(1).encode(&mut expected);
    assert_eq!(leader.read::<20>()[..], expected);
    server.stop();
}

#[test]
fn an_attempt_fails_when_its_time_is_up() {
    let limit = Duration::from_millis(50);
    let server = Server::start(NetworkSettings { connect_limit: limit, ..settings(2) });
    let (_socket, leader) = bound_but_closed();
    server.know(&[(1, leader)]);
    // A server that is not in the membership has no address, now or later.
    for to in [1, 77] {
        let requested = server.network.connect(ServerId(to), LearnerPort::Quorum);
        assert_eq!(server.connected(), (requested, ConnectResult::Failed));
    }
    server.stop();
}

#[test]
fn an_attempt_fails_after_so_many_tries() {
    let connect_tries_max = std::num::NonZeroU32::new(3);
    let server = Server::start(NetworkSettings { connect_tries_max, ..settings(2) });
    let (_socket, leader) = bound_but_closed();
    server.know(&[(1, leader)]);
    let requested = server.network.connect(ServerId(1), LearnerPort::Quorum);
    assert_eq!(server.connected(), (requested, ConnectResult::Failed));
    server.stop();
}

#[test]
fn a_newer_request_replaces_the_older() {
    let server = Server::alone(3);
    let (_socket, away) = bound_but_closed();
    let (_listener, leader) = stand_in();
    server.know(&[(1, away), (2, leader)]);
    let older = server.network.connect(ServerId(1), LearnerPort::Quorum);
    let newer = server.network.connect(ServerId(2), LearnerPort::Quorum);
    assert_ne!(older, newer);
    assert_eq!(server.connected(), (newer, ConnectResult::Connected));
    server.stop();
}

#[test]
fn a_cancelled_attempt_is_not_heard_of() {
    let server = Server::alone(3);
    let (_socket, away) = bound_but_closed();
    let (_listener, leader) = stand_in();
    server.know(&[(1, away), (2, leader)]);
    server.network.connect(ServerId(1), LearnerPort::Quorum);
    server.network.cancel_connect();
    let closed = server.network.connect(ServerId(1), LearnerPort::Quorum);
    server.network.close(closed);
    let requested = server.network.connect(ServerId(2), LearnerPort::Quorum);
    assert_eq!(server.connected(), (requested, ConnectResult::Connected));
    server.stop();
}

#[test]
fn many_requests_in_a_row_leave_one_link() {
    let (leader, learner) = (Server::alone(1), Server::alone(2));
    learner.know(&[(1, leader.member())]);
    let ids: Vec<_> =
        (0..100).map(|_| learner.network.connect(ServerId(1), LearnerPort::Quorum)).collect();
    let last = ids[99];
    learner.wait(|event| match event {
        Event::Connect(link, ConnectResult::Connected) if link == last => Some(()),
        // One that was connected before the next request.
        Event::Connect(_, ConnectResult::Connected) => None,
        other => panic!("{other:?}"),
    });
    learner.send(last, &commit(1));
    leader.wait(|event| matches!(event, Event::Input(Input::Packet { .. })).then_some(()));
    leader.stop();
    learner.stop();
}

#[test]
fn every_address_of_a_member_is_tried() {
    let server = Server::alone(2);
    let (socket, _) = bound_but_closed();
    let (listener, _) = stand_in();
    let closed = socket.local_addr().unwrap().as_socket().unwrap().port();
    let open = listener.local_addr().unwrap().port();
    server.know(&[(1, member(&[(closed, closed), (open, open)]))]);
    let requested = server.network.connect(ServerId(1), LearnerPort::Quorum);
    assert_eq!(server.connected(), (requested, ConnectResult::Connected));
    server.tell(1, 5);
    // The same for votes; the first to be accepted is the link.
    drop(Raw::accept(&listener));
    let mut peer = Raw::accept(&listener);
    peer.read_hello();
    assert_eq!(peer.read_vote(), 5);
    server.stop();
}

#[test]
fn a_stop_ends_an_attempt_that_still_tries() {
    let server = Server::alone(2);
    let (_socket, away) = bound_but_closed();
    server.know(&[(1, away)]);
    server.network.connect(ServerId(1), LearnerPort::Quorum);
    server.tell(1, 1);
    server.stop();
}

//! Votes: who connects to whom, and what arrives.

use super::*;

#[test]
fn two_servers_tell_each_other_whoever_speaks_first() {
    for (first, second) in [(1, 2), (2, 1)] {
        let servers = ensemble(&[first, second]);
        servers[0].tell(second, 10);
        assert_eq!(servers[1].vote(), (first, 10));
        servers[1].tell(first, 20);
        assert_eq!(servers[0].vote(), (second, 20));
        servers.into_iter().for_each(Server::stop);
    }
}

#[test]
fn three_servers_that_speak_at_once_all_hear_each_other() {
    let servers = ensemble(&[1, 2, 3]);
    for from in &servers {
        for to in &servers {
            if from.id != to.id {
                from.tell(to.id.0, from.id.0);
            }
        }
    }
    for server in &servers {
        let mut heard = std::collections::BTreeSet::new();
        while heard.len() < 2 {
            let (from, round) = server.vote();
            assert_eq!(from, round);
            heard.insert(from);
        }
    }
    servers.into_iter().for_each(Server::stop);
}

#[test]
fn a_smaller_id_is_called_and_the_connection_is_kept() {
    let server = Server::alone(2);
    let (listener, one) = stand_in();
    server.know(&[(1, one)]);
    server.tell(1, 5);
    let mut peer = Raw::accept(&listener);
    let hello = peer.read_hello();
    assert_eq!(hello.server, ServerId(2));
    assert_eq!(hello.addresses, server.election().to_string());
    assert_eq!(peer.read_vote(), 5);
    peer.send_vote(6);
    assert_eq!(server.vote(), (1, 6));
    server.stop();
}

#[test]
fn a_smaller_id_that_calls_is_called_back_where_it_says() {
    let server = Server::alone(2);
    let (listener, _) = stand_in();
    let (elsewhere, one) = stand_in();
    drop(elsewhere);
    // The membership is out of date: the peer has moved.
    server.know(&[(1, one)]);
    let mut caller = Raw::connect(server.election());
    caller.hello(1, &listener.local_addr().unwrap().to_string());
    assert!(caller.is_ended());
    let mut peer = Raw::accept(&listener);
    assert_eq!(peer.read_hello().server, ServerId(2));
    server.tell(1, 5);
    assert_eq!(peer.read_vote(), 5);
    // When it connects again, it has ended its old connection; the last vote is sent once more on the new one.
    drop(peer);
    let mut caller = Raw::connect(server.election());
    caller.hello(1, &listener.local_addr().unwrap().to_string());
    let mut peer = Raw::accept(&listener);
    peer.read_hello();
    assert_eq!(peer.read_vote(), 5);
    server.stop();
}

#[test]
fn a_larger_id_is_only_asked_to_call() {
    let server = Server::alone(2);
    let (listener, three) = stand_in();
    server.know(&[(3, three)]);
    server.tell(3, 5);
    let mut asked = Raw::accept(&listener);
    assert_eq!(asked.read_hello().server, ServerId(2));
    assert!(asked.is_ended(), "a vote was sent on a connection that is not kept");
    let mut peer = Raw::connect(server.election());
    peer.hello(3, "127.0.0.1:1");
    assert_eq!(peer.read_vote(), 5);
    server.stop();
}

#[test]
fn the_last_vote_is_sent_again_on_a_new_connection() {
    let server = Server::alone(2);
    let (_listener, three) = stand_in();
    server.know(&[(3, three)]);
    let mut peer = Raw::connect(server.election());
    peer.hello(3, "127.0.0.1:1");
    server.tell(3, 5);
    assert_eq!(peer.read_vote(), 5);
    drop(peer);
    for _ in 0..3 {
        let mut peer = Raw::connect(server.election());
        peer.hello(3, "127.0.0.1:1");
        assert_eq!(peer.read_vote(), 5);
    }
    server.stop();
}

#[test]
fn only_the_newest_vote_waits_for_a_peer_that_is_away() {
    let server = Server::alone(2);
    let (_listener, three) = stand_in();
    server.know(&[(3, three)]);
    for round in 1..=50 {
        server.tell(3, round);
    }
    let mut peer = Raw::connect(server.election());
    peer.hello(3, "127.0.0.1:1");
    assert_eq!(peer.read_vote(), 50);
    server.tell(3, 51);
    assert_eq!(peer.read_vote(), 51);
    server.stop();
}

#[test]
fn a_newer_connection_of_the_same_peer_replaces_the_older() {
    let server = Server::alone(2);
    let mut old = Raw::connect(server.election());
    old.hello(3, "127.0.0.1:1");
    old.send_vote(1);
    assert_eq!(server.vote(), (3, 1));
    let mut new = Raw::connect(server.election());
    new.hello(3, "127.0.0.1:1");
    assert!(old.is_ended());
    new.send_vote(2);
    assert_eq!(server.vote(), (3, 2));
    server.stop();
}

#[test]
fn a_peer_of_the_old_days_says_only_its_id() {
    let server = Server::alone(2);
    let mut peer = Raw::connect(server.election());
    peer.send(&3_i64.to_be_bytes());
    peer.send_vote(4);
    assert_eq!(server.vote(), (3, 4));
    server.tell(3, 5);
    assert_eq!(peer.read_vote(), 5);
    server.stop();
}

#[test]
fn a_server_that_no_membership_names_is_heard_and_answered() {
    let server = Server::alone(2);
    let (listener, _) = stand_in();
    let mut larger = Raw::connect(server.election());
    larger.hello(9, "127.0.0.1:1");
    larger.send_vote(1);
    assert_eq!(server.vote(), (9, 1));
    server.tell(9, 2);
    assert_eq!(larger.read_vote(), 2);
    // One with a smaller id is connected to at the address in its hello, because no other address is known.
    let mut caller = Raw::connect(server.election());
    caller.hello(1, &listener.local_addr().unwrap().to_string());
    let mut smaller = Raw::accept(&listener);
    smaller.read_hello();
    smaller.send_vote(3);
    assert_eq!(server.vote(), (1, 3));
    server.tell(1, 4);
    assert_eq!(smaller.read_vote(), 4);
    server.stop();
}

#[test]
fn a_vote_waits_for_a_peer_whose_port_opens_later() {
    let server = Server::alone(2);
    let (socket, one) = super::connecting::bound_but_closed();
    server.know(&[(1, one)]);
    server.tell(1, 5);
    socket.listen(8).unwrap();
    let mut peer = Raw::accept(&socket.into());
    peer.read_hello();
    assert_eq!(peer.read_vote(), 5);
    server.stop();
}

#[test]
fn all_addresses_are_sent_if_configured() {
    let (listener, one) = stand_in();
    let two = member(&[(1, 2), (3, 4)]);
    for (all, expected) in [(true, "127.0.0.1:2|127.0.0.1:4"), (false, "127.0.0.1:2")] {
        let server = Server::start(NetworkSettings { tell_all_addresses: all, ..settings(2) });
        server.network.set_membership(membership(&[(1, one.clone()), (2, two.clone())]));
        server.tell(1, 5);
        assert_eq!(Raw::accept(&listener).read_hello().addresses, expected);
        server.stop();
    }
}

#[test]
fn a_removed_member_is_heard_until_it_leaves() {
    let servers = ensemble(&[1, 2]);
    servers[0].tell(2, 1);
    assert_eq!(servers[1].vote(), (1, 1));
    servers[1].know(&[]);
    servers[0].tell(2, 2);
    assert_eq!(servers[1].vote(), (1, 2));
    servers.into_iter().for_each(Server::stop);
}

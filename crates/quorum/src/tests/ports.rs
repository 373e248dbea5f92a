//! How ports are opened.

use std::num::{NonZeroU16, NonZeroU32};

use herdsman_proto::membership::Endpoint;

use super::*;

/// Settings of a server whose ports are these.
fn with_ports(host: &str, quorum_port: u16, election_port: u16) -> NetworkSettings {
    let mut own = member(&[(quorum_port, election_port)]);
    own.addresses[0].host = host.to_owned();
    NetworkSettings { membership: membership(&[(1, own)]), ..settings(1) }
}

#[test]
fn a_port_that_is_taken_is_given_up_after_so_many_tries() {
    let (listener, _) = stand_in();
    let taken = listener.local_addr().unwrap().port();
    for (quorum, election, kind) in [(taken, 0, PortKind::Quorum), (0, taken, PortKind::Election)] {
        let bind_tries_max = NonZeroU32::new(1);
        let settings = with_ports("127.0.0.1", quorum, election);
        let server = Server::start(NetworkSettings { bind_tries_max, ..settings });
        let failure = server.wait(|event| match event {
            Event::PortFailed(failure) => Some(failure),
            _ => None,
        });
        assert_eq!((failure.kind, failure.tries), (kind, 1));
        assert!(failure.to_string().contains(&format!("127.0.0.1:{taken}")), "{failure}");
        server.stop();
    }
}

#[test]
fn a_port_that_comes_free_is_opened() {
    let (listener, _) = stand_in();
    let taken = listener.local_addr().unwrap();
    let server = Server::start(with_ports("127.0.0.1", 0, taken.port()));
    assert_eq!(server.network.open_addresses(PortKind::Election), []);
    drop(listener);
    while server.network.open_addresses(PortKind::Election) != [taken] {
        // Nothing is reported; this only saves processor time.
        _ = server.events.recv_timeout(Duration::from_millis(10));
    }
    let mut peer = Raw::connect(taken);
    peer.hello(3, "127.0.0.1:1");
    peer.send_vote(4);
    assert_eq!(server.vote(), (3, 4));
    server.stop();
}

/// The system assigns local ports of outgoing connections from a range in which a server's own ports may be.
#[test]
fn a_port_in_use_by_an_outgoing_connection_is_retried() {
    let (listener, _) = stand_in();
    let outgoing = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let taken = outgoing.local_addr().unwrap();
    let server = Server::start(with_ports("127.0.0.1", 0, taken.port()));
    assert_eq!(server.network.open_addresses(PortKind::Election), []);
    // The far end closes first, so that no state of the connection stays at this one.
    let (mut far, _) = listener.accept().unwrap();
    far.shutdown(std::net::Shutdown::Write).unwrap();
    drop(outgoing);
    assert_eq!(far.read(&mut [0]).unwrap(), 0);
    while server.network.open_addresses(PortKind::Election) != [taken] {
        _ = server.events.recv_timeout(Duration::from_millis(10));
    }
    server.stop();
}

#[test]
fn a_port_that_is_given_up_is_explained() {
    let failure = |kind: std::io::ErrorKind| PortFailure {
        kind: PortKind::Election,
        endpoint: Endpoint { host: Some("10.0.0.1".to_owned()), port: 3888 },
        tries: 60,
        source: kind.into(),
    };
    let text = failure(std::io::ErrorKind::AddrInUse).to_string();
    for piece in ["10.0.0.1:3888 (election port) after 60 tries", "ip_local_reserved_ports", "myid"]
    {
        assert!(text.contains(piece), "{text}");
    }
    let text = failure(std::io::ErrorKind::AddrNotAvailable).to_string();
    assert!(text.contains("this machine does not have that address"), "{text}");
}

#[test]
fn one_of_several_addresses_can_be_missed() {
    let (listener, _) = stand_in();
    let taken = listener.local_addr().unwrap().port();
    let own = member(&[(0, taken), (0, 0)]);
    let server = Server::start(NetworkSettings {
        membership: membership(&[(1, own)]),
        bind_tries_max: NonZeroU32::new(1),
        ..settings(1)
    });
    assert_eq!(server.network.open_addresses(PortKind::Election).len(), 1);
    drop(listener);
    while server.network.open_addresses(PortKind::Election).len() < 2 {
        match server.events.recv_timeout(Duration::from_millis(10)) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("{other:?}"),
        }
    }
    server.stop();
}

/// ZOOKEEPER-4708: in some clusters a server's name exists only after the server has started.
#[test]
fn an_own_name_without_address_does_not_stop_the_server() {
    // No name server is asked about this name.
    let settings = with_ports("no\0name", 0, 0);
    let server = Server::start(NetworkSettings { bind_tries_max: NonZeroU32::new(1), ..settings });
    assert_eq!(server.network.open_addresses(PortKind::Quorum), []);
    // It can still reach other servers.
    let (listener, leader) = stand_in();
    server.network.set_membership(membership(&[(2, leader)]));
    let requested = server.network.connect(ServerId(2), LearnerPort::Quorum);
    server.wait(|event| match event {
        Event::Connect(link, ConnectResult::Connected) if link == requested => Some(()),
        other => panic!("{other:?}"),
    });
    drop(listener);
    server.stop();
}

#[test]
fn a_server_listens_on_all_addresses_if_it_should() {
    let settings = with_ports("no\0name", 0, 0);
    let server = Server::start(NetworkSettings { listen_on_all_addresses: true, ..settings });
    for kind in [PortKind::Election, PortKind::Quorum] {
        let addresses = server.network.open_addresses(kind);
        assert!(addresses.len() == 1 && addresses[0].ip().is_unspecified(), "{addresses:?}");
    }
    server.stop();
}

#[test]
fn a_membership_without_this_server_does_not_start() {
    let network =
        QuorumNetwork::new(NetworkSettings { membership: membership(&[]), ..settings(1) });
    let (sender, _events) = mpsc::channel();
    assert!(network.start(Arc::new(Probe::new(sender))).is_err());
}

#[test]
fn a_network_that_was_never_started_can_be_stopped() {
    let network = QuorumNetwork::new(settings(1));
    network.notify(ServerId(2), &vote(1));
    network.send(LinkId(1), &commit(1));
    network.stop();
    network.stop();
}

#[test]
fn followers_have_a_port_for_observers() {
    for (role, count) in [(Role::Participant, 1), (Role::Observer, 0)] {
        let (listener, stand_in) = stand_in();
        let port = stand_in.addresses[0].quorum_port;
        drop(listener);
        let mut own = member(&[(0, 0)]);
        own.role = role;
        let server = Server::start(NetworkSettings {
            membership: membership(&[(1, own)]),
            observer_master_port: NonZeroU16::new(port),
            ..settings(1)
        });
        let open = server.network.open_addresses(PortKind::ObserverMaster);
        assert_eq!(open.len(), count, "{role:?}");
        for address in open {
            let mut learner = Raw::connect(address);
            learner.send_packet(&commit(1));
            let port = server.wait(|event| match event {
                Event::Input(Input::LinkOpened { port, .. }) => Some(port),
                _ => None,
            });
            assert_eq!(port, LearnerPort::ObserverMaster);
        }
        server.stop();
    }
}

#[test]
fn an_observer_goes_to_the_port_for_observers() {
    let (listener, stand_in) = stand_in();
    let port = stand_in.addresses[0].quorum_port;
    let server = Server::start(NetworkSettings {
        membership: membership(&[(1, member(&[(1, 1)])), (2, member(&[(0, 0)]))]),
        observer_master_port: NonZeroU16::new(port),
        ..settings(2)
    });
    let requested = server.network.connect(ServerId(1), LearnerPort::ObserverMaster);
    listener.accept().unwrap();
    let connected = server.wait(|event| match event {
        Event::Connect(link, result) if link == requested => Some(result),
        _ => None,
    });
    assert_eq!(connected, ConnectResult::Connected);
    server.stop();
}

//! Records of the log for members that lack them.

use herdsman_proto::quorum::fetch::TO_THE_END;

use super::*;

fn request(from: i64, after: i64, before: i64) -> FetchRequest {
    FetchRequest { from: ServerId(from), after: Zxid(after), before: Zxid(before) }
}

fn report(chain: Chain) -> Fetched {
    let (last_zxid, state) = (Zxid(9), MemberState::FollowingQuorum);
    Fetched { last_zxid, chain, state, damaged: vec![(Zxid(3), Zxid(5))] }
}

/// The protocol core would close such a connection at a server that does not lead.
#[test]
fn members_get_records_without_a_link_of_the_core() {
    let servers = ensemble(&[1, 2]);
    let mut connection = servers[1].network.dial_member(ServerId(1), PATIENCE).unwrap();
    for (after, before) in [(2, 9), (100, 102), (0, 500)] {
        let mut zxids = Vec::new();
        let fetched =
            connection.fetch(request(2, after, before), &|| true, &mut |zxid, payload| {
                assert_eq!(payload.len(), usize::try_from(zxid.0).unwrap());
                zxids.push(zxid.0);
                ControlFlow::Continue(())
            });
        assert_eq!(fetched.unwrap(), report(Chain::Unbroken));
        assert_eq!(zxids, (after + 1..before).collect::<Vec<_>>());
    }
    drop(connection);
    // The first event is that of a learner.
    let requested = servers[1].network.connect(ServerId(1), LearnerPort::Quorum);
    assert_eq!(servers[1].connected(), (requested, ConnectResult::Connected));
    servers[1].send(requested, &commit(1));
    let link = servers[0].wait(|event| match event {
        Event::Input(Input::LinkOpened { link, .. }) => Some(link),
        other => panic!("{other:?}"),
    });
    assert_eq!(servers[0].packet(link), commit(1));
    servers.into_iter().for_each(Server::stop);
}

#[test]
fn only_members_get_records() {
    let server = Server::alone(1);
    server.know(&[(2, member(&[(1, 1)]))]);
    let mut peer = Raw::connect(server.quorum());
    let error = peer.fetch(request(3, 0, 5)).unwrap_err();
    assert!(
        matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset),
        "{error}"
    );
    let mut peer = Raw::connect(server.quorum());
    assert_eq!(peer.fetch(request(2, 0, 5)).unwrap(), (vec![1, 2, 3, 4], report(Chain::Unbroken)));
    // It cannot become another one.
    assert!(peer.fetch(request(1, 0, 5)).is_err());
    server.stop();
}

#[test]
fn a_link_is_for_agreement_or_for_records() {
    let server = Server::alone(1);
    server.know(&[(2, member(&[(1, 1)]))]);
    let mut learner = Raw::connect(server.quorum());
    learner.send_packet(&commit(1));
    let link = server.opened();
    learner.send_packet(&QuorumPacket::Fetch(request(2, 0, 5)));
    server.lost(link);
    assert!(learner.is_ended());
    for packet in [
        commit(1),
        QuorumPacket::Record { zxid: Zxid(1), payload: "x".into() },
        QuorumPacket::Fetched(report(Chain::Broken)),
    ] {
        let mut fetching = Raw::connect(server.quorum());
        fetching.fetch(request(2, 0, 5)).unwrap();
        fetching.send_packet(&packet);
        assert!(fetching.is_ended());
    }
    let mut peer = Raw::connect(server.quorum());
    peer.send_packet(&QuorumPacket::Record { zxid: Zxid(1), payload: "x".into() });
    assert!(peer.is_ended());
    server.stop();
}

/// The socket accepts some megabytes; then reading waits, and ends when the network stops.
#[test]
fn a_few_members_are_served_at_a_time() {
    let server = Server::alone(1);
    let others: Vec<_> = (2..5).map(|id| (id, member(&[(1, 1)]))).collect();
    server.know(&others);
    let endless = |id| {
        let mut peer = Raw::connect(server.quorum());
        peer.send_packet(&QuorumPacket::Fetch(request(id, 1 << 19, TO_THE_END.0)));
        // It has begun.
        assert_eq!(peer.read::<4>(), [0x48, 0x53, 0, 2]);
        peer
    };
    let served = [endless(2), endless(3)];
    let mut peer = Raw::connect(server.quorum());
    assert_eq!(peer.fetch(request(4, 0, 5)).unwrap(), (vec![], report(Chain::Busy)));
    // A request for the state alone is answered even then.
    assert_eq!(peer.fetch(request(4, 0, 1)).unwrap(), (vec![], report(Chain::Broken)));
    drop(served);
    for _ in 0..2 {
        server.wait(|event| matches!(event, Event::FetchBroken).then_some(()));
    }
    // The slot is free soon after that.
    while peer.fetch(request(4, 0, 5)).unwrap().1.chain == Chain::Busy {
        std::thread::yield_now();
    }
    let stuck = endless(2);
    server.stop();
    drop(stuck);
}

/// Most of a log may be read before the first record that is to be sent.
#[test]
fn reading_ends_when_nobody_waits_for_it() {
    let server = Server::alone(1);
    server.know(&[(2, member(&[(1, 1)]))]);
    let scanning = || {
        let mut peer = Raw::connect(server.quorum());
        peer.send_packet(&QuorumPacket::Fetch(request(2, 0, ENDLESS_SCAN.0)));
        server.wait(|event| matches!(event, Event::FetchBegun).then_some(()));
        peer
    };
    drop(scanning());
    server.wait(|event| matches!(event, Event::FetchBroken).then_some(()));
    // The network stops.
    let waiting = scanning();
    server.stop();
    drop(waiting);
}

#[test]
fn a_member_that_fetches_nothing_for_too_long_is_dropped() {
    let init_limit = Duration::from_millis(50);
    let server = Server::start(NetworkSettings { init_limit, ..settings(1) });
    server.know(&[(2, member(&[(1, 1)]))]);
    let mut peer = Raw::connect(server.quorum());
    peer.fetch(request(2, 0, 5)).unwrap();
    assert!(peer.is_ended());
    server.stop();
}

/// A server that is about to stop does not wait for an answer.
#[test]
fn a_cancelled_fetch_does_not_wait_for_an_answer() {
    let (listener, silent) = stand_in();
    let server = Server::alone(1);
    server.know(&[(2, silent)]);
    let mut connection = server.network.dial_member(ServerId(2), PATIENCE).unwrap();
    let looks = AtomicUsize::new(0);
    let is_wanted = || looks.fetch_add(1, Ordering::Relaxed) < 2;
    let fetched = connection
        .fetch(request(1, 0, 5), &is_wanted, &mut |_, _| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(fetched.to_string().contains("cancelled"), "{fetched}");
    drop(listener);
    server.stop();
}

#[test]
fn a_leader_is_recognised_by_its_answer_to_a_learner() {
    let servers = ensemble(&[1, 2]);
    let info = LearnerInfo { server: ServerId(2), protocol_version: 0x10000, config_version: 0 };
    for is_leader in [true, false] {
        let mut connection = servers[1].network.dial_member(ServerId(1), PATIENCE).unwrap();
        let asked = std::thread::scope(|scope| {
            let asking = scope.spawn(|| connection.await_leader_info(info, 4, &|| true));
            let link = servers[0].opened();
            let kind = LearnerKind::Observer;
            let introduction = QuorumPacket::Info { kind, accepted_epoch: 4, info: Some(info) };
            assert_eq!(servers[0].packet(link), introduction);
            match is_leader {
                true => {
                    let (epoch, protocol_version) = (5, 0x10000);
                    servers[0].send(link, &QuorumPacket::LeaderInfo { epoch, protocol_version });
                }
                false => servers[0].network.close(link),
            }
            asking.join().unwrap()
        });
        assert_eq!(asked.is_ok(), is_leader, "{asked:?}");
    }
    servers.into_iter().for_each(Server::stop);
}

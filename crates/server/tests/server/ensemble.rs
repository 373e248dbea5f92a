//! Ensembles of real servers: sessions across servers, local sessions, read-only service.

use std::net::{SocketAddr, TcpListener, TcpStream};

use herdsman_proto::membership::Endpoint;
use herdsman_proto::request::ReconfigRequest;
use herdsman_proto::{ErrorCode, Membership, Request, ServerId, SessionId, WriteRequest};
use herdsman_server::ServesAs;
use herdsman_testing::TestEnsemble;

use crate::client::{Client, code, connect_request, create, open};

const EPHEMERAL: i32 = 1;

/// The line of an answer with this prefix, without the prefix.
fn word_line(ensemble: &TestEnsemble, id: usize, word: &str, start: &str) -> Option<String> {
    let text = word_text(ensemble, id, word);
    text.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned)
}

fn word_text(ensemble: &TestEnsemble, id: usize, word: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = open(ensemble.address(id));
    stream.write_all(word.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn sync(client: &mut Client, path: &str) {
    client.call(&Request::Sync { path: path.into() }).ok();
}

fn accepts_read_only(session: SessionId) -> herdsman_proto::ConnectRequest<'static> {
    let password: &'static [u8] = Box::leak(Box::new(session.apache_password()));
    herdsman_proto::ConnectRequest { read_only: Some(true), ..connect_request(session, password) }
}

#[test]
fn a_session_goes_on_at_another_server() {
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    let mut client = Client::connect(ensemble.address(follower));
    client.create("/e", b"x", EPHEMERAL).ok();
    let mut moved = Client::reattach(ensemble.address(leader), client.session).unwrap();
    // This client does not send the last zxid that it has seen, and the leader may still be applying it.
    sync(&mut moved, "/e");
    assert_eq!(moved.get("/e", false).unwrap().0, b"x");
    moved.set("/e", b"y").ok();
    moved.call(&Request::CloseSession).ok();
    let mut other = Client::connect(ensemble.address(follower));
    sync(&mut other, "/");
    assert_eq!(other.get("/e", false), Err(code(ErrorCode::NoNode)));
}

#[test]
fn pipelined_requests_keep_their_order_at_every_server() {
    let ensemble = TestEnsemble::start();
    for id in [ensemble.await_leader(), ensemble.follower()] {
        let mut client = Client::connect(ensemble.address(id));
        client.check_pipelined_order(&format!("/{id}"));
    }
}

/// A client that reconnects while its writes are in flight, and numbers its requests from the start as kazoo does,
/// must not get a reply to a request of an earlier connection, at whichever server that was.
#[test]
fn a_client_that_reconnects_gets_no_answer_to_an_earlier_request() {
    const ROUNDS: usize = 24;
    const PIPELINED: usize = 40;
    let ensemble = TestEnsemble::start();
    let (leader, follower) = (ensemble.await_leader(), ensemble.follower());
    let other = ensemble.ids().find(|id| ![leader, follower].contains(id)).unwrap();
    for servers in [vec![follower], vec![follower, other], vec![leader, follower]] {
        let name = servers.iter().map(usize::to_string).collect::<Vec<_>>().join("-");
        let mut client = Client::connect(ensemble.address(servers[0]));
        for round in 0..ROUNDS {
            let paths: Vec<_> = (0..PIPELINED).map(|i| format!("/{name}-{round}-{i}")).collect();
            let requests: Vec<_> = paths.iter().map(|path| create(path, b"", 0)).collect();
            let xids = client.send_all(&requests);
            // Some are answered, the others are in flight when the connection ends.
            for (path, xid) in paths.iter().zip(xids).take(round) {
                let reply = client.receive_reply().expect("an answer");
                assert_eq!(reply.xid, xid);
                assert_eq!(reply.ok().required_string().unwrap(), path.as_str(), "{name} {round}");
            }
            let next = ensemble.address(servers[(round + 1) % servers.len()]);
            client = Client::reattach(next, client.session).expect("the session continues");
        }
    }
}

#[test]
fn local_sessions_cost_no_txn_and_stay_where_they_are() {
    let ensemble = TestEnsemble::start_with("localSessionsEnabled=true", |_, _| {});
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    for id in [leader, follower] {
        let mut client = Client::connect(ensemble.address(id));
        assert_eq!(client.read_only, Some(false));
        assert_eq!(word_line(&ensemble, id, "mntr", "zk_local_sessions\t").unwrap(), "1");
        assert_eq!(word_line(&ensemble, id, "mntr", "zk_global_sessions\t").unwrap(), "0");
        client.create(&format!("/{id}"), b"", 0).ok();
        let refused = client.create("/e", b"", EPHEMERAL);
        assert_eq!(refused.error, code(ErrorCode::EphemeralOnLocalSession));
        drop(client.ping());
        let mut again = Client::reattach(ensemble.address(id), client.session).unwrap();
        again.set(&format!("/{id}"), b"x").ok();
        let elsewhere = if id == leader { follower } else { leader };
        assert!(Client::reattach(ensemble.address(elsewhere), client.session).is_none());
        again.call(&Request::CloseSession).ok();
        assert!(again.is_closed());
        assert!(Client::reattach(ensemble.address(id), again.session).is_none());
        assert_eq!(word_line(&ensemble, id, "mntr", "zk_local_sessions\t").unwrap(), "0");
    }
}

#[test]
fn a_local_session_becomes_global_with_its_first_ephemeral() {
    let lines = "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true";
    let mut ensemble = TestEnsemble::start_with(lines, |_, _| {});
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    let mut sessions = Vec::new();
    for id in [leader, follower] {
        let mut client = Client::connect(ensemble.address(id));
        client.create(&format!("/e{id}"), b"", EPHEMERAL).ok();
        let stat = client.get(&format!("/e{id}"), false).unwrap().1;
        assert_eq!(stat.ephemeral_owner, client.session.0);
        sessions.push((id, client.session));
    }
    ensemble.kill(leader);
    ensemble.await_leader();
    for (id, session) in sessions {
        let mut client = Client::reattach(ensemble.address(follower), session).unwrap();
        assert!(client.get(&format!("/e{id}"), false).is_ok());
        client.call(&Request::CloseSession).ok();
        let mut other = Client::connect(ensemble.address(follower));
        assert_eq!(other.get(&format!("/e{id}"), false), Err(code(ErrorCode::NoNode)));
    }
}

#[test]
fn a_silent_local_session_ends_at_its_server() {
    let ensemble = TestEnsemble::start_with("localSessionsEnabled=true", |_, config| {
        config.sessions.timeout_min_ms = 100;
    });
    let leader = ensemble.await_leader();
    for id in [leader, ensemble.follower()] {
        let mut request = connect_request(SessionId::NONE, &[0; 16]);
        request.timeout_ms = 100;
        let mut client = Client::connect_as(ensemble.address(id), &request).unwrap();
        // Waits for the server to close the connection, without sending anything.
        assert!(client.is_closed());
        assert!(Client::reattach(ensemble.address(id), client.session).is_none());
    }
}

#[test]
fn a_server_without_a_leader_serves_reads_to_those_who_accept_it() {
    let mut ensemble = TestEnsemble::start_with("", |_, config| config.read_only_mode = true);
    let leader = ensemble.await_leader();
    let left = ensemble.follower();
    let mut writer = Client::connect(ensemble.address(left));
    writer.create("/a", b"x", 0).ok();
    let gone: Vec<_> = ensemble.ids().filter(|id| *id != left).collect();
    for id in &gone {
        ensemble.stop(*id);
    }
    assert!(writer.is_closed());
    ensemble.await_role(left, ServesAs::ReadOnly);
    assert_eq!(word_text(&ensemble, left, "isro"), "ro");
    assert_eq!(word_line(&ensemble, left, "srvr", "Mode: ").unwrap(), "read-only");
    let address = ensemble.address(left);
    assert!(Client::reattach(address, writer.session).is_none());
    assert!(Client::connect_as(address, &accepts_read_only(writer.session)).is_none());
    let mut reader = Client::connect_as(address, &accepts_read_only(SessionId::NONE)).unwrap();
    assert_eq!(reader.read_only, Some(true));
    assert_eq!(reader.get("/a", false).unwrap().0, b"x");
    assert_eq!(reader.set("/a", b"y").error, code(ErrorCode::NotReadOnly));
    let sync = reader.call(&Request::Sync { path: "/a".into() });
    assert_eq!(sync.error, code(ErrorCode::NotReadOnly));
    ensemble.start_again(leader);
    assert!(reader.is_closed(), "a leader is found");
    ensemble.await_leader();
    assert_eq!(word_text(&ensemble, left, "isro"), "rw");
    let again = accepts_read_only(reader.session);
    assert!(Client::connect_as(address, &again).is_none(), "the session was never a real one");
    let mut writer = Client::reattach(address, writer.session).unwrap();
    assert_eq!(writer.read_only, Some(false));
    writer.set("/a", b"y").ok();
}

#[test]
fn without_read_only_mode_a_server_without_a_leader_serves_nobody() {
    let mut ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let left = ensemble.follower();
    let mut client = Client::connect(ensemble.address(left));
    let gone: Vec<_> = ensemble.ids().filter(|id| *id != left).collect();
    for id in gone {
        ensemble.stop(id);
    }
    assert!(client.is_closed());
    assert_eq!(word_text(&ensemble, left, "isro"), "null");
    let request = accepts_read_only(SessionId::NONE);
    assert!(Client::connect_as(ensemble.address(left), &request).is_none());
    ensemble.start_again(leader);
    ensemble.await_leader();
    assert!(Client::reattach(ensemble.address(left), client.session).is_some());
}

#[test]
fn a_leader_that_serves_only_servers_takes_no_clients() {
    let ensemble = TestEnsemble::start_with("leaderServes=no", |_, _| {});
    let leader = ensemble.await_leader();
    let request = connect_request(SessionId::NONE, &[0; 16]);
    assert!(Client::connect_as(ensemble.address(leader), &request).is_none());
    assert_eq!(word_text(&ensemble, leader, "isro"), "null");
    assert!(word_text(&ensemble, leader, "srvr").contains("not currently serving requests"));
    let mut client = Client::connect(ensemble.address(ensemble.follower()));
    client.create("/a", b"", EPHEMERAL).ok();
}

#[test]
fn an_observer_learns_from_a_follower() {
    let mut ensemble = TestEnsemble::start_with_observer();
    let follows = |id: &usize| ensemble.serves_as(*id) == Some(ServesAs::Follower);
    let follower = ensemble.await_that("two followers", || {
        let followers: Vec<_> = (1..=3).filter(follows).collect();
        (followers.len() == 2).then(|| followers[0])
    });
    ensemble.serve_observers(follower);
    ensemble.await_role(4, ServesAs::Observer);
    let master = word_line(&ensemble, 4, "mntr", "zk_observer_master_id\t");
    assert!(master.is_some());

    let mut at_observer = Client::connect(ensemble.address(4));
    at_observer.create("/e", b"x", EPHEMERAL).ok();
    let mut at_master = Client::connect(ensemble.address(follower));
    sync(&mut at_master, "/e");
    assert_eq!(at_master.get("/e", false).unwrap().0, b"x");
    at_master.set("/e", b"y").ok();
    sync(&mut at_observer, "/e");
    assert_eq!(at_observer.get("/e", false).unwrap().0, b"y");
    let mut moved = Client::reattach(ensemble.address(follower), at_observer.session).unwrap();
    moved.set("/e", b"z").ok();

    ensemble.stop(follower);
    assert!(at_observer.is_closed());
    ensemble.start_again(follower);
    ensemble.await_role(4, ServesAs::Observer);
    // The observer may move to another master once more, which closes connections.
    let mut back = ensemble
        .await_that("the session is back", || Client::reattach(ensemble.address(4), moved.session));
    assert_eq!(back.get("/e", false).unwrap().0, b"z");
    back.call(&Request::CloseSession).ok();
}

#[test]
fn a_reconfiguration_moves_a_client_port() {
    let ensemble = TestEnsemble::start_with("reconfigEnabled=true\nskipACL=yes\n", |_, _| {});
    ensemble.await_leader();
    let follower = ensemble.follower();
    let mut client = Client::connect(ensemble.address(follower));
    let (text, _) = client.get("/zookeeper/config", false).unwrap();
    let membership = Membership::parse_text(&String::from_utf8(text).unwrap()).unwrap();
    let mut member = membership.members[&ServerId(follower as i64)].clone();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    member.client = Some(Endpoint { host: Some("127.0.0.1".to_owned()), port });
    let joining = format!("server.{follower}={member}");
    let reconfig = ReconfigRequest {
        joining: Some(joining.as_str().into()),
        leaving: None,
        new_members: None,
        current_config: -1,
    };
    client.call(&Request::Write(WriteRequest::Reconfig(reconfig))).ok();
    let new = SocketAddr::from(([127, 0, 0, 1], port));
    ensemble.await_that("the new port", || TcpStream::connect(new).ok());
    let mut moved = Client::connect(new);
    moved.create("/moved", b"", 0).ok();
    sync(&mut client, "/");
    assert!(client.get("/moved", false).is_ok(), "connections that stand stay");
}

/// A leader's proposal is committed nowhere while it waits for acknowledgements, but sessions can move.
#[test]
fn a_test_can_hold_what_is_proposed() {
    let ensemble = TestEnsemble::start_with_links();
    let leader = ensemble.await_leader();
    let mut client = Client::connect(ensemble.address(leader));
    client.create("/before", b"", 0).ok();
    ensemble.hold_acks(leader);
    let before = ensemble.proposals(leader);
    client.send(&create("/after", b"", 0));
    ensemble.await_that("a proposal", || (ensemble.proposals(leader) > before).then_some(()));
    let mut moved = Client::reattach(ensemble.address(4), client.session).unwrap();
    assert!(moved.get("/before", false).is_ok());
    assert!(moved.get("/after", false).is_err());
    ensemble.release_acks();
    sync(&mut moved, "/after");
    assert!(moved.get("/after", false).is_ok());
}

/// Otherwise clients that disconnect and connect again could send more than the log takes.
#[test]
fn a_connection_counts_until_the_requests_that_it_left_behind_are_answered() {
    let ensemble = TestEnsemble::start_with_links();
    let leader = ensemble.await_leader();
    let metric = |name: &str| word_line(&ensemble, leader, "mntr", &format!("{name}\t"));
    let mut client = Client::connect(ensemble.address(leader));
    client.create("/watched", b"", 0).ok();
    client.get("/watched", true).unwrap();
    ensemble.hold_acks(leader);
    let before = ensemble.proposals(leader);
    client.send(&create("/last", b"", 0));
    ensemble.await_that("a proposal", || (ensemble.proposals(leader) > before).then_some(()));
    drop(client);
    let noticed = || (metric("zk_watch_count")? == "0").then_some(());
    ensemble.await_that("the end of the connection to be noticed", noticed);
    // The other one asks for this.
    assert_eq!(metric("zk_num_alive_connections").as_deref(), Some("2"));
    ensemble.release_acks();
    let released = || (metric("zk_num_alive_connections")? == "1").then_some(());
    ensemble.await_that("the end of the connection", released);
}

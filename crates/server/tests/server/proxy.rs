//! What a proxy does to frames and connections, and sessions ended by force, seen by a client that
//! knows only the protocol.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use herdsman_proto::{EventType, OpCode, Request, SessionId, WriteRequest, Xid};
use herdsman_testing::proxy::{Direction, Fault, Observed, ObservedFrame, Rule};
use herdsman_testing::{TestEnsemble, TestProxy, TestServer};

use crate::client::{Client, code, connect_request, create, get, open, receive_payload, set};
use crate::words::ask_bytes;

/// Long enough for the slowest machine; a test that runs into it has failed.
const PATIENCE: Duration = Duration::from_secs(30);
const EPHEMERAL: i32 = 1;

fn start() -> (TestServer, TestProxy) {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    (server, proxy)
}

fn exists(server: &TestServer, path: &str) -> bool {
    Client::connect(server.address()).get(path, false).is_ok()
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A second connection's round trip shows that what the first one sent before has had every chance
/// to pass.
fn round_trip(proxy: &TestProxy) {
    assert!(Client::connect(proxy.address()).ping().is_some());
}

#[test]
fn frames_pass_and_are_counted() {
    let (_server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    client.create("/a", b"1", 0).ok();
    client.get("/a", true).unwrap();
    client.set("/a", b"2").ok();
    client.ping().unwrap();
    assert_eq!(client.events.len(), 1);

    let traffic = proxy.traffic();
    let counted = [
        (OpCode::CreateSession, 1),
        (OpCode::Create, 1),
        (OpCode::GetData, 1),
        (OpCode::SetData, 1),
        (OpCode::Ping, 1),
        (OpCode::Delete, 0),
    ];
    for (op, count) in counted {
        assert_eq!(traffic.requests(op), count, "{op:?}");
    }
    assert_eq!((traffic.requests_in_all(), traffic.events()), (3, 1));
    assert_eq!((traffic.connections_accepted(), traffic.connections_open()), (1, 1));
    drop(client);
    assert!(proxy.wait_until(PATIENCE, |traffic| traffic.connections_open() == 0));
}

#[test]
fn the_log_tells_who_asked_what() {
    let (_server, proxy) = start();
    let mut first = Client::connect(proxy.address());
    let mut second = Client::connect(proxy.address());
    first.create("/a", b"", 0).ok();
    proxy.clear_log();
    second.get("/a", true).unwrap();
    first.delete("/a").ok();
    second.ping().unwrap();
    let log = proxy.log();
    let request = |connection, op, path: &str| {
        let paths = if path.is_empty() { vec![] } else { vec![path.to_owned()] };
        Observed { connection, what: ObservedFrame::Request { op, paths } }
    };
    let path = "/a".to_owned();
    let told = ObservedFrame::Event { kind: EventType::NodeDeleted, path };
    let event = Observed { connection: 2, what: told };
    assert_eq!(log[..2], [request(2, OpCode::GetData, "/a"), request(1, OpCode::Delete, "/a")]);
    // The event may come before or after the request that follows on another connection.
    assert!(log[2..].contains(&event) && log[2..].contains(&request(2, OpCode::Ping, "")));
    assert_eq!(log.len(), 4);
}

#[test]
fn a_lost_reply_leaves_what_was_done() {
    let (server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    let lost = proxy.once(OpCode::Create, Fault::CutBeforeReply);
    assert!(client.try_call(&create("/a", b"", 0)).is_none());
    assert!(lost.wait_fired(PATIENCE));
    assert!(exists(&server, "/a"));

    let mut again = Client::reattach(proxy.address(), client.session).unwrap();
    again.create("/b", b"", 0).ok();
    assert_eq!(lost.fired(), 1, "a rule holds once unless told otherwise");
}

#[test]
fn replies_before_a_lost_one_arrive() {
    let (server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    proxy.add_rule(Rule::new(Fault::CutBeforeReply).path_containing("/third"));
    let sent =
        ["/first", "/second", "/third", "/fourth"].map(|path| client.send(&create(path, b"", 0)));
    let received = [client.receive_reply().unwrap().xid, client.receive_reply().unwrap().xid];
    assert_eq!(received, sent[..2]);
    assert!(client.is_closed());
    assert!(exists(&server, "/third"));
}

#[test]
fn a_swallowed_request_is_never_carried_out() {
    let (server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    let swallowed = proxy.once(OpCode::Create, Fault::CutBeforeRequest);
    client.send(&create("/a", b"", 0));
    client.send(&create("/behind", b"", 0));
    assert!(client.is_closed());
    assert_eq!(swallowed.fired(), 1);
    assert!(!exists(&server, "/a") && !exists(&server, "/behind"));
}

#[test]
fn a_lost_handshake_leaves_a_session_that_nobody_knows() {
    let (server, proxy) = start();
    let lost = proxy.once(OpCode::CreateSession, Fault::CutBeforeReply);
    let request = connect_request(SessionId::NONE, &[0; 16]);
    assert!(Client::connect_as(proxy.address(), &request).is_none());
    assert_eq!((lost.fired(), server.session_count()), (1, 1));
    let swallowed = proxy.once(OpCode::CreateSession, Fault::CutBeforeRequest);
    assert!(Client::connect_as(proxy.address(), &request).is_none());
    assert_eq!((swallowed.fired(), server.session_count()), (1, 1));
}

#[test]
fn a_held_reply_waits_for_its_release_and_nothing_overtakes_it() {
    let (server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    let held = proxy.once(OpCode::Create, Fault::HoldReply);
    let first = client.send(&create("/a", b"", 0));
    let second = client.send(&get("/a", false));
    assert!(held.wait_fired(PATIENCE));
    assert!(exists(&server, "/a"), "only the reply is held");
    round_trip(&proxy);
    assert!(client.has_nothing_yet());
    held.release();
    let received = [client.receive_reply().unwrap().xid, client.receive_reply().unwrap().xid];
    assert_eq!(received, [first, second]);
}

#[test]
fn a_held_request_waits_outside_the_server() {
    let (server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    let held = proxy.once(OpCode::Create, Fault::HoldRequest);
    client.send(&create("/a", b"", 0));
    assert!(held.wait_fired(PATIENCE));
    assert!(!exists(&server, "/a"));
    held.release();
    client.receive_reply().unwrap().ok();
    assert!(exists(&server, "/a"));
}

#[test]
fn a_release_that_comes_first_leaves_nothing_to_hold() {
    let (_server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    let held = proxy.add_rule(Rule::new(Fault::HoldReply).always());
    held.release();
    client.create("/a", b"", 0).ok();
    assert_eq!(held.fired(), 0);
}

#[test]
fn delays_are_not_less_than_asked_and_keep_the_order() {
    const DELAY: Duration = Duration::from_millis(50);
    let (_server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    client.create("/a", b"", 0).ok();
    let mut elapsed_over = |proxy: &TestProxy| {
        let start = Instant::now();
        let sent = [client.send(&get("/a", false)), client.send(&set("/a", b""))];
        let received = [client.receive_reply().unwrap().xid, client.receive_reply().unwrap().xid];
        assert_eq!(received, sent);
        proxy.delay_replies(Duration::ZERO);
        proxy.delay_requests(Duration::ZERO);
        start.elapsed()
    };
    proxy.delay_replies(DELAY);
    assert!(elapsed_over(&proxy) >= DELAY);
    proxy.delay_requests(DELAY);
    assert!(elapsed_over(&proxy) >= DELAY);
    let delayed = proxy.once(OpCode::GetData, Fault::DelayReply(DELAY));
    assert!(elapsed_over(&proxy) >= DELAY);
    assert_eq!(delayed.fired(), 1);
    let delayed = proxy.once(OpCode::SetData, Fault::DelayRequest(DELAY));
    assert!(elapsed_over(&proxy) >= DELAY);
    assert_eq!(delayed.fired(), 1);
}

#[test]
fn rules_skip_count_and_look_at_paths() {
    let (_server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    let rule = Rule::new(Fault::DelayReply(Duration::ZERO))
        .on(OpCode::Create)
        .on(OpCode::Multi)
        .path_containing("/locks/");
    let rule = proxy.add_rule(rule.skip(1).times(2));
    client.create("/locks", b"", 0).ok();
    client.create("/other", b"", 0).ok();
    assert!(client.get("/locks/", false).is_err());
    client.create("/locks/skipped", b"", 0).ok();
    assert_eq!(rule.fired(), 0);
    client.create("/locks/one", b"", 0).ok();
    assert_eq!(rule.fired(), 1);
    let check = |path: &'static str| WriteRequest::Check { path: path.into(), version: 0 };
    let multi = WriteRequest::Multi(vec![check("/other"), check("/locks/one")]);
    client.call(&Request::Write(multi)).ok();
    client.create("/locks/three", b"", 0).ok();
    assert_eq!(rule.fired(), 2);
}

#[test]
fn a_rule_for_all_requests_leaves_heartbeats_and_handshakes_alone() {
    let (_server, proxy) = start();
    let rule = proxy.add_rule(Rule::new(Fault::CutBeforeRequest).always());
    let mut client = Client::connect(proxy.address());
    client.ping().unwrap();
    assert_eq!(rule.fired(), 0);
    assert!(client.try_call(&get("/", false)).is_none());
    rule.remove();
    let mut client = Client::reattach(proxy.address(), client.session).unwrap();
    client.get("/", false).unwrap();
}

#[test]
fn the_rule_that_was_added_first_has_its_way() {
    let (_server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    let first = proxy.once(OpCode::GetData, Fault::DelayReply(Duration::ZERO));
    let second = proxy.once(OpCode::GetData, Fault::CutBeforeReply);
    client.get("/", false).unwrap();
    assert_eq!((first.fired(), second.fired()), (1, 0));
    assert!(client.try_call(&get("/", false)).is_none());
    assert_eq!((first.fired(), second.fired()), (1, 1));
}

#[test]
fn a_cut_ends_connections_and_not_sessions() {
    let (_server, proxy) = start();
    for end in [TestProxy::cut, TestProxy::reset] {
        let mut clients = [Client::connect(proxy.address()), Client::connect(proxy.address())];
        end(&proxy);
        for client in &mut clients {
            assert!(client.is_closed());
            assert!(Client::reattach(proxy.address(), client.session).is_some());
        }
    }
}

#[test]
fn a_reset_is_one() {
    let (_server, proxy) = start();
    let mut stream = open(proxy.address());
    let mut frame = Vec::new();
    connect_request(SessionId::NONE, &[0; 16]).encode_frame(&mut frame);
    stream.write_all(&frame).unwrap();
    receive_payload(&mut stream).unwrap();
    proxy.reset();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn refused_connections_end_and_open_ones_go_on() {
    let (_server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    proxy.refuse_connections();
    assert!(Client::reattach(proxy.address(), client.session).is_none());
    client.get("/", false).unwrap();
    assert_eq!(proxy.traffic().connections_accepted(), 1);
    proxy.accept_connections();
    assert!(Client::reattach(proxy.address(), client.session).is_some());
}

#[test]
fn behind_a_partition_nothing_passes_until_it_heals() {
    let (server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    let mut watcher = Client::connect(proxy.address());
    let mut outside = Client::connect(server.address());
    outside.create("/w", b"", 0).ok();
    watcher.get("/w", true).unwrap();
    proxy.partition();
    client.send(&create("/a", b"", 0));
    outside.set("/w", b"1").ok();
    let mut newcomer = open(proxy.address());
    let mut frame = Vec::new();
    connect_request(SessionId::NONE, &[0; 16]).encode_frame(&mut frame);
    newcomer.write_all(&frame).unwrap();
    assert!(proxy.wait_until(PATIENCE, |traffic| traffic.connections_accepted() == 3));
    // No time would be long enough to show this; but a proxy that lets something pass is quick.
    assert!(client.has_nothing_yet() && watcher.has_nothing_yet());
    assert!(outside.get("/a", false).is_err());
    assert_eq!((proxy.traffic().requests(OpCode::Create), server.session_count()), (0, 3));

    proxy.heal();
    client.receive_reply().unwrap().ok();
    assert_eq!(watcher.receive().unwrap().xid, Xid::NOTIFICATION);
    assert!(receive_payload(&mut newcomer).is_some());
}

#[test]
fn what_a_partition_held_is_lost_with_a_cut() {
    let (server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    proxy.partition();
    client.send(&create("/a", b"", 0));
    proxy.cut();
    proxy.heal();
    assert!(client.is_closed());
    round_trip(&proxy);
    assert!(!exists(&server, "/a"));
}

#[test]
fn a_partition_can_be_one_way() {
    let (server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    proxy.partition_one_way(Direction::ToClient);
    client.send(&create("/a", b"", 0));
    wait_for("the request to arrive", || exists(&server, "/a"));
    assert!(client.has_nothing_yet());
    proxy.heal();
    client.receive_reply().unwrap().ok();
}

#[test]
fn words_and_garbage_pass_as_they_are() {
    let (server, proxy) = start();
    assert_eq!(ask_bytes(proxy.address(), b"ruok"), "imok");
    // Shorter than the length of a frame.
    assert_eq!(ask_bytes(proxy.address(), b"isro"), "rw");
    assert_eq!(proxy.traffic().requests_in_all(), 0);
    for garbage in [&[0xff; 64][..], &[0, 0, 0, 3, 1, 2, 3, 9], &[0, 0, 0, 0, 0, 0, 0, 0], b"GE"] {
        let answer = |address: SocketAddr| {
            let mut stream = open(address);
            stream.write_all(garbage).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            // Whether the end comes in order is the system's choice when bytes were not read.
            _ = stream.read_to_end(&mut answer);
            answer
        };
        assert_eq!(answer(proxy.address()), answer(server.address()), "{garbage:?}");
    }
    round_trip(&proxy);
}

#[test]
fn a_large_frame_passes_whole() {
    let (_server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    let data: Vec<u8> = (0..900_000_u32).map(|i| i as u8).collect();
    client.create("/large", &data, 0).ok();
    assert_eq!(client.get("/large", false).unwrap().0, data);
}

#[test]
fn a_server_that_is_gone_ends_connections_and_another_may_take_its_place() {
    let (mut server, proxy) = start();
    let mut client = Client::connect(proxy.address());
    server.kill();
    assert!(client.is_closed());
    let request = connect_request(SessionId::NONE, &[0; 16]);
    assert!(Client::connect_as(proxy.address(), &request).is_none());
    let other = TestServer::start();
    proxy.set_upstream(other.address());
    Client::connect(proxy.address()).create("/other", b"", 0).ok();
    assert!(exists(&other, "/other"));
}

#[test]
fn a_dropped_proxy_is_gone() {
    let (_server, proxy) = start();
    let address = proxy.address();
    let mut client = Client::connect(address);
    let held = proxy.once(OpCode::GetData, Fault::HoldReply);
    client.send(&get("/", false));
    assert!(held.wait_fired(PATIENCE));
    drop(proxy);
    assert!(client.is_closed());
    assert!(std::net::TcpStream::connect(address).is_err());
    held.release();
}

#[test]
fn waiting_has_an_end() {
    let (_server, proxy) = start();
    let rule = proxy.once(OpCode::GetData, Fault::HoldReply);
    assert!(!rule.wait_fired(Duration::from_millis(1)));
    assert!(!proxy.wait_until(Duration::from_millis(1), |traffic| traffic.events() > 0));
}

#[test]
fn tasks_can_start_wait_and_stop_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let server = TestServer::start();
    runtime.block_on(async {
        let proxy = TestProxy::start(server.address());
        let rule = proxy.add_rule(Rule::new(Fault::DelayReply(Duration::ZERO)).times(2));
        let address = proxy.address();
        let client = std::thread::spawn(move || {
            let mut client = Client::connect(address);
            client.get("/", false).unwrap();
            client.get("/", false).unwrap();
        });
        rule.until_fired().await;
        rule.until_fired_times(2).await;
        proxy.until(|traffic| traffic.requests(OpCode::GetData) == 2).await;
        client.join().unwrap();
    });
}

#[test]
fn a_session_ends_by_force() {
    let (server, proxy) = start();
    let mut owner = Client::connect(proxy.address());
    let mut other = Client::connect(server.address());
    owner.create("/e", b"", EPHEMERAL).ok();
    other.get("/e", true).unwrap();
    assert_eq!(server.ephemerals(owner.session), ["/e"]);
    server.expire_session(owner.session);
    assert!(owner.is_closed());
    assert!(Client::reattach(server.address(), owner.session).is_none());
    assert!(!server.has_session(owner.session) && server.ephemerals(owner.session).is_empty());
    let gone = code(herdsman_proto::ErrorCode::NoNode);
    assert_eq!(other.get("/e", false), Err(gone));
    assert_eq!(other.events.len(), 1);
    // Once more is no error, nor is one that never was.
    server.expire_session(owner.session);
    server.expire_session(SessionId(77));
    server.expire_session(SessionId::NONE);
    assert_eq!(server.session_count(), 1);
}

/// A client that comes back at once, again and again, does not keep its session.
#[test]
fn a_session_that_is_defended_ends_too() {
    let server = TestServer::start();
    let client = Client::connect(server.address());
    let (session, address) = (client.session, server.address());
    let defender = std::thread::spawn(move || {
        let mut client = Some(client);
        while let Some(mut connected) = client.take() {
            assert!(connected.is_closed());
            client = Client::reattach(address, session);
        }
    });
    server.expire_session(session);
    defender.join().unwrap();
    assert!(!server.has_session(session));
}

#[test]
fn a_session_of_an_ensemble_ends_through_any_server() {
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    for (home, through) in [(leader, follower), (follower, leader), (follower, follower)] {
        let mut client = Client::connect(ensemble.address(home));
        client.create("/e", b"", EPHEMERAL).ok();
        ensemble.expire_session(through, client.session);
        assert!(client.is_closed());
        let mut other = Client::connect(ensemble.address(through));
        assert!(other.get("/e", false).is_err());
    }
}

#[test]
fn an_unreachable_server_is_an_error() {
    let mut server = TestServer::start();
    let address = server.address();
    server.stop();
    let error = herdsman_testing::expire_session(address, SessionId(5)).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot expire session 0x5 at {address}: ")), "{error}");
}

#[test]
fn watches_are_counted() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    client.get("/", true).unwrap();
    assert_eq!(server.watch_count(), 1);
    drop(client);
    wait_for("the watch to go", || server.watch_count() == 0);
}

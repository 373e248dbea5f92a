//! Limits that an operator sets. Each is reached by a client, which is rejected or waits, a metric counts it, the
//! log has a line with its address, and other clients are served.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use herdsman_config::{Config, Endpoint};
use herdsman_proto::request::{RequestHeader, SetWatches, WatcherType};
use herdsman_proto::{ErrorCode, ReadRequest, Request, SessionId, Xid, reply};
use herdsman_testing::TestServer;

use crate::client::{
    Client, code, connect_request, create, exists, get, open, receive_payload, set,
};
use crate::log;
use crate::metrics::scrape;
use crate::words::wait_for;

/// A server whose log is captured, and a client that does nothing wrong.
fn start(adjust: impl FnOnce(&mut Config)) -> (TestServer, Client) {
    log::listen();
    let server = TestServer::start_with(adjust);
    let mut witness = Client::connect(server.address());
    witness.create("/witness", b"", 0).ok();
    (server, witness)
}

fn metric(server: &TestServer, name: &str) -> f64 {
    scrape(&server.handle()).get(name).copied().unwrap_or_else(|| panic!("there is no {name}"))
}

/// Checks that the limit was counted this often, the log names the client, and the witness is still served.
fn check_effect(
    server: &TestServer,
    witness: &mut Client,
    name: &str,
    peer: SocketAddr,
    why: &str,
) {
    assert!(metric(server, name) >= 1.0, "{name}");
    // Log lines are written by a separate thread.
    wait_for(why, || log::lines_with(&peer).iter().any(|line| line.contains(why)));
    witness.set("/witness", b"still here").ok();
}

/// Requests a session; returns the address of the connection if it was closed instead.
fn refused(server: &TestServer) -> Option<SocketAddr> {
    let mut stream = open(server.address());
    let address = stream.local_addr().unwrap();
    let mut frame = Vec::new();
    connect_request(SessionId::NONE, &[0; 16]).encode_frame(&mut frame);
    // A server that rejects at once may be gone before this is written.
    _ = stream.write_all(&frame);
    receive_payload(&mut stream).is_none().then_some(address)
}

#[test]
fn connections_per_address_are_limited() {
    let (server, mut witness) =
        start(|config| config.limits.connections_per_address_max = NonZeroU32::new(2));
    let second = Client::connect(server.address());
    let third = refused(&server).expect("a third is refused");
    check_effect(&server, &mut witness, "connection_rejected", third, "maxClientCnxns");
    drop(second);
    // The slot is free when the server has noticed; until then it keeps rejecting.
    wait_for("a free place", || refused(&server).is_none());
}

#[test]
fn connections_in_all_are_limited() {
    let (server, mut witness) = start(|config| config.limits.connections_max = NonZeroU32::new(2));
    let second = Client::connect(server.address());
    let third = refused(&server).expect("a third is refused");
    check_effect(&server, &mut witness, "connection_rejected", third, "maxCnxns");
    drop(second);
    wait_for("a free place", || refused(&server).is_none());
}

#[test]
fn new_sessions_wait_for_tokens() {
    let (server, mut witness) = start(|config| {
        config.connection_throttle.tokens_max = NonZeroU32::new(2);
        config.connection_throttle.fill_tokens = 0;
    });
    Client::connect(server.address());
    let third = refused(&server).expect("there is no token left");
    check_effect(&server, &mut witness, "connection_rejected", third, "connection_throttle_tokens");
}

#[test]
fn a_connection_without_a_session_is_closed_in_time() {
    let (server, mut witness) = start(|config| config.listen.sessionless_timeout_ms = 50);
    let mut silent = open(server.address());
    let peer = silent.local_addr().unwrap();
    silent.write_all(&[0, 0]).unwrap();
    assert_eq!(receive_payload(&mut silent), None);
    let name = "sessionless_connections_expired";
    check_effect(&server, &mut witness, name, peer, "nio.sessionlessCnxnTimeout");
}

#[test]
fn a_frame_above_the_limit_ends_the_connection() {
    let (server, mut witness) = start(|_| {});
    let mut client = Client::connect(server.address());
    client.create("/most", &vec![0; 1_000_000], 0).ok();
    client.send(&create("/too-much", &vec![0; 1_100_000], 0));
    assert!(client.is_closed());
    let (name, peer) = ("herdsman_frames_refused_total", client.local_address());
    check_effect(&server, &mut witness, name, peer, "jute.maxbuffer");
}

/// A client without a session cannot make the server wait for a long frame.
#[test]
fn a_first_frame_is_short() {
    let (server, mut witness) = start(|_| {});
    let mut stream = open(server.address());
    let peer = stream.local_addr().unwrap();
    stream.write_all(&4097i32.to_be_bytes()).unwrap();
    assert_eq!(receive_payload(&mut stream), None);
    let name = "herdsman_frames_refused_total";
    check_effect(&server, &mut witness, name, peer, "is not a connect request");
}

/// A port for both kinds of IP gets an IPv4 address as part of an IPv6 one; the log shows the IPv4 one.
#[test]
fn an_ipv4_address_is_told_as_one() {
    let (server, mut witness) =
        start(|config| config.listen.client = Some(Endpoint { host: None, port: 0 }));
    let mut stream = open(SocketAddr::from(([127, 0, 0, 1], server.address().port())));
    let peer = stream.local_addr().unwrap();
    stream.write_all(&[0x7f; 4]).unwrap();
    assert_eq!(receive_payload(&mut stream), None);
    let name = "herdsman_frames_refused_total";
    check_effect(&server, &mut witness, name, peer, "is not a connect request");
}

/// A request that arrives byte by byte does not keep the session alive before it is complete.
#[test]
fn a_request_that_never_ends_costs_the_session() {
    let (server, _) = start(|config| {
        config.sessions.tick_ms = 50;
        config.sessions.timeout_min_ms = 200;
        config.sessions.timeout_max_ms = 200;
    });
    let mut stream = open(server.address());
    let mut frame = Vec::new();
    connect_request(SessionId::NONE, &[0; 16]).encode_frame(&mut frame);
    frame.extend(1000i32.to_be_bytes());
    stream.write_all(&frame).unwrap();
    receive_payload(&mut stream).expect("a session");
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut sent = 0;
    while stream.write_all(&[0]).is_ok() && !matches!(stream.read(&mut [0; 16]), Ok(0)) {
        sent += 1;
        assert!(sent < 900, "the session is still alive");
    }
    Client::connect(server.address()).create("/others", b"", 0).ok();
}

/// Sends writes without waiting: all are answered, and the limit was reached.
fn check_held_back(adjust: impl FnOnce(&mut Config), setting: &str, data: &[u8]) {
    let (server, mut witness) = start(adjust);
    let mut client = Client::connect(server.address());
    let paths: Vec<String> = (0..300).map(|i| format!("/n{i}")).collect();
    let requests: Vec<_> = paths.iter().map(|path| create(path, data, 0)).collect();
    client.send_all(&requests);
    for _ in &paths {
        client.receive_reply().unwrap().ok();
    }
    let label = setting.trim_start_matches("herdsman.");
    let name = format!("herdsman_held_back_total{{limit=\"{label}\"}}");
    check_effect(&server, &mut witness, &name, client.local_address(), setting);
    let held = || metric(&server, "herdsman_request_bytes");
    wait_for("all bytes to be given back", || held() == 0.0);
}

#[test]
fn requests_in_flight_are_limited_in_all() {
    let adjust = |config: &mut Config| config.limits.outstanding_max = 2;
    check_held_back(adjust, "globalOutstandingLimit", b"");
}

#[test]
fn requests_in_flight_are_limited_for_a_connection() {
    let adjust = |config: &mut Config| {
        config.limits.requests_per_connection_max = NonZeroU32::new(2);
    };
    check_held_back(adjust, "herdsman.requestsPerConnectionMax", b"");
}

#[test]
fn bytes_in_flight_are_limited_for_a_connection() {
    let adjust = |config: &mut Config| {
        config.limits.request_bytes_per_connection_max = NonZeroU64::new(1000);
    };
    check_held_back(adjust, "herdsman.requestBytesPerConnectionMax", &[7; 600]);
}

#[test]
fn bytes_in_flight_are_limited_in_all() {
    let adjust = |config: &mut Config| config.limits.request_bytes_max = NonZeroU64::new(1000);
    check_held_back(adjust, "herdsman.requestBytesMax", &[7; 600]);
}

/// A frame that is longer than one read, and its reply.
pub fn long_frame() -> Vec<u8> {
    let mut frame = Vec::new();
    reply::frame(&mut frame, |out| {
        let request = set("/witness", &[7; 600_000]);
        RequestHeader { xid: Xid(1), op: request.op().code() }.encode(out);
        request.encode(out);
    });
    frame
}

/// Frames that are announced and not sent hold no more than the limit; later ones wait until there
/// is space, and small requests do not.
#[test]
fn long_frames_arrive_only_as_far_as_there_is_room() {
    let (server, mut witness) =
        start(|config| config.limits.request_bytes_max = NonZeroU64::new(1_000_000));
    let held = || metric(&server, "herdsman_request_bytes") as usize;
    let frame = long_frame();
    let (last, most) = frame.split_last().unwrap();
    let mut stalled = [(); 2].map(|()| Client::connect(server.address()));
    for client in &mut stalled {
        client.send_raw(most);
    }
    // The second one exceeds the limit, as one may.
    wait_for("two frames", || held() == 2 * frame.len());
    let mut third = Client::connect(server.address());
    let peer = third.local_address();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            third.send_raw(&frame);
            third.receive_reply().unwrap().error
        });
        let name = "herdsman_held_back_total{limit=\"requestBytesMax\"}";
        wait_for("the third to wait", || metric(&server, name) >= 1.0);
        check_effect(&server, &mut witness, name, peer, "herdsman.requestBytesMax");
        assert_eq!(held(), 2 * frame.len());
        let read = metric(&server, "bytes_received_count") as usize;
        assert!(read < 2 * frame.len() + (300 << 10), "{read} bytes of three frames were read");
        let [mut first, second] = stalled;
        first.send_raw(&[*last]);
        assert_eq!(first.receive_reply().unwrap().error, 0);
        assert_eq!(waiting.join().unwrap(), 0);
        drop(second);
    });
    wait_for("all room to be given back", || held() == 0);
}

#[test]
fn large_requests_have_a_limit_of_their_own() {
    let (server, mut witness) = start(|config| {
        config.limits.large_request_bytes_min = NonZeroU32::new(1000);
        config.limits.large_requests_bytes_max = 5000;
    });
    witness.create("/large", &[7; 4000], 0).ok();
    let mut client = Client::connect(server.address());
    client.send(&create("/too-large", &[7; 6000], 0));
    assert!(client.is_closed());
    let (name, peer) = ("large_requests_rejected", client.local_address());
    check_effect(&server, &mut witness, name, peer, "largeRequestMaxBytes");
    witness.create("/large-again", &[7; 4000], 0).ok();
}

/// Replies that the client does not read delay only its next request.
#[test]
fn a_client_that_does_not_read_its_replies_is_not_served_further() {
    let (server, mut witness) = start(|_| {});
    witness.create("/big", &vec![7; 900_000], 0).ok();
    let mut slow = Client::connect(server.address());
    // More than fits into the buffers of both sockets.
    for _ in 0..30 {
        slow.send(&get("/big", false));
    }
    let name = "herdsman_held_back_total{limit=\"unread\"}";
    wait_for("it to wait", || metric(&server, name) >= 1.0);
    check_effect(&server, &mut witness, name, slow.local_address(), "does not read");
    for _ in 0..30 {
        slow.receive_reply().unwrap().ok();
    }
}

/// A reply that is too large is not built. Apache sends it whatever its size.
#[test]
fn replies_are_limited() {
    let (server, mut witness) =
        start(|config| config.limits.reply_bytes_max = NonZeroU64::new(5000));
    witness.create("/many", b"", 0).ok();
    for i in 0..50 {
        witness.create(&format!("/many/{i:0100}"), b"", 1).ok();
    }
    let children = ReadRequest::GetChildren { path: "/many".into(), watch: true, with_stat: true };
    let data = |_| ReadRequest::GetData { path: "/data".into(), watch: false };
    witness.create("/data", &[7; 1000], 0).ok();
    let marshalling = code(ErrorCode::MarshallingError);
    let mut client = Client::connect(server.address());
    for read in [children.clone(), ReadRequest::MultiRead((0..6).map(data).collect())] {
        assert_eq!(client.call(&Request::Read(read)).error, marshalling);
    }
    let ephemerals = ReadRequest::GetEphemerals { prefix: None };
    assert_eq!(witness.call(&Request::Read(ephemerals)).error, marshalling);
    // What fits is answered, and a client without an answer has no watch.
    client.call(&Request::Read(ReadRequest::MultiRead((0..4).map(data).collect()))).ok();
    let watched = ReadRequest::CheckWatches { path: "/many".into(), kind: WatcherType::Children };
    assert_eq!(client.call(&Request::Read(watched)).error, code(ErrorCode::NoWatcher));
    assert_eq!(metric(&server, "herdsman_replies_refused_total"), 3.0);
    let (name, peer) = ("herdsman_replies_refused_total", client.local_address());
    check_effect(&server, &mut witness, name, peer, "herdsman.replyBytesMax");
}

/// Many clients that do not read do not fill the memory: the one with the most unread bytes is closed first.
#[test]
fn unread_replies_of_all_clients_have_a_limit() {
    let (server, mut witness) = start(|config| {
        config.limits.unread_bytes_max = NonZeroU64::new(2_000_000);
    });
    witness.create("/big", &vec![7; 900_000], 0).ok();
    let name = "herdsman_held_back_total{limit=\"unread\"}";
    // Each gets more than fits into the buffers of both sockets, and 1 to 2 MB wait in memory.
    let mut deaf = [Client::connect(server.address()), Client::connect(server.address())];
    for client in &mut deaf {
        for _ in 0..30 {
            client.send(&get("/big", false));
        }
        wait_for("the first to wait", || metric(&server, name) >= 1.0);
    }
    let why = "herdsman.unreadBytesMax";
    let is_closed = |client: &Client| {
        log::lines_with(&client.local_address()).iter().any(|line| line.contains(why))
    };
    wait_for("one of them to be closed", || deaf.iter().any(is_closed));
    let (closed, mut kept): (Vec<_>, Vec<_>) = deaf.into_iter().partition(is_closed);
    assert_eq!((closed.len(), kept.len()), (1, 1));
    for _ in 0..30 {
        kept[0].receive_reply().unwrap().ok();
    }
    let name = "herdsman_slow_readers_closed_total";
    check_effect(&server, &mut witness, name, closed[0].local_address(), why);
}

/// Events that a client does not read are not collected without limit.
#[test]
fn a_client_that_does_not_read_its_events_is_closed() {
    let (server, mut witness) = start(|config| {
        config.limits.unread_bytes_per_connection_max = NonZeroU64::new(200_000);
    });
    // Long paths make long events.
    let path = format!("/{}", "x".repeat(20_000));
    let mut deaf = Client::connect(server.address());
    let watch = ReadRequest::AddWatch { path: "/".into(), recursive: true };
    deaf.call(&Request::Read(watch)).ok();
    witness.create(&path, b"", 0).ok();
    let closed = || metric(&server, "herdsman_slow_readers_closed_total") >= 1.0;
    let mut sent = 0;
    while !closed() {
        // One at a time: no single change exceeds the limit.
        witness.set(&path, b"").ok();
        sent += path.len();
        assert!(sent < 100 << 20, "{sent} bytes of events, and the connection was not closed");
    }
    let (name, peer) = ("herdsman_slow_readers_closed_total", deaf.local_address());
    check_effect(&server, &mut witness, name, peer, "herdsman.unreadBytesPerConnectionMax");
}

fn set_watches_again(paths: &[&str]) -> Request<'static> {
    let exist = paths.iter().map(|path| (*path).to_owned().into()).collect();
    Request::Read(ReadRequest::SetWatches(SetWatches { exist, ..SetWatches::default() }))
}

#[test]
fn watches_of_a_session_are_limited() {
    let (server, mut witness) =
        start(|config| config.limits.watches_per_session_max = NonZeroU32::new(2));
    let mut client = Client::connect(server.address());
    let peer = client.local_address();
    client.get("/witness", true).unwrap();
    client.get("/", true).unwrap();
    let refused = code(ErrorCode::QuotaExceeded);
    let children = || ReadRequest::GetChildren { path: "/".into(), watch: true, with_stat: false };
    assert_eq!(client.call(&Request::Read(children())).error, refused);
    let add = ReadRequest::AddWatch { path: "/new".into(), recursive: true };
    assert_eq!(client.call(&Request::Read(add)).error, refused);
    // Also after a write, where reads may take another way. A write that triggers a watch frees its slot.
    let (new, change) = (create("/new", b"", 0), set("/witness", b"1"));
    client.send_all(&[new, Request::Read(children()), change, Request::Read(children())]);
    let errors: Vec<i32> = (0..4).map(|_| client.receive_reply().unwrap().error).collect();
    assert_eq!(errors, [0, refused, 0, 0]);
    assert_eq!(client.call(&get("/witness", true)).error, refused);
    assert_eq!(metric(&server, "herdsman_watches_refused_total"), 4.0);
    client.get("/witness", false).expect("a read that sets no watch");
    let (name, why) = ("herdsman_watches_refused_total", "herdsman.watchesPerSessionMax");
    check_effect(&server, &mut witness, name, peer, why);
    witness.get("/witness", true).unwrap();
}

/// Clients ignore the reply to setWatches, so the server must report a rejected watch in another way.
#[test]
fn too_many_watches_after_a_reconnect_end_the_connection() {
    let (server, mut witness) =
        start(|config| config.limits.watches_per_session_max = NonZeroU32::new(2));
    let mut client = Client::connect(server.address());
    client.call(&set_watches_again(&["/a", "/b"])).ok();
    let mut greedy = Client::connect(server.address());
    let reply = greedy.call(&set_watches_again(&["/a", "/b", "/c"]));
    assert_eq!(reply.error, code(ErrorCode::QuotaExceeded));
    assert!(greedy.is_closed());
    let (name, why) = ("herdsman_watches_refused_total", "herdsman.watchesPerSessionMax");
    check_effect(&server, &mut witness, name, greedy.local_address(), why);
    wait_for("its watches to go", || server.watch_count() == 2);
}

/// A request that waits for a slow write, and is not submitted with it, waits too long.
#[test]
fn a_request_that_waited_too_long_is_refused() {
    let (server, mut witness) = start(|config| {
        config.storage.flush_delay_ms = 200;
        config.request_throttle.op_wait_ms_max = NonZeroU32::new(20);
    });
    let mut client = Client::connect(server.address());
    client.create("/big", &[7; 10_000], 0).ok();
    client.send_all(&[create("/slow", b"", 0), get("/big", false), exists("/big")]);
    let errors: Vec<i32> = (0..3).map(|_| client.receive_reply().unwrap().error).collect();
    let throttled = code(ErrorCode::ThrottledOp);
    assert_eq!(errors, [0, throttled, throttled]);
    client.get("/big", false).unwrap();
    let (name, why) = ("throttled_ops", "throttled_op_wait_time");
    check_effect(&server, &mut witness, name, client.local_address(), why);
}

#[test]
fn a_hard_quota_refuses_when_it_is_enforced() {
    let server = TestServer::start_with(|config| config.znodes.enforce_quota = true);
    let mut client = Client::connect(server.address());
    for path in ["/q", "/zookeeper/quota/q"] {
        client.create(path, b"", 0).ok();
    }
    client
        .create(
            "/zookeeper/quota/q/zookeeper_limits",
            b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2",
            0,
        )
        .ok();
    client.create("/zookeeper/quota/q/zookeeper_stats", b"", 0).ok();
    client.create("/q/one", b"", 0).ok();
    assert_eq!(client.create("/q/two", b"", 0).error, code(ErrorCode::QuotaExceeded));
    assert_eq!(
        client.get("/zookeeper/quota/q/zookeeper_stats", false).unwrap().0,
        b"count=2,bytes=0"
    );
}

//! Malformed and abusive input: it affects only the connection that sends it.

use std::io::Write;
use std::num::NonZeroU64;

use herdsman_proto::limits::CONNECTION_IDS_MAX;
use herdsman_proto::{ErrorCode, JuteWrite, OpCode, Request, reply};
use herdsman_testing::{TestEnsemble, TestServer};

use crate::client::{Client, code, create, exists, open, receive_payload};
use crate::limits::long_frame;
use crate::metrics::scrape;
use crate::words::wait_for;

/// Sends raw bytes on a fresh connection; the server closes it and keeps serving other clients.
fn check_first_bytes(server: &TestServer, bytes: &[u8]) {
    let mut stream = open(server.address());
    stream.write_all(bytes).unwrap();
    assert_eq!(receive_payload(&mut stream), None, "{bytes:?} should be answered by a close");
}

#[test]
fn broken_first_frames_cost_the_connection_only() {
    let server = TestServer::start();
    let mut witness = Client::connect(server.address());
    check_first_bytes(&server, &(-1i32).to_be_bytes());
    check_first_bytes(&server, &i32::MAX.to_be_bytes());
    check_first_bytes(&server, &(2i32 << 20).to_be_bytes());
    check_first_bytes(&server, &[0, 0, 0, 0]);
    check_first_bytes(&server, &[0, 0, 0, 3, 1, 2, 3]);
    check_first_bytes(&server, b"GET / HTTP/1.1\r\n\r\n");
    witness.create("/fine", b"", 0).ok();
}

/// Sends the body of a request as raw bytes and returns the reply's error; `None` for a close.
fn raw_request(client: &mut Client, op: i32, body: &[u8]) -> Option<i32> {
    let mut frame = Vec::new();
    reply::frame(&mut frame, |out| {
        out.put_int(77);
        out.put_int(op);
        out.put_raw(body);
    });
    client.send_raw(&frame);
    client.receive_reply().map(|reply| reply.error)
}

#[test]
fn undecodable_bodies_get_a_marshalling_error_and_the_connection_lives() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    let marshalling = Some(code(ErrorCode::MarshallingError));
    let two_billion = [0x7f, 0xff, 0xff, 0xff];
    for &op in OpCode::ALL {
        let takes_a_body = !matches!(
            op,
            OpCode::Error
                | OpCode::CreateSession
                | OpCode::CloseSession
                | OpCode::DeleteContainer
                | OpCode::Check
                | OpCode::Ping
                | OpCode::WhoAmI
                | OpCode::Auth
                | OpCode::Sasl
        );
        if takes_a_body {
            assert_eq!(
                raw_request(&mut client, op.code(), &[]),
                marshalling,
                "{op:?} without a body"
            );
            assert_eq!(
                raw_request(&mut client, op.code(), &two_billion),
                marshalling,
                "{op:?} with a huge length"
            );
        }
    }
    client.create("/alive", b"", 0).ok();
}

#[test]
fn a_vector_that_claims_two_billion_elements_costs_nothing() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    let mut body = Vec::new();
    body.put_string("/x");
    body.put_buffer(None);
    body.put_int(i32::MAX);
    assert_eq!(
        raw_request(&mut client, OpCode::Create.code(), &body),
        Some(code(ErrorCode::MarshallingError))
    );
}

#[test]
fn unknown_ops_are_answered_and_end_the_connection() {
    let server = TestServer::start();
    for op in [0, 10, 13, 20, 99, 108, -10, i32::MIN, i32::MAX] {
        let mut client = Client::connect(server.address());
        assert_eq!(
            raw_request(&mut client, op, &[]),
            Some(code(ErrorCode::Unimplemented)),
            "op {op}"
        );
        assert!(client.is_closed());
    }
}

#[test]
fn paths_that_are_not_utf8_are_refused_as_paths() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    let mut body = Vec::new();
    body.put_buffer(Some(b"/\xff\xfe"));
    body.put_buffer(None);
    body.put_int(1);
    herdsman_proto::Acl::world(herdsman_proto::Perms::ALL).encode(&mut body);
    body.put_int(0);
    assert_eq!(
        raw_request(&mut client, OpCode::Create.code(), &body),
        Some(code(ErrorCode::BadArguments))
    );
}

/// A client that requests much and reads nothing is paused, and its replies are not collected.
#[test]
fn a_slow_reader_does_not_grow_the_server() {
    let server = TestServer::start();
    let mut witness = Client::connect(server.address());
    let big = vec![7; 900_000];
    witness.create("/big", &big, 0).ok();
    let mut slow = Client::connect(server.address());
    // Other tests run in this process, too.
    let before = resident_bytes();
    for _ in 0..200 {
        slow.send(&crate::client::get("/big", false));
    }
    // 180 MB are requested; far less may be in memory. Then everything still arrives.
    let grown = resident_bytes().saturating_sub(before);
    witness.create("/fine", b"", 0).ok();
    for _ in 0..200 {
        slow.receive_reply().unwrap().ok();
    }
    assert!(grown < 150 << 20, "{grown} bytes resident");
}

/// Replies that fill the output stop further requests only until they are sent.
#[test]
fn large_replies_hold_nothing_up_for_good() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    client.create("/big", &vec![7; 900_000], 0).ok();
    for i in 0..20 {
        let path = format!("/n{i}");
        client.send(&crate::client::create(&path, b"", 0));
        for _ in 0..4 {
            client.send(&crate::client::get("/big", false));
        }
    }
    for _ in 0..100 {
        client.receive_reply().unwrap().ok();
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A learner sends all ids of a client with each of its writes, so they must fit the link to the leader.
#[test]
fn ids_without_end_cost_their_connection_and_not_the_follower() {
    let ensemble = TestEnsemble::start();
    ensemble.await_leader();
    let follower = ensemble.follower();
    let mut witness = Client::connect(ensemble.address(follower));
    let mut client = Client::connect(ensemble.address(follower));
    let refused = (0..100).find_map(|i| {
        let mut credentials = format!("user{i}").into_bytes();
        credentials.resize(900_000, b'x');
        let auth = Request::Auth { scheme: "digest".into(), credentials: Some(&credentials) };
        let error = client.call(&auth).error;
        let written = error == 0 && client.create(&format!("/by-{i}"), b"", 0).error == 0;
        (!written).then_some(error)
    });
    assert_eq!(refused, Some(code(ErrorCode::AuthFailed)));
    assert!(client.is_closed());
    // Many short ones are rejected as well.
    let mut client = Client::connect(ensemble.address(follower));
    let refused = (0..100).find_map(|i| {
        let credentials = format!("user{i}:secret");
        let credentials = Some(credentials.as_bytes());
        let error = client.call(&Request::Auth { scheme: "digest".into(), credentials }).error;
        (error != 0).then_some((i, error))
    });
    // The address is an id, too.
    assert_eq!(refused, Some((CONNECTION_IDS_MAX - 1, code(ErrorCode::AuthFailed))));
    assert!(client.is_closed());
    witness.create("/witness", b"", 0).ok();
}

/// They are sent to the leader with each request, so they count like the request itself.
#[test]
fn long_ids_count_among_the_bytes_of_requests_at_a_learner() {
    let ensemble = TestEnsemble::start_with("", |_, config| {
        config.limits.request_bytes_per_connection_max = NonZeroU64::new(100_000);
    });
    ensemble.await_leader();
    let follower = ensemble.follower();
    let mut client = Client::connect(ensemble.address(follower));
    let credentials = "u".repeat(50_000);
    let credentials = Some(credentials.as_bytes());
    client.call(&Request::Auth { scheme: "digest".into(), credentials }).ok();
    let paths: Vec<_> = (0..300).map(|i| format!("/n{i}")).collect();
    let creates: Vec<_> = paths.iter().map(|path| create(path, b"", 0)).collect();
    client.send_all(&creates);
    for _ in &paths {
        client.receive_reply().unwrap().ok();
    }
    let metrics = scrape(&ensemble.handle(follower));
    let held_back = metrics["herdsman_held_back_total{limit=\"requestBytesPerConnectionMax\"}"];
    assert!(held_back >= 1.0, "the creates themselves take only some 20,000 bytes");
    let held = || scrape(&ensemble.handle(follower))["herdsman_request_bytes"];
    wait_for("all bytes to be given back", || held() == 0.0);
}

/// A client without requests in flight is never paused, except for long frames. Very many connections with long ids
/// could fill the link to the leader with one request each.
#[test]
fn long_ids_wait_for_room_at_a_learner() {
    let ensemble = TestEnsemble::start_with("", |_, config| {
        config.limits.request_bytes_max = NonZeroU64::new(1_000_000);
    });
    ensemble.await_leader();
    let follower = ensemble.follower();
    let metric = |name: &str| scrape(&ensemble.handle(follower))[name];
    let [mut witness, mut client, mut first, mut second] =
        [(); 4].map(|()| Client::connect(ensemble.address(follower)));
    let credentials = "u".repeat(50_000);
    let credentials = Some(credentials.as_bytes());
    client.call(&Request::Auth { scheme: "digest".into(), credentials }).ok();
    // Incomplete frames take all the space.
    let frame = long_frame();
    for stalled in [&mut first, &mut second] {
        stalled.send_raw(&frame[..frame.len() - 1]);
    }
    let held = || metric("herdsman_request_bytes") as usize;
    wait_for("two frames", || held() == 2 * frame.len());
    client.send(&create("/waits", b"", 0));
    let held_back = || metric("herdsman_held_back_total{limit=\"requestBytesMax\"}");
    wait_for("the one with ids to wait", || held_back() >= 1.0);
    witness.create("/does-not-wait", b"", 0).ok();
    let is_there = witness.call(&exists("/waits")).error == 0;
    assert!(!is_there, "it was sent to the leader before the witness's");
    drop((first, second));
    client.receive_reply().unwrap().ok();
}

/// The server reads 1 MiB of it. The rest is in the buffers of both sockets, whose sizes the system decides.
const DRAINED_AND_BUFFERED: usize = 32 << 20;

/// The bytes after a four-letter word are not waited for, however many there are.
#[test]
fn an_endless_stream_behind_a_word_is_cut_off() {
    let server = TestServer::start();
    let mut witness = Client::connect(server.address());
    // One for each I/O thread, and some more.
    let floods: Vec<_> = (0..std::thread::available_parallelism().unwrap().get() * 2)
        .map(|_| {
            let mut stream = open(server.address());
            stream.write_all(b"ruok").unwrap();
            std::thread::spawn(move || {
                (0..).take_while(|_| stream.write_all(&[b'x'; 1 << 16]).is_ok()).count() << 16
            })
        })
        .collect();
    for flood in floods {
        let sent = flood.join().unwrap();
        assert!(sent < DRAINED_AND_BUFFERED, "{sent} bytes were taken");
    }
    witness.create("/fine", b"", 0).ok();
}

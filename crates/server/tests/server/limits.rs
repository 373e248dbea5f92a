//! Limits that an operator sets.

use std::num::NonZeroU32;

use herdsman_proto::{ErrorCode, SessionId};
use herdsman_server::TestServer;

use crate::client::{Client, code, connect_request, create, exists, get};

#[test]
fn connections_per_address_are_limited() {
    let server = TestServer::start_with(|config| {
        config.limits.connections_per_address_max = NonZeroU32::new(2);
    });
    let first = Client::connect(server.address());
    let _second = Client::connect(server.address());
    let try_third =
        || Client::connect_as(server.address(), &connect_request(SessionId::NONE, &[0; 16]));
    assert!(try_third().is_none());
    drop(first);
    // The place comes free when the server has noticed; until then it keeps refusing.
    while try_third().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn a_frame_above_the_limit_ends_the_connection() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    client.create("/most", &vec![0; 1_000_000], 0).ok();
    client.send(&create("/too-much", &vec![0; 1_100_000], 0));
    assert!(client.is_closed());
}

#[test]
fn many_requests_in_flight_are_all_answered_under_a_low_limit() {
    let server = TestServer::start_with(|config| config.limits.outstanding_max = 2);
    let mut client = Client::connect(server.address());
    let paths: Vec<String> = (0..300).map(|i| format!("/n{i}")).collect();
    for path in &paths {
        client.send(&create(path, b"", 0));
    }
    for _ in &paths {
        client.receive_reply().unwrap().ok();
    }
}

/// What waits behind a slow write, and is not handed on with it, waits too long.
#[test]
fn a_request_that_waited_too_long_is_refused() {
    let server = TestServer::start_with(|config| {
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

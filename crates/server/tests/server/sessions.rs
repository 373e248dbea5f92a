//! Sessions: opened, resumed, moved, ended.

use std::time::Duration;

use herdsman_proto::{ErrorCode, Request, SessionId, Zxid};
use herdsman_testing::TestServer;

use crate::client::{Client, code, connect_request};

const EPHEMERAL: i32 = 1;

fn quick_ticks() -> TestServer {
    TestServer::start_with(|config| {
        config.sessions.tick_ms = 50;
        config.sessions.timeout_min_ms = 100;
        config.sessions.timeout_max_ms = 60_000;
    })
}

#[test]
fn timeouts_are_kept_within_the_limits() {
    let server = TestServer::start_with(|config| {
        config.sessions.timeout_min_ms = 4_000;
        config.sessions.timeout_max_ms = 6_000;
    });
    for (asked, given) in [(1, 4_000), (5_000, 5_000), (60_000, 6_000), (-1, 4_000)] {
        let mut request = connect_request(SessionId::NONE, &[0; 16]);
        request.timeout_ms = asked;
        let client = Client::connect_as(server.address(), &request).unwrap();
        assert_eq!(client.timeout_ms, given);
    }
}

#[test]
fn ephemerals_go_with_their_session() {
    let server = TestServer::start();
    let mut owner = Client::connect(server.address());
    let mut other = Client::connect(server.address());
    owner.create("/e", b"", EPHEMERAL).ok();
    assert_eq!(other.get("/e", false).unwrap().1.ephemeral_owner, owner.session.0);
    owner.call(&Request::CloseSession).ok();
    assert!(owner.is_closed());
    assert_eq!(other.get("/e", false), Err(code(ErrorCode::NoNode)));
    assert!(
        Client::reattach(server.address(), owner.session).is_none(),
        "a closed session stays closed"
    );
}

#[test]
fn a_session_survives_its_connection_and_a_restart() {
    let mut server = TestServer::start();
    let mut owner = Client::connect(server.address());
    owner.create("/e", b"", EPHEMERAL).ok();
    let session = owner.session;
    drop(owner);
    let mut owner = Client::reattach(server.address(), session).unwrap();
    assert!(owner.get("/e", false).is_ok());
    server.restart();
    let mut owner = Client::reattach(server.address(), session).unwrap();
    assert!(owner.get("/e", false).is_ok());
}

#[test]
fn a_silent_session_expires_and_a_pinging_one_does_not() {
    let server = quick_ticks();
    let connect = |timeout_ms| {
        let mut request = connect_request(SessionId::NONE, &[0; 16]);
        request.timeout_ms = timeout_ms;
        Client::connect_as(server.address(), &request).unwrap()
    };
    let mut silent = connect(200);
    let mut pinging = connect(2_000);
    silent.create("/silent", b"", EPHEMERAL).ok();
    pinging.create("/pinging", b"", EPHEMERAL).ok();
    // Waits for the event, not for a time: the silent session expires while the other one sends requests.
    while pinging.get("/silent", false).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(pinging.get("/pinging", false).is_ok());
    assert!(silent.is_closed());
    assert!(Client::reattach(server.address(), silent.session).is_none());
}

#[test]
fn a_wrong_password_gets_no_session() {
    let server = TestServer::start();
    let client = Client::connect(server.address());
    let wrong = connect_request(client.session, &[7; 16]);
    assert!(Client::connect_as(server.address(), &wrong).is_none());
}

#[test]
fn a_session_taken_up_elsewhere_leaves_its_old_connection() {
    let server = TestServer::start();
    let mut first = Client::connect(server.address());
    let mut second = Client::reattach(server.address(), first.session).unwrap();
    assert!(first.is_closed());
    second.create("/moved", b"", EPHEMERAL).ok();
}

#[test]
fn a_client_that_has_seen_the_future_must_look_elsewhere() {
    let server = TestServer::start();
    let mut request = connect_request(SessionId::NONE, &[0; 16]);
    request.last_zxid_seen = Zxid(1 << 40);
    assert!(Client::connect_as(server.address(), &request).is_none());
}

#[test]
fn a_client_that_looks_for_another_ensemble_is_sent_on() {
    let server = TestServer::start_with(|config| {
        config.access.ensemble_scheme = true;
        config.access.ensemble_names = vec!["blue".to_owned(), "azure".to_owned()];
    });
    let look_for = |name: &'static [u8]| {
        let mut client = Client::connect(server.address());
        client.try_call(&Request::Auth { scheme: "ensemble".into(), credentials: Some(name) })
    };
    for name in [&b"blue"[..], b"azure", b""] {
        assert_eq!(look_for(name).map(|reply| reply.error), Some(0), "{name:?}");
    }
    // No answer: an error would be final to the client.
    assert!(look_for(b"green").is_none());
    let handle = server.handle();
    let stats = &handle.core().stats;
    let counted =
        [&stats.ensemble_auth_fitted, &stats.ensemble_auth_failed, &stats.ensemble_auth_skipped];
    assert_eq!(counted.map(|counter| counter.get()), [2, 1, 1]);
}

#[test]
fn where_no_ensemble_can_be_looked_for_that_is_an_error() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    let ask = Request::Auth { scheme: "ensemble".into(), credentials: Some(b"blue") };
    assert_eq!(client.call(&ask).error, code(ErrorCode::AuthFailed));
}

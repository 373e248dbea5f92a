//! Sessions: kept through failures, ended for good, and replaced by the next one.

use std::time::Duration;

use herdsman_client::ConnectionEvent::{Closed, Connected, Expired, Lost, Reconnected, Suspended};
use herdsman_client::{Client, ConnectionState, ErrorKind, Outcome, RetryPolicy};
use herdsman_proto::OpCode;
use herdsman_testing::proxy::Fault;
use herdsman_testing::{TestProxy, TestServer};

use crate::world::{
    World, connect, eventually, kind, next, options, server_with_short_sessions, within,
};

#[tokio::test]
async fn a_session_survives_the_death_of_its_server() {
    let mut server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    let mut events = zk.events();
    let session = zk.session().id();
    zk.create("/e", "").ephemeral().await.unwrap();
    server.kill();
    server.start_again();
    let node = within(zk.get("/e").send()).await.unwrap();
    assert_eq!((zk.session().id(), node.stat.ephemeral_owner), (session, session.0));
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Reconnected { session });
}

#[tokio::test]
async fn a_managed_client_opens_the_next_session_and_reports_it() {
    let World { zk, server, other: _other, proxy: _proxy } = World::start().await;
    let mut events = zk.events();
    let first = zk.session();
    zk.create("/e", "").ephemeral().await.unwrap();
    server.expire_session(first.id());
    assert_eq!(within(zk.exists("/e").send()).await.unwrap(), None);
    let second = within(zk.connected_session()).await.unwrap();
    assert_ne!(first.id(), second.id());
    assert_eq!(first.state(), ConnectionState::Expired);
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Expired);
    assert_eq!(next(&mut events).await, Connected { session: second.id() });
    zk.close().await.unwrap();
    assert_eq!(next(&mut events).await, Closed);
    assert_eq!(within(events.next()).await, None);
    assert_eq!(within(zk.events().next()).await, None, "there are no further events");
}

#[tokio::test]
async fn a_bound_client_ends_with_its_session() {
    let World { zk, server, other: _other, proxy: _proxy } = World::start().await;
    let session = zk.session();
    let bound = zk.bound_to(&session);
    let mut events = bound.events();
    server.expire_session(session.id());
    let error = within(bound.get("/").send()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::SessionExpired, Outcome::NotApplied));
    assert_eq!(kind(within(bound.connected_session()).await), ErrorKind::SessionExpired);
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Expired);
    assert_eq!(within(events.next()).await, None);
    within(zk.get("/").send()).await.unwrap();
}

#[tokio::test]
async fn a_single_session_has_no_successor() {
    let server = TestServer::start();
    let session = options().connect_session(&server.connect_string()).await.unwrap();
    let zk = session.client();
    server.expire_session(session.id());
    assert_eq!(within(session.ended()).await, ConnectionState::Expired);
    assert_eq!(kind(zk.get("/").await), ErrorKind::SessionExpired);
    assert!(!zk.is_managed());
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_session_is_lost_after_its_timeout_and_may_resume() {
    // The server grants a minute, but the client assumes a third of a second.
    let server = TestServer::start_with(|config| {
        config.sessions.tick_ms = 20_000;
        config.sessions.timeout_min_ms = 300;
        config.sessions.timeout_max_ms = 60_000;
    });
    let proxy = TestProxy::start(server.address());
    let short = Client::options().session_timeout(Duration::from_millis(300));
    let zk = within(short.connect(&proxy.connect_string())).await.unwrap();
    let mut events = zk.events();
    let session = zk.session();
    proxy.partition();
    assert_eq!(next(&mut events).await, Suspended);
    assert!(!zk.state().is_connected());
    assert_eq!(next(&mut events).await, Lost);
    assert_eq!(session.state(), ConnectionState::Lost);
    proxy.cut();
    proxy.heal();
    assert_eq!(next(&mut events).await, Reconnected { session: session.id() });
    within(zk.get("/").send()).await.unwrap();
}

#[tokio::test]
async fn a_session_that_expired_during_a_partition_is_reported_afterwards() {
    let server = server_with_short_sessions();
    let proxy = TestProxy::start(server.address());
    let short = Client::options().session_timeout(Duration::from_millis(300));
    let zk = within(short.connect(&proxy.connect_string())).await.unwrap();
    let mut events = zk.events();
    let first = zk.session().id();
    proxy.partition();
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Lost);
    eventually("the server ends the session", || !server.has_session(first)).await;
    proxy.cut();
    proxy.heal();
    assert_eq!(next(&mut events).await, Expired);
    assert!(matches!(next(&mut events).await, Connected { session } if session != first));
}

#[tokio::test]
async fn calls_do_not_wait_forever_without_servers() {
    let server = server_with_short_sessions();
    let proxy = TestProxy::start(server.address());
    let short =
        Client::options().session_timeout(Duration::from_millis(300)).retry(RetryPolicy::never());
    let zk = within(short.connect(&proxy.connect_string())).await.unwrap();
    proxy.refuse_connections();
    proxy.cut();
    within(zk.session().wait_for(|state| !state.is_connected())).await;
    let error = within(zk.create("/a", "").send()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::ConnectionLoss, Outcome::NotApplied));
}

#[tokio::test]
async fn servers_whose_data_was_replaced_get_a_new_session() {
    let server = server_with_short_sessions();
    let proxy = TestProxy::start(server.address());
    let short = Client::options().session_timeout(Duration::from_millis(300));
    let zk = within(short.connect(&proxy.connect_string())).await.unwrap();
    for number in 0..20 {
        zk.create(&format!("/{number}"), "").await.unwrap();
    }
    let mut events = zk.events();
    let first = zk.session().id();
    let empty = server_with_short_sessions();
    proxy.set_upstream(empty.address());
    proxy.cut();
    assert_eq!(next(&mut events).await, Suspended);
    // An empty server lags behind what the client has seen, and closes the connection without a response.
    assert_eq!(next(&mut events).await, Lost);
    assert_eq!(next(&mut events).await, Expired);
    assert!(matches!(next(&mut events).await, Connected { session } if session != first));
    zk.create("/0", "").await.unwrap();
    eventually("no session is left over", || empty.session_count() == 1).await;
}

#[tokio::test]
async fn a_session_is_resumed_by_id_and_password() {
    let server = TestServer::start();
    let session = options().connect_session(&server.connect_string()).await.unwrap();
    let (id, password) = (session.id(), session.password());
    session.client().create("/e", "").ephemeral().await.unwrap();
    let resumed =
        options().resume(id, password).connect_session(&server.connect_string()).await.unwrap();
    assert_eq!(resumed.id(), id);
    assert!(resumed.client().exists("/e").await.unwrap().is_some());
    resumed.close().await.unwrap();
    assert_eq!(within(session.ended()).await, ConnectionState::Expired);

    let wrong = options().resume(id, [7; 16]).connect_session(&server.connect_string()).await;
    assert_eq!(kind(wrong), ErrorKind::SessionExpired);
}

#[tokio::test]
async fn closing_ends_ephemerals_at_once_and_all_clones() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    let clone = zk.clone();
    let id = zk.session().id();
    zk.create("/e", "").ephemeral().await.unwrap();
    let last = zk.set("/e", "before the end").send();
    zk.close().await.unwrap();
    assert_eq!(last.await.unwrap().version, 1);
    assert!(!server.has_session(id) && server.ephemerals(id).is_empty());
    assert_eq!(kind(clone.get("/").await), ErrorKind::Closed);
    assert_eq!(clone.state(), ConnectionState::Closed);
    clone.close().await.unwrap();
}

#[tokio::test]
async fn an_unconfirmed_close_is_an_error_but_ends_the_session() {
    let World { zk, proxy, server, other: _other } = World::start().await;
    let lost = proxy.once(OpCode::CloseSession, Fault::CutBeforeReply);
    let error = within(zk.close()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::ConnectionLoss, Outcome::Unknown));
    assert_eq!((lost.fired(), zk.state()), (1, ConnectionState::Closed));
    eventually("only the other client's session is left", || server.session_count() == 1).await;
}

#[tokio::test]
async fn a_client_that_is_closed_as_its_session_expires_stays_closed() {
    let World { zk, proxy, server, other: _other } = World::start().await;
    proxy.refuse_connections();
    let session = zk.session();
    server.expire_session(session.id());
    within(session.wait_for(|state| !state.is_connected())).await;
    proxy.accept_connections();
    within(session.ended()).await;
    let _ = within(zk.close()).await;
    assert_eq!(zk.state(), ConnectionState::Closed);
    assert_eq!(kind(within(zk.get("/").send()).await), ErrorKind::Closed);
    eventually("only the other client's session is left", || server.session_count() == 1).await;
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_session() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    let session = zk.session();
    let bound = session.client();
    drop((zk, session));
    bound.create("/e", "").ephemeral().await.unwrap();
    let id = bound.session().id();
    drop(bound.get("/").send());
    drop(bound);
    eventually("the session is closed", || !server.has_session(id)).await;
}

#[tokio::test]
async fn unreachable_servers_are_a_clear_error() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = options().connect_timeout(Duration::from_millis(100));
    let error = within(options.clone().connect(&port.to_string())).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error.kind(), ErrorKind::ConnectFailed(_)), "{text}");
    assert!(text.contains(&port.to_string()) && text.contains("refused"), "{text}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let error = within(options.connect_session(&port.to_string())).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ConnectFailed(_)), "{error}");
}

#[tokio::test]
async fn a_client_may_be_started_before_its_servers() {
    let mut server = TestServer::start();
    let servers = server.connect_string();
    server.stop();
    let zk = options().start(&servers).unwrap();
    let mut events = zk.events();
    let created = zk.create("/a", "").send();
    assert_eq!(zk.state(), ConnectionState::Connecting);
    server.start_again();
    within(created).await.unwrap();
    assert_eq!(next(&mut events).await, Connected { session: zk.session().id() });
}

#[tokio::test]
async fn an_idle_session_is_kept_alive() {
    let server = server_with_short_sessions();
    let proxy = TestProxy::start(server.address());
    let short = Client::options().session_timeout(Duration::from_millis(600));
    let zk = within(short.connect(&proxy.connect_string())).await.unwrap();
    let session = zk.session();
    let connected = session.last_contact();
    within(proxy.until(|traffic| traffic.requests(OpCode::Ping) >= 6)).await;
    assert_eq!(proxy.traffic().connections_accepted(), 1);
    assert!(server.has_session(session.id()));
    assert!(session.last_contact() > connected);
    assert_eq!(session.timeout(), Duration::from_millis(600));
}

/// Events that still arrive from a server which does not receive from us do not prove that the session is
/// alive.
#[tokio::test]
async fn only_replies_prove_that_a_session_is_alive() {
    let World { zk, other, proxy, server: _server } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let mut watch = zk.watch("/a").await.unwrap();
    let vouched = zk.session().last_contact();
    let held = proxy.once(OpCode::Exists, Fault::HoldRequest);
    let unheard = zk.exists("/a").send();
    within(held.until_fired()).await;
    other.set("/a", "x").await.unwrap();
    within(watch.next()).await.unwrap();
    assert_eq!(zk.session().last_contact(), vouched);
    held.release();
    within(unheard).await.unwrap();
    assert!(zk.session().last_contact() > vouched);
}

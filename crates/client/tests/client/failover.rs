//! Several servers: failover, changed lists, and servers that reject clients.

use std::time::Duration;

use herdsman_client::ConnectionEvent::{Reconnected, Suspended};
use herdsman_client::{Client, ErrorKind, Outcome, RetryPolicy};
use herdsman_proto::OpCode;
use herdsman_testing::proxy::{Fault, Rule};
use herdsman_testing::{TestEnsemble, TestProxy, TestServer};

use crate::world::{World, connect, eventually, kind, next, options, within};

fn servers(ensemble: &TestEnsemble) -> String {
    let addresses: Vec<_> = ensemble.ids().map(|id| ensemble.address(id).to_string()).collect();
    addresses.join(",")
}

/// Returns the server that a client is connected to: the one with its watch.
async fn home(ensemble: &TestEnsemble, zk: &Client) -> usize {
    let (_, watch) = within(zk.exists("/home").watch().send()).await.unwrap();
    let home = ensemble.ids().find(|id| ensemble.watch_count(*id) == 1).expect("it is one of them");
    drop(watch);
    eventually("the watch is removed", || ensemble.watch_count(home) == 0).await;
    home
}

#[tokio::test]
async fn a_session_moves_to_another_server_with_all_it_has() {
    let mut ensemble = TestEnsemble::start();
    ensemble.await_leader();
    let zk = within(options().connect(&servers(&ensemble))).await.unwrap();
    let mut events = zk.events();
    let session = zk.session().id();
    zk.create("/e", "0").ephemeral().await.unwrap();
    let killed = home(&ensemble, &zk).await;
    let (_, watch) = zk.get("/e").watch().await.unwrap();
    ensemble.kill(killed);
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Reconnected { session });
    let patient = zk.with_retry(RetryPolicy::forever(Duration::from_millis(20)));
    within(patient.sync("/").send()).await.unwrap();
    let node = within(patient.get("/e").send()).await.unwrap();
    assert_eq!(node.stat.ephemeral_owner, session.0);
    // Requests in flight may be lost with a connection; the version shows whether a write was applied.
    let set = || patient.set("/e", "1").version(0).send();
    let changed = within(async {
        loop {
            match set().await {
                Ok(_) => return true,
                Err(error) if *error.kind() == ErrorKind::BadVersion => return true,
                Err(error) => assert!(error.is_retriable(), "{error}"),
            }
        }
    });
    assert!(changed.await);
    within(watch).await.unwrap();
    zk.close().await.unwrap();
}

/// Events still arrive from a server that no longer receives from us. They used to keep the connection open until the
/// session had expired.
#[tokio::test]
async fn a_server_that_sends_only_events_is_given_up_in_time() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let other = connect(&server.connect_string()).await;
    let short = options().session_timeout(Duration::from_secs(6));
    let zk = within(short.connect(&proxy.connect_string())).await.unwrap();
    let (session, mut events) = (zk.session().id(), zk.events());
    other.create("/a", "").await.unwrap();
    let _watch = zk.watch("/a").await.unwrap();
    let held = proxy.once(OpCode::Ping, Fault::HoldRequest);
    within(held.until_fired()).await;
    let sending = async {
        loop {
            other.set("/a", "").await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = sending => unreachable!("it never ends"),
        event = next(&mut events) => assert_eq!(event, Suspended),
    }
    assert_eq!(next(&mut events).await, Reconnected { session });
}

#[tokio::test]
async fn a_client_leaves_a_server_that_is_no_longer_listed() {
    let server = TestServer::start();
    let (old, new) = (TestProxy::start(server.address()), TestProxy::start(server.address()));
    let zk = within(options().connect(&old.connect_string())).await.unwrap();
    let session = zk.session().id();
    let mut events = zk.events();
    zk.update_servers(&format!("{},{}", old.connect_string(), old.connect_string())).unwrap();
    zk.get("/").await.unwrap();
    assert_eq!(old.traffic().connections_accepted(), 1, "its server is still there");
    zk.update_servers(&new.connect_string()).unwrap();
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Reconnected { session });
    within(zk.get("/").send()).await.unwrap();
    assert_eq!((old.traffic().connections_open(), new.traffic().connections_open()), (0, 1));
    for bad in ["", "host:port", "127.0.0.1:1/chroot"] {
        let kind = kind(zk.update_servers(bad));
        assert!(matches!(kind, ErrorKind::InvalidArgument(_)), "{kind:?}");
    }
}

/// A planned move is not a failure: all requests that were sent get their replies.
#[tokio::test]
async fn requests_in_flight_are_answered_before_a_client_moves() {
    let server = TestServer::start();
    let (old, new) = (TestProxy::start(server.address()), TestProxy::start(server.address()));
    let zk = within(options().connect(&old.connect_string())).await.unwrap();
    let zk = zk.with_retry(RetryPolicy::never());
    let mut events = zk.events();
    let held = old.once(OpCode::Create2, Fault::HoldReply);
    let created = zk.create("/a", "").send();
    within(old.until(|traffic| traffic.requests(OpCode::Create2) == 1)).await;
    zk.update_servers(&new.connect_string()).unwrap();
    // The client has processed the new list by now: it has sent nothing after the create.
    let behind = zk.create("/b", "").send();
    held.release();
    within(created).await.unwrap();
    assert_eq!(next(&mut events).await, Suspended);
    // Requests that were not sent have failed without being applied.
    if let Err(error) = within(behind).await {
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
    eventually("the client has moved", || new.traffic().connections_open() == 1).await;
}

#[tokio::test]
async fn a_new_list_is_used_while_there_is_no_connection() {
    let World { zk, proxy, server, other: _other } = World::start().await;
    let session = zk.session();
    proxy.refuse_connections();
    proxy.cut();
    within(session.wait_for(|state| !state.is_connected())).await;
    zk.update_servers(&server.connect_string()).unwrap();
    within(zk.get("/").send()).await.unwrap();
    assert_eq!(zk.session().id(), session.id());
}

/// Lets the client run into the fault several times, then checks that it connects. The delays in between
/// are tested in `reconnect_delay`.
async fn survive(zk: &Client, proxy: &TestProxy) {
    const HANDSHAKES: usize = 6;
    let before = proxy.traffic().requests(OpCode::CreateSession);
    proxy.cut();
    within(proxy.until(|traffic| traffic.requests(OpCode::CreateSession) > before + HANDSHAKES))
        .await;
    proxy.clear_rules();
    within(zk.get("/").send()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_closes_connections_is_survived() {
    let World { zk, proxy, other: _other, server: _server } = World::start().await;
    proxy.add_rule(Rule::new(Fault::CutBeforeRequest).on(OpCode::CreateSession).always());
    survive(&zk, &proxy).await;
}

#[tokio::test]
async fn a_server_that_closes_connections_after_the_handshake_is_survived() {
    let World { zk, proxy, other: _other, server: _server } = World::start().await;
    proxy.add_rule(Rule::new(Fault::CutBeforeReply).on(OpCode::Exists).always());
    let eager = zk.with_retry(RetryPolicy::forever(Duration::ZERO));
    let reads: Vec<_> = (0..4).map(|_| tokio::spawn(eager.exists("/").send())).collect();
    survive(&zk, &proxy).await;
    for read in reads {
        within(read).await.unwrap().unwrap();
    }
}

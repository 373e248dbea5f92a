//! Preferred servers: they are used first, and clients return to them.

use std::time::Duration;

use herdsman_client::ConnectionEvent::{Reconnected, Suspended};
use herdsman_client::{Client, ErrorKind, RetryPolicy};
use herdsman_proto::OpCode;
use herdsman_testing::proxy::{Fault, Rule};
use herdsman_testing::{TestEnsemble, TestProxy, TestServer};

use crate::world::{eventually, kind, next, options, within};

/// Two proxies to servers, of which the first is preferred.
struct World {
    near: TestProxy,
    far: TestProxy,
    server: TestServer,
}

impl World {
    fn start() -> Self {
        let server = TestServer::start();
        let (near, far) = (TestProxy::start(server.address()), TestProxy::start(server.address()));
        World { near, far, server }
    }

    async fn connect(&self) -> Client {
        let servers = format!("{},{}", self.far.connect_string(), self.near.connect_string());
        let options = options().prefer(&self.near.connect_string());
        let options = options.return_delay(Duration::from_millis(50));
        within(options.connect(&servers)).await.unwrap()
    }

    /// Moves all clients away from the preferred server, and keeps them away.
    fn stop_near(&self) {
        self.near.refuse_connections();
        self.near.cut();
    }

    fn open(&self) -> (usize, usize) {
        (self.near.traffic().connections_open(), self.far.traffic().connections_open())
    }
}

#[tokio::test]
async fn preferred_servers_are_used_first() {
    let world = World::start();
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(world.connect().await);
    }
    assert_eq!(world.open(), (10, 0));
}

#[tokio::test]
async fn a_client_returns_with_its_session_and_watches() {
    let world = World::start();
    let zk = world.connect().await;
    let session = zk.session().id();
    let mut events = zk.events();
    world.stop_near();
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Reconnected { session });
    zk.create("/e", "1").ephemeral().await.unwrap();
    let (_, changed) = zk.get("/e").watch().await.unwrap();
    assert_eq!(world.open(), (0, 1));
    world.near.accept_connections();
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Reconnected { session });
    eventually("the client has returned", || world.open() == (1, 0)).await;
    let patient = zk.with_retry(RetryPolicy::forever(Duration::from_millis(5)));
    within(patient.set("/e", "2").send()).await.unwrap();
    within(changed).await.unwrap();
    assert_eq!(world.server.ephemerals(session), ["/e"]);
}

#[tokio::test]
async fn requests_in_flight_are_answered_before_a_client_returns() {
    let world = World::start();
    world.near.refuse_connections();
    let zk = world.connect().await.with_retry(RetryPolicy::never());
    let held = world.far.once(OpCode::Create2, Fault::HoldReply);
    let created = zk.create("/a", "").send();
    within(world.far.until(|traffic| traffic.requests(OpCode::Create2) == 1)).await;
    world.near.accept_connections();
    // The client has probed the preferred server and knows that it serves.
    within(world.near.until(|traffic| traffic.connections_accepted() == 1)).await;
    eventually("the reply has arrived", || world.near.traffic().connections_open() == 0).await;
    let mut events = zk.events();
    held.release();
    within(created).await.unwrap();
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Reconnected { session: zk.session().id() });
    eventually("the client has returned", || world.open() == (1, 0)).await;
}

/// It answers probes, but accepts no session.
#[tokio::test]
async fn a_preferred_server_that_accepts_no_sessions_is_abandoned() {
    let world = World::start();
    let refusal = Rule::new(Fault::CutBeforeReply).on(OpCode::CreateSession).always();
    world.near.add_rule(refusal);
    let zk = world.connect().await;
    let session = zk.session().id();
    let refused = world.near.traffic().requests(OpCode::CreateSession);
    within(world.near.until(|traffic| traffic.requests(OpCode::CreateSession) >= refused + 2))
        .await;
    let patient = zk.with_retry(RetryPolicy::forever(Duration::from_millis(5)));
    within(patient.create("/e", "").ephemeral().send()).await.unwrap();
    world.near.clear_rules();
    eventually("the client has returned", || world.open() == (1, 0)).await;
    assert_eq!((zk.session().id(), world.server.ephemerals(session).len()), (session, 1));
}

#[tokio::test]
async fn a_client_returns_when_its_list_names_a_preferred_server() {
    let world = World::start();
    let options = options().prefer(&world.near.connect_string()).return_delay(Duration::ZERO);
    let zk = within(options.connect(&world.far.connect_string())).await.unwrap();
    assert_eq!(world.open(), (0, 1));
    let servers = format!("{},{}", world.far.connect_string(), world.near.connect_string());
    zk.update_servers(&servers).unwrap();
    eventually("the client has moved", || world.open() == (1, 0)).await;
}

/// "Never return", with a delay that is too long to compute with.
#[tokio::test]
async fn a_client_with_an_endless_return_delay_does_not_return() {
    let world = World::start();
    let servers = format!("{},{}", world.far.connect_string(), world.near.connect_string());
    world.stop_near();
    let options = options().prefer(&world.near.connect_string()).return_delay(Duration::MAX);
    // Half of the random delays used to be too long.
    for round in 0..8 {
        let zk = within(options.clone().connect(&servers)).await.unwrap();
        zk.create(&format!("/{round}"), "").await.unwrap();
        eventually("the client is at the other server", || world.open() == (0, 1)).await;
        within(zk.close()).await.unwrap();
    }
}

/// A member of an ensemble that is restarted.
#[tokio::test]
async fn a_client_returns_to_a_member_that_was_down() {
    let mut ensemble = TestEnsemble::start_with_client_ports();
    let leader = ensemble.await_leader();
    let near = ensemble.follower();
    let address = |id| ensemble.address(id).to_string();
    let (servers, preferred) =
        (ensemble.ids().map(address).collect::<Vec<_>>().join(","), address(near));
    let options = options().prefer(&preferred).return_delay(Duration::from_millis(50));
    let zk = within(options.connect(&servers)).await.unwrap();
    zk.create("/e", "").ephemeral().await.unwrap();
    let session = zk.session();
    ensemble.kill(near);
    within(session.wait_for(|state| !state.is_connected())).await;
    let patient = zk.with_retry(RetryPolicy::forever(Duration::from_millis(5)));
    within(patient.sync("/").send()).await.unwrap();
    ensemble.start_again(near);
    assert_ne!(ensemble.await_leader(), near, "{leader} continues");
    let mut is_back = false;
    while !is_back {
        let watch = within(patient.exists("/home").watch().send()).await;
        is_back = watch.is_ok() && ensemble.watch_count(near) == 1;
    }
    assert_eq!(zk.session().id(), session.id());
    assert!(within(patient.exists("/e").send()).await.unwrap().is_some());
}

#[tokio::test]
async fn invalid_preferences_are_rejected() {
    for bad in ["", "a,,b", "a:port"] {
        let refused = kind(within(options().prefer(bad).connect("127.0.0.1:1")).await);
        assert!(matches!(refused, ErrorKind::InvalidArgument(_)), "{refused:?}");
    }
}

//! Clients that follow the membership of the ensemble.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use herdsman_client::ConnectionEvent::{Lost, Reconnected, Suspended};
use herdsman_client::{Client, Dial, Dialing, ErrorKind, RetryPolicy};
use herdsman_proto::{Membership, ServerId};
use herdsman_testing::TestEnsemble;
use tokio::net::TcpStream;

use crate::world::{eventually, kind, next, options, within};

fn start() -> TestEnsemble {
    let ensemble = TestEnsemble::start_with("reconfigEnabled=true\nskipACL=yes\n", |_, _| {});
    ensemble.await_leader();
    ensemble
}

/// Adds client ports to the members' server lines, which had none.
async fn name_client_ports(ensemble: &TestEnsemble) {
    let id = ensemble.follower();
    let zk = within(options().connect(&ensemble.address(id).to_string())).await.unwrap();
    let text = String::from_utf8(zk.config().await.unwrap().data.to_vec()).unwrap();
    let membership = Membership::parse_text(&text).unwrap();
    let mut reconfig = zk.reconfig();
    for id in ensemble.ids() {
        let member = &membership.members[&ServerId(id as i64)];
        let line = format!("server.{id}={member};{}", ensemble.address(id));
        reconfig = reconfig.join(line);
    }
    within(reconfig.send()).await.unwrap();
    within(zk.close()).await.unwrap();
}

/// The client knows one server and survives its end, because it has learned of the others.
#[tokio::test]
async fn servers_missing_from_the_connect_string_are_found() {
    let mut ensemble = start();
    let id = ensemble.follower();
    let only = ensemble.address(id).to_string();
    let zk = within(options().follow_membership().connect(&only)).await.unwrap();
    zk.create("/e", "0").ephemeral().await.unwrap();
    name_client_ports(&ensemble).await;
    eventually("the client knows all servers", || zk.servers().hosts().len() == 3).await;
    ensemble.kill(id);
    let patient = zk.with_retry(RetryPolicy::forever(Duration::from_millis(20)));
    let node = within(patient.get("/e").send()).await.unwrap();
    assert_eq!(node.stat.ephemeral_owner, zk.session().id().0, "the session has moved");
}

/// Connects only to one server.
#[derive(Debug)]
struct Only(u16);

impl Dial for Only {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialing<'a> {
        Box::pin(async move {
            match port == self.0 && host == "localhost" {
                true => TcpStream::connect((host, port)).await,
                false => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

#[tokio::test]
async fn an_unreachable_membership_is_abandoned() {
    let ensemble = start();
    let port = ensemble.address(ensemble.follower()).port();
    let options = Client::options().session_timeout(Duration::from_secs(2));
    let options = options.dial(Arc::new(Only(port))).follow_membership();
    let zk = within(options.connect(&format!("localhost:{port}"))).await.unwrap();
    let mut events = zk.events();
    name_client_ports(&ensemble).await;
    // The members are 127.0.0.1:…, which this client cannot reach.
    assert_eq!(next(&mut events).await, Suspended);
    assert_eq!(next(&mut events).await, Lost);
    let back = next(&mut events).await;
    let is_back = matches!(back, Reconnected { .. } | herdsman_client::ConnectionEvent::Expired);
    assert!(is_back, "{back:?}");
    let patient = zk.with_retry(RetryPolicy::forever(Duration::from_millis(20)));
    within(patient.exists("/").send()).await.unwrap();
}

/// Following must not keep a client alive.
#[tokio::test]
async fn a_dropped_client_stops_following() {
    let ensemble = start();
    name_client_ports(&ensemble).await;
    // All of them, so that the client need not move: one that is dropped during a move cannot close its
    // session.
    let servers: Vec<_> = ensemble.ids().map(|id| ensemble.address(id).to_string()).collect();
    let servers = servers.join(",");
    let zk = within(options().follow_membership().connect(&servers)).await.unwrap();
    let session = zk.session().id();
    zk.create("/e", "").ephemeral().await.unwrap();
    let other = within(options().connect(&servers)).await.unwrap();
    within(other.sync("/").send()).await.unwrap();
    let (stat, deleted) = within(other.exists("/e").watch().send()).await.unwrap();
    assert_eq!(stat.map(|stat| stat.ephemeral_owner), Some(session.0));
    drop(zk);
    within(deleted).await.unwrap();
}

#[tokio::test]
async fn a_single_session_does_not_follow() {
    let ensemble = start();
    let servers = ensemble.address(ensemble.follower()).to_string();
    let error = kind(options().follow_membership().connect_session(&servers).await);
    assert!(matches!(error, ErrorKind::InvalidArgument(_)), "{error:?}");
}

//! Credentials: sent, sent again, rejected.

use herdsman_client::{Acl, Client, ConnectionState, ErrorKind, Result};
use herdsman_proto::OpCode;
use herdsman_testing::TestServer;

use crate::world::{World, connect, kind, options, within};

async fn read(zk: &Client) -> Result<bytes::Bytes> {
    within(async { zk.get("/secret").await.map(|node| node.data) }).await
}

#[tokio::test]
async fn credentials_grant_access_to_what_they_protect() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    assert_eq!(
        kind(zk.create("/secret", "s").acl(Acl::creator_all()).await),
        ErrorKind::InvalidAcl
    );
    zk.authenticate("digest", "ann:pass").await.unwrap();
    zk.create("/secret", "s").acl(Acl::creator_all()).await.unwrap();
    let ids = zk.who_am_i().await.unwrap();
    assert!(ids.iter().any(|id| id.scheme == "digest" && id.id == "ann"), "{ids:?}");

    let other = connect(&server.connect_string()).await;
    assert_eq!(kind(read(&other).await), ErrorKind::NoAuth);
    other.authenticate("digest", "bob:pass").await.unwrap();
    assert_eq!(kind(read(&other).await), ErrorKind::NoAuth);
    let pipelined = other.authenticate("digest", "ann:pass").send();
    assert_eq!(read(&other).await.unwrap(), "s", "in effect for the very next request");
    pipelined.await.unwrap();
}

#[tokio::test]
async fn credentials_are_sent_on_every_connection() {
    let World { zk, proxy, server, other: _other } =
        World::start_with(options().credentials("digest", "ann:pass")).await;
    zk.create("/secret", "s").acl(Acl::creator_all()).await.unwrap();
    zk.authenticate("digest", "bob:pass").await.unwrap();
    zk.authenticate("digest", "bob:pass").await.unwrap();
    proxy.cut();
    assert_eq!(read(&zk).await.unwrap(), "s");
    assert_eq!(zk.who_am_i().await.unwrap().iter().filter(|id| id.scheme == "digest").count(), 2);
    // Ann at first, Bob twice, and after the cut one of each: duplicates are stored once.
    assert_eq!(proxy.traffic().requests(OpCode::Auth), 5);
    server.expire_session(zk.session().id());
    assert_eq!(read(&zk).await.unwrap(), "s", "also in the next session");
}

#[tokio::test]
async fn rejected_credentials_end_the_session() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    let (_, watch) = zk.exists("/a").watch().await.unwrap();
    let session = zk.session();
    assert_eq!(kind(zk.authenticate("nonsense", "x").await), ErrorKind::AuthFailed);
    assert_eq!(within(session.ended()).await, ConnectionState::AuthFailed);
    assert_eq!(kind(within(watch).await), ErrorKind::AuthFailed);
    assert_eq!(kind(read(&zk).await), ErrorKind::AuthFailed);
    assert_eq!(kind(within(zk.connected_session()).await), ErrorKind::AuthFailed);
    zk.close().await.unwrap();
}

//! The ACL of znodes that are created without their own: with every way to create a znode, and every client
//! that is derived from another.

use std::time::Duration;

use herdsman_client::{Acl, Client, ErrorKind, Lifetime, Op, Perms, RetryPolicy};
use herdsman_testing::TestServer;

use crate::world::{connect, kind, options, within};

/// All permissions for one user, read permission for all.
fn chosen() -> Vec<Acl> {
    vec![Acl::digest("ann", "pass", Perms::ALL), Acl::read_only()]
}

async fn start(chroot: &str) -> (TestServer, Client) {
    let server = TestServer::start_with(|config| config.znodes.ttl = true);
    let servers = format!("{}{chroot}", server.connect_string());
    let options = options().credentials("digest", "ann:pass").default_acl(chosen());
    let zk = within(options.connect(&servers)).await.unwrap();
    (server, zk)
}

#[track_caller]
fn check(acl: Result<(Vec<Acl>, herdsman_client::Stat), herdsman_client::Error>, path: &str) {
    assert_eq!(acl.unwrap().0, chosen(), "{path}");
}

#[tokio::test]
async fn every_way_to_create_a_znode_uses_the_default_acl() {
    // Below a chroot that does not exist, which is created as a parent.
    for chroot in ["", "/root/app"] {
        let (server, zk) = start(chroot).await;
        zk.create("/plain", "").parents().await.unwrap();
        zk.create("/ephemeral", "").ephemeral().await.unwrap();
        zk.create("/container", "").container().await.unwrap();
        zk.create("/ttl", "").ttl(Duration::from_secs(60)).await.unwrap();
        let numbered = zk.create("/n-", "").sequential().await.unwrap().path;
        let protected = zk.create("/lock-", "").sequential().protected().await.unwrap().path;
        zk.create("/p/q/leaf", "").parents().await.unwrap();
        zk.create("/c/d/leaf", "").container_parents().await.unwrap();
        zk.ensure("/e/f", Lifetime::Persistent).await.unwrap();
        zk.transaction([Op::create("/t", ""), Op::create("/t/u", "").ephemeral()]).await.unwrap();
        let fenced = zk.fenced_by("/plain");
        fenced.create("/fenced", "").await.unwrap();
        fenced.transaction([Op::create("/fenced/t", "")]).await.unwrap();
        let paths = ["/plain", "/ephemeral", "/container", "/ttl", &numbered, &protected]
            .into_iter()
            .chain(["/p", "/p/q", "/p/q/leaf", "/c", "/c/d", "/c/d/leaf", "/e", "/e/f"])
            .chain(["/t", "/t/u", "/fenced", "/fenced/t"]);
        for path in paths {
            check(zk.acl(path).await, path);
        }
        if !chroot.is_empty() {
            let outside = connect(&server.connect_string()).await;
            outside.authenticate("digest", "ann:pass").await.unwrap();
            check(outside.acl("/root").await, "/root");
            check(outside.acl("/root/app").await, "/root/app");
        }
    }
}

#[tokio::test]
async fn every_derived_client_has_the_default_acl() {
    let (server, zk) = start("").await;
    zk.create("/space", "").await.unwrap();
    let session = zk.connected_session().await.unwrap();
    let other = connect(&server.connect_string()).await;
    other.authenticate("digest", "ann:pass").await.unwrap();
    let derived = [
        zk.clone(),
        zk.with_retry(RetryPolicy::never()),
        zk.with_deadline(Duration::from_secs(20)),
        zk.bound_to(&session),
        session.client(),
        zk.namespace("/space").unwrap(),
        zk.fenced_by("/space").client().clone(),
        other.with_default_acl(chosen()).unwrap(),
    ];
    for (at, client) in derived.iter().enumerate() {
        let path = format!("/{at}");
        client.create(&path, "").await.unwrap();
        client.transaction([Op::create(&format!("{path}t"), "")]).await.unwrap();
        check(client.acl(&path).await, &path);
        check(client.acl(&format!("{path}t")).await, &path);
    }
    server.expire_session(session.id());
    within(session.ended()).await;
    within(zk.connected_session()).await.unwrap();
    zk.create("/next-session", "").await.unwrap();
    check(zk.acl("/next-session").await, "/next-session");
}

#[tokio::test]
async fn an_acl_of_the_creation_takes_precedence() {
    let (_server, zk) = start("").await;
    zk.create("/p/open", "").acl(Acl::open()).parents().await.unwrap();
    check(zk.acl("/p").await, "/p");
    assert_eq!(zk.acl("/p/open").await.unwrap().0, [Acl::open()]);
    zk.transaction([Op::create("/t", "").acl([Acl::open()])]).await.unwrap();
    assert_eq!(zk.acl("/t").await.unwrap().0, [Acl::open()]);
    let open = zk.with_default_acl(Acl::open()).unwrap();
    open.create("/o", "").await.unwrap();
    assert_eq!(zk.acl("/o").await.unwrap().0, [Acl::open()]);
}

#[tokio::test]
async fn without_a_setting_everything_is_open() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    zk.create("/a", "").await.unwrap();
    zk.transaction([Op::create("/t", "")]).await.unwrap();
    for path in ["/a", "/t"] {
        assert_eq!(zk.acl(path).await.unwrap().0, [Acl::open()]);
    }
}

#[tokio::test]
async fn an_empty_default_is_an_error() {
    let server = TestServer::start();
    let error = options().default_acl([]).connect(&server.connect_string()).await;
    assert!(matches!(kind(error), ErrorKind::InvalidArgument(_)));
    let zk = connect(&server.connect_string()).await;
    assert!(matches!(kind(zk.with_default_acl([])), ErrorKind::InvalidArgument(_)));
    // `auth` stands for the ids of the connection, and this one has none.
    let zk = zk.with_default_acl(Acl::creator_all()).unwrap();
    assert_eq!(kind(zk.create("/a", "").await), ErrorKind::InvalidAcl);
}

#[tokio::test]
async fn a_digest_entry_grants_access_to_its_user() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    zk.create("/a", "x").acl(Acl::digest("ann", "pass", Perms::READ)).await.unwrap();
    assert!(zk.get("/a").await.unwrap_err().is_no_auth());
    zk.authenticate("digest", "ann:pass").await.unwrap();
    assert_eq!(zk.get("/a").await.unwrap().data, "x");
    assert!(zk.set("/a", "y").await.unwrap_err().is_no_auth());
}

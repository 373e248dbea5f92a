//! One-shot watches: they fire once, are shared, and survive a reconnection.

use futures_util::future::join_all;
use herdsman_client::{ErrorKind, EventType, WatchEvent};
use herdsman_proto::OpCode;
use herdsman_testing::proxy::{Fault, Observed, ObservedFrame};
use herdsman_testing::{TestProxy, TestServer};

use crate::world::{World, connect, eventually, kind, options, within};

fn event(kind: EventType, path: &str, watch: &WatchEvent) {
    assert_eq!((watch.kind, watch.path.as_str()), (kind, path));
}

#[tokio::test]
async fn each_kind_of_read_reports_its_kind_of_change() {
    let server = TestServer::start();
    let other = connect(&server.connect_string()).await;
    for chroot in ["", "/app"] {
        let zk = connect(&format!("{}{chroot}", server.connect_string())).await;
        let (seen, created) = zk.exists("/a").watch().await.unwrap();
        assert_eq!(seen, None);
        let made = other.create(&format!("{chroot}/a"), "").parents().await.unwrap();
        let created = within(created).await.unwrap();
        event(EventType::NodeCreated, "/a", &created);
        assert_eq!(created.zxid, Some(made.stat.czxid));
        let (_, changed) = zk.get("/a").watch().await.unwrap();
        let (_, child) = zk.children("/a").watch().await.unwrap();
        other.set(&format!("{chroot}/a"), "x").await.unwrap();
        event(EventType::NodeDataChanged, "/a", &within(changed).await.unwrap());
        other.create(&format!("{chroot}/a/b"), "").await.unwrap();
        event(EventType::NodeChildrenChanged, "/a", &within(child).await.unwrap());
        let (_, data) = zk.exists("/a/b").watch().await.unwrap();
        let (_, child) = zk.children("/a/b").watch().await.unwrap();
        other.delete(&format!("{chroot}/a/b")).await.unwrap();
        event(EventType::NodeDeleted, "/a/b", &within(data).await.unwrap());
        event(EventType::NodeDeleted, "/a/b", &within(child).await.unwrap());
        let (_, root) = zk.children("/").watch().await.unwrap();
        zk.create("/c", "").await.unwrap();
        event(EventType::NodeChildrenChanged, "/", &within(root).await.unwrap());
    }
    assert_eq!(server.watch_count(), 0, "each was for one change");
}

#[tokio::test]
async fn a_failed_read_sets_no_watch() {
    let World { zk, server, other: _other, proxy: _proxy } = World::start().await;
    assert_eq!(kind(zk.get("/a").watch().await), ErrorKind::NoNode);
    assert_eq!(kind(zk.children("/a").watch().await), ErrorKind::NoNode);
    assert_eq!(server.watch_count(), 0);
}

#[tokio::test]
async fn several_watchers_share_one_watch_of_the_server() {
    let World { zk, other, server, proxy } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(zk.get("/a").watch().await.unwrap().1);
    }
    assert_eq!(server.watch_count(), 1);
    watches.truncate(5);
    zk.sync("/").await.unwrap();
    assert_eq!(server.watch_count(), 1, "some are left");
    other.set("/a", "x").await.unwrap();
    for fired in within(join_all(watches)).await {
        event(EventType::NodeDataChanged, "/a", &fired.unwrap());
    }
    assert_eq!(proxy.traffic().events(), 1);
    assert_eq!(proxy.traffic().requests(OpCode::RemoveWatches), 0);
}

#[tokio::test]
async fn an_event_precedes_the_reply_that_shows_the_change() {
    let World { zk, other, proxy: _proxy, server: _server } = World::start().await;
    zk.create("/a", "0").await.unwrap();
    for number in 1..50 {
        let (_, mut watch) = zk.get("/a").watch().await.unwrap();
        let change = other.set("/a", number.to_string()).send();
        let read = async { while zk.get("/a").await.unwrap().data != number.to_string() {} };
        within(read).await;
        let fired = futures_util::future::poll_immediate(&mut watch).await;
        event(EventType::NodeDataChanged, "/a", &fired.expect("it has fired").unwrap());
        change.await.unwrap();
    }
}

#[tokio::test]
async fn a_change_while_there_is_no_connection_is_reported() {
    let World { zk, other, proxy, server: _server } = World::start().await;
    for path in ["/changed", "/deleted", "/parent", "/quiet"] {
        zk.create(path, "").await.unwrap();
    }
    let (_, changed) = zk.get("/changed").watch().await.unwrap();
    let (_, deleted) = zk.exists("/deleted").watch().await.unwrap();
    let (_, created) = zk.exists("/created").watch().await.unwrap();
    let (_, parent) = zk.children("/parent").watch().await.unwrap();
    let (_, mut quiet) = zk.get("/quiet").watch().await.unwrap();
    proxy.refuse_connections();
    proxy.cut();
    other.set("/changed", "x").await.unwrap();
    other.delete("/deleted").await.unwrap();
    other.create("/created", "").await.unwrap();
    other.create("/parent/child", "").await.unwrap();
    proxy.accept_connections();
    let changed = within(changed).await.unwrap();
    event(EventType::NodeDataChanged, "/changed", &changed);
    assert_eq!(changed.zxid, None, "the server found it later");
    event(EventType::NodeDeleted, "/deleted", &within(deleted).await.unwrap());
    event(EventType::NodeCreated, "/created", &within(created).await.unwrap());
    event(EventType::NodeChildrenChanged, "/parent", &within(parent).await.unwrap());
    zk.sync("/").await.unwrap();
    assert!(futures_util::future::poll_immediate(&mut quiet).await.is_none());
    other.set("/quiet", "x").await.unwrap();
    event(EventType::NodeDataChanged, "/quiet", &within(quiet).await.unwrap());
}

#[tokio::test]
async fn many_watches_are_set_again_in_several_requests() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = options().connect(&proxy.connect_string()).await.unwrap();
    let name = "x".repeat(60);
    let reads = (0..10_000).map(|number| zk.exists(&format!("/{number}-{name}")).watch().send());
    let mut watches = Vec::new();
    for (_, watch) in within(futures_util::future::try_join_all(reads)).await.unwrap() {
        watches.push(watch);
    }
    assert_eq!(server.watch_count(), 10_000);
    proxy.cut();
    within(zk.session().wait_for(|state| !state.is_connected())).await;
    within(zk.get("/").send()).await.unwrap();
    let traffic = proxy.traffic();
    let requests = traffic.requests(OpCode::SetWatches) + traffic.requests(OpCode::SetWatches2);
    assert!((5..=8).contains(&requests), "about 680 kB in pieces of 128 KiB, not {requests}");
    assert_eq!((server.watch_count(), traffic.connections_accepted()), (10_000, 2));
    zk.create(&format!("/9999-{name}"), "").await.unwrap();
    within(watches.pop().unwrap()).await.unwrap();
    drop(watches);
    eventually("all are removed", || server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_watch_ends_with_its_session_and_the_reason() {
    let World { zk, server, other: _other, proxy: _proxy } = World::start().await;
    let (_, watch) = zk.exists("/a").watch().await.unwrap();
    server.expire_session(zk.session().id());
    assert_eq!(kind(within(watch).await), ErrorKind::SessionExpired);
    let (_, watch) = within(zk.exists("/a").watch().send()).await.unwrap();
    zk.close().await.unwrap();
    assert_eq!(kind(within(watch).await), ErrorKind::Closed);
}

/// The reply that would have set a second watch on the same znode is lost; the first is set again
/// nevertheless, and only once.
#[tokio::test]
async fn a_lost_read_does_not_lose_another_watch() {
    let World { zk, other, server, proxy } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let (_, first) = zk.get("/a").watch().await.unwrap();
    proxy.once(OpCode::GetData, Fault::CutBeforeReply);
    let (_, second) = within(zk.get("/a").watch().send()).await.unwrap();
    assert_eq!(server.watch_count(), 1);
    proxy.clear_log();
    other.set("/a", "x").await.unwrap();
    within(first).await.unwrap();
    within(second).await.unwrap();
    let is_event = |seen: &&Observed| matches!(seen.what, ObservedFrame::Event { .. });
    assert_eq!(proxy.log().iter().filter(is_event).count(), 1);
}

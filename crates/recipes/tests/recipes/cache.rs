//! Caches: they follow, survive, compare after a gap, and leave nothing behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use herdsman_client::{Acl, Client, ErrorKind, Id, Perms};
use herdsman_recipes::Events;
use herdsman_recipes::cache::{
    CacheEvent, CacheOptions, CachedNode, ChildrenCache, NodeCache, Snapshot, TreeCache,
};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

fn prompt() -> CacheOptions {
    CacheOptions::default().resync_spread(Duration::ZERO)
}

async fn tree(zk: &Client, path: &str) -> TreeCache {
    let cache = within(TreeCache::start_with(zk, path, prompt())).await.expect("it starts");
    within(cache.synced()).await.expect("it reads");
    cache
}

/// A directory with `count` children.
async fn fill(zk: &Client, directory: &str, count: usize) {
    zk.create(directory, "").parents().await.expect("it is new");
    for number in 0..count {
        let child = zk.create(&format!("{directory}/{number:03}"), number.to_string()).await;
        child.expect("it is new");
    }
}

/// Returns the events up to one that is wanted, in short form.
async fn events_until(events: &mut Events<CacheEvent>, last: &str) -> Vec<String> {
    let mut all = Vec::new();
    while all.last().is_none_or(|seen| seen != last) {
        let event = within(events.next()).await.expect("the stream continues");
        all.push(match event {
            CacheEvent::Added(node) => format!("+{}", node.path),
            CacheEvent::Changed { now, .. } => format!("~{}", now.path),
            CacheEvent::Removed(node) => format!("-{}", node.path),
            CacheEvent::Unreadable { path, .. } => format!("!{path}"),
            other => format!("{other:?}"),
        });
    }
    all
}

fn data(snapshot: &Snapshot, path: &str) -> Option<String> {
    snapshot.get(path).map(|node| String::from_utf8_lossy(&node.data).into_owned())
}

#[tokio::test]
async fn a_tree_follows_what_others_do() {
    let server = TestServer::start();
    let (reader, writer) = (client(&server).await, client(&server).await);
    writer.create("/app/a", "1").parents().await.unwrap();
    let cache = tree(&reader, "/app").await;
    assert_eq!(data(&cache.snapshot(), "/app/a").as_deref(), Some("1"));

    let mut events = cache.events();
    writer.create("/app/a/b", "2").await.unwrap();
    assert_eq!(events_until(&mut events, "+/app/a/b").await, ["+/app/a/b"]);
    writer.set("/app/a", "3").await.unwrap();
    assert_eq!(events_until(&mut events, "~/app/a").await, ["~/app/a"]);
    assert_eq!(data(&cache.snapshot(), "/app/a").as_deref(), Some("3"));
    writer.delete("/app/a").recursive().await.unwrap();
    assert_eq!(events_until(&mut events, "-/app/a").await, ["-/app/a/b", "-/app/a"]);
    assert_eq!(cache.snapshot().len(), 1);
}

#[tokio::test]
async fn a_snapshot_and_the_events_after_it_make_the_next_snapshot() {
    let server = TestServer::start();
    let (reader, writer) = (client(&server).await, client(&server).await);
    fill(&writer, "/app", 20).await;
    let cache = TreeCache::start_with(&reader, "/app", prompt()).await.unwrap();
    // During the first reading.
    let (start, mut events) = cache.subscribe();
    let mut model: BTreeMap<Arc<str>, Arc<CachedNode>> =
        start.iter().map(|node| (node.path.clone(), node.clone())).collect();
    for number in 0..60 {
        let path = format!("/app/{:03}", number % 30);
        let _ = match number % 3 {
            0 => writer.delete(&path).await.is_ok(),
            1 => writer.set(&path, format!("new {number}")).await.is_ok(),
            _ => writer.create(&path, "again").await.is_ok(),
        };
    }
    writer.create("/app/end", "").await.unwrap();
    while !model.contains_key("/app/end") {
        match within(events.next()).await.expect("the stream continues") {
            CacheEvent::Added(node) => {
                assert!(model.insert(node.path.clone(), node).is_none(), "added twice");
            }
            CacheEvent::Changed { before, now } => {
                assert_eq!(model.insert(now.path.clone(), now), Some(before));
            }
            CacheEvent::Removed(node) => assert_eq!(model.remove(&node.path), Some(node)),
            _ => {}
        }
    }
    let names = writer.children("/app").await.unwrap().names;
    let snapshot = cache.snapshot();
    assert_eq!(snapshot.len(), names.len() + 1);
    for node in snapshot.iter() {
        let real = writer.get(&node.path).await.unwrap();
        assert_eq!((&node.data, node.stat.mzxid), (&real.data, real.stat.mzxid), "{}", node.path);
        assert_eq!(model[&node.path].data, node.data);
    }
}

#[tokio::test]
async fn depth_and_filter_limit_what_is_kept() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/app/keep/deep/deeper", "").parents().await.unwrap();
    zk.create("/app/secret/key", "").parents().await.unwrap();
    let options = prompt().depth(2).filter(|path| !path.ends_with("/secret"));
    let cache = TreeCache::start_with(&zk, "/app", options).await.unwrap();
    let paths =
        |snapshot: &Snapshot| snapshot.iter().map(|node| node.path.to_string()).collect::<Vec<_>>();
    let snapshot = within(cache.synced()).await.unwrap();
    assert_eq!(paths(&snapshot), ["/app", "/app/keep", "/app/keep/deep"]);

    // Events follow the same rules.
    zk.create("/app/secret/other", "").await.unwrap();
    zk.create("/app/keep/deep/other", "").await.unwrap();
    zk.create("/app/keep/other", "").await.unwrap();
    let snapshot =
        within(cache.wait_until(|all| all.get("/app/keep/other").is_some())).await.unwrap();
    assert_eq!(paths(&snapshot), ["/app", "/app/keep", "/app/keep/deep", "/app/keep/other"]);
}

#[tokio::test]
async fn a_reconnection_with_nothing_changed_reads_no_data() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    fill(&zk, "/app", 50).await;
    fill(&zk, "/app/more", 10).await;
    let cache = tree(&zk, "/app").await;
    let before = proxy.traffic();

    let mut events = cache.events();
    proxy.cut();
    assert_eq!(events_until(&mut events, "Synced").await, ["OutOfSync", "Synced"]);
    let after = proxy.traffic();
    let made = |op| after.requests(op) - before.requests(op);
    assert_eq!((made(OpCode::GetData), made(OpCode::GetChildren2)), (0, 0));
    assert_eq!(made(OpCode::Exists), 62);
}

#[tokio::test]
async fn a_reconnection_reads_only_what_has_changed() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    fill(&zk, "/app", 30).await;
    let cache = tree(&zk, "/app").await;
    let mut events = cache.events();

    proxy.refuse_connections();
    proxy.cut();
    assert_eq!(events_until(&mut events, "OutOfSync").await, ["OutOfSync"]);
    other.set("/app/001", "changed").await.unwrap();
    other.delete("/app/002").await.unwrap();
    other.create("/app/new", "").await.unwrap();
    other.delete("/app/003").await.unwrap();
    other.create("/app/003", "3").await.unwrap();
    assert_eq!(cache.snapshot().len(), 31, "the last known state stays");
    assert!(!cache.snapshot().is_synced());
    let before = proxy.traffic();
    proxy.accept_connections();

    let mut seen = events_until(&mut events, "Synced").await;
    seen.sort();
    let expected = ["+/app/003", "+/app/new", "-/app/002", "-/app/003", "Synced", "~/app/001"];
    assert_eq!(seen, expected);
    let after = proxy.traffic();
    assert_eq!(after.requests(OpCode::GetData) - before.requests(OpCode::GetData), 3);
    assert_eq!(after.requests(OpCode::GetChildren2) - before.requests(OpCode::GetChildren2), 1);
}

#[tokio::test]
async fn the_last_snapshot_survives_an_outage_and_a_restart() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    fill(&zk, "/app", 5).await;
    let cache = tree(&zk, "/app").await;
    server.kill();
    within(cache.wait_until(|all| !all.is_synced())).await.unwrap();
    assert_eq!(data(&cache.snapshot(), "/app/004").as_deref(), Some("4"));
    server.start_again();
    within(cache.synced()).await.unwrap();
    zk.set("/app/004", "new").await.unwrap();
    let is_new = |all: &Snapshot| data(all, "/app/004").as_deref() == Some("new");
    within(cache.wait_until(is_new)).await.unwrap();
}

#[tokio::test]
async fn a_cache_continues_in_the_next_session() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    fill(&other, "/app", 3).await;
    zk.create("/app/mine", "").ephemeral().await.unwrap();
    let cache = tree(&zk, "/app").await;
    let mut events = cache.events();
    server.expire_session(zk.session().id());
    let seen = events_until(&mut events, "Synced").await;
    assert!(seen.contains(&"-/app/mine".to_owned()), "{seen:?}");
    other.set("/app/000", "after").await.unwrap();
    assert_eq!(events_until(&mut events, "~/app/000").await, ["~/app/000"]);
}

#[tokio::test]
async fn the_root_may_be_created_and_deleted() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let cache = tree(&zk, "/app").await;
    assert!(cache.snapshot().is_empty());
    let mut events = cache.events();
    for _ in 0..2 {
        other.create("/app/x", "").parents().await.unwrap();
        assert_eq!(events_until(&mut events, "+/app/x").await, ["+/app", "+/app/x"]);
        other.delete("/app").recursive().await.unwrap();
        assert_eq!(events_until(&mut events, "-/app").await, ["-/app/x", "-/app"]);
    }
    assert!(cache.snapshot().is_empty() && cache.snapshot().is_synced());
}

#[tokio::test]
async fn dropping_a_cache_removes_its_watch() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let cache = tree(&zk, "/app").await;
    let node = NodeCache::start(&zk, "/app").await.unwrap();
    let children = ChildrenCache::start(&zk, "/other").await.unwrap();
    assert!(server.watch_count() > 0);
    let mut events = cache.events();
    drop((cache, node, children));
    assert!(within(events.next()).await.is_none(), "the stream ends");
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_slow_subscriber_learns_how_much_it_missed() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let cache = TreeCache::start_with(&zk, "/app", prompt().events_max(4)).await.unwrap();
    let mut slow = cache.events();
    fill(&zk, "/app", 20).await;
    within(cache.wait_until(|all| all.len() == 21)).await.unwrap();
    let first = within(slow.next()).await;
    assert!(matches!(first, Some(CacheEvent::Lagged { missed: 16.. })), "{first:?}");
}

#[tokio::test]
async fn the_end_of_the_client_is_the_end_of_the_cache() {
    let server = TestServer::start();
    let zk = client(&server).await;
    fill(&zk, "/app", 2).await;
    let cache = tree(&zk, "/app").await;
    let mut events = cache.events();
    zk.close().await.unwrap();
    assert_eq!(events_until(&mut events, "OutOfSync").await, ["OutOfSync"]);
    assert!(within(events.next()).await.is_none());
    let error = within(cache.wait_until(|_| false)).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::Closed));
    assert_eq!(cache.snapshot().len(), 3);
    assert!(within(cache.events().next()).await.is_none());
}

#[tokio::test]
async fn a_cache_of_a_bound_client_ends_with_its_session() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let session = zk.session();
    let cache = tree(&zk.bound_to(&session), "/app").await;
    let mut events = cache.events();
    server.expire_session(session.id());
    assert_eq!(events_until(&mut events, "OutOfSync").await, ["OutOfSync"]);
    assert!(within(events.next()).await.is_none());
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn bad_input_leaves_nothing_behind() {
    let server = TestServer::start();
    let zk = client(&server).await;
    assert!(TreeCache::start(&zk, "no/slash").await.is_err());
    assert!(NodeCache::start(&zk, "/a/").await.is_err());
    assert!(ChildrenCache::start(&zk, "").await.is_err());
    for options in
        [prompt().events_max(0), prompt().events_max(usize::MAX), prompt().requests_max(0)]
    {
        let error = TreeCache::start_with(&zk, "/app", options).await.unwrap_err();
        assert!(matches!(error, herdsman_recipes::Error::InvalidArgument(_)), "{error}");
    }
    assert_eq!(server.watch_count(), 0);
}

#[tokio::test]
async fn a_node_that_may_not_be_read_is_reported() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    fill(&other, "/app", 1).await;
    let acl = Acl { perms: Perms::ALL, id: Id::new("digest", "nobody:x") };
    other.create("/app/closed", "secret").acl([acl]).await.unwrap();
    let cache = TreeCache::start_with(&zk, "/app", prompt()).await.unwrap();
    let snapshot = within(cache.synced()).await.unwrap();
    assert_eq!(snapshot.len(), 2);
    let error = snapshot.unreadable("/app/closed").expect("it is known to exist");
    assert_eq!(*error.kind(), ErrorKind::NoAuth);
    other.delete("/app/closed").await.unwrap();
    // The server sends no events about nodes that the client may not read.
    proxy.cut();
    within(cache.wait_until(|all| all.unreadable("/app/closed").is_none())).await.unwrap();
}

#[tokio::test]
async fn children_are_found_by_their_names() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let cache = ChildrenCache::start_with(&zk, "/members", prompt()).await.unwrap();
    within(cache.synced()).await.unwrap();
    let (start, mut events) = cache.subscribe();
    assert!(start.is_empty() && start.parent().is_none());
    other.create("/members", "").await.unwrap();
    other.create("/members/a", "1").await.unwrap();
    other.create("/members/a/below", "").await.unwrap();
    other.create("/members/b", "2").await.unwrap();
    // Neither the parent nor what is further below is a child.
    assert_eq!(events_until(&mut events, "+/members/b").await, ["+/members/a", "+/members/b"]);
    let members = cache.snapshot();
    assert!(members.parent().is_some());
    assert_eq!(members.iter().map(|node| node.name()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((members.len(), cache.get("b").unwrap().data.clone()), (2, "2".into()));
    assert!(cache.get("below").is_none() && cache.get("").is_none());
}

#[tokio::test]
async fn the_children_of_the_root_and_of_a_namespace_are_found() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/a", "").await.unwrap();
    let cache = ChildrenCache::start_with(&zk, "/", prompt()).await.unwrap();
    let top = within(cache.synced()).await.unwrap();
    assert!(top.get("a").is_some() && top.get("zookeeper").is_some());

    let inside = zk.namespace("/a").unwrap();
    let cache = ChildrenCache::start_with(&inside, "/", prompt()).await.unwrap();
    within(cache.synced()).await.unwrap();
    zk.create("/a/b", "").await.unwrap();
    let below = within(cache.wait_until(|below| !below.is_empty())).await.unwrap();
    assert_eq!(&*below.get("b").unwrap().path, "/b");
}

#[tokio::test]
async fn one_node_is_followed_without_its_children() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let cache = NodeCache::start_with(&zk, "/node", prompt()).await.unwrap();
    assert!(within(cache.synced()).await.unwrap().is_none());
    let (_, mut events) = cache.subscribe();
    other.create("/node", "1").await.unwrap();
    within(cache.wait_until(|node| node.is_some())).await.unwrap();
    other.create("/node/child", "").await.unwrap();
    other.set("/node", "2").await.unwrap();
    let node = within(cache.wait_until(|node| node.is_some_and(|node| node.data == "2"))).await;
    assert_eq!(node.unwrap().unwrap().stat.version, 1);
    other.delete("/node/child").await.unwrap();
    other.delete("/node").await.unwrap();
    assert_eq!(events_until(&mut events, "-/node").await, ["+/node", "~/node", "-/node"]);
    assert!(cache.get().is_none() && cache.is_synced());
}

#[tokio::test]
async fn requests_in_flight_are_bounded() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    fill(&other, "/app", 40).await;
    let first_child = Rule::new(Fault::HoldReply).on(OpCode::GetData).path_containing("/app/");
    let held = proxy.add_rule(first_child);
    let cache = TreeCache::start_with(&zk, "/app", prompt().requests_max(4)).await.unwrap();
    within(held.until_fired()).await;
    // Sent after all requests of the cache.
    let last = zk.exists("/last").send();
    within(proxy.until(|traffic| traffic.requests(OpCode::Exists) == 1)).await;
    let under_way = proxy.traffic().requests(OpCode::GetData) - 1;
    assert!((1..=4).contains(&under_way), "{under_way}");
    held.release();
    assert_eq!(within(cache.synced()).await.unwrap().len(), 41);
    within(last).await.unwrap();
}

#[tokio::test]
async fn a_cut_during_the_first_reading_is_recovered_from() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    fill(&other, "/app", 100).await;
    let cuts = Rule::new(Fault::CutBeforeReply).on(OpCode::GetData).skip(30);
    let cut = proxy.add_rule(cuts);
    let cache = TreeCache::start_with(&zk, "/app", prompt()).await.unwrap();
    within(cut.until_fired()).await;
    let snapshot = within(cache.wait_until(|all| all.is_synced() && all.len() == 101)).await;
    assert_eq!(data(&snapshot.unwrap(), "/app/099").as_deref(), Some("99"));
}

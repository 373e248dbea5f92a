//! Persistent watches: streams that report every change, and every gap.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::poll_immediate;
use herdsman_client::{Client, EventType, PersistentWatch, WatchUpdate};
use herdsman_testing::TestServer;

use crate::world::{World, connect, eventually, within};

async fn update(watch: &mut PersistentWatch) -> WatchUpdate {
    within(watch.next()).await.expect("the stream continues")
}

async fn event(watch: &mut PersistentWatch) -> (EventType, String) {
    match update(watch).await {
        WatchUpdate::Event(event) => (event.kind, event.path),
        other => panic!("{other:?}"),
    }
}

/// Reads up to the next gap, which must be reported.
async fn gap(watch: &mut PersistentWatch) {
    while update(watch).await != WatchUpdate::Gap {}
}

#[tokio::test]
async fn every_change_of_a_znode_is_reported_in_order() {
    let server = TestServer::start();
    let other = connect(&server.connect_string()).await;
    for chroot in ["", "/app"] {
        let zk = connect(&format!("{}{chroot}", server.connect_string())).await;
        let mut watch = zk.watch("/a").await.unwrap();
        let full = format!("{chroot}/a");
        other.create(&full, "").parents().await.unwrap();
        other.set(&full, "1").await.unwrap();
        other.create(&format!("{full}/b"), "").await.unwrap();
        other.set(&format!("{full}/b"), "below").await.unwrap();
        other.set(&full, "2").await.unwrap();
        other.delete(&format!("{full}/b")).await.unwrap();
        other.delete(&full).await.unwrap();
        let expected = [
            EventType::NodeCreated,
            EventType::NodeDataChanged,
            EventType::NodeChildrenChanged,
            EventType::NodeDataChanged,
            EventType::NodeChildrenChanged,
            EventType::NodeDeleted,
        ];
        for kind in expected {
            assert_eq!(event(&mut watch).await, (kind, "/a".to_owned()));
        }
        assert!(poll_immediate(watch.next()).await.is_none());
    }
}

#[tokio::test]
async fn a_recursive_watch_reports_the_whole_subtree() {
    let server = TestServer::start();
    let other = connect(&server.connect_string()).await;
    for (chroot, root) in [("", "/a"), ("/app", "/a"), ("/all", "/")] {
        let zk = connect(&format!("{}{chroot}", server.connect_string())).await;
        let mut watch = zk.watch(root).recursive().await.unwrap();
        let below =
            |name: &str| if root == "/" { format!("/{name}") } else { format!("{root}/{name}") };
        let full = |path: &str| format!("{chroot}{path}");
        other.create(&full(&below("b")), "").parents().await.unwrap();
        other.set(&full(&below("b")), "1").await.unwrap();
        other.delete(&full(&below("b"))).await.unwrap();
        assert_eq!(event(&mut watch).await, (EventType::NodeCreated, root.to_owned()));
        assert_eq!(event(&mut watch).await, (EventType::NodeCreated, below("b")));
        assert_eq!(event(&mut watch).await, (EventType::NodeDataChanged, below("b")));
        assert_eq!(event(&mut watch).await, (EventType::NodeDeleted, below("b")));
    }
}

#[tokio::test]
async fn one_change_reaches_all_matching_streams() {
    let World { zk, other, server, proxy } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let mut plain = zk.watch("/a").await.unwrap();
    let mut again = zk.watch("/a").await.unwrap();
    let mut above = zk.watch("/").recursive().await.unwrap();
    let (_, once) = zk.get("/a").watch().await.unwrap();
    other.set("/a", "x").await.unwrap();
    let expected = (EventType::NodeDataChanged, "/a".to_owned());
    for watch in [&mut plain, &mut again, &mut above] {
        assert_eq!(event(watch).await, expected);
    }
    within(once).await.unwrap();
    assert_eq!(proxy.traffic().events(), 1);
    drop((plain, above));
    eventually("two are removed", || server.watch_count() == 2).await;
    other.set("/a", "y").await.unwrap();
    assert_eq!(event(&mut again).await, expected);
}

#[tokio::test]
async fn after_the_gap_of_a_reconnection_nothing_is_missed() {
    let World { zk, other, proxy, server: _server } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let mut plain = zk.watch("/a").await.unwrap();
    let mut recursive = zk.watch("/").recursive().await.unwrap();
    proxy.refuse_connections();
    proxy.cut();
    other.set("/a", "missed").await.unwrap();
    proxy.accept_connections();
    for watch in [&mut plain, &mut recursive] {
        gap(watch).await;
    }
    assert_eq!(zk.get("/a").await.unwrap().data, "missed");
    other.set("/a", "seen").await.unwrap();
    for watch in [&mut plain, &mut recursive] {
        assert_eq!(event(watch).await, (EventType::NodeDataChanged, "/a".to_owned()));
    }
}

#[tokio::test]
async fn a_managed_clients_stream_continues_in_the_next_session() {
    let World { zk, other, server, proxy: _proxy } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let session = zk.session();
    let mut managed = zk.watch("/a").await.unwrap();
    let mut bound = zk.bound_to(&session).watch("/").recursive().await.unwrap();
    server.expire_session(session.id());
    gap(&mut managed).await;
    assert_eq!(within(bound.next()).await, None, "it belonged to the session");
    other.set("/a", "x").await.unwrap();
    assert_eq!(event(&mut managed).await, (EventType::NodeDataChanged, "/a".to_owned()));
    zk.close().await.unwrap();
    assert_eq!(within(managed.next()).await, None);
}

/// Changes `/a` often enough to overflow the reader's queue.
async fn flood(other: &Client, changes: usize) {
    let replies: Vec<_> = (0..changes).map(|n| other.set("/a", n.to_string()).send()).collect();
    for reply in replies {
        within(reply).await.unwrap();
    }
}

#[tokio::test]
async fn a_slow_reader_gets_a_gap_instead_of_what_it_missed() {
    let World { zk, other, proxy, server: _server } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let mut watch = zk.watch("/a").await.unwrap();
    flood(&other, 1500).await;
    within(proxy.until(|traffic| traffic.events() == 1500)).await;
    zk.sync("/").await.unwrap();
    let mut events = 0;
    while update(&mut watch).await != WatchUpdate::Gap {
        events += 1;
    }
    assert_eq!(events, 1024);
    assert!(poll_immediate(watch.next()).await.is_none());
    other.set("/a", "again").await.unwrap();
    assert_eq!(event(&mut watch).await, (EventType::NodeDataChanged, "/a".to_owned()));
}

/// A slow reader used to queue 1024 paths, however long: 100 MB for one watch of znodes with long names.
#[tokio::test]
async fn updates_with_long_paths_are_limited_in_bytes() {
    let World { zk, other, proxy, server: _server } = World::start().await;
    let path = format!("/{}", "n".repeat(100_000));
    zk.create(&path, "").await.unwrap();
    let mut watch = zk.watch(&path).await.unwrap();
    for _ in 0..10 {
        other.set(&path, "").await.unwrap();
    }
    within(proxy.until(|traffic| traffic.events() == 10)).await;
    zk.sync("/").await.unwrap();
    let mut events = 0;
    while update(&mut watch).await != WatchUpdate::Gap {
        events += 1;
    }
    assert_eq!(events, 2, "256 KiB of paths");
    assert!(poll_immediate(watch.next()).await.is_none(), "one gap is reported once");
    other.set(&path, "again").await.unwrap();
    assert_eq!(event(&mut watch).await, (EventType::NodeDataChanged, path));
}

/// A reader that never catches up still gets each gap, and sees the final state after the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_that_keeps_falling_behind_sees_the_last_state() {
    let World { zk, other, proxy: _proxy, server: _server } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let mut watch = zk.watch("/a").await.unwrap();
    let writer = tokio::spawn(async move {
        flood(&other, 6000).await;
        other.set("/a", "end").await.unwrap();
    });
    let reader = async {
        loop {
            let update = watch.next().await.expect("the stream continues");
            let is_end = zk.get("/a").await.unwrap().data == "end";
            if is_end {
                return;
            }
            if update == WatchUpdate::Gap {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    within(reader).await;
    writer.await.unwrap();
}

#[tokio::test]
async fn a_persistent_watch_is_a_stream() {
    let World { zk, other: _other, proxy: _proxy, server: _server } = World::start().await;
    let watch = zk.watch("/a").await.unwrap();
    zk.create("/a", "").await.unwrap();
    zk.delete("/a").await.unwrap();
    let first: Vec<_> = within(watch.take(2).collect()).await;
    assert!(first.iter().all(|update| matches!(update, WatchUpdate::Event(_))));
}

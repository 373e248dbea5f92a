//! Dropped watches are removed on the server, without affecting other watchers.

use fastrand::Rng;
use futures_util::future::poll_immediate;
use herdsman_client::EventType;
use herdsman_proto::OpCode;
use herdsman_testing::proxy::Fault;

use crate::world::{World, eventually, options, within};

#[tokio::test]
async fn dropped_watches_of_every_kind_are_removed() {
    let World { zk, server, other: _other, proxy: _proxy } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let kept = zk.exists("/kept").watch().await.unwrap();
    let one_shot = (
        zk.get("/a").watch().await.unwrap(),
        zk.children("/a").watch().await.unwrap(),
        zk.exists("/missing").watch().await.unwrap(),
    );
    let lasting = (zk.watch("/p").await.unwrap(), zk.watch("/r").recursive().await.unwrap());
    // A persistent watch counts once for data and once for children.
    assert_eq!(server.watch_count(), 7);
    drop(one_shot);
    eventually("one-shot watches are removed", || server.watch_count() == 4).await;
    drop(lasting);
    eventually("the others are removed", || server.watch_count() == 1).await;
    drop(kept);
    eventually("all are removed", || server.watch_count() == 0).await;
}

#[tokio::test]
async fn kinds_on_one_path_are_removed_separately() {
    let World { zk, other, server, proxy: _proxy } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let (_, data) = zk.get("/a").watch().await.unwrap();
    let (_, mut child) = zk.children("/a").watch().await.unwrap();
    let persistent = zk.watch("/a").await.unwrap();
    let mut recursive = zk.watch("/a").recursive().await.unwrap();
    drop(persistent);
    drop(data);
    eventually("two are removed", || server.watch_count() == 2).await;
    other.create("/a/b", "").await.unwrap();
    let event = within(&mut child).await.unwrap();
    assert_eq!(event.kind, EventType::NodeChildrenChanged);
    within(recursive.next()).await.unwrap();
}

#[tokio::test]
async fn a_dropped_read_leaves_no_watch() {
    let World { zk, server, proxy, other: _other } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let held = proxy.once(OpCode::GetData, Fault::HoldReply);
    drop(zk.get("/a").watch().send());
    drop(zk.exists("/b").watch().send());
    drop(zk.watch("/c").send());
    drop(zk.watch("/d").recursive().send());
    within(held.until_fired()).await;
    eventually("they are set", || server.watch_count() == 5).await;
    held.release();
    eventually("and removed", || server.watch_count() == 0).await;
}

/// While a second request for the same watch is in flight, the first watch is dropped: removing it now
/// would also remove the second.
#[tokio::test]
async fn dropping_one_watch_does_not_lose_another_in_flight() {
    let World { zk, other, server, proxy } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let (_, first) = zk.get("/a").watch().await.unwrap();
    let held = proxy.once(OpCode::GetData, Fault::HoldReply);
    let second = zk.get("/a").watch().send();
    within(held.until_fired()).await;
    drop(first);
    held.release();
    let (_, mut second) = within(second).await.unwrap();
    zk.sync("/").await.unwrap();
    assert_eq!(server.watch_count(), 1);
    assert!(poll_immediate(&mut second).await.is_none());
    other.set("/a", "x").await.unwrap();
    within(second).await.unwrap();
}

#[tokio::test]
async fn a_failed_request_releases_the_watch_it_would_have_shared() {
    let World { zk, other, server, proxy } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let (_, first) = zk.get("/a").watch().await.unwrap();
    let held = proxy.once(OpCode::GetData, Fault::HoldRequest);
    let second = zk.get("/a").watch().send();
    within(held.until_fired()).await;
    drop(first);
    other.delete("/a").await.unwrap();
    held.release();
    within(second).await.unwrap_err();
    eventually("none is left", || server.watch_count() == 0).await;
}

/// Watches are set and dropped on a few paths, some requests are never awaited, connections are cut: in the
/// end every remaining watch fires, and none is left when they are dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watches_are_set_and_dropped_in_any_order() {
    for seed in 0..10 {
        let World { zk, other, server, proxy } =
            World::start_with(options().in_flight_max(16)).await;
        for path in ["/0", "/1", "/2"] {
            zk.create(path, "").await.unwrap();
        }
        let tasks = (0..4).map(|task| {
            let (zk, mut rng) = (zk.clone(), Rng::with_seed(seed * 100 + task));
            tokio::spawn(async move {
                let mut held = Vec::new();
                for _ in 0..60 {
                    let path = format!("/{}", rng.u8(0..3));
                    match rng.u8(0..4) {
                        0 => drop(zk.get(&path).watch().send()),
                        1 if !held.is_empty() => drop(held.swap_remove(rng.usize(0..held.len()))),
                        _ => held.push((zk.get(&path).watch().await.unwrap().1, path)),
                    }
                }
                held
            })
        });
        let tasks: Vec<_> = tasks.collect();
        if seed % 2 == 1 {
            proxy.cut();
        }
        let mut held = Vec::new();
        for task in tasks {
            held.extend(within(task).await.unwrap());
        }
        within(zk.sync("/").send()).await.unwrap();
        for (watch, path) in &mut held {
            let early = poll_immediate(watch).await;
            assert!(early.is_none(), "seed {seed} {path} {early:?}");
        }
        for path in ["/0", "/1"] {
            other.set(path, "x").await.unwrap();
        }
        let (kept, fire): (Vec<_>, Vec<_>) = held.into_iter().partition(|(_, path)| path == "/2");
        for (watch, _) in fire {
            within(watch).await.unwrap();
        }
        drop(kept);
        eventually("none is left", || server.watch_count() == 0).await;
    }
}

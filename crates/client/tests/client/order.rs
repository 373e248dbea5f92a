//! Program order, back-pressure, and futures that are dropped.

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use herdsman_client::{ErrorKind, RetryPolicy};
use herdsman_proto::OpCode;
use herdsman_testing::TestServer;
use herdsman_testing::proxy::Fault;
use tokio::task::JoinSet;

use crate::world::{World, children, connect, kind, options, within};

#[tokio::test]
async fn requests_take_effect_in_program_order() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    zk.create("/q", "").await.unwrap();
    let mut replies = Vec::new();
    for number in 0..500 {
        replies.push(zk.create(&format!("/q/{number:03}-"), "").sequential().send());
    }
    // Awaiting the last one first still finds all of them done.
    let last = replies.pop().unwrap();
    assert_eq!(last.await.unwrap().path, "/q/499-0000000499");
    for (number, reply) in replies.into_iter().enumerate() {
        let created = within(reply).await.unwrap();
        assert_eq!(created.path, format!("/q/{number:03}-{number:010}"));
    }
}

#[tokio::test]
async fn a_read_after_a_write_sees_it() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    zk.create("/a", "").await.unwrap();
    let mut pairs = Vec::new();
    for number in 0..200 {
        let set = zk.set("/a", number.to_string()).send();
        pairs.push((set, zk.get("/a").send()));
    }
    for (number, (set, get)) in pairs.into_iter().enumerate() {
        assert_eq!(within(get).await.unwrap().data, number.to_string());
        assert_eq!(set.await.unwrap().version, i32::try_from(number).unwrap() + 1);
    }
}

#[tokio::test]
async fn few_requests_in_flight_serve_many_tasks() {
    let server = TestServer::start();
    for in_flight in 1..=4 {
        let options = options().in_flight_max(in_flight);
        let zk = options.connect(&server.connect_string()).await.unwrap();
        let root = format!("/{in_flight}");
        zk.create(&root, "").await.unwrap();
        let mut tasks = JoinSet::new();
        for number in 0..40 {
            let (zk, path) = (zk.clone(), format!("{root}/{number}"));
            tasks.spawn(async move {
                zk.create(&path, path.clone()).await.unwrap();
                assert_eq!(zk.get(&path).await.unwrap().data, path);
            });
        }
        within(tasks.join_all()).await;
        assert_eq!(children(&zk, &root).await.len(), 40);
    }
}

#[tokio::test]
async fn a_call_that_must_not_wait_fails_as_busy() {
    let World { zk, proxy, other: _other, server: _server } =
        World::start_with(options().in_flight_max(2)).await;
    let held = proxy.once(OpCode::GetData, Fault::HoldReply);
    let first = zk.get("/zookeeper").send();
    let second = zk.get("/zookeeper").try_send().unwrap();
    let busy = zk.get("/zookeeper").try_send().map(drop).unwrap_err();
    assert_eq!((busy.kind(), busy.path()), (&ErrorKind::Busy, Some("/zookeeper")));
    let waiting = zk.get("/zookeeper").send();
    within(held.until_fired()).await;
    held.release();
    for reply in within(join_all([first, second, waiting])).await {
        reply.unwrap();
    }
    zk.get("/zookeeper").try_send().unwrap().await.unwrap();
}

#[tokio::test]
async fn a_call_that_waits_for_a_permit_fails_with_its_session() {
    let World { zk, proxy, server, other: _other } =
        World::start_with(options().in_flight_max(1).retry(RetryPolicy::never())).await;
    let session = zk.session();
    let bound = zk.bound_to(&session);
    proxy.once(OpCode::GetData, Fault::HoldReply);
    let first = bound.get("/zookeeper").send();
    let waiting = tokio::spawn(bound.get("/zookeeper").send());
    proxy.refuse_connections();
    server.expire_session(session.id());
    proxy.accept_connections();
    first.await.unwrap_err();
    let failed = within(waiting).await.unwrap();
    let kind = kind(failed);
    assert!(matches!(kind, ErrorKind::ConnectionLoss | ErrorKind::SessionExpired), "{kind:?}");
}

/// Futures are dropped unsent, before they are polled, after a while, or kept; requests that were sent are
/// executed exactly once and in order, on the same connection.
#[tokio::test]
async fn dropped_futures_are_harmless() {
    for seed in 0..20 {
        let World { zk, proxy, other, server } =
            World::start_with(options().in_flight_max(8)).await;
        let mut rng = Rng::with_seed(seed);
        zk.create("/n", "").await.unwrap();
        let mut sent = 0;
        let mut kept = Vec::new();
        for _ in 0..200 {
            match rng.u8(0..6) {
                0 => drop(zk.set("/n", "never sent")),
                1 => drop(zk.get("/n").send()),
                2 => drop(zk.exists("/n").watch().send()),
                3 => {
                    let patience = Duration::from_micros(rng.u64(0..300));
                    let _ = tokio::time::timeout(patience, zk.get("/n").watch().send()).await;
                }
                _ => {
                    if let Ok(reply) = zk.set("/n", sent.to_string()).try_send() {
                        sent += 1;
                        if rng.bool() {
                            kept.push((sent, reply));
                        }
                    } else {
                        zk.get("/n").await.unwrap();
                    }
                }
            }
        }
        for (version, reply) in kept {
            assert_eq!(within(reply).await.unwrap().version, version, "seed {seed}");
        }
        zk.sync("/n").await.unwrap();
        let node = other.get("/n").await.unwrap();
        assert_eq!(node.stat.version, sent, "seed {seed}");
        assert_eq!(proxy.traffic().connections_accepted(), 1, "seed {seed}");
        crate::world::eventually("watches are removed", || server.watch_count() == 0).await;
    }
}

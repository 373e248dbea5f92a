//! The lock that up to n clients hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::{Error, HoldOptions, LostWhen, Permit, Semaphore};
use herdsman_testing::{TestProxy, TestServer};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};
use crate::lock::{nodes, until_nodes};
use crate::lock_loss::sweep;

const PATH: &str = "/limits/a";
const LEASES: &str = "/limits/a/leases";
const LOCKS: &str = "/limits/a/locks";
const SHORT: Duration = Duration::from_millis(50);

fn semaphore(zk: &Client, permits: usize) -> Semaphore {
    Semaphore::new(zk, PATH, permits).unwrap()
}

/// Starts a task that waits for a permit, and has created its node.
async fn waiting(zk: &Client, semaphore: Semaphore, count: usize) -> JoinHandle<Vec<Permit>> {
    let before = nodes(zk, LEASES).await.len();
    let task = tokio::spawn(async move { semaphore.acquire_many(count).await.unwrap() });
    until_nodes(zk, LEASES, before + count).await;
    task
}

#[tokio::test]
async fn as_many_clients_as_permits_hold_it() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let first =
        semaphore(&one, 2).options(&HoldOptions::new().owner("me")).acquire().await.unwrap();
    let second = semaphore(&two, 2).acquire().await.unwrap();
    assert!(second.token() > first.token());
    assert_eq!(one.get(first.path()).await.unwrap().data, "me");
    assert!(first.name().starts_with("_c_") && first.name().contains("-lease-"), "{first:?}");
    assert!(semaphore(&two, 2).try_acquire().await.unwrap().is_none());
    let late = semaphore(&two, 2).acquire_within(SHORT).await;
    assert_eq!(late.unwrap_err(), Error::TimedOut);
    until_nodes(&one, LEASES, 2).await;
    until_nodes(&one, LOCKS, 0).await;
    assert_eq!(semaphore(&one, 2).permits_taken().await.unwrap(), 2);

    let third = waiting(&one, semaphore(&two, 2), 1).await;
    assert!(!third.is_finished());
    first.release().await.unwrap();
    let third = within(third).await.unwrap();
    drop((second, third));
    until_nodes(&one, LEASES, 0).await;
    until_nodes(&one, LOCKS, 0).await;
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn several_permits_are_taken_together_or_not_at_all() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let held = semaphore(&one, 3).acquire_many(2).await.unwrap();
    assert!(semaphore(&two, 3).try_acquire_many(2).await.unwrap().is_none());
    until_nodes(&one, LEASES, 2).await;
    let pair = waiting(&one, semaphore(&two, 3), 2).await;
    // One is free, but the pair was first.
    assert!(semaphore(&one, 3).try_acquire().await.unwrap().is_none());
    assert!(!pair.is_finished());
    drop(held);
    let mut pair = within(pair).await.unwrap();
    assert_eq!(pair.len(), 2);
    let last = semaphore(&one, 3).try_acquire().await.unwrap().expect("the third is free");
    assert!(semaphore(&one, 3).try_acquire().await.unwrap().is_none());
    pair.pop().unwrap().release().await.unwrap();
    assert!(semaphore(&one, 3).try_acquire().await.unwrap().is_some());
    drop(last);
}

#[tokio::test]
async fn two_clients_that_want_all_permits_do_not_block_each_other() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let inside = AtomicUsize::new(0);
    let rounds = async |zk: &Client| {
        for _ in 0..10 {
            let permits = semaphore(zk, 2).acquire_many(2).await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            for permit in permits {
                permit.release().await.unwrap();
            }
        }
    };
    within(async { tokio::join!(rounds(&one), rounds(&two)) }).await;
}

#[tokio::test]
async fn never_more_than_allowed_are_inside() {
    const PERMITS: usize = 3;
    let server = TestServer::start();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    let zk = client(&server).await;
    for _ in 0..4 {
        let (inside, most) = (inside.clone(), most.clone());
        let semaphore = semaphore(&client(&server).await, PERMITS);
        tasks.spawn(async move {
            for round in 0..8 {
                let permit = match round % 2 {
                    0 => semaphore.acquire().await.unwrap(),
                    _ => match semaphore.try_acquire().await.unwrap() {
                        Some(permit) => permit,
                        None => continue,
                    },
                };
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                permit.release().await.unwrap();
            }
        });
    }
    within(async { while tasks.join_next().await.transpose().unwrap().is_some() {} }).await;
    assert!((1..=PERMITS).contains(&most.load(Ordering::SeqCst)));
    until_nodes(&zk, LEASES, 0).await;
}

#[tokio::test]
async fn the_limit_can_be_a_shared_count() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let shared = || Semaphore::with_shared_limit(&zk, PATH, "/limits/max").unwrap();
    assert!(shared().try_acquire().await.unwrap().is_none());
    let first = waiting(&zk, shared(), 1).await;
    assert!(!first.is_finished());
    zk.create("/limits/max", 1_i32.to_be_bytes().to_vec()).await.unwrap();
    let first = within(first).await.unwrap();
    let second = waiting(&zk, shared(), 1).await;
    assert!(!second.is_finished());
    zk.set("/limits/max", 2_i32.to_be_bytes().to_vec()).await.unwrap();
    let second = within(second).await.unwrap();

    // Data that is not a positive number means that there are no permits; existing ones stay.
    for data in [&b"two"[..], &(-1_i32).to_be_bytes(), &0_i32.to_be_bytes()] {
        zk.set("/limits/max", data.to_vec()).await.unwrap();
        assert!(shared().try_acquire().await.unwrap().is_none());
    }
    assert!(first[0].is_trusted() && second[0].is_trusted());
    drop((first, second));
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_free_permit_costs_six_requests() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    for path in [LEASES, LOCKS] {
        zk.create(path, "").parents().await.unwrap();
    }
    let before = proxy.traffic().requests_in_all();
    let permit = semaphore(&zk, 1).acquire().await.unwrap();
    // Two nodes, two reads; and, in the background, the deletion of the lock and of the watch.
    within(proxy.until(|traffic| traffic.requests_in_all() - before >= 6)).await;
    permit.release().await.unwrap();
    assert_eq!(proxy.traffic().requests_in_all() - before, 7);
}

#[tokio::test]
async fn a_cut_at_any_request_leaves_no_lease_behind() {
    sweep(async |run| {
        let semaphore = Semaphore::new(&run.zk, &run.path, 2).unwrap();
        let first = semaphore.acquire().await.unwrap();
        let second = semaphore.try_acquire().await.unwrap().expect("one is free");
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert_eq!(semaphore.permits_taken().await.unwrap(), 2);
        first.release().await.unwrap();
        drop(second);
        let other = client(run.server).await;
        let other = Semaphore::new(&other, &run.path, 2).unwrap();
        drop(within(other.acquire_many(2)).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_waiter_whose_session_has_ended_waits_again() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let held = semaphore(&one, 1).acquire().await.unwrap();
    let waiter = waiting(&one, semaphore(&two, 1), 1).await;
    let session = two.session().id();
    server.expire_session(session);
    until_nodes(&one, LEASES, 2).await;
    server.expire_session(held.session().id());
    within(held.lost()).await;
    assert!(!held.is_trusted());
    let permits = within(waiter).await.unwrap();
    assert_ne!(permits[0].session().id(), session);
    assert!(permits[0].token() > held.token());
}

#[tokio::test]
async fn a_deleted_lease_is_requested_again() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let held = semaphore(&one, 1).acquire().await.unwrap();
    let waiter = waiting(&one, semaphore(&two, 1), 1).await;
    let lease = nodes(&one, LEASES).await.into_iter().find(|name| name != held.name()).unwrap();
    one.delete(&format!("{LEASES}/{lease}")).await.unwrap();
    held.release().await.unwrap();
    let permits = within(waiter).await.unwrap();
    assert_eq!(nodes(&one, LEASES).await, [permits[0].name()]);
}

#[tokio::test]
async fn permits_survive_outages_and_restarts() {
    let mut server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let semaphore =
        semaphore(&zk, 1).options(&HoldOptions::new().lost_when(LostWhen::SessionTimedOut));
    let permit = semaphore.acquire().await.unwrap();
    server.restart();
    within(zk.exists("/").send()).await.unwrap();
    assert!(permit.is_trusted());
    assert!(within(semaphore.try_acquire()).await.unwrap().is_none());
    proxy.refuse_connections();
    proxy.cut();
    drop(permit);
    proxy.accept_connections();
    within(semaphore.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn bad_numbers_and_foreign_nodes() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let invalid = |error: Error| matches!(error, Error::InvalidArgument(_));
    assert!(invalid(Semaphore::new(&zk, PATH, 0).unwrap_err()));
    assert!(invalid(semaphore(&zk, 2).acquire_many(0).await.unwrap_err()));
    assert!(invalid(semaphore(&zk, 2).acquire_many(3).await.unwrap_err()));
    assert!(invalid(semaphore(&zk, 2).try_acquire_many(3).await.unwrap_err()));
    for path in ["", "limits", "/limits/"] {
        let error = Semaphore::new(&zk, path, 1).unwrap_err();
        assert!(matches!(error.client_kind(), Some(ErrorKind::InvalidPath(_))), "{path}");
        assert!(Semaphore::with_shared_limit(&zk, PATH, path).is_err());
    }
    assert!(zk.exists("/limits").await.unwrap().is_none());

    zk.create(&format!("{LEASES}/README"), "").parents().await.unwrap();
    zk.create(&format!("{LOCKS}/README"), "").parents().await.unwrap();
    within(semaphore(&zk, 1).acquire()).await.unwrap().release().await.unwrap();
    assert_eq!(nodes(&zk, LEASES).await, ["README"]);
}

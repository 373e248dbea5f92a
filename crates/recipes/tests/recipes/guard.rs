//! Every guard through the trait that they share.

use std::time::Duration;

use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::election::ElectionLayout;
use herdsman_recipes::{
    DoubleBarrier, Election, Error, Guard, LeaseLock, Lock, NaiveLock, Race, ReentrantLock,
    ReentrantRwLock, RwLock, Semaphore, TicketQueue, WorkQueue, WorkerIds,
};
use herdsman_testing::TestServer;

use crate::common::{client, within};

/// Checks what a guard promises, from its acquisition until its node is deleted.
async fn meets_its_guarantees<G: Guard>(zk: &Client, guard: G) {
    let stat = zk.exists(guard.path()).await.unwrap().expect("the node of the guard");
    assert_eq!(guard.token(), u64::try_from(stat.czxid.0).unwrap());
    assert_eq!(guard.session().id().0, stat.ephemeral_owner);
    assert!(guard.is_trusted());
    let before = zk.get("/data").await.unwrap().stat.version;
    guard.fenced().set("/data", "by the holder").await.unwrap();
    assert_eq!(within(guard.run(async { 7 })).await, Ok(7));

    let (path, fenced) = (guard.path().to_owned(), guard.fenced());
    zk.delete(&path).await.unwrap();
    within(guard.lost()).await;
    let lost = within(guard.run(std::future::pending::<()>())).await;
    assert_eq!(lost, Err(Error::Lost), "{path}");
    for fenced in [fenced, guard.fenced()] {
        let error = fenced.set("/data", "by a former holder").await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Deposed, "{path}");
    }
    assert_eq!(zk.get("/data").await.unwrap().stat.version, before + 1);
    assert_eq!(within(guard.release()).await, Err(Error::Lost), "{path}");
}

async fn is_deleted_after_its_release<G: Guard>(zk: &Client, guard: G) {
    let path = guard.path().to_owned();
    within(guard.release()).await.unwrap();
    assert_eq!(zk.exists(&path).await.unwrap(), None, "{path}");
}

/// Both checks, for guards made by the same expression.
macro_rules! check {
    ($zk:expr, $guard:expr) => {
        is_deleted_after_its_release($zk, within($guard).await.unwrap()).await;
        meets_its_guarantees($zk, within($guard).await.unwrap()).await;
    };
}

#[tokio::test]
async fn locks() {
    let server = TestServer::start();
    let zk = &client(&server).await;
    zk.create("/data", "").await.unwrap();
    check!(zk, Lock::new(zk, "/lock").unwrap().acquire());
    check!(zk, ReentrantLock::new(zk, "/again").unwrap().acquire());
    check!(zk, NaiveLock::new(zk, "/naive").unwrap().acquire());
    check!(zk, LeaseLock::new(zk, "/lease", Duration::from_secs(60)).unwrap().acquire());
    check!(zk, RwLock::new(zk, "/rw").unwrap().read());
    check!(zk, RwLock::new(zk, "/rw").unwrap().write());
    check!(zk, ReentrantRwLock::new(zk, "/rw-again").unwrap().write());
    check!(zk, Semaphore::new(zk, "/semaphore", 1).unwrap().acquire());
}

#[tokio::test]
async fn leaderships() {
    let server = TestServer::start();
    let zk = &client(&server).await;
    zk.create("/data", "").await.unwrap();
    check!(zk, Election::new(zk, "/fair", "a").unwrap().campaign());
    let counted = || Election::new(zk, "/fair", "a").unwrap().with_epoch("/epoch").unwrap();
    check!(zk, counted().campaign());
    let apache = || Election::new(zk, "/apache", "a").unwrap().layout(ElectionLayout::Apache);
    check!(zk, apache().campaign());
    check!(zk, Race::new(zk, "/race", "a").unwrap().campaign());
}

#[tokio::test]
async fn all_others() {
    let server = TestServer::start();
    let zk = &client(&server).await;
    zk.create("/data", "").await.unwrap();
    let queue = WorkQueue::new(zk, "/jobs").unwrap();
    queue.offer("one").await.unwrap();
    check!(zk, queue.take());
    check!(zk, TicketQueue::new(zk, "/tickets").unwrap().take_number());
    check!(zk, WorkerIds::new(zk, "/ids", 0..=7).unwrap().lease());
    check!(zk, DoubleBarrier::new(zk, "/together", 1).unwrap().enter());
}

#[tokio::test]
async fn a_fence_of_a_worker_id_holds_until_the_next_reservation() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/data", "").await.unwrap();
    let lease = WorkerIds::new(&zk, "/ids", 0..=7).unwrap().lease().await.unwrap();
    let before = lease.fenced();
    lease.reserve_until(u64::try_from(i64::MAX).unwrap()).await.unwrap();
    lease.fenced().set("/data", "1").await.unwrap();
    assert_eq!(*before.set("/data", "2").await.unwrap_err().kind(), ErrorKind::Deposed);
}

//! The lock that readers share.

use std::time::Duration;

use futures_util::FutureExt as _;
use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::wait_for::{ContenderState, LockKind};
use herdsman_recipes::{Error, HoldOptions, Layout, LostWhen, ReentrantRwLock, Result, RwLock};
use herdsman_testing::{TestProxy, TestServer};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};
use crate::lock::{nodes, until_nodes};
use crate::lock_loss::sweep;

const PATH: &str = "/locks/rw";
const SHORT: Duration = Duration::from_millis(50);

fn lock(zk: &Client) -> RwLock {
    RwLock::new(zk, PATH).unwrap()
}

/// Starts a task that is in the line already.
async fn started<T: Send + 'static>(
    zk: &Client,
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> JoinHandle<T> {
    let before = nodes(zk, PATH).await.len();
    let task = tokio::spawn(async move { task.await.expect("it gets the lock") });
    until_nodes(zk, PATH, before + 1).await;
    task
}

#[tokio::test]
async fn readers_share_it_and_a_writer_holds_it_exclusively() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let (first, second) = (lock(&one).read().await.unwrap(), lock(&two).read().await.unwrap());
    assert!(first.is_trusted() && second.is_trusted());
    assert!(lock(&one).try_write().await.unwrap().is_none());
    assert_eq!(lock(&one).write_within(SHORT).await.unwrap_err(), Error::TimedOut);
    until_nodes(&one, PATH, 2).await;
    assert!(lock(&one).try_read().await.unwrap().is_some());

    first.release().await.unwrap();
    second.release().await.unwrap();
    let writer = within(lock(&two).write()).await.unwrap();
    assert!(lock(&one).try_read().await.unwrap().is_none());
    assert_eq!(lock(&one).read_within(SHORT).await.unwrap_err(), Error::TimedOut);
    assert_eq!(lock(&one).read_within(Duration::ZERO).await.unwrap_err(), Error::TimedOut);
    assert!(lock(&one).try_write().await.unwrap().is_none());
    writer.release().await.unwrap();
    assert!(lock(&one).try_write().await.unwrap().is_some());
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn each_waits_for_its_own_predecessor_only() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let proxy = TestProxy::start(server.address());
    let waiter = client_behind(&proxy).await;
    let of = |zk: &Client| lock(zk);
    let first = of(&zk).read().await.unwrap();
    let second = of(&zk).read().await.unwrap();
    let (lock_of_writer, lock_of_reader) = (of(&waiter), of(&waiter));
    let writer = started(&zk, async move { lock_of_writer.write().await }).await;
    let third = started(&zk, async move { lock_of_reader.read().await }).await;
    // The reader behind the writer waits too: otherwise readers could block writers for ever.
    eventually(|| server.watch_count() == 2).await;
    assert!(!writer.is_finished() && !third.is_finished());
    let contenders: Vec<_> =
        of(&zk).contenders().await.unwrap().into_iter().map(|one| (one.kind, one.state)).collect();
    use {ContenderState::*, LockKind::*};
    assert_eq!(contenders, [(Read, Holds), (Read, Holds), (Write, Waits), (Read, Waits)]);

    // The writer watches the last reader before it; the one before that wakes no waiter.
    first.release().await.unwrap();
    assert_eq!(proxy.traffic().events(), 0);
    second.release().await.unwrap();
    let writer = within(writer).await.unwrap();
    assert_eq!(proxy.traffic().events(), 1);
    assert!(!third.is_finished());
    writer.release().await.unwrap();
    within(third).await.unwrap().release().await.unwrap();
    assert_eq!(proxy.traffic().events(), 2);
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let reader = lock(&one).read().await.unwrap();
    let (writing, reading) = (lock(&two), lock(&one));
    let writer = started(&one, async move { writing.write().await }).await;
    let behind = started(&one, async move { reading.read().await }).await;
    assert!(!behind.is_finished());
    writer.abort();
    let behind = within(behind).await.unwrap();
    assert!(behind.token() > reader.token());
}

#[tokio::test]
async fn a_writer_continues_as_a_reader() {
    for (layout, marker) in
        [(Layout::Curator, "-__READ__"), (Layout::Kazoo, "__rlock__"), (Layout::Apache, "-")]
    {
        let server = TestServer::start();
        let (one, two) = (client(&server).await, client(&server).await);
        let rw = lock(&one).layout(layout).options(&HoldOptions::new().owner("me"));
        let other = lock(&two).layout(layout);
        // So that the sequence number is not that of an empty directory.
        rw.read().await.unwrap().release().await.unwrap();
        let writer = rw.write().await.unwrap();
        let sequence = writer.name()[writer.name().len() - 10..].to_owned();
        let (reading, writing) = (other.clone(), other.clone());
        let reader = started(&one, async move { reading.read().await }).await;
        let next = started(&one, async move { writing.write().await }).await;
        assert!(!reader.is_finished());

        let token = writer.token();
        let downgraded = within(writer.downgrade()).await.unwrap();
        assert!(downgraded.name().ends_with(&format!("{marker}{sequence}")), "{downgraded:?}");
        assert!(downgraded.token() > token);
        assert_eq!(one.get(downgraded.path()).await.unwrap().data, "me");
        let reader = within(reader).await.unwrap();
        assert!(!next.is_finished());
        let contenders = other.contenders().await.unwrap();
        let kinds: Vec<_> = contenders.iter().map(|one| (one.kind, one.state)).collect();
        use {ContenderState::*, LockKind::*};
        assert_eq!(kinds, [(Read, Holds), (Read, Holds), (Write, Waits)]);

        reader.release().await.unwrap();
        assert!(!next.is_finished());
        downgraded.release().await.unwrap();
        within(next).await.unwrap().release().await.unwrap();
        until_nodes(&one, PATH, 0).await;
    }
}

#[tokio::test]
async fn a_downgrade_without_the_lock_fails() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let writer = lock(&one).write().await.unwrap();
    two.delete(writer.path()).await.unwrap();
    assert_eq!(writer.downgrade().await.unwrap_err(), Error::Lost);
    until_nodes(&two, PATH, 0).await;
}

#[tokio::test]
async fn a_cut_at_any_request_leaves_one_node_or_none() {
    sweep(async |run| {
        let rw = RwLock::new(&run.zk, &run.path).unwrap();
        let writer = rw.write().await.unwrap();
        assert_eq!(run.own_nodes(), [writer.path()]);
        let reader = writer.downgrade().await.unwrap();
        assert_eq!(run.own_nodes(), [reader.path()]);
        let second = rw.read().await.unwrap();
        reader.release().await.unwrap();
        second.release().await.unwrap();
        let other = client(run.server).await;
        let other = RwLock::new(&other, &run.path).unwrap();
        within(other.write()).await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn readers_and_writers_survive_the_loss_of_their_sessions() {
    let server = TestServer::start();
    let (one, two, three) = (client(&server).await, client(&server).await, client(&server).await);
    one.create("/data", "").await.unwrap();
    let writer = lock(&one).write().await.unwrap();
    let (reading, writing) = (lock(&two), lock(&three));
    let reader = started(&one, async move { reading.read().await }).await;
    let next = started(&one, async move { writing.write().await }).await;
    server.expire_session(two.session().id());
    // The reader is behind the second writer now.
    until_nodes(&three, PATH, 3).await;
    server.expire_session(one.session().id());
    within(writer.lost()).await;
    assert!(writer.fenced().set("/data", "late").await.is_err());
    let next = within(next).await.unwrap();
    assert!(!reader.is_finished() && next.token() > writer.token());
    next.release().await.unwrap();
    let reader = within(reader).await.unwrap();
    assert_eq!(three.get("/data").await.unwrap().data, "");
    assert_eq!(nodes(&three, PATH).await, [reader.name()]);
}

#[tokio::test]
async fn guards_survive_a_restart_of_the_server() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let rw = lock(&zk).options(&HoldOptions::new().lost_when(LostWhen::SessionTimedOut));
    let (one, two) = (rw.read().await.unwrap(), rw.read().await.unwrap());
    server.restart();
    within(zk.exists(PATH).send()).await.unwrap();
    assert!(one.is_trusted() && one.lost().now_or_never().is_none());
    one.release().await.unwrap();
    two.release().await.unwrap();
    until_nodes(&zk, PATH, 0).await;
}

#[tokio::test]
async fn foreign_nodes_and_bad_paths() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for name in ["README", "__WRIT__", "a-__WRIT__12", "_c_1-lock-0000000000"] {
        zk.create(&format!("{PATH}/{name}"), "").parents().await.unwrap();
    }
    within(lock(&zk).write()).await.unwrap().release().await.unwrap();
    within(lock(&zk).read()).await.unwrap().release().await.unwrap();
    assert_eq!(nodes(&zk, PATH).await.len(), 4);
    let error = RwLock::new(&zk, "rw").unwrap_err();
    assert!(matches!(error.client_kind(), Some(ErrorKind::InvalidPath(_))));
}

#[tokio::test]
async fn an_owner_takes_its_own_lock_again_and_others_wait_for_its_last_guard() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let mine = ReentrantRwLock::new(&one, PATH).unwrap();
    let writer = mine.write().await.unwrap();
    let (again, reader) = (mine.clone().write().await.unwrap(), mine.clone().read().await.unwrap());
    assert_eq!((writer.depth(), nodes(&one, PATH).await.len()), (3, 1));
    let other = ReentrantRwLock::new(&two, PATH).unwrap();
    let waiting = started(&two, async move { other.read().await }).await;
    writer.release().await.unwrap();
    again.release().await.unwrap();
    assert!(lock(&two).try_read().await.unwrap().is_none(), "one guard is left");
    reader.release().await.unwrap();
    within(waiting).await.unwrap().release().await.unwrap();
    until_nodes(&one, PATH, 0).await;
}

#[tokio::test]
async fn an_owner_that_reads_may_read_again_but_not_write() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let mine = ReentrantRwLock::new(&zk, PATH).unwrap();
    let (one, two) = (mine.read().await.unwrap(), mine.read().await.unwrap());
    let refused = within(mine.write()).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument(_)), "{refused:?}");
    assert_eq!(nodes(&zk, PATH).await.len(), 1);
    one.release().await.unwrap();
    two.release().await.unwrap();
    within(mine.write_within(Duration::from_secs(20))).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lost_lock_is_not_taken_again() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let mine = ReentrantRwLock::new(&zk, PATH).unwrap();
    let held = mine.read().await.unwrap();
    server.expire_session(zk.session().id());
    within(held.lost()).await;
    eventually(|| !held.is_trusted()).await;
    assert_eq!(within(mine.read()).await.unwrap_err(), Error::Lost);
    drop(held);
    within(mine.read()).await.unwrap().release().await.unwrap();
}

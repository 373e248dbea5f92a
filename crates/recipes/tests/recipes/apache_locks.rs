//! The lock in the layout of ZooKeeper's own `WriteLock`, whose names do not distinguish the contenders of one
//! session.

use herdsman_client::Client;
use herdsman_recipes::lock::find_locks;
use herdsman_recipes::{Error, HoldOptions, Layout, Lock, LockGuard, RwLock};
use herdsman_testing::proxy::{Fault, ObservedFrame, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};
use crate::lock::{nodes, until_nodes, waiting};
use crate::lock_loss::{Run, sweep};

const PATH: &str = "/locks/a";

fn lock(zk: &Client, path: &str) -> Lock {
    Lock::new(zk, path).unwrap().layout(Layout::Apache)
}

fn acquiring(lock: &Lock) -> JoinHandle<LockGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}

/// The client's session has these nodes, and no receipt of a finished creation.
async fn until_own_nodes_are(run: &Run<'_>, guards: &[&LockGuard]) {
    let mut expected: Vec<_> = guards.iter().map(|guard| guard.path().to_owned()).collect();
    expected.sort();
    eventually(|| {
        let mut nodes = run.own_nodes();
        nodes.sort();
        nodes == expected
    })
    .await;
}

/// The nodes that were created as containers, which a server deletes when they are empty. A stat does not distinguish
/// them from others.
pub fn containers(proxy: &TestProxy) -> Vec<String> {
    let made = proxy.log().into_iter().filter_map(|seen| match seen.what {
        ObservedFrame::Request { op: OpCode::CreateContainer, paths } => Some(paths),
        _ => None,
    });
    made.flatten().collect()
}

#[tokio::test]
async fn nodes_are_those_of_write_lock() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let guard = lock(&zk, PATH).options(&HoldOptions::new().owner("me")).acquire().await.unwrap();
    assert_eq!(guard.name(), format!("x-{}-0000000000", zk.session().id().0));
    let node = zk.get(guard.path()).await.unwrap();
    assert_eq!((node.stat.ephemeral_owner, &*node.data), (zk.session().id().0, &b"me"[..]));
    // Java's lock creates the directory only if it is missing, and expects it to be permanent.
    let containers = containers(&proxy);
    assert!(!containers.is_empty() && !containers.contains(&PATH.to_owned()), "{containers:?}");
    assert_eq!(find_locks(&zk, "/locks").await.unwrap(), [PATH]);
    guard.release().await.unwrap();
    assert_eq!(nodes(&zk, PATH).await, [""; 0]);

    let root = lock(&zk, "/").acquire().await.unwrap();
    assert!(root.path().starts_with("/x-"), "{root:?}");
    root.release().await.unwrap();
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

#[tokio::test]
async fn contenders_of_other_programs_are_waited_for_and_foreign_nodes_are_not() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for name in ["README", "x-ray-0000000000", "_c_5f1c-lock-0000000000", "n_0000000000"] {
        zk.create(&format!("{PATH}/{name}"), "").parents().await.unwrap();
    }
    for name in ["x-72057594037927936-", "x--9151314442816847872-", "x-010000fa0bcd0000-"] {
        let theirs = zk.create(&format!("{PATH}/{name}"), "").ephemeral().sequential();
        let theirs = theirs.await.unwrap();
        assert!(lock(&zk, PATH).try_acquire().await.unwrap().is_none(), "{name}");
        let waiter = waiting(&zk, &lock(&zk, PATH)).await;
        assert!(!waiter.is_finished());
        zk.delete(&theirs.path).await.unwrap();
        within(waiter).await.unwrap().release().await.unwrap();
    }
    assert_eq!(nodes(&zk, PATH).await.len(), 4);
}

#[tokio::test]
async fn a_cut_at_any_request_leaves_each_contender_of_a_session_its_own_node() {
    sweep(async |run| {
        let lock = lock(&run.zk, &run.path);
        let held = lock.acquire().await.unwrap();
        // Their creations are in flight together, so a cut leaves both in doubt.
        let (one, two) = (acquiring(&lock), acquiring(&lock));
        let other = client(run.server).await;
        until_nodes(&other, &run.path, 3).await;
        assert!(!one.is_finished() && !two.is_finished());
        let token = held.token();
        held.release().await.unwrap();
        let (mut one, mut two) = (one, two);
        let (second, last) = tokio::select! {
            guard = &mut one => (guard.unwrap(), two),
            guard = &mut two => (guard.unwrap(), one),
        };
        assert!(second.token() > token);
        assert!(!last.is_finished());
        assert_eq!(nodes(&other, &run.path).await.len(), 2);
        let token = second.token();
        second.release().await.unwrap();
        let last = last.await.unwrap();
        assert!(last.token() > token);
        until_own_nodes_are(run, &[&last]).await;
        last.release().await.unwrap();
        assert_eq!(nodes(&other, &run.path).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_an_attempt_leaves_one_node_or_none() {
    sweep(async |run| {
        let lock = lock(&run.zk, &run.path);
        let guard = lock.try_acquire().await.unwrap().expect("no other contender");
        assert!(lock.try_acquire().await.unwrap().is_none());
        until_own_nodes_are(run, &[&guard]).await;
        drop(guard);
        let other = client(run.server).await;
        within(self::lock(&other, &run.path).acquire()).await.unwrap().release().await.unwrap();
    })
    .await;
}

/// Both replies are lost in one cut: after it the session has two nodes that differ only in their numbers, and each
/// contender must find its own.
#[tokio::test]
async fn two_contenders_in_doubt_at_the_same_moment_find_their_own_nodes() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let held = lock(&other, PATH).acquire().await.unwrap();
    let replies = proxy.add_rule(Rule::new(Fault::HoldReply).on(OpCode::Multi).times(2));
    let (one, two) = (acquiring(&lock(&zk, PATH)), acquiring(&lock(&zk, PATH)));
    until_nodes(&other, PATH, 3).await;
    within(proxy.until(|traffic| traffic.requests(OpCode::Multi) == 2)).await;
    proxy.cut();
    drop(replies);
    held.release().await.unwrap();
    let (mut one, mut two) = (one, two);
    let (first, last) = within(async {
        tokio::select! {
            guard = &mut one => (guard.unwrap(), two),
            guard = &mut two => (guard.unwrap(), one),
        }
    })
    .await;
    assert!(!last.is_finished());
    first.release().await.unwrap();
    within(last).await.unwrap().release().await.unwrap();
    assert_eq!(nodes(&other, PATH).await, [""; 0]);
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
    assert_eq!(proxy.traffic().connections_accepted(), 2);
}

#[tokio::test]
async fn giving_up_without_a_reply_leaves_nothing_behind() {
    let server = TestServer::start();
    let other = client(&server).await;
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest, Fault::HoldReply] {
        // The creation, the deletion of its receipt, the listing, and the read of the node.
        for skipped in 0..4 {
            let proxy = TestProxy::start(server.address());
            let zk = client_behind(&proxy).await;
            let path = format!("/locks/{fault:?}/{skipped}");
            // To create the directories.
            lock(&other, &path).acquire().await.unwrap().release().await.unwrap();
            let rule = proxy.add_rule(Rule::new(fault).skip(skipped));
            let task = acquiring(&lock(&zk, &path));
            within(rule.until_fired()).await;
            task.abort();
            rule.release();
            drop(within(lock(&other, &path).acquire()).await.unwrap());
            eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
        }
    }
}

#[tokio::test]
async fn a_waiter_whose_session_has_ended_joins_the_line_again() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let held = lock(&one, PATH).acquire().await.unwrap();
    let waiter = waiting(&one, &lock(&two, PATH)).await;
    let session = two.session().id();
    server.expire_session(session);
    until_nodes(&one, PATH, 2).await;
    held.release().await.unwrap();
    let guard = within(waiter).await.unwrap();
    assert_ne!(guard.session().id(), session);
    assert_eq!(guard.name().split('-').nth(1), Some(&*guard.session().id().0.to_string()));
    assert_eq!(nodes(&one, PATH).await, [guard.name()]);
}

/// Deleting a directory resets its numbers, so the same session gets the same name again.
#[tokio::test]
async fn a_node_of_the_same_name_in_a_new_directory_is_not_ours() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let old = lock(&zk, PATH).acquire().await.unwrap();
    other.delete(old.path()).await.unwrap();
    other.delete(PATH).await.unwrap();
    let new = lock(&zk, PATH).acquire().await.unwrap();
    assert_eq!(new.path(), old.path());
    within(old.lost()).await;
    drop(old);
    let waiter = waiting(&other, &lock(&other, PATH)).await;
    assert!(!waiter.is_finished() && new.is_trusted());
    let stat = zk.exists(new.path()).await.unwrap().unwrap();
    assert_eq!(u64::try_from(stat.czxid.0), Ok(new.token()));
    new.release().await.unwrap();
    within(waiter).await.unwrap().release().await.unwrap();
}

/// After a drop it may still see its own node, because that is read before it is deleted.
#[tokio::test]
async fn a_lock_is_free_for_its_own_client_once_it_is_released() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let lock = lock(&zk, PATH);
    for _ in 0..20 {
        let guard = within(lock.try_acquire()).await.unwrap().expect("it is free");
        within(guard.release()).await.unwrap();
    }
    drop(within(lock.try_acquire()).await.unwrap());
    within(lock.acquire()).await.unwrap().release().await.unwrap();
}

/// A reader that was a writer has a name that another reader of the session may get, too.
#[tokio::test]
async fn a_downgraded_reader_does_not_delete_a_node_of_the_same_name() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let rw = RwLock::new(&zk, PATH).unwrap().layout(Layout::Apache);
    let old = rw.write().await.unwrap().downgrade().await.unwrap();
    other.delete(old.path()).await.unwrap();
    other.delete(PATH).await.unwrap();
    let new = rw.read().await.unwrap();
    assert_eq!(new.path(), old.path());
    assert_eq!(old.release().await, Err(Error::Lost));
    assert!(zk.exists(new.path()).await.unwrap().is_some());
    new.release().await.unwrap();
}

/// What Java's `WriteLock` sees: every child with a number after a hyphen, in the order of numbers.
#[tokio::test]
async fn readers_have_names_that_write_lock_waits_for() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let rw = RwLock::new(&zk, PATH).unwrap().layout(Layout::Apache);
    let (one, two) = (rw.read().await.unwrap(), rw.read().await.unwrap());
    assert_eq!(one.name(), format!("read-{}-0000000000", zk.session().id().0));
    let theirs = zk.create(&format!("{PATH}/x-5-"), "").ephemeral().sequential().await.unwrap();
    assert!(rw.try_read().await.unwrap().is_none(), "a reader beside a writer that waits");
    one.release().await.unwrap();
    two.release().await.unwrap();
    zk.delete(&theirs.path).await.unwrap();
    let writer = within(rw.write()).await.unwrap();
    assert!(writer.name().starts_with("x-"), "{writer:?}");
    writer.release().await.unwrap();
}

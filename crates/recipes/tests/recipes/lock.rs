//! The exclusive locks without faults, with bad input, and among nodes that do not belong to the recipe. What happens
//! to them when connections and sessions are lost is in `lock_loss`.

use std::time::Duration;

use futures_util::FutureExt as _;
use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::wait_for::ContenderState;
use herdsman_recipes::{
    Error, HoldOptions, Layout, Lock, LockGuard, LostWhen, MultiLock, NaiveLock, ReentrantLock,
};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

const PATH: &str = "/locks/a";
const SHORT: Duration = Duration::from_millis(50);

/// The names of the lock's nodes; none if there is no directory.
pub async fn nodes(zk: &Client, path: &str) -> Vec<String> {
    match zk.children(path).await {
        Ok(children) => children.names,
        Err(error) if *error.kind() == ErrorKind::NoNode => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Waits until this many nodes are in the directory.
pub async fn until_nodes(zk: &Client, path: &str, count: usize) {
    within(async {
        while nodes(zk, path).await.len() != count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Starts a task that waits for the lock, and is in the line already.
pub async fn waiting(zk: &Client, lock: &Lock) -> tokio::task::JoinHandle<LockGuard> {
    let before = nodes(zk, lock.path()).await.len();
    let contender = lock.clone();
    let task = tokio::spawn(async move { contender.acquire().await.expect("it gets the lock") });
    until_nodes(zk, lock.path(), before + 1).await;
    task
}

#[tokio::test]
async fn the_first_holds_it_and_the_others_follow_in_order() {
    let server = TestServer::start();
    let (one, two, three) = (client(&server).await, client(&server).await, client(&server).await);
    let held = within(Lock::new(&one, PATH).unwrap().acquire()).await.unwrap();
    let second = waiting(&one, &Lock::new(&two, PATH).unwrap()).await;
    let third = waiting(&one, &Lock::new(&three, PATH).unwrap()).await;
    assert!(held.is_trusted() && !second.is_finished() && !third.is_finished());
    assert!(held.lost().now_or_never().is_none());

    let first_token = held.token();
    held.release().await.unwrap();
    let second = within(second).await.unwrap();
    assert!(!third.is_finished());
    assert!(second.token() > first_token);
    let second_token = second.token();
    drop(second);
    let third = within(third).await.unwrap();
    assert!(third.token() > second_token);
    third.release().await.unwrap();
    assert_eq!(nodes(&one, PATH).await, [""; 0]);
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn two_tasks_of_one_client_exclude_each_other() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let lock = Lock::new(&zk, PATH).unwrap();
    let held = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn giving_up_leaves_nothing_behind() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = Lock::new(&two, PATH).unwrap();
    let held = Lock::new(&one, PATH).unwrap().acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(nodes(&one, PATH).await.len(), 1);
    assert_eq!(lock.acquire_within(Duration::ZERO).await.unwrap_err(), Error::TimedOut);
    assert_eq!(lock.acquire_within(SHORT).await.unwrap_err(), Error::TimedOut);
    until_nodes(&one, PATH, 1).await;

    let task = waiting(&one, &lock).await;
    task.abort();
    until_nodes(&one, PATH, 1).await;
    held.release().await.unwrap();
    until_nodes(&one, PATH, 0).await;
    eventually(|| server.watch_count() == 0).await;
    // The lock is free for the next contender.
    within(lock.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn leaving_the_middle_of_the_line_lets_no_contender_in() {
    let server = TestServer::start();
    let (one, two, three) = (client(&server).await, client(&server).await, client(&server).await);
    let held = Lock::new(&one, PATH).unwrap().acquire().await.unwrap();
    let second = waiting(&one, &Lock::new(&two, PATH).unwrap()).await;
    let proxy = TestProxy::start(server.address());
    drop(three);
    let three = client_behind(&proxy).await;
    let third = waiting(&one, &Lock::new(&three, PATH).unwrap()).await;
    // Its watch is set.
    eventually(|| server.watch_count() == 2).await;
    second.abort();
    // It has been woken, has read the line, and waits for the holder now.
    within(proxy.until(|traffic| traffic.events() == 1)).await;
    eventually(|| server.watch_count() == 1).await;
    assert!(!third.is_finished());
    held.release().await.unwrap();
    within(third).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_release_wakes_one_waiter_of_the_fair_lock_and_all_of_the_naive_one() {
    const WAITERS: usize = 8;
    let server = TestServer::start();
    let zk = client(&server).await;
    let proxy = TestProxy::start(server.address());
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        waiters.push(client_behind(&proxy).await);
    }

    let held = Lock::new(&zk, PATH).unwrap().acquire().await.unwrap();
    let mut tasks = Vec::new();
    for waiter in &waiters {
        tasks.push(waiting(&zk, &Lock::new(waiter, PATH).unwrap()).await);
    }
    eventually(|| server.watch_count() == WAITERS).await;
    assert_eq!(proxy.traffic().events(), 0);
    held.release().await.unwrap();
    let next = within(tasks.remove(0)).await.unwrap();
    assert_eq!(proxy.traffic().events(), 1);
    tasks.iter().for_each(|task| task.abort());
    next.release().await.unwrap();
    eventually(|| server.watch_count() == 0).await;

    let before = proxy.traffic().events();
    let held = NaiveLock::new(&zk, "/naive").unwrap().acquire().await.unwrap();
    let (done, mut first) = tokio::sync::mpsc::channel(WAITERS);
    for waiter in &waiters {
        let (lock, done) = (NaiveLock::new(waiter, "/naive").unwrap(), done.clone());
        tokio::spawn(async move { done.send(lock.acquire().await).await });
    }
    eventually(|| server.watch_count() == WAITERS).await;
    held.release().await.unwrap();
    let next = within(first.recv()).await.unwrap().unwrap();
    // All of them were woken, and all but one wait again.
    within(proxy.until(|traffic| traffic.events() == before + WAITERS)).await;
    eventually(|| server.watch_count() == WAITERS - 1).await;
    assert!(next.is_trusted());
}

#[tokio::test]
async fn a_free_lock_costs_three_requests() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    zk.create(PATH, "").parents().await.unwrap();
    let before = proxy.traffic().requests_in_all();
    let guard = Lock::new(&zk, PATH).unwrap().acquire().await.unwrap();
    assert_eq!(proxy.traffic().requests_in_all() - before, 2);
    guard.release().await.unwrap();
    assert_eq!(proxy.traffic().requests_in_all() - before, 3);
}

#[tokio::test]
async fn tokens_grow_even_when_the_directory_is_recreated() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let lock = Lock::new(&zk, PATH).unwrap();
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let guard = lock.acquire().await.unwrap();
        assert!(guard.name().ends_with("lock-0000000000"), "{}", guard.name());
        tokens.push(guard.token());
        guard.release().await.unwrap();
        zk.delete(PATH).await.unwrap();
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[tokio::test]
async fn contenders_are_listed_with_their_owner_texts() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = Lock::new(&one, PATH).unwrap();
    assert_eq!(lock.contenders().await.unwrap(), []);
    assert_eq!(lock.holder().await.unwrap(), None);

    let held =
        lock.clone().options(&HoldOptions::new().owner("the holder")).acquire().await.unwrap();
    let waiter = waiting(&one, &Lock::new(&two, PATH).unwrap()).await;
    let contenders = lock.contenders().await.unwrap();
    let [first, second] = contenders.as_slice() else { panic!("{contenders:?}") };
    assert_eq!((&first.owner[..], first.state), (&b"the holder"[..], ContenderState::Holds));
    assert_eq!((first.token, first.name.as_str()), (held.token(), held.name()));
    assert_eq!((first.session, second.session), (one.session().id(), two.session().id()));
    assert_eq!(second.state, ContenderState::Waits);
    let pid = std::process::id().to_string();
    assert!(String::from_utf8_lossy(&second.owner).ends_with(&pid), "{:?}", second.owner);
    waiter.abort();
}

#[tokio::test]
async fn a_holder_is_notified_of_a_revocation_request() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let (lock, wanted) = (Lock::new(&one, PATH).unwrap(), Lock::new(&two, PATH).unwrap());
    assert_eq!(wanted.request_revocation().await.unwrap(), None);

    let held = lock.acquire().await.unwrap();
    assert!(held.revocation_requested().now_or_never().is_none());
    let asked = wanted.request_revocation().await.unwrap().expect("it is held");
    assert_eq!(asked.name, held.name());
    within(held.revocation_requested()).await.unwrap();
    assert!(held.is_trusted());
    assert_eq!(one.get(held.path()).await.unwrap().data, "__REVOKE__");
    // The wait for the deletion of the node is not confused by the change of its data.
    let next = waiting(&one, &wanted).await;
    held.release().await.unwrap();
    let next = within(next).await.unwrap();

    zk_delete(&one, next.path()).await;
    assert_eq!(within(next.revocation_requested()).await.unwrap_err(), Error::Lost);
    eventually(|| server.watch_count() == 0).await;
}

async fn zk_delete(zk: &Client, path: &str) {
    zk.delete(path).await.expect("the node exists");
}

#[tokio::test]
async fn a_node_deleted_by_another_client_is_a_lost_lock() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = Lock::new(&one, PATH).unwrap();
    one.create("/data", "before").await.unwrap();
    let held = lock.acquire().await.unwrap();
    held.fenced().set("/data", "held").await.unwrap();
    zk_delete(&two, held.path()).await;
    within(held.lost()).await;
    let error = held.fenced().set("/data", "deposed").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Deposed);
    assert_eq!(one.get("/data").await.unwrap().data, "held");
    assert_eq!(held.release().await.unwrap_err(), Error::Lost);

    let held = lock.acquire().await.unwrap();
    let never = std::future::pending::<()>();
    let (ran, ()) =
        within(async { tokio::join!(held.run(never), zk_delete(&two, held.path())) }).await;
    assert_eq!(ran.unwrap_err(), Error::Lost);
    assert_eq!(lock.acquire().await.unwrap().run(async { 7 }).await.unwrap(), 7);
}

#[tokio::test]
async fn a_waiter_whose_node_is_deleted_joins_the_line_again() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = Lock::new(&two, PATH).unwrap();
    let held = Lock::new(&one, PATH).unwrap().acquire().await.unwrap();
    let waiter = waiting(&one, &lock).await;
    let place = lock.contenders().await.unwrap().pop().unwrap();
    zk_delete(&one, &format!("{PATH}/{}", place.name)).await;
    held.release().await.unwrap();
    let guard = within(waiter).await.unwrap();
    assert_ne!(guard.name(), place.name);
    assert_eq!(nodes(&one, PATH).await, [guard.name()]);
}

#[tokio::test]
async fn names_are_those_of_the_layout() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let curator = Lock::new(&zk, PATH).unwrap().acquire().await.unwrap();
    let name = curator.name();
    assert!(name.starts_with("_c_") && name.ends_with("-lock-0000000000"), "{name}");
    assert_eq!(name.len(), 40 + "lock-0000000000".len());

    let kazoo = Lock::new(&zk, "/kazoo").unwrap().layout(Layout::Kazoo);
    let held = kazoo.acquire().await.unwrap();
    let (uuid, rest) = held.name().split_at(32);
    assert!(uuid.bytes().all(|byte| byte.is_ascii_hexdigit()), "{uuid}");
    assert_eq!(rest, "__lock__0000000000");
    assert!(kazoo.try_acquire().await.unwrap().is_none());
}

#[tokio::test]
async fn foreign_nodes_are_ignored() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for name in ["README", "lock-", "0000000000", "_c_1-lock-12", "a__lock__0000000000"] {
        zk.create(&format!("{PATH}/{name}"), "").parents().await.unwrap();
    }
    let lock = Lock::new(&zk, PATH).unwrap();
    let held = within(lock.acquire()).await.unwrap();
    assert_eq!(lock.contenders().await.unwrap().len(), 1);
    held.release().await.unwrap();
    assert_eq!(nodes(&zk, PATH).await.len(), 5);
}

#[tokio::test]
async fn bad_paths_are_refused_and_leave_nothing() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for path in ["", "locks", "/locks/", "/a//b", "/a/../b"] {
        let error = Lock::new(&zk, path).unwrap_err();
        assert!(matches!(error.client_kind(), Some(ErrorKind::InvalidPath(_))), "{path}: {error}");
        assert!(NaiveLock::new(&zk, path).is_err(), "{path}");
    }
    let error = NaiveLock::new(&zk, "/").unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)));
    zk.create("/kept", "").await.unwrap();
    let error = within(NaiveLock::new(&zk, "/kept").unwrap().acquire()).await.unwrap_err();
    assert_eq!(error.to_string(), "/kept is not a lock: the node is not ephemeral");
    assert_eq!(server.ephemerals(zk.session().id()), [""; 0]);

    zk.create("/kept/child", "").ephemeral().await.unwrap();
    let error = within(Lock::new(&zk, "/kept/child").unwrap().acquire()).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::NoChildrenForEphemerals));
}

#[tokio::test]
async fn a_client_that_is_closed_gets_no_lock() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let lock = Lock::new(&zk, PATH).unwrap();
    zk.close().await.unwrap();
    let error = within(lock.acquire()).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::Closed));
}

#[tokio::test]
async fn a_deadline_for_single_calls_does_not_end_the_wait_for_a_lock() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let held = Lock::new(&zk, PATH).unwrap().acquire().await.unwrap();
    let hasty = zk.with_deadline(Duration::from_millis(1));
    let waiter = waiting(&zk, &Lock::new(&hasty, PATH).unwrap()).await;
    held.release().await.unwrap();
    within(waiter).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn an_owner_may_take_its_lock_again() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = ReentrantLock::new(&one, PATH).unwrap();
    let other = ReentrantLock::new(&two, PATH).unwrap();
    let outer = lock.acquire().await.unwrap();
    let inner = within(lock.clone().acquire()).await.unwrap();
    let third = lock.try_acquire().await.unwrap().expect("it is ours");
    assert_eq!((outer.depth(), outer.token()), (3, inner.token()));
    assert_eq!(nodes(&one, PATH).await.len(), 1);

    drop(third);
    outer.release().await.unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());
    inner.release().await.unwrap();
    let theirs = within(other.acquire()).await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(lock.acquire_within(SHORT).await.unwrap_err(), Error::TimedOut);

    zk_delete(&one, theirs.path()).await;
    // As far as it can know it still holds the lock.
    assert!(other.acquire().await.is_ok());
}

#[tokio::test]
async fn clones_that_wait_for_a_reentrant_lock_get_it_together() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let held = Lock::new(&one, PATH).unwrap().acquire().await.unwrap();
    let lock = ReentrantLock::from(
        Lock::new(&two, PATH)
            .unwrap()
            .options(&HoldOptions::new().lost_when(LostWhen::SessionTimedOut)),
    );
    let (first, second) = (lock.clone(), lock.clone());
    let both = tokio::spawn(async move { tokio::join!(first.acquire(), second.acquire()) });
    until_nodes(&one, PATH, 2).await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    let (first, second) = within(both).await.unwrap();
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.token(), second.token());
    drop(first);
    assert_eq!(nodes(&one, PATH).await.len(), 1);
    second.release().await.unwrap();
    until_nodes(&one, PATH, 0).await;
}

#[tokio::test]
async fn several_locks_are_taken_together_or_not_at_all() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = |zk: &Client, path: &str| Lock::new(zk, path).unwrap();
    let both = MultiLock::new([lock(&one, "/b"), lock(&one, "/a")]).unwrap();
    let held = lock(&two, "/b").acquire().await.unwrap();
    assert!(both.try_acquire().await.unwrap().is_none());
    assert_eq!(nodes(&one, "/a").await, [""; 0]);
    assert_eq!(both.acquire_within(SHORT).await.unwrap_err(), Error::TimedOut);
    until_nodes(&one, "/a", 0).await;
    until_nodes(&one, "/b", 1).await;

    held.release().await.unwrap();
    let guard = within(both.acquire()).await.unwrap();
    assert!(guard.is_trusted() && guard.lost().now_or_never().is_none());
    assert!(guard.guards()[0].path().starts_with("/a/"));
    assert!(lock(&two, "/a").try_acquire().await.unwrap().is_none());
    zk_delete(&two, guard.guards()[1].path()).await;
    within(guard.lost()).await;
    assert_eq!(guard.release().await.unwrap_err(), Error::Lost);
    assert_eq!((nodes(&one, "/a").await.len(), nodes(&one, "/b").await.len()), (0, 0));
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn several_locks_in_any_order_do_not_deadlock() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let rounds = async |zk: &Client, paths: [&str; 2]| {
        let locks = paths.map(|path| Lock::new(zk, path).unwrap());
        let both = MultiLock::new(locks).unwrap();
        for _ in 0..10 {
            both.acquire().await.unwrap().release().await.unwrap();
        }
    };
    within(async { tokio::join!(rounds(&one, ["/a", "/b"]), rounds(&two, ["/b", "/a"])) }).await;
}

#[tokio::test]
async fn several_locks_must_be_different() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let below = zk.namespace("/app").unwrap();
    let lock = |zk: &Client, path: &str| Lock::new(zk, path).unwrap();
    let twice = MultiLock::new([lock(&zk, "/app/a"), lock(&zk, "/b"), lock(&below, "/a")]);
    assert!(matches!(twice.unwrap_err(), Error::InvalidArgument(text) if text.contains("twice")));
    assert!(MultiLock::new([lock(&zk, "/a"), lock(&below, "/a")]).is_ok());
    assert!(matches!(MultiLock::new([]).unwrap_err(), Error::InvalidArgument(_)));
}

#[tokio::test]
async fn the_naive_lock_is_a_single_node() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = NaiveLock::new(&one, "/jobs/running")
        .unwrap()
        .options(&HoldOptions::new().owner("the first"));
    let other = NaiveLock::new(&two, "/jobs/running").unwrap();
    let held = lock.acquire().await.unwrap();
    let node = two.get("/jobs/running").await.unwrap();
    assert_eq!(node.stat.ephemeral_owner, one.session().id().0);
    assert_eq!(node.data, "the first");
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(other.try_acquire().await.unwrap().is_none());
    assert_eq!(other.acquire_within(SHORT).await.unwrap_err(), Error::TimedOut);

    let token = held.token();
    held.release().await.unwrap();
    let held = within(other.acquire()).await.unwrap();
    assert!(held.token() > token);
    drop(held);
    within(lock.acquire()).await.unwrap().release().await.unwrap();
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_former_holder_does_not_delete_the_node_of_the_next_one() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let former = NaiveLock::new(&one, "/running").unwrap().acquire().await.unwrap();
    zk_delete(&two, "/running").await;
    let held = NaiveLock::new(&two, "/running").unwrap().acquire().await.unwrap();
    within(former.lost()).await;
    assert_eq!(former.release().await.unwrap_err(), Error::Lost);
    assert_eq!(two.exists("/running").await.unwrap().unwrap().czxid.0 as u64, held.token());
}

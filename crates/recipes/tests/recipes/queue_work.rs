//! Queues whose items are locked: at least once, lost sessions, lost replies, dead letters.

use std::time::Duration;

use herdsman_client::{Client, ErrorKind, Outcome};
use herdsman_recipes::Error;
use herdsman_recipes::queue::{TypedWorkQueue, WorkOptions, WorkQueue};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

async fn names(zk: &Client, path: &str) -> Vec<String> {
    let mut names = zk.children(path).await.map_or(Vec::new(), |children| children.names);
    names.sort();
    names
}

#[tokio::test]
async fn an_item_that_is_worked_on_is_not_delivered_to_others() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let (one, two) = (WorkQueue::new(&one, "/q").unwrap(), WorkQueue::new(&two, "/q").unwrap());
    one.offer("a").await.unwrap();
    one.offer("b").await.unwrap();
    let a = one.take().await.unwrap();
    assert_eq!((a.payload().as_ref(), a.delivery()), (&b"a"[..], 1));
    // Neither another client nor another consumer of the same session.
    let b = one.poll().await.unwrap().unwrap();
    assert_eq!(b.payload(), "b");
    assert!(two.poll().await.unwrap().is_none());
    a.done().await.unwrap();
    b.done().await.unwrap();
    assert!(two.is_empty().await.unwrap());
    assert_eq!(server.watch_count(), 0);
}

#[tokio::test]
async fn the_layout_is_that_of_curators_distributed_queue_with_a_lock_path() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let options = WorkOptions::new().lock_path("/locks");
    let queue = WorkQueue::with(&zk, "/q", options).unwrap();
    queue.offer("ab").await.unwrap();
    assert_eq!(names(&zk, "/q").await, ["queue-0000000000"]);
    let bytes = zk.get("/q/queue-0000000000").await.unwrap().data;
    assert_eq!(bytes, &b"\0\x01\0\x01\x01\0\0\0\x02ab\x02"[..]);
    let item = queue.take().await.unwrap();
    let lock = zk.exists("/locks/queue-0000000000").await.unwrap().unwrap();
    assert_eq!(lock.ephemeral_owner, zk.session().id().0);
    item.done().await.unwrap();
    assert!(names(&zk, "/locks").await.is_empty());

    // Items of other programs, batches, and a node that is not an item.
    zk.create("/q/README", "").await.unwrap();
    let batch = &b"\0\x01\0\x01\x01\0\0\0\x01x\x01\0\0\0\0\x02"[..];
    zk.create("/q/queue-", batch).sequential().await.unwrap();
    let none = &b"\0\x01\0\x01\x02"[..];
    zk.create("/q/queue-", none).sequential().await.unwrap();
    let item = queue.take().await.unwrap();
    assert_eq!(item.payloads(), ["x", ""]);
    assert!(queue.poll().await.unwrap().is_none());
    item.done().await.unwrap();
    assert_eq!(names(&zk, "/q").await, ["README"]);
    // Another client's lock blocks the item.
    queue.offer("theirs").await.unwrap();
    let name = names(&zk, "/q").await.pop().unwrap();
    let theirs = client(&server).await;
    theirs.create(&format!("/locks/{name}"), "10.0.0.5").ephemeral().await.unwrap();
    assert!(queue.poll().await.unwrap().is_none());
}

#[tokio::test]
async fn an_item_that_is_dropped_is_delivered_again_in_its_place() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let (one, two) = (WorkQueue::new(&one, "/q").unwrap(), WorkQueue::new(&two, "/q").unwrap());
    one.offer("a").await.unwrap();
    let a = one.take().await.unwrap();
    let waiting = tokio::spawn(async move { two.take().await });
    // The waiting consumer watches items and locks.
    eventually(|| server.watch_count() == 2).await;
    drop(a);
    let again = within(waiting).await.unwrap().unwrap();
    assert_eq!(again.payload(), "a");
    again.give_back().await.unwrap();
    one.offer("b").await.unwrap();
    let first = one.take().await.unwrap();
    assert_eq!(first.payload(), "a");
    first.requeue().await.unwrap();
    for expected in ["b", "a"] {
        let item = one.take().await.unwrap();
        assert_eq!(item.payload(), expected);
        item.done().await.unwrap();
    }
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_lost_session_moves_the_item_to_another_consumer() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let session = one.session().id();
    let (one, two) = (WorkQueue::new(&one, "/q").unwrap(), WorkQueue::new(&two, "/q").unwrap());
    one.offer("a").await.unwrap();
    let first = one.take().await.unwrap();
    let waiting = tokio::spawn({
        let two = two.clone();
        async move { two.take().await }
    });
    eventually(|| server.watch_count() == 2).await;
    server.expire_session(session);
    let second = within(waiting).await.unwrap().unwrap();
    assert_eq!(second.payload(), "a");
    assert!(second.token() > first.token());
    assert_eq!(within(first.done()).await, Err(Error::Lost));
    assert_eq!(two.len().await.unwrap(), 1);
    second.done().await.unwrap();
    assert!(two.is_empty().await.unwrap());
}

#[tokio::test]
async fn a_session_that_ends_with_the_reply_is_an_unknown_outcome() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let queue = WorkQueue::new(&zk, "/q").unwrap();
    queue.offer("a").await.unwrap();
    let item = queue.take().await.unwrap();
    let lost = proxy.once(OpCode::Multi, Fault::CutBeforeReply);
    proxy.refuse_connections();
    let session = zk.session().id();
    let ending = tokio::spawn(item.done());
    within(lost.until_fired()).await;
    server.expire_session(session);
    proxy.accept_connections();
    let error = within(ending).await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn a_lost_reply_neither_duplicates_nor_loses_nor_blocks_an_item() {
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        let queue = WorkQueue::with(&zk, "/q", WorkOptions::new().dead_letter("/dead", 2)).unwrap();
        let lose_one = || proxy.once(OpCode::Multi, fault);
        let lost = lose_one();
        within(queue.offer("a")).await.unwrap();
        assert_eq!((lost.fired(), queue.len().await.unwrap()), (1, 1));
        let lost = lose_one();
        let item = within(queue.take()).await.unwrap();
        assert_eq!((lost.fired(), item.delivery()), (1, 1));
        assert_eq!(names(&zk, "/q-locks").await.len(), 1);
        let lost = lose_one();
        within(item.requeue()).await.unwrap();
        assert_eq!((lost.fired(), queue.len().await.unwrap()), (1, 1));
        let item = within(queue.take()).await.unwrap();
        let lost = lose_one();
        within(item.done()).await.unwrap();
        assert_eq!((lost.fired(), queue.len().await.unwrap()), (1, 0));
        assert!(names(&zk, "/q-locks").await.is_empty());
        assert!(names(&zk, "/dead").await.is_empty());
    }
}

/// The lock of the next consumer has the same path as that of the former one.
#[tokio::test]
async fn a_fence_identifies_the_delivery_and_not_only_the_item() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    one.create("/data", "0").await.unwrap();
    let queue = WorkQueue::new(&one, "/q").unwrap();
    queue.offer("a").await.unwrap();
    let former = queue.take().await.unwrap();
    former.fenced().set("/data", "1").await.unwrap();
    one.delete(former.path()).await.unwrap();
    let next = within(WorkQueue::new(&two, "/q").unwrap().take()).await.unwrap();
    let error = former.fenced().set("/data", "x").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Deposed);
    assert_eq!(former.done().await, Err(Error::Lost));
    next.fenced().set("/data", "2").await.unwrap();
    assert_eq!(names(&one, "/q-locks").await, [next.name()]);
    next.done().await.unwrap();
    assert!(queue.is_empty().await.unwrap());
}

/// The reply to the first attempt is lost, and the second attempt exceeds the deadline.
#[tokio::test]
async fn a_take_with_unknown_outcome_that_fails_leaves_no_lock() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let options = Client::options().deadline(Duration::from_millis(300));
    let zk = within(options.connect(&proxy.connect_string())).await.unwrap();
    let queue = WorkQueue::new(&zk, "/q").unwrap();
    within(queue.offer("a")).await.unwrap();
    let item = within(queue.take()).await.unwrap();
    within(item.give_back()).await.unwrap();
    let lost = proxy.once(OpCode::Multi, Fault::CutBeforeReply);
    let held = proxy.add_rule(Rule::new(Fault::HoldRequest).on(OpCode::Multi));
    let error = within(queue.poll()).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::DeadlineExceeded));
    assert_eq!((lost.fired(), held.fired()), (1, 1));
    held.release();
    let locks = || server.ephemerals(zk.session().id()).into_iter();
    eventually(|| !locks().any(|path| path.starts_with("/q-locks/"))).await;
    assert!(within(queue.poll()).await.unwrap().is_some());
}

/// The first attempt was applied and its reply lost; the second one fails without having been applied.
#[tokio::test]
async fn an_end_that_may_have_been_applied_is_not_reported_as_not_applied() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let options = Client::options().deadline(Duration::from_millis(300));
    let zk = within(options.connect(&proxy.connect_string())).await.unwrap();
    let queue = WorkQueue::new(&zk, "/q").unwrap();
    within(queue.offer("a")).await.unwrap();
    let item = within(queue.take()).await.unwrap();
    let lost = proxy.once(OpCode::Multi, Fault::CutBeforeReply);
    let ending = tokio::spawn(item.done());
    within(lost.until_fired()).await;
    // The connection is not restored.
    let _ = zk.close().await;
    let error = within(ending).await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
}

#[tokio::test]
async fn a_take_that_is_dropped_half_way_leaves_no_lock() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let queue = WorkQueue::new(&zk, "/q").unwrap();
    queue.offer("a").await.unwrap();
    let held = proxy.once(OpCode::Multi, Fault::HoldReply);
    let taking = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    within(held.until_fired()).await;
    taking.abort();
    assert!(taking.await.unwrap_err().is_cancelled());
    held.release();
    let item = within(queue.take()).await.unwrap();
    assert_eq!(item.payload(), "a");
}

#[tokio::test]
async fn an_item_that_is_never_done_is_moved_to_the_dead_letters() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let options = WorkOptions::new().dead_letter("/dead", 2);
    let queue = WorkQueue::with(&zk, "/q", options).unwrap();
    queue.offer("poison").await.unwrap();
    queue.offer("good").await.unwrap();
    let item = queue.take().await.unwrap();
    assert_eq!((item.payload().as_ref(), item.delivery()), (&b"poison"[..], 1));
    item.give_back().await.unwrap();
    let item = queue.take().await.unwrap();
    assert_eq!((item.payload().as_ref(), item.delivery()), (&b"poison"[..], 2));
    // The count is moved with it.
    item.requeue().await.unwrap();
    let item = queue.take().await.unwrap();
    assert_eq!(item.payload(), "good");
    item.done().await.unwrap();
    assert!(queue.poll().await.unwrap().is_none());
    assert!(queue.is_empty().await.unwrap());
    assert!(names(&zk, "/q-locks").await.is_empty());
    let dead = WorkQueue::new(&zk, "/dead").unwrap();
    let letter = dead.take().await.unwrap();
    assert_eq!(letter.payload(), "poison");
    letter.done().await.unwrap();
}

#[tokio::test]
async fn unreadable_bytes_are_reported_once_and_removed() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let options = WorkOptions::new().dead_letter("/dead", 5);
    let queue = WorkQueue::with(&zk, "/q", options).unwrap();
    queue.offer("not JSON").await.unwrap();
    zk.create("/q/queue-", "no item").sequential().await.unwrap();
    queue.offer("[1,2]").await.unwrap();
    let queue = TypedWorkQueue::<Vec<u8>>::new(queue);
    for path in ["/q/queue-0000000000", "/q/queue-0000000001"] {
        match queue.take().await {
            Err(Error::Codec { path: reported, .. }) => assert_eq!(reported, path),
            other => panic!("{other:?}"),
        }
    }
    let work = queue.take().await.unwrap();
    assert_eq!(work.value, [1, 2]);
    work.item.done().await.unwrap();
    assert!(queue.poll().await.unwrap().is_none());
    assert_eq!(names(&zk, "/dead").await.len(), 2);
    // Without dead letters they are deleted, and do not block either.
    let plain = WorkQueue::new(&zk, "/p").unwrap();
    plain.offer("x").await.unwrap();
    plain.take().await.unwrap().done().await.unwrap();
    zk.create("/p/queue-", "no item").sequential().await.unwrap();
    assert!(matches!(plain.poll().await, Err(Error::Codec { .. })));
    assert!(plain.is_empty().await.unwrap());
}

#[tokio::test]
async fn a_waiting_consumer_survives_a_restart_of_the_server() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let queue = WorkQueue::new(&zk, "/q").unwrap();
    let taking = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    eventually(|| server.watch_count() == 1).await;
    server.restart();
    within(queue.offer("late")).await.unwrap();
    let item = within(taking).await.unwrap().unwrap();
    assert_eq!(item.payload(), "late");
    item.done().await.unwrap();
}

#[tokio::test]
async fn a_bounded_work_queue_counts_what_is_worked_on() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let queue = WorkQueue::with(&zk, "/q", WorkOptions::new().capacity(1)).unwrap();
    queue.try_offer("a").await.unwrap();
    let item = queue.take().await.unwrap();
    assert_eq!(queue.try_offer("b").await, Err(Error::Full { limit: 1 }));
    item.done().await.unwrap();
    queue.try_offer("b").await.unwrap();
}

#[tokio::test]
async fn bad_settings_are_refused() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for options in [
        WorkOptions::new().lock_path("/q"),
        WorkOptions::new().lock_path(""),
        WorkOptions::new().dead_letter("/q", 1),
        WorkOptions::new().dead_letter("/", 1),
        WorkOptions::new().dead_letter("/dead", 0),
        WorkOptions::new().capacity(0),
    ] {
        let refused = WorkQueue::with(&zk, "/q", options.clone());
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{options:?}");
    }
    let queue = WorkQueue::new(&zk, "/q").unwrap();
    assert!(matches!(queue.offer_batch([]).await, Err(Error::InvalidArgument(_))));
    assert!(zk.exists("/q").await.unwrap().is_none());
}

//! The plain queue: order, at most once, lost replies, waiting without a herd effect, and bounds.

use std::time::Duration;

use herdsman_client::{Client, ErrorKind, Outcome, RetryPolicy};
use herdsman_recipes::Error;
use herdsman_recipes::queue::{ITEM_BYTES_MAX, Queue, QueueLayout};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::apache_locks::containers;
use crate::common::{client, client_behind, eventually, within};

async fn names(zk: &Client, path: &str) -> Vec<String> {
    let mut names = zk.children(path).await.map_or(Vec::new(), |children| children.names);
    names.sort();
    names
}

#[tokio::test]
async fn items_are_taken_in_the_order_of_arrival() {
    let server = TestServer::start();
    let (producer, consumer) = (client(&server).await, client(&server).await);
    let (offers, takes) =
        (Queue::new(&producer, "/a/q").unwrap(), Queue::new(&consumer, "/a/q").unwrap());
    assert_eq!(takes.poll().await.unwrap(), None);
    assert_eq!(takes.peek().await.unwrap(), None);
    assert_eq!(takes.element().await, Err(Error::Empty));
    assert_eq!(takes.remove().await, Err(Error::Empty));
    for item in ["a", "b", "c", "d"] {
        offers.offer(item).await.unwrap();
    }
    assert_eq!(takes.len().await.unwrap(), 4);
    assert_eq!(takes.peek().await.unwrap().unwrap(), "a");
    assert_eq!(takes.element().await.unwrap(), "a");
    assert_eq!(takes.poll().await.unwrap().unwrap(), "a");
    assert_eq!(takes.remove().await.unwrap(), "b");
    assert_eq!(takes.take().await.unwrap(), "c");
    assert_eq!(offers.take().await.unwrap(), "d");
    assert!(takes.is_empty().await.unwrap());
    assert_eq!(server.watch_count(), 0);
}

#[tokio::test]
async fn the_layout_is_that_of_curators_simple_distributed_queue() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let queue = Queue::new(&zk, "/q").unwrap();
    queue.offer("ours").await.unwrap();
    assert_eq!(names(&zk, "/q").await, ["qn-0000000000"]);
    assert_eq!(zk.get("/q/qn-0000000000").await.unwrap().data, "ours");
    // Items of other programs are taken, other nodes are left alone.
    zk.create("/q/README", "not an item").await.unwrap();
    zk.create("/q/qn-", "theirs").sequential().await.unwrap();
    assert_eq!(queue.take().await.unwrap(), "ours");
    assert_eq!(queue.take().await.unwrap(), "theirs");
    assert_eq!(queue.poll().await.unwrap(), None);
    assert_eq!(names(&zk, "/q").await, ["README"]);
}

#[tokio::test]
async fn the_layout_of_apache_is_that_of_zookeepers_distributed_queue() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let queue = Queue::new(&zk, "/q").unwrap().layout(QueueLayout::Apache);
    assert_eq!(queue.element().await, Err(Error::Empty));
    queue.offer("ours").await.unwrap();
    assert_eq!(zk.get("/q/qn-0000000000").await.unwrap().data, "ours");
    assert_eq!(containers(&proxy), ["/q-receipts"]);
    for (name, item) in [("README", ""), ("qn-", ""), ("qn-x", ""), ("qn--2147483648", "first")] {
        zk.create(&format!("/q/{name}"), item).await.unwrap();
    }
    assert_eq!(queue.len().await.unwrap(), 2);
    assert_eq!(queue.element().await.unwrap(), "first");
    assert_eq!(queue.remove().await.unwrap(), "first");
    assert_eq!(queue.take().await.unwrap(), "ours");
    assert_eq!(queue.remove().await, Err(Error::Empty));
    assert_eq!(names(&zk, "/q").await, ["README", "qn-", "qn-x"]);

    let full = Queue::bounded(&zk, "/bounded", 1).unwrap().layout(QueueLayout::Apache);
    full.try_offer("one").await.unwrap();
    assert_eq!(full.try_offer("two").await, Err(Error::Full { limit: 1 }));
}

/// Whatever is cut, each item is in the queue once, and taken once.
#[tokio::test]
async fn a_cut_at_any_request_of_apaches_queue_neither_loses_nor_duplicates() {
    let server = TestServer::start();
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        for skipped in 0.. {
            let proxy = TestProxy::start(server.address());
            let (zk, other) = (client_behind(&proxy).await, client(&server).await);
            let path = format!("/queues/{fault:?}/{skipped}");
            let queue = |zk| Queue::new(zk, &path).unwrap().layout(QueueLayout::Apache);
            let (cut, whole) = (queue(&zk), queue(&other));
            let rule = proxy.add_rule(Rule::new(fault).skip(skipped));
            within(cut.offer("a")).await.unwrap();
            within(cut.offer("b")).await.unwrap();
            assert_eq!(within(whole.take()).await.unwrap(), "a");
            assert_eq!(within(cut.take()).await.unwrap(), "b");
            assert_eq!(within(cut.poll()).await.unwrap(), None);
            drop(cut);
            eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
            if rule.fired() == 0 {
                assert!(skipped > 5, "it has made {skipped} requests in all");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_lost_reply_neither_duplicates_nor_loses_an_item() {
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        let queue = Queue::new(&zk, "/q").unwrap();
        // The first write creates the receipt, the second sets it.
        for item in ["first", "second"] {
            let lost = proxy.once(OpCode::Multi, fault);
            within(queue.offer(item)).await.unwrap();
            assert_eq!(lost.fired(), 1);
        }
        assert_eq!(queue.len().await.unwrap(), 2);
        for item in ["first", "second"] {
            let lost = proxy.once(OpCode::Multi, fault);
            assert_eq!(within(queue.poll()).await.unwrap().unwrap(), item);
            assert_eq!(lost.fired(), 1);
        }
        assert!(queue.is_empty().await.unwrap());
        drop(queue);
        // Receipts are deleted with the queue's handle.
        eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
    }
}

#[tokio::test]
async fn a_reply_lost_while_directories_are_created_leaves_no_doubt_about_the_item() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    // One for the receipts, one for the queue, one for the capacity node.
    let containers = Rule::new(Fault::CutBeforeReply).on(OpCode::CreateContainer).times(2);
    let (containers, gate) =
        (proxy.add_rule(containers), proxy.once(OpCode::Create2, Fault::CutBeforeReply));
    let queue = Queue::bounded(&zk, "/q", 2).unwrap();
    within(queue.offer("a")).await.unwrap();
    assert_eq!((containers.fired(), gate.fired()), (2, 1));
    assert_eq!(queue.len().await.unwrap(), 1);
}

#[tokio::test]
async fn a_session_that_ends_with_the_reply_is_an_unknown_outcome() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let queue = Queue::new(&zk, "/q").unwrap();
    queue.offer("item").await.unwrap();
    let lost = proxy.once(OpCode::Multi, Fault::CutBeforeReply);
    // The open connection stays; once it is cut, there is none until the session has ended.
    proxy.refuse_connections();
    let session = zk.session().id();
    let polling = tokio::spawn({
        let queue = queue.clone();
        async move { queue.poll().await }
    });
    within(lost.until_fired()).await;
    server.expire_session(session);
    proxy.accept_connections();
    let error = within(polling).await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(within(queue.poll()).await.unwrap(), None);
}

#[tokio::test]
async fn a_take_that_is_dropped_half_way_puts_the_item_back_in_its_place() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let queue = Queue::new(&zk, "/q").unwrap();
    queue.offer("a").await.unwrap();
    queue.offer("b").await.unwrap();
    let held = proxy.once(OpCode::Multi, Fault::HoldReply);
    let polling = tokio::spawn({
        let queue = queue.clone();
        async move { queue.poll().await }
    });
    within(held.until_fired()).await;
    let other = client(&server).await;
    assert_eq!(names(&other, "/q").await, ["qn-0000000001"]);
    polling.abort();
    assert!(polling.await.unwrap_err().is_cancelled());
    held.release();
    within(async { while names(&other, "/q").await.len() < 2 {} }).await;
    assert_eq!(queue.take().await.unwrap(), "a");
    assert_eq!(queue.take().await.unwrap(), "b");
}

/// Returns a client that gives up its single calls at once.
fn hasty(zk: &Client) -> Client {
    zk.with_retry(RetryPolicy::never()).with_deadline(Duration::from_millis(20))
}

/// Waits for longer than the deadline of the calls that this client has made so far. No replies arrive meanwhile.
async fn until_deadlines_have_passed(hasty: &Client) {
    let error = within(hasty.exists("/").send()).await.unwrap_err();
    assert!(error.is_deadline_exceeded(), "{error}");
}

#[tokio::test]
async fn a_reply_after_the_clients_deadline_loses_no_item() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let (queue, whole) =
        (Queue::new(&hasty(&zk), "/q").unwrap(), Queue::new(&other, "/q").unwrap());
    whole.offer("a").await.unwrap();
    let held = proxy.once(OpCode::Multi, Fault::HoldReply);
    let taking = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    within(held.until_fired()).await;
    assert!(whole.is_empty().await.unwrap());
    until_deadlines_have_passed(&hasty(&zk)).await;
    held.release();
    assert_eq!(within(taking).await.unwrap().unwrap(), "a");

    let held = proxy.once(OpCode::Multi, Fault::HoldReply);
    let offering = tokio::spawn(async move { queue.offer("b").await });
    within(held.until_fired()).await;
    until_deadlines_have_passed(&hasty(&zk)).await;
    held.release();
    within(offering).await.unwrap().unwrap();
    assert_eq!(whole.take().await.unwrap(), "b");
}

#[tokio::test]
async fn an_item_is_put_back_however_long_the_connection_is_lost() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let (queue, whole) =
        (Queue::new(&hasty(&zk), "/q").unwrap(), Queue::new(&other, "/q").unwrap());
    whole.offer("a").await.unwrap();
    let held = proxy.once(OpCode::Multi, Fault::HoldReply);
    let taking = tokio::spawn(async move { queue.take().await });
    within(held.until_fired()).await;
    assert!(whole.is_empty().await.unwrap());
    taking.abort();
    assert!(taking.await.unwrap_err().is_cancelled());
    // The second time the deadline has passed, but what is queued is still sent.
    let cut = Rule::new(Fault::CutBeforeRequest).on(OpCode::Multi).times(2);
    let cut = proxy.add_rule(cut);
    proxy.refuse_connections();
    held.release();
    within(cut.until_fired()).await;
    zk.session().wait_for(|state| !state.is_connected()).await;
    for _ in 0..2 {
        until_deadlines_have_passed(&hasty(&zk)).await;
    }
    proxy.accept_connections();
    assert_eq!(within(whole.take()).await.unwrap(), "a");
}

/// The empty directory was deleted meanwhile, as the server does that with a container, and its numbers started again.
#[tokio::test]
async fn an_item_is_put_back_even_if_its_name_was_given_to_another() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let (queue, whole) = (Queue::new(&zk, "/q").unwrap(), Queue::new(&other, "/q").unwrap());
    whole.offer("a").await.unwrap();
    let held = proxy.once(OpCode::Multi, Fault::HoldReply);
    let taking = tokio::spawn(async move { queue.take().await });
    within(held.until_fired()).await;
    taking.abort();
    assert!(taking.await.unwrap_err().is_cancelled());
    other.delete("/q").await.unwrap();
    whole.offer("b").await.unwrap();
    assert_eq!(names(&other, "/q").await, ["qn-0000000000"]);
    let before = proxy.traffic().requests(OpCode::Multi);
    held.release();
    within(proxy.until(|traffic| traffic.requests(OpCode::Multi) > before)).await;
    within(zk.sync("/").send()).await.unwrap();
    let both = [within(whole.take()).await.unwrap(), within(whole.take()).await.unwrap()];
    assert_eq!(both, ["b", "a"]);
}

#[tokio::test]
async fn a_clients_deadline_does_not_end_an_offer_that_creates_the_queue() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let held = proxy.add_rule(
        Rule::new(Fault::HoldReply).on(OpCode::CreateContainer).path_containing("/q").skip(1),
    );
    let queue = Queue::new(&hasty(&zk), "/q").unwrap();
    let offering = tokio::spawn({
        let queue = queue.clone();
        async move { queue.offer("a").await }
    });
    within(held.until_fired()).await;
    until_deadlines_have_passed(&hasty(&zk)).await;
    held.release();
    within(offering).await.unwrap().unwrap();
    assert_eq!(Queue::new(&zk, "/q").unwrap().take().await.unwrap(), "a");
}

#[tokio::test]
async fn a_deadline_for_single_calls_does_not_end_the_wait_for_an_item_or_for_room() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let queue = Queue::bounded(&hasty(&zk), "/q", 1).unwrap();
    // The reply to each of its requests arrives after the deadline.
    proxy.delay_replies(Duration::from_millis(60));
    let taking = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    eventually(|| server.watch_count() == 1).await;
    let whole = Queue::bounded(&other, "/q", 1).unwrap();
    whole.offer("a").await.unwrap();
    assert_eq!(within(taking).await.unwrap().unwrap(), "a");
    whole.offer("b").await.unwrap();
    let offering = tokio::spawn(async move { queue.offer("c").await });
    eventually(|| server.watch_count() == 1).await;
    assert_eq!(whole.take().await.unwrap(), "b");
    within(offering).await.unwrap().unwrap();
    assert_eq!(whole.take().await.unwrap(), "c");
}

#[tokio::test]
async fn a_waiting_consumer_survives_its_session_and_a_server_restart() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let queue = Queue::new(&zk, "/q").unwrap();
    let taking = tokio::spawn(async move { queue.take().await });
    eventually(|| server.watch_count() == 1).await;
    server.expire_session(zk.session().id());
    eventually(|| server.watch_count() == 1).await;
    server.restart();
    let producer = client(&server).await;
    Queue::new(&producer, "/q").unwrap().offer("late").await.unwrap();
    assert_eq!(within(taking).await.unwrap().unwrap(), "late");
    eventually(|| server.watch_count() == 0).await;
}

/// Each item wakes the first consumer of the line twice (when it is created and when it is deleted) and the next one
/// once, however many wait. With a herd effect it would wake all of them, twice.
#[tokio::test]
async fn an_item_wakes_one_consumer() {
    const CONSUMERS: usize = 8;
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let mut taking = tokio::task::JoinSet::new();
    for waiting in 1..=CONSUMERS {
        let queue = Queue::new(&client_behind(&proxy).await, "/q").unwrap();
        taking.spawn(async move { queue.take().await });
        eventually(|| server.watch_count() == waiting).await;
    }
    let producer = client(&server).await;
    let queue = Queue::new(&producer, "/q").unwrap();
    for item in 0..CONSUMERS {
        queue.offer(item.to_string()).await.unwrap();
        let taken = within(taking.join_next()).await.unwrap();
        assert_eq!(taken.unwrap().unwrap(), item.to_string());
    }
    let events = proxy.traffic().events();
    assert!(events <= 3 * CONSUMERS, "{events} events for {CONSUMERS} items");
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_bounded_queue_is_never_overfilled() {
    const CAPACITY: usize = 3;
    const ITEMS: usize = 40;
    let server = TestServer::start();
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..4 {
        let queue = Queue::bounded(&client(&server).await, "/q", CAPACITY).unwrap();
        producers.spawn(async move {
            for item in 0..ITEMS / 4 {
                queue.offer(format!("{producer}-{item}")).await.unwrap();
            }
        });
    }
    let zk = client(&server).await;
    let queue = Queue::bounded(&zk, "/q", CAPACITY).unwrap();
    for _ in 0..ITEMS {
        within(queue.take()).await.unwrap();
        assert!(queue.len().await.unwrap() <= CAPACITY);
    }
    within(producers.join_all()).await;
    for item in 0..CAPACITY {
        queue.try_offer(item.to_string()).await.unwrap();
    }
    assert_eq!(queue.try_offer("more").await, Err(Error::Full { limit: CAPACITY }));
    assert_eq!(queue.len().await.unwrap(), CAPACITY);
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_producer_that_waits_for_room_gets_it() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let full = Queue::bounded(&zk, "/q", 1).unwrap();
    full.offer("first").await.unwrap();
    let offering = tokio::spawn({
        let queue = Queue::bounded(&other, "/q", 1).unwrap();
        async move { queue.offer("second").await }
    });
    eventually(|| server.watch_count() == 1).await;
    assert_eq!(full.take().await.unwrap(), "first");
    within(offering).await.unwrap().unwrap();
    assert_eq!(full.take().await.unwrap(), "second");
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn bad_input_is_refused_and_leaves_nothing_behind() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let before = names(&zk, "/").await;
    for path in ["", "/"] {
        assert!(matches!(Queue::new(&zk, path), Err(Error::InvalidArgument(_))), "{path:?}");
    }
    for path in ["q", "/q/", "/q//r", "/a\0"] {
        let error = Queue::new(&zk, path).unwrap_err();
        assert!(matches!(error.client_kind(), Some(ErrorKind::InvalidPath(_))), "{path:?}");
    }
    assert!(matches!(Queue::bounded(&zk, "/q", 0), Err(Error::InvalidArgument(_))));
    let queue = Queue::new(&zk, "/q").unwrap();
    let too_large = vec![0; ITEM_BYTES_MAX + 1];
    let error = queue.offer(too_large).await.unwrap_err();
    assert!(error.to_string().contains("more than the limit"), "{error}");
    assert_eq!(names(&zk, "/").await, before);

    queue.offer(vec![7; ITEM_BYTES_MAX]).await.unwrap();
    assert_eq!(queue.take().await.unwrap().len(), ITEM_BYTES_MAX);
}

#[tokio::test]
async fn producers_must_agree_on_the_capacity() {
    let server = TestServer::start();
    let zk = client(&server).await;
    Queue::bounded(&zk, "/q", 5).unwrap().offer("item").await.unwrap();
    let error = Queue::bounded(&zk, "/q", 6).unwrap().offer("item").await.unwrap_err();
    assert!(error.to_string().contains("capacity is 5, not 6"), "{error}");
}

#[tokio::test]
async fn the_reply_of_a_bounded_offer_may_be_lost() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let queue = Queue::bounded(&zk, "/q", 2).unwrap();
    let lost = Rule::new(Fault::CutBeforeReply).on(OpCode::Multi).path_containing("/q/qn-");
    proxy.add_rule(lost.times(2));
    within(queue.offer("a")).await.unwrap();
    within(queue.offer("b")).await.unwrap();
    assert_eq!(queue.len().await.unwrap(), 2);
}

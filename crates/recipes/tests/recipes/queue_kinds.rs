//! Priorities, delays, ids, shards, tickets and values.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use herdsman_recipes::Error;
use herdsman_recipes::queue::{
    DelayQueue, IdQueue, PriorityQueue, Queue, ShardedQueue, TicketQueue, TypedQueue, WorkOptions,
};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

#[tokio::test]
async fn the_smallest_priority_goes_first() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let queue = PriorityQueue::new(&zk, "/q").unwrap();
    for (priority, payload) in
        [(5, "later"), (-1, "soon"), (i32::MAX, "last"), (0, "a"), (0, "b"), (i32::MIN, "now")]
    {
        queue.offer(priority, payload).await.unwrap();
    }
    for expected in ["now", "soon", "a", "b", "later", "last"] {
        let item = queue.take().await.unwrap();
        assert_eq!(item.payload(), expected);
        item.done().await.unwrap();
    }
    // An item that is put back keeps its priority.
    queue.offer(1, "first").await.unwrap();
    queue.offer(2, "second").await.unwrap();
    queue.take().await.unwrap().requeue().await.unwrap();
    assert_eq!(queue.take().await.unwrap().payload(), "first");
}

#[tokio::test]
async fn an_item_is_not_early_by_the_servers_clock() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let producer = DelayQueue::new(&zk, "/q").unwrap();
    let consumer = DelayQueue::new(&other, "/q").unwrap();
    let waiting = tokio::spawn(async move {
        let mut taken = Vec::new();
        for _ in 0..3 {
            let item = consumer.take().await.unwrap();
            let hex = item.name().split('|').nth(1).unwrap().to_owned();
            let due_ms = i64::from_str_radix(&hex, 16).unwrap();
            let stamp = other.create("/stamp-", "").sequential().await.unwrap();
            assert!(stamp.stat.ctime >= due_ms, "{} ms early", due_ms - stamp.stat.ctime);
            taken.push(item.payload().clone());
            item.done().await.unwrap();
        }
        taken
    });
    producer.offer(Duration::from_millis(300), "third").await.unwrap();
    producer.offer(Duration::from_millis(200), "second").await.unwrap();
    producer.offer(Duration::from_millis(100), "first").await.unwrap();
    assert_eq!(within(waiting).await.unwrap(), ["first", "second", "third"]);
    // One of Curator's, put back without a time: due at once.
    zk.create("/q/queue-", &b"\0\x01\0\x01\x01\0\0\0\x01x\x02"[..]).sequential().await.unwrap();
    producer.offer(Duration::from_secs(3600), "not today").await.unwrap();
    producer.offer_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1), "old").await.unwrap();
    let (x, old) = (producer.take().await.unwrap(), producer.take().await.unwrap());
    assert_eq!((x.payload().as_ref(), old.payload().as_ref()), (&b"x"[..], &b"old"[..]));
    assert!(producer.poll().await.unwrap().is_none());
    assert_eq!(producer.len().await.unwrap(), 3);
}

#[tokio::test]
async fn a_removal_by_id_that_is_dropped_half_way_leaves_no_lock() {
    for fault in [Fault::HoldReply, Fault::CutBeforeReply] {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let (zk, other) = (client_behind(&proxy).await, client(&server).await);
        let queue = IdQueue::new(&zk, "/q").unwrap();
        queue.offer("x", "a").await.unwrap();
        let rule = Rule::new(fault).on(OpCode::Multi).path_containing("/q-locks/");
        let locking = proxy.add_rule(rule);
        let removing = tokio::spawn(async move { queue.remove("x").await });
        within(locking.until_fired()).await;
        removing.abort();
        assert!(removing.await.unwrap_err().is_cancelled());
        locking.release();
        // Once begun, it is completed; above all, the item is not blocked for other consumers.
        let queue = IdQueue::new(&other, "/q").unwrap();
        within(async { while !queue.is_empty().await.unwrap() {} }).await;
        let locks = || server.ephemerals(zk.session().id()).into_iter();
        eventually(|| !locks().any(|path| path.starts_with("/q-locks/"))).await;
    }
}

#[tokio::test]
async fn delays_that_make_no_sense_are_refused() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let queue = DelayQueue::new(&zk, "/q").unwrap();
    for delay in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        assert!(matches!(queue.offer(delay, "x").await, Err(Error::InvalidArgument(_))));
    }
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert!(matches!(queue.offer_at(before_1970, "x").await, Err(Error::InvalidArgument(_))));
    assert!(zk.exists("/q").await.unwrap().is_none());
}

#[tokio::test]
async fn items_can_be_removed_by_id_unless_they_are_worked_on() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let queue = IdQueue::new(&zk, "/q").unwrap();
    for (id, payload) in [("z", "1"), ("a/b", "2"), ("z", "3"), ("m", "4")] {
        queue.offer(id, payload).await.unwrap();
    }
    assert_eq!(queue.ids().await.unwrap(), ["z", "a_b", "z", "m"]);
    let busy = queue.take().await.unwrap();
    assert_eq!(busy.payload(), "1");
    assert_eq!(queue.remove("z").await.unwrap(), 1);
    assert_eq!(queue.remove("a/b").await.unwrap(), 1);
    assert_eq!(queue.remove("nobody").await.unwrap(), 0);
    assert!(matches!(queue.remove("").await, Err(Error::InvalidArgument(_))));
    assert!(matches!(queue.offer("", "x").await, Err(Error::InvalidArgument(_))));
    // Back to the end, with its id.
    busy.requeue().await.unwrap();
    assert_eq!(queue.ids().await.unwrap(), ["m", "z"]);
    assert_eq!(queue.take().await.unwrap().payload(), "4");
    assert_eq!(queue.len().await.unwrap(), 2);
}

#[tokio::test]
async fn a_sharded_queue_delivers_everything_from_all_shards() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let consumer = ShardedQueue::open(&zk, "/q", 3, WorkOptions::new()).await.unwrap();
    let consuming = tokio::spawn({
        let consumer = consumer.clone();
        async move {
            let mut taken = BTreeSet::new();
            while taken.len() < 30 {
                let item = consumer.take().await.unwrap();
                assert!(taken.insert(item.payload().clone()), "delivered twice");
                item.done().await.unwrap();
            }
        }
    });
    // One consumer waits, and watches all shards.
    eventually(|| server.watch_count() == 3).await;
    let producer = ShardedQueue::open(&other, "/q", 3, WorkOptions::new()).await.unwrap();
    for item in 0..30 {
        producer.offer(item.to_string()).await.unwrap();
    }
    within(consuming).await.unwrap();
    assert!(consumer.is_empty().await.unwrap());
    eventually(|| server.watch_count() == 0).await;

    let error = ShardedQueue::open(&zk, "/q", 4, WorkOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains("number of shards is \"3\", not 4"), "{error}");
    for shards in [0, 1001] {
        let refused = ShardedQueue::open(&zk, "/other", shards, WorkOptions::new()).await;
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{shards}");
    }
    assert!(zk.exists("/other").await.unwrap().is_none());
}

#[tokio::test]
async fn tickets_take_turns_in_order() {
    let server = TestServer::start();
    let mut clients = Vec::new();
    let mut tickets = Vec::new();
    for _ in 0..4 {
        let zk = client(&server).await;
        tickets.push(TicketQueue::new(&zk, "/t").unwrap().take_number().await.unwrap());
        clients.push(zk);
    }
    clients[0].create("/t/README", "").await.unwrap();
    let numbers: Vec<_> = tickets.iter().map(|ticket| ticket.number()).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let queue = TicketQueue::new(&clients[0], "/t").unwrap();
    assert_eq!(queue.len().await.unwrap(), 4);

    let last = tickets.pop().unwrap();
    let mut positions = last.positions(Duration::from_millis(10)).unwrap();
    assert_eq!(within(positions.next()).await, Some(Ok(3)));
    // The second loses its session; the third, which waits for it, moves up, but it is not its turn yet.
    server.expire_session(clients[1].session().id());
    assert_eq!(within(positions.next()).await, Some(Ok(2)));
    let (first, second) = (tickets.remove(0), tickets.remove(0));
    assert_eq!(within(second.turn()).await, Err(Error::Lost));
    first.turn().await.unwrap();
    let third = tickets.remove(0);
    let called = tokio::spawn(async move { third.turn().await.map(|()| third) });
    eventually(|| server.watch_count() == 1).await;
    first.leave().await.unwrap();
    let third = within(called).await.unwrap().unwrap();
    drop(third);
    within(last.turn()).await.unwrap();
    let rest: Vec<_> = within(positions.collect()).await;
    assert_eq!(rest.last(), Some(&Ok(0)));
    assert!(matches!(last.positions(Duration::ZERO), Err(Error::InvalidArgument(_))));
    last.leave().await.unwrap();
    assert_eq!(server.watch_count(), 0);
}

#[tokio::test]
async fn a_ticket_whose_reply_was_lost_is_one_ticket() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let queue = TicketQueue::new(&zk, "/t").unwrap();
    queue.take_number().await.unwrap().leave().await.unwrap();
    let lost = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    let ticket = within(queue.take_number()).await.unwrap();
    assert_eq!((lost.fired(), queue.len().await.unwrap()), (1, 1));
    ticket.turn().await.unwrap();
}

#[tokio::test]
async fn values_that_cannot_be_read_are_reported_and_kept_apart() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let (bytes, dead) = (Queue::new(&zk, "/q").unwrap(), Queue::new(&zk, "/dead").unwrap());
    let queue = TypedQueue::<(String, u8)>::new(bytes.clone()).dead_letters(dead.clone());
    bytes.offer("not JSON").await.unwrap();
    queue.offer(&("value".into(), 7)).await.unwrap();
    assert!(matches!(queue.take().await, Err(Error::Codec { .. })));
    assert_eq!(queue.take().await.unwrap(), ("value".into(), 7));
    assert_eq!(queue.poll().await.unwrap(), None);
    assert_eq!(dead.take().await.unwrap(), "not JSON");
}

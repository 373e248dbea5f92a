//! Queues when the connection is cut at any request: no item is lost, duplicated, or left locked.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use herdsman_recipes::queue::{
    DelayQueue, IdQueue, Queue, ShardedQueue, TicketQueue, WorkOptions, WorkQueue,
};

use crate::common::{client, eventually};
use crate::lock_loss::{Run, sweep};

/// Waits until the client's session locks no item; the receipts of a queue are deleted with its last handle.
async fn until_nothing_is_locked(run: &Run<'_>) {
    eventually(|| !run.own_nodes().iter().any(|path| path.contains("-locks/"))).await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_queue_neither_loses_nor_duplicates() {
    sweep(async |run| {
        let queue = Queue::bounded(&run.zk, &run.path, 2).unwrap();
        let other = Queue::new(&client(run.server).await, &run.path).unwrap();
        queue.offer("a").await.unwrap();
        queue.offer("b").await.unwrap();
        assert!(queue.try_offer("c").await.is_err(), "it is full");
        assert_eq!(other.take().await.unwrap(), "a");
        assert_eq!(queue.take().await.unwrap(), "b");
        assert_eq!(queue.poll().await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_work_queue_loses_duplicates_and_blocks_nothing() {
    sweep(async |run| {
        let queue = WorkQueue::new(&run.zk, &run.path).unwrap();
        let other = WorkQueue::new(&client(run.server).await, &run.path).unwrap();
        for item in ["a", "b", "c"] {
            queue.offer(item).await.unwrap();
        }
        let a = queue.take().await.unwrap();
        assert_eq!((a.payload(), a.delivery()), (&"a".into(), 1));
        let b = other.take().await.unwrap();
        assert_eq!(b.payload(), "b", "no other consumer gets an item that is worked on");
        a.give_back().await.unwrap();
        let a = queue.take().await.unwrap();
        assert_eq!(a.payload(), "a");
        a.requeue().await.unwrap();
        let c = queue.poll().await.unwrap().expect("there is a third");
        assert_eq!(c.payload(), "c");
        c.done().await.unwrap();
        b.done().await.unwrap();
        drop(queue.take().await.unwrap());
        until_nothing_is_locked(run).await;
        let a = other.take().await.unwrap();
        assert_eq!(a.payload(), "a");
        a.done().await.unwrap();
        assert!(queue.is_empty().await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_an_id_queue_loses_duplicates_and_blocks_nothing() {
    sweep(async |run| {
        let queue = IdQueue::new(&run.zk, &run.path).unwrap();
        let other = IdQueue::new(&client(run.server).await, &run.path).unwrap();
        for (id, payload) in [("x", "1"), ("y", "2"), ("x", "3"), ("z", "4")] {
            queue.offer(id, payload).await.unwrap();
        }
        assert_eq!(queue.ids().await.unwrap(), ["x", "y", "x", "z"]);
        let busy = other.take().await.unwrap();
        assert_eq!(busy.payload(), "1");
        assert_eq!(queue.remove("x").await.unwrap(), 1, "of two one is worked on");
        assert_eq!(queue.remove("x").await.unwrap(), 0);
        busy.requeue().await.unwrap();
        let next = queue.take().await.unwrap();
        assert_eq!(next.payload(), "2");
        next.requeue().await.unwrap();
        assert_eq!(other.ids().await.unwrap(), ["z", "x", "y"]);
        drop(queue.take().await.unwrap());
        until_nothing_is_locked(run).await;
        for payload in ["4", "1", "2"] {
            let item = other.take().await.unwrap();
            assert_eq!(item.payload(), payload);
            item.done().await.unwrap();
        }
        assert!(queue.is_empty().await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_delay_queue_loses_duplicates_and_blocks_nothing() {
    sweep(async |run| {
        let queue = DelayQueue::new(&run.zk, &run.path).unwrap();
        let other = DelayQueue::new(&client(run.server).await, &run.path).unwrap();
        queue.offer(Duration::from_secs(3600), "not today").await.unwrap();
        queue.offer(Duration::from_millis(1), "now").await.unwrap();
        let item = queue.take().await.unwrap();
        assert_eq!(item.payload(), "now");
        item.give_back().await.unwrap();
        let item = other.take().await.unwrap();
        assert_eq!(item.payload(), "now");
        item.done().await.unwrap();
        assert!(queue.poll().await.unwrap().is_none());
        assert_eq!(queue.len().await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_sharded_queue_loses_duplicates_and_blocks_nothing() {
    sweep(async |run| {
        let queue = ShardedQueue::open(&run.zk, &run.path, 2, WorkOptions::new()).await.unwrap();
        let items = BTreeSet::from(["a", "b", "c"].map(bytes::Bytes::from));
        for item in &items {
            queue.offer(item.clone()).await.unwrap();
        }
        let mut taken = BTreeSet::new();
        while taken.len() < items.len() {
            let item = queue.take().await.unwrap();
            assert!(taken.insert(item.payload().clone()), "delivered twice");
            item.done().await.unwrap();
        }
        assert_eq!(taken, items);
        assert!(queue.is_empty().await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_ticket_leaves_one_ticket_or_none() {
    sweep(async |run| {
        let queue = TicketQueue::new(&run.zk, &run.path).unwrap();
        let other = TicketQueue::new(&client(run.server).await, &run.path).unwrap();
        let first = other.take_number().await.unwrap();
        let second = queue.take_number().await.unwrap();
        assert_eq!(run.own_nodes(), [second.path()]);
        assert_eq!((second.position().await.unwrap(), other.len().await.unwrap()), (1, 2));
        first.leave().await.unwrap();
        second.turn().await.unwrap();
        let third = other.take_number().await.unwrap();
        assert!(third.turn().now_or_never().is_none());
        second.leave().await.unwrap();
        third.turn().await.unwrap();
        drop(queue.take_number().await.unwrap());
    })
    .await;
}

//! Queues: plain, for work that must not get lost, by priority, by time, by id, sharded, and of
//! people.
//!
//! | type | each item is delivered | order | Curator's |
//! |---|---|---|---|
//! | [`Queue`] | at most once | arrival | `SimpleDistributedQueue`; ZooKeeper's `DistributedQueue` |
//! | [`WorkQueue`] | at least once | arrival | `DistributedQueue` with a lock path |
//! | [`PriorityQueue`] | at least once | priority, then arrival | `DistributedPriorityQueue` |
//! | [`DelayQueue`] | at least once | when it is due | `DistributedDelayQueue` |
//! | [`IdQueue`] | at least once | arrival; can be removed by id | `DistributedIdQueue` |
//! | [`ShardedQueue`] | at least once | none between shards | idea of `QueueSharder` |
//! | [`TicketQueue`] | (no items: one's own turn) | arrival | – |
//!
//! [`TypedQueue`] and [`TypedWorkQueue`] carry values as JSON. [`QueueLayout`] says which of the two
//! plain queues a [`Queue`] is.
//!
//! # What holds for all of them
//! * **A lost reply makes no second item and loses none.** Curator's names leave no room for a
//!   protected create, so each write is a transaction with a
//!   receipt: a node of ours that shows afterwards whether it was applied. Only the end of a
//!   session in that very moment leaves a doubt, which the error then names.
//! * **No herd.** Consumers that wait stand in a line, and only the first watches the queue: a new
//!   item wakes one of them. The same for producers of a bounded queue that is full.
//! * **Bounded queues** are never overfilled by producers that agree on the capacity.
//! * Foreign children of the queue's directory are ignored (but count towards a capacity).
//!
//! # Limits
//! An item has at most [`ITEM_BYTES_MAX`] bytes. A listing answers with all names at once, so a queue
//! should not hold more than about ten thousand items; use a [`ShardedQueue`] beyond that, or
//! something that is not a ZooKeeper: every item is two writes through the quorum.
//!
//! # Costs, in round trips
//! offer: 1 (bounded: 2). `Queue::poll`: 3 (list, read, transaction). `WorkQueue::poll`: 4 (items,
//! locks, read, transaction), done: 1. Waiting adds the making and deleting of a place in the line.
//!
//! # Nodes beside the queue
//! For a queue at `/q`: `/q-receipts` and `/q-consumers`, `/q-producers` (containers, with ephemerals
//! in them), `/q-locks` (unless told otherwise), and `/q-capacity` of a bounded one.

mod capacity;
mod clock;
mod delay;
mod id;
mod intake;
mod names;
mod payload;
mod priority;
mod receipts;
mod sharded;
mod simple;
mod ticket;
mod typed;
mod waiting;
mod work;

pub use delay::DelayQueue;
pub use id::IdQueue;
pub use intake::ITEM_BYTES_MAX;
pub use names::{ItemKind, QueueLayout, item_kind};
pub use priority::PriorityQueue;
pub use sharded::ShardedQueue;
pub use simple::Queue;
pub use ticket::{Ticket, TicketQueue};
pub use typed::{TypedQueue, TypedWork, TypedWorkQueue};
pub use work::{WorkItem, WorkOptions, WorkQueue};

use herdsman_client::{Client, ErrorKind, Lifetime};

use crate::patient::patient;

/// Makes sure that a directory is there. Whether a reply was lost on the way does not matter, and must
/// not look as if the fate of an item were unknown.
async fn ensure(
    client: &Client,
    path: &str,
    lifetime: Lifetime,
) -> Result<(), herdsman_client::Error> {
    patient(client).ensure(path, lifetime).await
}

/// The task that did it is gone with the runtime that drove it.
fn abandoned() -> crate::Error {
    herdsman_client::Error::unknown(ErrorKind::ConnectionLoss).into()
}

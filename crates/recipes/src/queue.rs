//! Queues: plain, for work that must not be lost, by priority, by time, by id, sharded, and of tickets.
//!
//! | type | each item is delivered | order | Curator's equivalent |
//! |---|---|---|---|
//! | [`Queue`] | at most once | arrival | `SimpleDistributedQueue`; ZooKeeper's `DistributedQueue` |
//! | [`WorkQueue`] | at least once | arrival | `DistributedQueue` with a lock path |
//! | [`PriorityQueue`] | at least once | priority, then arrival | `DistributedPriorityQueue` |
//! | [`DelayQueue`] | at least once | when it is due | `DistributedDelayQueue` |
//! | [`IdQueue`] | at least once | arrival; can be removed by id | `DistributedIdQueue` |
//! | [`ShardedQueue`] | at least once | none between shards | idea of `QueueSharder` |
//! | [`TicketQueue`] | (no items: each ticket waits for its turn) | arrival | – |
//!
//! [`TypedQueue`] and [`TypedWorkQueue`] carry values as JSON. [`QueueLayout`] selects which of the two plain queues
//! a [`Queue`] is.
//!
//! # Common properties
//! * **A lost reply neither duplicates nor loses an item.** Curator's names leave no room for a protected create, so
//!   each write is a transaction with a receipt: a node of ours that shows afterwards whether it was applied. Only if
//!   the session ends at that very moment is the outcome in doubt, and the error then says so.
//! * **No herd effect.** Consumers that wait are in a line, and only the first watches the queue: a new item wakes
//!   one of them. The same holds for producers of a bounded queue that is full.
//! * **Bounded queues** are never overfilled by producers that agree on the capacity.
//! * Children of the queue's directory that are not items are ignored (but count towards a capacity).
//!
//! # Limits
//! An item has at most [`ITEM_BYTES_MAX`] bytes. A listing returns all names at once, so a queue should not hold more
//! than about ten thousand items; use a [`ShardedQueue`] beyond that, or something other than ZooKeeper: every item
//! is two writes through the quorum.
//!
//! # Costs, in round trips
//! offer: 1 (bounded: 2). `Queue::poll`: 3 (list, read, transaction). `WorkQueue::poll`: 4 (items, locks, read,
//! transaction), done: 1. Waiting adds the creation and deletion of a place in the line.
//!
//! # Nodes beside the queue
//! For a queue at `/q`: `/q-receipts` and `/q-consumers`, `/q-producers` (containers, with ephemerals in them),
//! `/q-locks` (by default), and `/q-capacity` of a bounded one.

mod capacity;
mod clock;
mod delay;
mod id;
mod item_store;
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
pub use item_store::ITEM_BYTES_MAX;
pub use names::{ItemKind, QueueLayout, item_kind};
pub use priority::PriorityQueue;
pub use sharded::ShardedQueue;
pub use simple::Queue;
pub use ticket::{Ticket, TicketQueue};
pub use typed::{TypedQueue, TypedWork, TypedWorkQueue};
pub use work::{WorkItem, WorkOptions, WorkQueue};

use herdsman_client::{Client, ErrorKind, Lifetime};

use crate::retrying::retrying;

/// Makes sure that a directory exists. A reply lost here does not matter, and must not be reported as an unknown
/// outcome of an item's transaction.
async fn ensure(
    client: &Client,
    path: &str,
    lifetime: Lifetime,
) -> Result<(), herdsman_client::Error> {
    retrying(client).ensure(path, lifetime).await
}

/// Returns the error for a task that ended with its runtime.
fn abandoned() -> crate::Error {
    herdsman_client::Error::unknown(ErrorKind::ConnectionLoss).into()
}

//! Queues for work that must not be lost: each item is locked while a consumer works on it, and is removed when the
//! work is done.
//!
//! Layouts: Curator's `DistributedQueue` with a lock path, and its variants with ids, priorities and delays; see
//! [`names`](super::names) and [`payload`](super::payload). Consumers of both kinds can share a queue if they share
//! the lock path. (Curator's consumers without a lock path ignore locks and must not be mixed with these.)

use bytes::Bytes;
use herdsman_client::Client;
use std::sync::Arc;

use super::names::{ITEM, Order};
use crate::error::Result;

pub(super) mod core;
mod item;
mod locked;
mod options;

pub use item::WorkItem;
pub use options::WorkOptions;

/// A first-in first-out queue, each item delivered at least once: to one consumer at a time, until one calls
/// [`done`](WorkItem::done). Clones are handles to the same queue.
///
/// * No item is lost.
/// * An item is delivered again if its consumer gave it back, or lost its session (or died) before it was done; the
///   servers notice that after the session timeout. The first consumer may not know of it yet: if the work must not
///   be done twice, use [`Hold::fenced`](crate::Hold::fenced).
/// * Items are delivered in the order in which they were put in. They may be finished in any order.
/// * An item whose bytes are not in the format of an item is [removed](WorkOptions::dead_letter) and reported once,
///   as [`Error::Codec`](crate::Error::Codec); the next call continues with the next item.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::queue::WorkQueue;
///
/// let queue = WorkQueue::new(&zk, "/jobs")?;
/// queue.offer("resize image 7").await?;
///
/// let job = queue.take().await?;
/// assert_eq!(job.payload(), "resize image 7");
/// job.done().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct WorkQueue {
    pub(super) core: Arc<core::Core>,
}

impl WorkQueue {
    /// Creates a handle for the queue at `path`, with locks at `<path>-locks`. No node is created before the first
    /// item.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        WorkQueue::with(client, path, WorkOptions::new())
    }

    /// Creates a handle for the queue at `path`, with options.
    pub fn with(client: &Client, path: &str, options: WorkOptions) -> Result<Self> {
        Ok(WorkQueue { core: core::Core::new(client, path, options, Order::Name)? })
    }

    /// Puts an item at the end. Waits if the queue is bounded and full. If the future is dropped, the item may or may
    /// not be in the queue.
    pub async fn offer(&self, payload: impl Into<Bytes>) -> Result<()> {
        self.core.offer(ITEM, vec![payload.into()]).await
    }

    /// Puts an item at the end; [`Error::Full`](crate::Error::Full) if the queue is full.
    pub async fn try_offer(&self, payload: impl Into<Bytes>) -> Result<()> {
        self.core.try_offer(ITEM, vec![payload.into()]).await
    }

    /// Puts several payloads in as one item, to be worked on together; Curator's `putMulti`.
    pub async fn offer_batch(&self, payloads: impl IntoIterator<Item = Bytes>) -> Result<()> {
        self.core.offer(ITEM, payloads.into_iter().collect()).await
    }
}

/// Implements the consumer's side, which is the same for all queues with locks.
macro_rules! consume {
    ($queue:ty) => {
        impl $queue {
            /// Returns its path.
            #[must_use]
            pub fn path(&self) -> &str {
                &self.core.store.path
            }

            /// Returns the first item that no consumer works on, if there is one.
            pub async fn poll(&self) -> $crate::Result<Option<$crate::queue::WorkItem>> {
                self.core.poll().await
            }

            /// Returns the first item that no consumer works on, as soon as there is one: waits through lost
            /// connections, and with a managed client through lost sessions. Dropping the future leaves every item in
            /// its place.
            pub async fn take(&self) -> $crate::Result<$crate::queue::WorkItem> {
                self.core.take().await
            }

            /// Returns how many items there are, including those that consumers work on.
            pub async fn len(&self) -> $crate::Result<usize> {
                Ok(self.core.candidates().await?.len())
            }

            /// Returns whether there is no item.
            pub async fn is_empty(&self) -> $crate::Result<bool> {
                Ok(self.len().await? == 0)
            }
        }
    };
}
pub(super) use consume;

consume!(WorkQueue);

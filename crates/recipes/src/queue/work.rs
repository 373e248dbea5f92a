//! Queues for work that must not get lost: each item is locked while somebody works on it, and goes
//! when the work is done.
//!
//! Layouts: Curator's `DistributedQueue` with a lock path, and its relatives with ids, priorities
//! and delays; see [`names`](super::names) and [`payload`](super::payload). Consumers of both kinds can share
//! a queue if they share the lock path. (Curator's consumers without a lock path ignore locks and must
//! not be mixed with these.)

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

/// A first-in first-out queue, each item delivered at least once: to one consumer at a time, until
/// one says that it is [done](WorkItem::done). Clones are handles to the same one.
///
/// * No item is lost.
/// * An item is delivered again if its consumer gave it back, or lost its session (or died) before
///   it was done; the servers notice that after the session timeout. The first consumer may not
///   know yet: who must not do the work twice uses [`Hold::fenced`](crate::Hold::fenced).
/// * Items start in the order in which they were put in. They end in any order.
/// * An item whose bytes are not an item is [removed](WorkOptions::dead_letter) and reported once,
///   as [`Error::Codec`](crate::Error::Codec); the next call goes on with the next item.
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
    /// The queue at `path`, with locks at `<path>-locks`. Nothing is made before the first item.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        WorkQueue::with(client, path, WorkOptions::new())
    }

    /// The queue at `path`, with settings.
    pub fn with(client: &Client, path: &str, options: WorkOptions) -> Result<Self> {
        Ok(WorkQueue { core: core::Core::new(client, path, options, Order::Name)? })
    }

    /// Puts an item at the end. A bounded queue that is full makes it wait. If the future is
    /// dropped, the item may be in the queue or not.
    pub async fn offer(&self, payload: impl Into<Bytes>) -> Result<()> {
        self.core.offer(ITEM, vec![payload.into()]).await
    }

    /// Puts an item at the end, or says [`Error::Full`](crate::Error::Full).
    pub async fn try_offer(&self, payload: impl Into<Bytes>) -> Result<()> {
        self.core.try_offer(ITEM, vec![payload.into()]).await
    }

    /// Puts several payloads in as one item, to be worked on together; Curator's `putMulti`.
    pub async fn offer_batch(&self, payloads: impl IntoIterator<Item = Bytes>) -> Result<()> {
        self.core.offer(ITEM, payloads.into_iter().collect()).await
    }
}

/// The consumer's side is the same for all queues with locks.
macro_rules! consume {
    ($queue:ty) => {
        impl $queue {
            /// Where it is.
            #[must_use]
            pub fn path(&self) -> &str {
                &self.core.intake.path
            }

            /// The first item that nobody works on, if there is one.
            pub async fn poll(&self) -> $crate::Result<Option<$crate::queue::WorkItem>> {
                self.core.poll().await
            }

            /// The first item that nobody works on, as soon as there is one: waits through lost
            /// connections, and with a managed client through lost sessions. Dropping the future
            /// leaves every item where it is.
            pub async fn take(&self) -> $crate::Result<$crate::queue::WorkItem> {
                self.core.take().await
            }

            /// How many items there are, those that somebody works on included.
            pub async fn len(&self) -> $crate::Result<usize> {
                Ok(self.core.candidates().await?.len())
            }

            /// Whether there is no item.
            pub async fn is_empty(&self) -> $crate::Result<bool> {
                Ok(self.len().await? == 0)
            }
        }
    };
}
pub(super) use consume;

consume!(WorkQueue);

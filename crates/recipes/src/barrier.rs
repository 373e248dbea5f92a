//! Barriers: many processes wait for one event.
//!
//! - [`Barrier`]: a gate that any process can close and open.
//! - [`DoubleBarrier`]: all members begin together and end together.
//! - [`CountDownLatch`]: opens for good when a number of things have happened.
//!
//! The layouts of the first two are Curator's (`DistributedBarrier`, `DistributedDoubleBarrier`) and kazoo's; the
//! latch is ours, because Curator has none.

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, EventType, Optional};

use crate::error::{Error, Result};
use crate::retrying::retrying;
use crate::until_known::{unless, until_known};

mod count_down;
mod double;
mod leave;
mod size;

pub use count_down::{CountDownLatch, latch_count};
pub use double::{DoubleBarrier, Inside, READY};
pub use size::is_member;

/// A gate: closed while its node exists.
///
/// Each waiter has one watch on the node, and does no reads when the gate opens. A gate that is opened and closed
/// again at once lets all its waiters through, except a waiter that was disconnected at that moment: it finds the
/// gate closed and keeps waiting.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::Barrier;
///
/// let barrier = Barrier::new(&zk, "/deploy/frozen");
/// barrier.close().await?;
/// // … elsewhere `barrier.wait().await?` waits, until …
/// barrier.open().await?;
/// barrier.wait().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// Creates a handle for the barrier at `path`, without any request.
    #[must_use]
    pub fn new(client: &Client, path: impl Into<String>) -> Self {
        Barrier { client: client.clone(), path: path.into() }
    }

    /// Closes the gate. It may be closed already. Curator: `setBarrier`.
    pub async fn close(&self) -> Result<()> {
        let create = || async {
            let create = self.client.create(&self.path, Bytes::new()).container_parents();
            create.await.map(drop)
        };
        Ok(unless(until_known(create).await, &ErrorKind::NodeExists)?)
    }

    /// Opens the gate and thereby releases all waiters. It may be open already. Curator: `removeBarrier`.
    pub async fn open(&self) -> Result<()> {
        let delete = || self.client.delete(&self.path).send();
        Ok(unless(until_known(delete).await, &ErrorKind::NoNode)?)
    }

    /// Returns whether the gate is closed.
    pub async fn is_closed(&self) -> Result<bool> {
        Ok(self.client.exists(&self.path).await?.is_some())
    }

    /// Waits until the gate is open, through outages too; returns at once if it is open. Cancel-safe.
    pub async fn wait(&self) -> Result<()> {
        let client = retrying(&self.client);
        loop {
            // A watch set by getData is not left behind when there is no node.
            let Some((_, watch)) = client.get(&self.path).watch().await.optional()? else {
                return Ok(());
            };
            match watch.await {
                Ok(event) if event.kind == EventType::NodeDeleted => return Ok(()),
                // The data changed, which does not matter; or the session ended: the next read is made in the next
                // session, or reports that there is none.
                _ => {}
            }
        }
    }

    /// Like [`Barrier::wait`], but fails with [`Error::TimedOut`] when `limit` has passed.
    pub async fn wait_within(&self, limit: Duration) -> Result<()> {
        at_most(limit, self.wait()).await
    }
}

/// Returns the result, or [`Error::TimedOut`]. Work that times out is dropped, which cleans up after it.
async fn at_most<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Error::TimedOut))
}

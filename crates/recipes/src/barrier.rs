//! Barriers: many processes wait for one moment.
//!
//! - [`Barrier`]: a gate that anybody closes and opens.
//! - [`DoubleBarrier`]: all members begin together and end together.
//! - [`CountDownLatch`]: opens for good when a number of things have happened.
//!
//! The layouts of the first two are Curator's (`DistributedBarrier`, `DistributedDoubleBarrier`) and
//! kazoo's; the latch is ours, for Curator has none.

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, EventType, Optional};

use crate::error::{Error, Result};
use crate::patient::patient;
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
/// Each of those who wait has one watch on the one node, and no reads follow when it opens. A gate
/// that is opened and closed again at once lets everybody through who waited, unless a waiter's
/// connection was gone just then: it finds the gate closed and goes on waiting.
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
    /// The barrier at `path`; nothing is done yet.
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

    /// Opens the gate, and everybody who waits goes on. It may be open already. Curator:
    /// `removeBarrier`.
    pub async fn open(&self) -> Result<()> {
        let delete = || self.client.delete(&self.path).send();
        Ok(unless(until_known(delete).await, &ErrorKind::NoNode)?)
    }

    /// Whether the gate is closed.
    pub async fn is_closed(&self) -> Result<bool> {
        Ok(self.client.exists(&self.path).await?.is_some())
    }

    /// Waits until the gate is open, through outages too; does not wait at all if it is open.
    /// Cancel-safe.
    pub async fn wait(&self) -> Result<()> {
        let client = patient(&self.client);
        loop {
            // A watch set by getData is not left behind when there is no node.
            let Some((_, watch)) = client.get(&self.path).watch().await.optional()? else {
                return Ok(());
            };
            match watch.await {
                Ok(event) if event.kind == EventType::NodeDeleted => return Ok(()),
                // The data changed, which means nothing; or the session ended: the next look is
                // made in the next one, or says that there is none.
                _ => {}
            }
        }
    }

    /// As [`Barrier::wait`], but fails with [`Error::TimedOut`] when `limit` has passed.
    pub async fn wait_within(&self, limit: Duration) -> Result<()> {
        at_most(limit, self.wait()).await
    }
}

/// The result, or [`Error::TimedOut`]. Dropping what is under way is how it cleans up.
async fn at_most<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Error::TimedOut))
}

//! The lock of one node: the client that creates it holds the lock, all others watch it.
//!
//! It is the simplest lock and has two faults: every release wakes all waiters, of whom one succeeds (a herd effect),
//! and which one succeeds is left to chance, so a waiter may wait for ever. Use it where there are few contenders, or
//! where a path must be the lock itself; otherwise [`Lock`](super::Lock).
//!
//! # Nodes
//! The path itself, ephemeral, with the owner's text as data; beside it `<path>-fence`, which distinguishes one
//! holder from the next (see [`Hold::fenced`]). The nodes above them are containers. Neither Curator nor kazoo has
//! such a lock.

use std::time::Duration;

use herdsman_client::{Client, Optional, Session};

use super::{default_owner, within};
use crate::claim::Claim;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::hold_options::{HoldOptions, Holder};
use crate::path;
use crate::retrying::retrying;

/// An unfair lock of a single node. See the [module](super) for the properties of all locks.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::NaiveLock;
///
/// let lock = NaiveLock::new(&zk, "/jobs/nightly/running")?;
/// let guard = lock.acquire().await?;
/// assert!(lock.try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct NaiveLock {
    holder: Holder,
    path: String,
}

impl NaiveLock {
    /// Creates a handle for the lock that is the node at `path`.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        path::check(path)?;
        if path == "/" {
            return Err(Error::invalid("the root always exists and cannot be a lock"));
        }
        Ok(NaiveLock { holder: Holder::new(client, default_owner()), path: path.to_owned() })
    }

    /// Sets when a guard counts as lost, the owner text that other clients read, and the ACL of its nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.holder.set(options);
        self
    }

    /// Waits for the lock. Dropping the future gives up.
    pub async fn acquire(&self) -> Result<NaiveGuard> {
        self.holder.in_session(|session| self.acquire_in(session)).await
    }

    /// Takes the lock if it is free.
    pub async fn try_acquire(&self) -> Result<Option<NaiveGuard>> {
        self.holder.in_session(|session| self.claim(session)).await
    }

    /// Waits for the lock up to `limit`, then fails with [`Error::TimedOut`]. Zero means [`NaiveLock::try_acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<NaiveGuard> {
        if limit.is_zero() {
            return self.try_acquire().await?.ok_or(Error::TimedOut);
        }
        within(limit, self.acquire()).await
    }

    async fn acquire_in(&self, session: Session) -> Result<NaiveGuard> {
        loop {
            if let Some(guard) = self.claim(session.clone()).await? {
                return Ok(guard);
            }
            self.wait_until_free(&session).await?;
        }
    }

    async fn claim(&self, session: Session) -> Result<Option<NaiveGuard>> {
        let owner = self.holder.owner.clone();
        let hold = Claim::new(&self.holder, session, &self.path, owner).make().await?;
        Ok(hold.map(|hold| NaiveGuard { hold }))
    }

    async fn wait_until_free(&self, session: &Session) -> Result<()> {
        let client = retrying(&self.holder.client.bound_to(session));
        let Some((node, watch)) = client.get(&self.path).watch().await.optional()? else {
            return Ok(());
        };
        if node.stat.ephemeral_owner == 0 {
            let text = format!("{} is not a lock: the node is not ephemeral", self.path);
            return Err(Error::InvalidArgument(text));
        }
        watch.await?;
        Ok(())
    }
}

/// Proof, as far as a client can know, that the lock is held. Dropping it releases the lock in the background.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct NaiveGuard {
    hold: Hold,
}

guard!(NaiveGuard);

//! The lock of one node: whoever creates it holds the lock, all others watch it.
//!
//! It is the shortest way to a lock and has two faults: every release wakes all waiters, of whom one
//! succeeds (the herd), and who succeeds is left to chance, so a waiter may wait for ever. Use it
//! where there are few contenders, or where a path must be the lock itself; otherwise
//! [`Lock`](super::Lock).
//!
//! # Nodes
//! The path itself, ephemeral, with the owner's text as data; beside it `<path>-fence`, which tells one holder from the
//! next (see [`Hold::fenced`]). Above them containers. Neither Curator nor kazoo has such a lock.

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Session};

use super::{default_owner, within};
use crate::claim::Claim;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::{Distrust, Hold};
use crate::path;
use crate::patient::patient;

/// An unfair lock of a single node. See the [module](super) for what all locks have in common.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_server::TestServer::start();
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
    client: Client,
    path: String,
    owner: Bytes,
    distrust: Distrust,
}

impl NaiveLock {
    /// The lock that is the node at `path`.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        path::check(path)?;
        if path == "/" {
            return Err(Error::invalid("the root is always there and cannot be a lock"));
        }
        Ok(NaiveLock {
            client: client.clone(),
            path: path.to_owned(),
            owner: default_owner(),
            distrust: Distrust::default(),
        })
    }

    /// What others read about who holds the lock.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Bytes>) -> Self {
        self.owner = owner.into();
        self
    }

    /// When guards stop believing in themselves.
    #[must_use]
    pub fn distrust(mut self, distrust: Distrust) -> Self {
        self.distrust = distrust;
        self
    }

    /// Waits for the lock. Dropping the future gives up.
    pub async fn acquire(&self) -> Result<NaiveGuard> {
        loop {
            let session = self.client.connected_session().await?;
            let attempt = async {
                match self.claim(&session).await? {
                    Some(guard) => Ok(Some(guard)),
                    None => self.wait_until_free(&session).await.map(|()| None),
                }
            };
            match attempt.await {
                Ok(Some(guard)) => return Ok(guard),
                Ok(None) => {}
                Err(error) if self.goes_on_after(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the lock if it is free.
    pub async fn try_acquire(&self) -> Result<Option<NaiveGuard>> {
        loop {
            let session = self.client.connected_session().await?;
            match self.claim(&session).await {
                Err(error) if self.goes_on_after(&error) => {}
                claimed => return claimed,
            }
        }
    }

    /// Waits for the lock, but no longer than this: [`Error::TimedOut`] then. Zero means
    /// [`NaiveLock::try_acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<NaiveGuard> {
        if limit.is_zero() {
            return self.try_acquire().await?.ok_or(Error::TimedOut);
        }
        within(limit, self.acquire()).await
    }

    async fn claim(&self, session: &Session) -> Result<Option<NaiveGuard>> {
        let claim = Claim::new(&self.client, session, &self.path, self.owner.clone());
        let hold = claim.distrust(self.distrust).make().await?;
        Ok(hold.map(|hold| NaiveGuard { hold }))
    }

    async fn wait_until_free(&self, session: &Session) -> Result<()> {
        let client = patient(&self.client.bound_to(session));
        let (node, watch) = match client.get(&self.path).watch().await {
            Err(error) if *error.kind() == ErrorKind::NoNode => return Ok(()),
            read => read?,
        };
        if node.stat.ephemeral_owner == 0 {
            let text = format!("{} is not a lock: it would never go by itself", self.path);
            return Err(Error::InvalidArgument(text));
        }
        watch.await?;
        Ok(())
    }

    fn goes_on_after(&self, error: &Error) -> bool {
        error.client_kind() == Some(&ErrorKind::SessionExpired) && self.client.is_managed()
    }
}

/// Proof that the lock is held, as far as one can know. Dropping it releases the lock in the
/// background.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct NaiveGuard {
    hold: Hold,
}

guard!(NaiveGuard);

//! A lock that up to n clients hold at the same time.
//!
//! In: a client, a path, and how many may hold it. Out: permits, each of them a [`Hold`]. Waiting is fair: waiters
//! are in a line, and only the first one watches the permits.
//!
//! # Guarantees
//! * As the servers see it, there are never more permits than the limit allows (when the limit is lowered, existing
//!   permits stay). A permit is held by a lease node; the first n of them count.
//! * [`Semaphore::acquire_many`] takes all or none, and two clients that want several cannot block each other: only
//!   one at a time collects permits. A client that *holds* permits and requests more can block all others.
//! * Lost replies, dropped futures or outages leave nothing behind; see [`lock`](crate::lock#guarantees), which also
//!   explains what is **not** guaranteed.
//!
//! # Nodes
//! Curator's `InterProcessSemaphoreV2`: `<path>/leases/_c_<uuid>-lease-<sequence>` for each permit, and a
//! [`Lock`](crate::Lock) at `<path>/locks` for the client that collects permits. With a limit of 1 it is Curator's
//! `InterProcessSemaphoreMutex`. Children that do not belong to the recipe are ignored here, while Curator counts
//! each as a permit. kazoo's `Semaphore` has another layout.
//!
//! # Cost
//! Four round trips for a permit that is free, and two requests in the background; one to release it.

use std::time::Duration;

use herdsman_client::{Client, Watch};

use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::hold_options::HoldOptions;
use crate::line::{Line, after_predecessor};
use crate::lock::{directory, within};
use crate::path::{self, child};
use crate::retrying::{must_restart, retrying};

const LEASE: &str = "lease-";
const LOCK: &str = "lock-";

/// A lock that up to n clients hold at the same time. Cheap to clone.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::Semaphore;
///
/// let downloads = Semaphore::new(&zk, "/limits/downloads", 2)?;
/// let one = downloads.acquire().await?;
/// let two = downloads.acquire().await?;
/// assert!(downloads.try_acquire().await?.is_none());
/// one.release().await?;
/// assert!(downloads.try_acquire().await?.is_some());
/// # drop(two);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    locks: Line,
    leases: Line,
    limit: Limit,
}

/// The number of permits.
#[derive(Clone, Debug)]
enum Limit {
    Fixed(usize),
    /// The path of a shared count.
    Shared(String),
}

impl Semaphore {
    /// Creates a handle for the semaphore at `path` with `permits`, of which there must be at least one. Every
    /// process must use the same number: it is not stored.
    pub fn new(client: &Client, path: &str, permits: usize) -> Result<Self> {
        if permits == 0 {
            return Err(Error::invalid("a semaphore needs at least one permit"));
        }
        Semaphore::with_limit(client, path, Limit::Fixed(permits))
    }

    /// Creates a handle for the semaphore at `path` whose number of permits is the znode at `count_path`: four bytes,
    /// a big-endian integer, as Curator's `SharedCount` writes it. A change takes effect at once for waiters; while
    /// the node is missing or does not hold a positive number there are no permits.
    pub fn with_shared_limit(client: &Client, path: &str, count_path: &str) -> Result<Self> {
        path::check(count_path)?;
        Semaphore::with_limit(client, path, Limit::Shared(count_path.to_owned()))
    }

    fn with_limit(client: &Client, path: &str, limit: Limit) -> Result<Self> {
        path::check(path)?;
        Ok(Semaphore {
            locks: directory(client, &child(path, "locks"), &[LOCK])?,
            leases: directory(client, &child(path, "leases"), &[LEASE])?,
            limit,
        })
    }

    /// Sets when a permit counts as lost, the owner text that other clients read, and the ACL of the nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.locks.holder.set(options);
        self.leases.holder.set(options);
        self
    }

    /// Waits for a permit. Dropping the future gives up.
    pub async fn acquire(&self) -> Result<Permit> {
        // One was requested, so there is one.
        self.acquire_many(1).await?.pop().ok_or(Error::Lost)
    }

    /// Waits for `count` permits at once. It is an error to request none, or more than there can ever be.
    pub async fn acquire_many(&self, count: usize) -> Result<Vec<Permit>> {
        self.check_count(count)?;
        loop {
            let turn = self.locks.wait(LOCK, after_predecessor).await?;
            match self.collect(&turn, count).await {
                Err(error) if must_restart(&self.locks.holder.client, &error) => {}
                collected => return collected,
            }
        }
    }

    /// Takes a permit if one is free and no client waits for it.
    pub async fn try_acquire(&self) -> Result<Option<Permit>> {
        Ok(self.try_acquire_many(1).await?.and_then(|mut permits| permits.pop()))
    }

    /// Takes `count` permits if this many are free and no client waits for them. If two clients try at the same
    /// moment and not both can succeed, neither may.
    pub async fn try_acquire_many(&self, count: usize) -> Result<Option<Vec<Permit>>> {
        self.check_count(count)?;
        loop {
            match self.try_collect(count).await {
                Err(error) if must_restart(&self.locks.holder.client, &error) => {}
                tried => return tried,
            }
        }
    }

    /// Waits for a permit up to `limit`, then fails with [`Error::TimedOut`]. Zero means [`Semaphore::try_acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<Permit> {
        if limit.is_zero() {
            return self.try_acquire().await?.ok_or(Error::TimedOut);
        }
        within(limit, self.acquire()).await
    }

    /// Returns how many permits are taken or being collected.
    pub async fn permits_taken(&self) -> Result<usize> {
        Ok(self.leases.places(&self.leases.holder.client).await?.len())
    }

    fn check_count(&self, count: usize) -> Result<()> {
        match self.limit {
            _ if count == 0 => Err(Error::invalid("at least one permit must be requested")),
            Limit::Fixed(permits) if count > permits => Err(Error::InvalidArgument(format!(
                "{count} permits will never be free: there are {permits}"
            ))),
            _ => Ok(()),
        }
    }

    /// Creates the leases and waits until they count. If they are dropped before, they are deleted.
    async fn collect(&self, turn: &Hold, count: usize) -> Result<Vec<Permit>> {
        let permits = self.join(turn, count).await?;
        let client = retrying(turn.client());
        loop {
            let (limit, limit_changed) = self.limit_and_watch(&client).await?;
            let (children, leases_changed) =
                client.children(&self.leases.directory).watch().await?;
            if self.are_granted(&permits, children.names, limit)? {
                return Ok(permits);
            }
            tokio::select! {
                changed = leases_changed => drop(changed?),
                changed = watched(limit_changed) => changed?,
            }
        }
    }

    async fn try_collect(&self, count: usize) -> Result<Option<Vec<Permit>>> {
        let session = self.leases.holder.client.connected_session().await?;
        let client = retrying(&self.leases.holder.client.bound_to(&session));
        let limit = self.limit_and_watch(&client).await?.0;
        let synced = client.sync(&self.leases.directory).send();
        let taken = self.leases.places(&client).await?.len();
        synced.await?;
        if taken + count > limit {
            return Ok(None);
        }
        let mut permits = Vec::with_capacity(count);
        for _ in 0..count {
            let hold = self.leases.join(&session, LEASE).await?;
            permits.push(Permit { hold });
        }
        let children = client.children(&self.leases.directory).await?;
        if self.are_granted(&permits, children.names, limit)? {
            return Ok(Some(permits));
        }
        for permit in permits {
            permit.release().await?;
        }
        Ok(None)
    }

    async fn join(&self, turn: &Hold, count: usize) -> Result<Vec<Permit>> {
        let mut permits = Vec::with_capacity(count);
        for _ in 0..count {
            let hold = self.leases.join(turn.session(), LEASE).await?;
            permits.push(Permit { hold });
        }
        Ok(permits)
    }

    /// Returns whether these leases are among the first `limit`. Curator grants a lease when there are no more than
    /// that in all, which is never earlier, so the two agree.
    fn are_granted(&self, permits: &[Permit], names: Vec<String>, limit: usize) -> Result<bool> {
        let places = self.leases.in_order(names);
        for permit in permits {
            let rank = places.iter().position(|place| place.name == permit.name());
            if rank.ok_or(Error::Lost)? >= limit {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn limit_and_watch(&self, client: &Client) -> Result<(usize, Option<Watch>)> {
        let path = match &self.limit {
            Limit::Fixed(permits) => return Ok((*permits, None)),
            Limit::Shared(path) => path,
        };
        match client.get(path).watch().await {
            Ok((node, watch)) => Ok((shared_limit(&node.data), Some(watch))),
            Err(error) if error.is_no_node() => {
                // Waits for its creation; it may exist by now.
                let (stat, watch) = client.exists(path).watch().await?;
                let limit = match stat {
                    Some(_) => shared_limit(&client.get(path).await?.data),
                    None => 0,
                };
                Ok((limit, Some(watch)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the number in a shared count; data that is not a number means no permits.
fn shared_limit(data: &[u8]) -> usize {
    let count = data.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes));
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

/// Waits for a watch; for ever if there is none.
async fn watched(watch: Option<Watch>) -> Result<()> {
    match watch {
        Some(watch) => Ok(watch.await.map(drop)?),
        None => std::future::pending().await,
    }
}

/// One of the semaphore's permits; see [`Hold`] for all that it can do. Dropping it releases it in the background.
#[derive(Debug)]
#[must_use = "a permit is released when it is dropped"]
pub struct Permit {
    hold: Hold,
}

guard!(Permit);

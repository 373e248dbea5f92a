//! Locks between processes: fair, naive, with a lease, re-entrant, shared between readers, and several at once.
//!
//! In: a client and the path of a lock. Out: a guard that reports when it can no longer be trusted. The fair lock is
//! a line of ephemeral sequential nodes in which each waiter watches the one before it, so that a release wakes one
//! waiter and not all; see [`NaiveLock`] for the other kind.
//!
//! # Guarantees
//! * As the servers see it, at most one node is first in the line. The holder of the lock has such a node in its own,
//!   living session; a node of an earlier session is never taken for its own.
//! * First come, first served, in the order in which the nodes were created.
//! * A lost reply, a dropped future, a dropped guard or a release during an outage leaves nothing behind: the node is
//!   deleted as soon as a server can be reached, or ends with the session.
//! * [`Hold::token`] only grows from holder to holder, even when the lock's directory is deleted and created again,
//!   which resets sequence numbers.
//! * A waiter whose session expires joins the line again, at its end, in the client's next session. (A client that is
//!   bound to one session gets the error instead.)
//!
//! # What is not guaranteed
//! * **That only one process believes it holds the lock.** The servers expire a session when they have not heard from
//!   its client for the session timeout. The next waiter gets the lock at once, but a client whose process was
//!   paused, or whose network was cut, learns of it later. There is always a delay between the loss of a session and
//!   the moment the client learns of it. [`LostWhen`](crate::LostWhen) sets when a guard counts as lost,
//!   [`Hold::run`] ends work when the guard is lost, and only [`Hold::fenced`] (for znodes) and [`Hold::token`] (for
//!   everything else) prevent stale writes.
//! * Re-entrancy. A task that acquires a [`Lock`] twice waits for itself; see [`ReentrantLock`].
//!
//! # Nodes
//! Curator's `InterProcessMutex` by default: `<path>/_c_<uuid>-lock-<sequence>`, with the path itself
//! and all above it as containers; a Java process can contend for the same lock. With
//! [`Layout::Kazoo`] it is kazoo's `Lock`: `<path>/<uuid>__lock__<sequence>`. With [`Layout::Apache`]
//! it is ZooKeeper's own `WriteLock`: `<path>/x-<session id>-<sequence>`, the path itself persistent. Contenders with
//! different layouts do not see each other, so all contenders of a path must use the same one. Children that do not
//! belong to the recipe are ignored.
//!
//! ## ZooKeeper's `WriteLock`
//! Its names distinguish sessions, but not the contenders of one session. Each contender of this crate still finds
//! its own node after a lost reply: the node is created in one transaction with a receipt in `<path>-receipts`.
//! Java's does not; see `docs/recipes.md` for the consequences for Java programs.
//!
//! # Cost
//! Two round trips to acquire a free lock, one to release it. Waiting costs two more (the watch and the read after
//! it).

mod contender;
mod deadlock;
mod lease;
mod multi;
mod naive;
mod owner;
mod reentrant;
mod reentrant_rw;
mod revocation;
mod rw;
mod watchdog;

use std::time::Duration;

use herdsman_client::Client;

use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::hold_options::{HoldOptions, Holder};
use crate::line::{Layout, Line, WRITE_LOCK, after_predecessor};
use crate::path;

pub use crate::claim::FENCE_SUFFIX;
pub use contender::{Contender, LineNode, MARKERS, contenders};
pub use deadlock::{find_deadlocks, find_locks, queues, read_queues};
pub use lease::{LeaseGuard, LeaseLock};
pub use multi::{MultiGuard, MultiLock};
pub use naive::{NaiveGuard, NaiveLock};
pub use reentrant::{ReentrantGuard, ReentrantLock};
pub use reentrant_rw::{ReentrantRwGuard, ReentrantRwLock};
pub use rw::{ReadGuard, RwLock, WriteGuard};
pub use watchdog::{DeadlockWatchdog, Found, Remedy};

pub(crate) use owner::default_owner;

/// A fair, exclusive lock. Cheap to clone; every [`acquire`](Lock::acquire), including those of the same value or a
/// clone, is a separate contender.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::Lock;
///
/// zk.create("/stock", "10").await?;
/// let lock = Lock::new(&zk, "/locks/stock")?;
///
/// let guard = lock.acquire().await?;
/// let stock = zk.get("/stock").await?;
/// assert_eq!(stock.data, "10");
/// // Fails and changes nothing if the lock was lost meanwhile.
/// guard.fenced().set("/stock", "9").await?;
/// guard.release().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    line: Line,
}

impl Lock {
    /// Creates a handle for the lock at `path`. No node is created before the first [`acquire`](Lock::acquire).
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        let line = directory(client, path, markers(Layout::Curator))?;
        Ok(Lock { line })
    }

    /// Sets the layout of the nodes. All contenders of a path must use the same one.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.line.layout = layout;
        self.line.markers = markers(layout);
        self
    }

    /// Sets when a guard counts as lost, the owner text that other clients read, and the ACL of its nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.line.holder.set(options);
        self
    }

    /// Returns the lock's path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.line.directory
    }

    /// Waits for the lock. Dropping the future leaves the line.
    pub async fn acquire(&self) -> Result<LockGuard> {
        let hold = self.line.wait(self.marker(), after_predecessor).await?;
        Ok(LockGuard { hold })
    }

    /// Takes the lock if it is free; otherwise returns `None` without waiting for other contenders.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        let hold = self.line.try_now(self.marker(), after_predecessor).await?;
        Ok(hold.map(|hold| LockGuard { hold }))
    }

    /// Waits for the lock up to `limit`, then fails with [`Error::TimedOut`]; the created node is then deleted in the
    /// background. Zero means [`Lock::try_acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<LockGuard> {
        if limit.is_zero() {
            return self.try_acquire().await?.ok_or(Error::TimedOut);
        }
        within(limit, self.acquire()).await
    }

    /// Returns all contenders in order: the first one holds the lock, the others wait for it.
    pub async fn contenders(&self) -> Result<Vec<Contender>> {
        contender::read(&self.line, &self.line.holder.client).await
    }

    /// Returns the holder of the lock.
    pub async fn holder(&self) -> Result<Option<Contender>> {
        Ok(self.contenders().await?.into_iter().next())
    }

    /// Asks the holder to release the lock, and returns the contender that was asked. A holder that waits for
    /// [`LockGuard::revocation_requested`], or a Curator process that made its lock revocable, is notified of it; it
    /// is not forced to release the lock. The request replaces the holder's [`owner`](HoldOptions::owner) text.
    pub async fn request_revocation(&self) -> Result<Option<Contender>> {
        let Some(holder) = self.holder().await? else {
            return Ok(None);
        };
        let path = self.line.path(&holder.name);
        let asked = revocation::request(&self.line.holder.client, &path).await?;
        Ok(asked.then_some(holder))
    }

    fn marker(&self) -> &'static str {
        self.line.markers[0]
    }
}

/// Proof, as far as a client can know, that the lock is held; see [`Hold`] for all that it can do. Dropping it
/// releases the lock in the background.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct LockGuard {
    hold: Hold,
}

impl LockGuard {
    /// Resolves when a client has asked for the lock with [`Lock::request_revocation`], or with Curator's `Revoker`.
    /// Whether and when to release it is up to the holder. [`Error::Lost`] if the lock is lost first.
    pub async fn revocation_requested(&self) -> Result<()> {
        revocation::requested(&self.hold).await
    }
}

guard!(LockGuard);

fn markers(layout: Layout) -> &'static [&'static str] {
    match layout {
        Layout::Curator => &["lock-"],
        Layout::Kazoo => &["__lock__"],
        Layout::Apache => &[WRITE_LOCK],
    }
}

/// Returns a line in the directory at `path`; fails if that is not a valid path.
pub(crate) fn directory(
    client: &Client,
    path: &str,
    markers: &'static [&'static str],
) -> Result<Line> {
    path::check(path)?;
    Ok(Line {
        holder: Holder::new(client, default_owner()),
        directory: path.to_owned(),
        layout: Layout::default(),
        markers,
    })
}

/// Stops after this time. Work that is not finished is dropped, which undoes it.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Error::TimedOut))
}

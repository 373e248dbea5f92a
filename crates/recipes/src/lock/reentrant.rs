//! A lock whose owner may take it again.
//!
//! The owner is a handle and its clones, not a thread: tasks move between threads. How often it holds the lock is
//! counted in this process and nowhere else, as in Curator, so the node in the tree is that of a plain [`Lock`].

use std::sync::{Arc, Weak};
use std::time::Duration;

use herdsman_client::Client;
use tokio::sync::Mutex;

use super::{Lock, LockGuard, within};
use crate::error::{Error, Result};
use crate::guard::guard;

/// A fair lock that its owner may acquire again. This handle and all its clones are one owner; a separate handle,
/// from [`ReentrantLock::new`], is another.
///
/// The lock is released when the owner's last guard is dropped. Tasks that share a handle do not exclude each other.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::ReentrantLock;
///
/// let lock = ReentrantLock::new(&zk, "/locks/a")?;
/// let outer = lock.acquire().await?;
/// let inner = lock.clone().acquire().await?;
/// assert_eq!(outer.token(), inner.token());
/// inner.release().await?; // still held
/// outer.release().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantLock {
    lock: Lock,
    /// Locked while one of the clones waits for the lock, so that the other clones wait for that one.
    held: Arc<Mutex<Weak<LockGuard>>>,
}

impl ReentrantLock {
    /// Creates a new owner of the lock at `path`.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(ReentrantLock::from(Lock::new(client, path)?))
    }

    /// Waits for the lock, or takes it once more. [`Error::Lost`] if the owner holds it but can no longer trust that:
    /// its work under the lock must end first.
    pub async fn acquire(&self) -> Result<ReentrantGuard> {
        let mut held = self.held.lock().await;
        if let Some(guard) = held.upgrade() {
            return once_more(guard);
        }
        let guard = Arc::new(self.lock.acquire().await?);
        *held = Arc::downgrade(&guard);
        Ok(ReentrantGuard { guard })
    }

    /// Takes the lock if it is free or held by this owner. While a clone waits for the lock, it is neither.
    pub async fn try_acquire(&self) -> Result<Option<ReentrantGuard>> {
        let Ok(mut held) = self.held.try_lock() else {
            return Ok(None);
        };
        if let Some(guard) = held.upgrade() {
            return once_more(guard).map(Some);
        }
        let Some(guard) = self.lock.try_acquire().await? else {
            return Ok(None);
        };
        let guard = Arc::new(guard);
        *held = Arc::downgrade(&guard);
        Ok(Some(ReentrantGuard { guard }))
    }

    /// Waits for the lock up to `limit`. See [`Lock::acquire_within`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<ReentrantGuard> {
        if limit.is_zero() {
            return self.try_acquire().await?.ok_or(Error::TimedOut);
        }
        within(limit, self.acquire()).await
    }

    /// Returns the lock itself, for example to read its contenders.
    #[must_use]
    pub fn lock(&self) -> &Lock {
        &self.lock
    }
}

/// Creates a new owner of a lock, with the lock's options.
impl From<Lock> for ReentrantLock {
    fn from(lock: Lock) -> Self {
        ReentrantLock { lock, held: Arc::default() }
    }
}

fn once_more(guard: Arc<LockGuard>) -> Result<ReentrantGuard> {
    if guard.is_trusted() { Ok(ReentrantGuard { guard }) } else { Err(Error::Lost) }
}

/// One of the owner's guards; the last one releases the lock.
#[derive(Debug)]
#[must_use = "the lock is released when its last guard is dropped"]
pub struct ReentrantGuard {
    guard: Arc<LockGuard>,
}

impl ReentrantGuard {
    /// Returns how many guards the owner has, including this one.
    #[must_use]
    pub fn depth(&self) -> usize {
        Arc::strong_count(&self.guard)
    }

    /// Releases this guard. The last one releases the lock and waits until the server has confirmed that.
    pub async fn release(self) -> Result<()> {
        match Arc::into_inner(self.guard) {
            Some(last) => last.release().await,
            None => Ok(()),
        }
    }
}

guard!(ReentrantGuard, guard, release);

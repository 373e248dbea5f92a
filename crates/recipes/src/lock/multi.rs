//! Several locks at once, all or none.
//!
//! They are acquired in the order of their paths, whatever the order of the arguments, so clients that take several
//! locks only in this way cannot deadlock with each other. Curator's `InterProcessMultiLock` takes them in the given
//! order and leaves deadlocks to its user.

use std::task::Poll;
use std::time::Duration;

use super::{Lock, LockGuard, within};
use crate::error::{Error, Result};
use crate::guard::run_until;

/// Several locks that are taken together.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::{Lock, MultiLock};
///
/// let accounts = MultiLock::new([Lock::new(&zk, "/locks/bob")?, Lock::new(&zk, "/locks/alice")?])?;
/// let both = accounts.acquire().await?;
/// assert_eq!(both.guards().len(), 2);
/// both.release().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock {
    /// In the order of their paths.
    locks: Vec<Lock>,
}

impl MultiLock {
    /// Creates a set of these locks. It is an error if there are none, or if one of them is given twice: it would
    /// wait for itself.
    pub fn new(locks: impl IntoIterator<Item = Lock>) -> Result<Self> {
        let mut locks: Vec<Lock> = locks.into_iter().collect();
        locks.sort_by_cached_key(full_path);
        if locks.is_empty() {
            return Err(Error::invalid("there must be at least one lock"));
        }
        if let Some(twice) = locks.windows(2).find(|two| full_path(&two[0]) == full_path(&two[1])) {
            return Err(Error::InvalidArgument(format!("{} is given twice", twice[0].path())));
        }
        Ok(MultiLock { locks })
    }

    /// Waits for all of them. If one fails, or the future is dropped, the others are released.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        let mut guards = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            guards.push(lock.acquire().await?);
        }
        Ok(MultiGuard { guards })
    }

    /// Takes all of them if all are free, and none otherwise.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut guards = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            let Some(guard) = lock.try_acquire().await? else {
                MultiGuard { guards }.release().await?;
                return Ok(None);
            };
            guards.push(guard);
        }
        Ok(Some(MultiGuard { guards }))
    }

    /// Waits for all of them up to `limit`, then fails with [`Error::TimedOut`]. Zero means
    /// [`MultiLock::try_acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<MultiGuard> {
        if limit.is_zero() {
            return self.try_acquire().await?.ok_or(Error::TimedOut);
        }
        within(limit, self.acquire()).await
    }
}

/// Returns the path without chroots: two clients may have the same node under different paths.
fn full_path(lock: &Lock) -> String {
    format!("{}{}", lock.line.holder.client.chroot(), lock.path())
}

/// Proof, as far as a client can know, that all the locks are held. Dropping it releases them in the background.
#[derive(Debug)]
#[must_use = "the locks are released when their guard is dropped"]
pub struct MultiGuard {
    guards: Vec<LockGuard>,
}

impl MultiGuard {
    /// Returns the guards of the single locks, in the order of their paths.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Returns whether, as far as this process can know, all of them are held.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.guards.iter().all(|guard| guard.is_trusted())
    }

    /// Resolves when one of them can no longer be trusted. Cancel-safe.
    pub async fn lost(&self) {
        let mut losses: Vec<_> = self.guards.iter().map(|guard| Box::pin(guard.lost())).collect();
        std::future::poll_fn(|context| {
            let is_lost = losses.iter_mut().any(|lost| lost.as_mut().poll(context).is_ready());
            if is_lost { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Runs `work` while all are held; [`Error::Lost`] if one was lost before the work was done.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        run_until(self.lost(), work).await
    }

    /// Releases them, the last one first, and waits until the server has confirmed that. Returns the first error, but
    /// releases all of them.
    pub async fn release(self) -> Result<()> {
        let mut released = Ok(());
        for guard in self.guards.into_iter().rev() {
            released = released.and(guard.release().await);
        }
        released
    }
}

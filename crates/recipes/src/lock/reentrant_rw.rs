//! A read-write lock whose owner may take it again.
//!
//! The owner is a handle and its clones, as in [`ReentrantLock`](super::ReentrantLock), and how often it holds the
//! lock is counted in this process only: the nodes are those of a plain [`RwLock`].
//!
//! | the owner has | `read()` | `write()` |
//! |---|---|---|
//! | nothing | waits for its turn | waits for its turn |
//! | read guards | granted again | refused: two readers that both want to write would wait for ever |
//! | write guards | granted again, and still exclusive | granted again |

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use herdsman_client::Client;
use tokio::sync::Mutex;

use super::{ReadGuard, RwLock, WriteGuard, within};
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;

/// A read-write lock that its owner may take again. This handle and all its clones are one owner; a separate handle,
/// from [`ReentrantRwLock::new`], is another.
///
/// A read guard taken while writing keeps the lock exclusive until it is dropped too. Tasks that share a handle do
/// not exclude each other.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::ReentrantRwLock;
///
/// let lock = ReentrantRwLock::new(&zk, "/locks/catalogue")?;
/// let writer = lock.write().await?;
/// let reader = lock.read().await?; // a function that only reads may be called while writing
/// assert_eq!(reader.depth(), 2);
/// reader.release().await?;
/// writer.release().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantRwLock {
    lock: RwLock,
    /// Locked while one of the clones waits for the lock, so that the other clones wait for that one.
    held: Arc<Mutex<Held>>,
}

/// What the owner holds, as long as one of its guards exists.
#[derive(Debug, Default)]
enum Held {
    #[default]
    Nothing,
    Read(Weak<ReadGuard>),
    Write(Weak<WriteGuard>),
}

impl Held {
    fn guard(&self) -> Option<Shared> {
        match self {
            Held::Nothing => None,
            Held::Read(guard) => guard.upgrade().map(Shared::Read),
            Held::Write(guard) => guard.upgrade().map(Shared::Write),
        }
    }
}

impl ReentrantRwLock {
    /// Creates a new owner of the lock at `path`.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(ReentrantRwLock::from(RwLock::new(client, path)?))
    }

    /// Waits until it may read, or takes what the owner holds once more. [`Error::Lost`] if that can no longer be
    /// trusted.
    pub async fn read(&self) -> Result<ReentrantRwGuard> {
        let mut held = self.held.lock().await;
        if let Some(guard) = held.guard() {
            return once_more(guard);
        }
        let guard = Arc::new(self.lock.read().await?);
        *held = Held::Read(Arc::downgrade(&guard));
        Ok(ReentrantRwGuard { guard: Shared::Read(guard) })
    }

    /// Like [`ReentrantRwLock::read`], but fails with [`Error::TimedOut`] when `limit` has passed.
    pub async fn read_within(&self, limit: Duration) -> Result<ReentrantRwGuard> {
        within(limit, self.read()).await
    }

    /// Waits until it may write, or writes once more.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the owner reads: release its read guards first, and read the protected data
    /// again.
    pub async fn write(&self) -> Result<ReentrantRwGuard> {
        let mut held = self.held.lock().await;
        match held.guard() {
            Some(Shared::Read(_)) => {
                return Err(Error::invalid("a reader cannot write: release the read guards first"));
            }
            Some(guard) => return once_more(guard),
            None => {}
        }
        let guard = Arc::new(self.lock.write().await?);
        *held = Held::Write(Arc::downgrade(&guard));
        Ok(ReentrantRwGuard { guard: Shared::Write(guard) })
    }

    /// Like [`ReentrantRwLock::write`], but fails with [`Error::TimedOut`] when `limit` has passed.
    pub async fn write_within(&self, limit: Duration) -> Result<ReentrantRwGuard> {
        within(limit, self.write()).await
    }

    /// Returns the lock itself, for example to read its contenders.
    #[must_use]
    pub fn lock(&self) -> &RwLock {
        &self.lock
    }
}

/// Creates a new owner of a lock, with the lock's options.
impl From<RwLock> for ReentrantRwLock {
    fn from(lock: RwLock) -> Self {
        ReentrantRwLock { lock, held: Arc::default() }
    }
}

fn once_more(guard: Shared) -> Result<ReentrantRwGuard> {
    if guard.is_trusted() { Ok(ReentrantRwGuard { guard }) } else { Err(Error::Lost) }
}

#[derive(Debug)]
enum Shared {
    Read(Arc<ReadGuard>),
    Write(Arc<WriteGuard>),
}

impl Deref for Shared {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        match self {
            Shared::Read(guard) => guard,
            Shared::Write(guard) => guard,
        }
    }
}

/// One of the owner's guards; the last one releases the lock.
#[derive(Debug)]
#[must_use = "the lock is released when its last guard is dropped"]
pub struct ReentrantRwGuard {
    guard: Shared,
}

impl ReentrantRwGuard {
    /// Returns how many guards the owner has, including this one.
    #[must_use]
    pub fn depth(&self) -> usize {
        match &self.guard {
            Shared::Read(guard) => Arc::strong_count(guard),
            Shared::Write(guard) => Arc::strong_count(guard),
        }
    }

    /// Releases this guard. The last one releases the lock and waits until the server has confirmed that.
    pub async fn release(self) -> Result<()> {
        match self.guard {
            Shared::Read(guard) => match Arc::into_inner(guard) {
                Some(last) => last.release().await,
                None => Ok(()),
            },
            Shared::Write(guard) => match Arc::into_inner(guard) {
                Some(last) => last.release().await,
                None => Ok(()),
            },
        }
    }
}

guard!(ReentrantRwGuard, guard, release);

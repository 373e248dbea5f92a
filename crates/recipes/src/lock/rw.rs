//! A lock that readers share.
//!
//! Readers and writers wait in one line. A reader waits for the last writer before it, a writer for the node right
//! before it, so each release wakes only those whose turn it is, and neither side can starve the other.
//!
//! # Downgrade, upgrade, re-entrancy
//! * [`WriteGuard::downgrade`] changes from writing to reading without letting another writer in.
//! * There is no upgrade from reading to writing: two readers that both want it would wait for each other for ever.
//!   Release the read guard, take the write guard, and read the protected data again.
//! * Neither side is re-entrant; [`ReentrantRwLock`](super::ReentrantRwLock) is. A client that holds a guard and
//!   requests another through the same lock waits like any other contender: for ever, if one of the two is for
//!   writing. A second *read* guard is granted unless a writer has joined in between, in which case both wait for
//!   each other: do not do it.
//!
//! # Nodes
//! Curator's `InterProcessReadWriteLock`: `<path>/_c_<uuid>-__READ__<sequence>` and `…__WRIT__…`. With
//! [`Layout::Kazoo`] they are kazoo's `ReadLock` and `WriteLock` (`__rlock__`, `__lock__`). A plain
//! [`Lock`](super::Lock) must not share the path: it does not see the readers.
//!
//! ZooKeeper has no such recipe, but its `WriteLock` waits for every child with a number after a hyphen. With
//! [`Layout::Apache`] a writer has the nodes of a `WriteLock`, `x-<session id>-<sequence>`, and a reader has
//! `read-<session id>-<sequence>`: a Java program's `WriteLock` is one more writer.

use std::time::Duration;

use herdsman_client::Client;
use uuid::Uuid;

use super::contender::{self, Contender};
use super::{directory, revocation, within};
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::hold_options::HoldOptions;
use crate::line::{Layout, Line, Place, READ_LOCK, Turn, WRITE_LOCK, after_predecessor};
use crate::retrying::retrying;

/// A fair lock that any number of readers share, or one writer holds exclusively.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::RwLock;
///
/// let lock = RwLock::new(&zk, "/locks/catalogue")?;
/// let (one, another) = (lock.read().await?, lock.read().await?);
/// assert!(lock.try_write().await?.is_none());
/// one.release().await?;
/// another.release().await?;
///
/// let writer = lock.write().await?;
/// let reader = writer.downgrade().await?;
/// assert!(lock.try_read().await?.is_some());
/// # drop(reader);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    line: Line,
}

/// The markers of a layout: first that of readers, then that of writers.
fn markers(layout: Layout) -> &'static [&'static str] {
    match layout {
        Layout::Curator => &["__READ__", "__WRIT__"],
        Layout::Kazoo => &["__rlock__", "__lock__"],
        Layout::Apache => &[READ_LOCK, WRITE_LOCK],
    }
}

/// The rule of readers.
fn after_last_writer(places: &[Place], ours: usize) -> Turn {
    let is_writer = |place: &&Place| contender::kind(place) == crate::wait_for::LockKind::Write;
    match places[..ours].iter().rfind(is_writer) {
        Some(writer) => Turn::After(writer.name.clone()),
        None => Turn::Ours,
    }
}

impl RwLock {
    /// Creates a handle for the lock at `path`. No node is created before the first acquisition.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        let line = directory(client, path, markers(Layout::Curator))?;
        Ok(RwLock { line })
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

    /// Waits until there is no writer before this reader. Dropping the future leaves the line.
    pub async fn read(&self) -> Result<ReadGuard> {
        let hold = self.line.wait(self.read_marker(), after_last_writer).await?;
        Ok(ReadGuard { hold })
    }

    /// Takes the lock for reading if there is no writer that holds it or waits for it.
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        let hold = self.line.try_now(self.read_marker(), after_last_writer).await?;
        Ok(hold.map(|hold| ReadGuard { hold }))
    }

    /// Like [`RwLock::read`], but fails with [`Error::TimedOut`] when `limit` has passed. Zero means
    /// [`RwLock::try_read`].
    pub async fn read_within(&self, limit: Duration) -> Result<ReadGuard> {
        if limit.is_zero() {
            return self.try_read().await?.ok_or(Error::TimedOut);
        }
        within(limit, self.read()).await
    }

    /// Waits until there is no contender before this writer. Dropping the future leaves the line.
    pub async fn write(&self) -> Result<WriteGuard> {
        let hold = self.line.wait(self.write_marker(), after_predecessor).await?;
        Ok(self.write_guard(hold))
    }

    /// Takes the lock for writing if there is no contender that holds it or waits for it.
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        let hold = self.line.try_now(self.write_marker(), after_predecessor).await?;
        Ok(hold.map(|hold| self.write_guard(hold)))
    }

    /// Like [`RwLock::write`], but fails with [`Error::TimedOut`] when `limit` has passed. Zero means
    /// [`RwLock::try_write`].
    pub async fn write_within(&self, limit: Duration) -> Result<WriteGuard> {
        if limit.is_zero() {
            return self.try_write().await?.ok_or(Error::TimedOut);
        }
        within(limit, self.write()).await
    }

    /// Returns all contenders that hold the lock or wait for it, in order.
    pub async fn contenders(&self) -> Result<Vec<Contender>> {
        contender::read(&self.line, &self.line.holder.client).await
    }

    fn write_guard(&self, hold: Hold) -> WriteGuard {
        WriteGuard { hold, line: self.line.clone() }
    }

    fn read_marker(&self) -> &'static str {
        self.line.markers[0]
    }

    fn write_marker(&self) -> &'static str {
        self.line.markers[1]
    }
}

/// Proof, as far as a client can know, that the lock is held for reading, possibly together with other readers.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct ReadGuard {
    hold: Hold,
}

impl ReadGuard {
    /// Resolves when a client has asked for the lock. See
    /// [`LockGuard::revocation_requested`](super::LockGuard::revocation_requested).
    pub async fn revocation_requested(&self) -> Result<()> {
        revocation::requested(&self.hold).await
    }
}

/// Proof, as far as a client can know, that the lock is held exclusively.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct WriteGuard {
    hold: Hold,
    line: Line,
}

impl WriteGuard {
    /// Becomes a reader, without letting another writer in between. Readers that wait right behind are let in. If it
    /// fails, or the future is dropped half-way, the lock is released.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let WriteGuard { hold, line } = self;
        let (marker, rest) = (line.markers[0], after_marker(&hold, line.markers[1]));
        // The reader's place in the line has the writer's number, so the node has a plain name: for a sequential node
        // the server would choose the end of the line.
        let client = retrying(hold.client());
        let owner = line.holder.owner.clone();
        let create = |name: &str| client.create(&line.path(name), owner).ephemeral();
        let create = match line.layout {
            Layout::Curator => create(&format!("{marker}{rest}")).protected(),
            Layout::Kazoo => {
                create(&format!("{marker}{rest}")).protected_by(Uuid::new_v4().simple().to_string())
            }
            // Session and number make the name unique, as long as the directory exists.
            Layout::Apache => create(rest).protected_by(marker.to_owned()),
        };
        let created = match create.await {
            // A creation with endless retries fails because of the connection only when the session has ended.
            Err(error) if error.is_retriable() => return Err(Error::Lost),
            created => created?,
        };
        let (client, session) = (hold.client().clone(), hold.session().clone());
        let lost_when = line.holder.lost_when;
        let reader = match line.layout {
            Layout::Apache => Hold::at_reused_path(client, session, &created, lost_when),
            _ => Hold::new(client, session, created, lost_when),
        };
        let read = ReadGuard { hold: reader };
        hold.release().await?;
        Ok(read)
    }

    /// Resolves when a client has asked for the lock. See
    /// [`LockGuard::revocation_requested`](super::LockGuard::revocation_requested).
    pub async fn revocation_requested(&self) -> Result<()> {
        revocation::requested(&self.hold).await
    }
}

/// Returns what follows the marker in a node's name: the sequence number as the server has written it, with the
/// session id before it in [`Layout::Apache`].
fn after_marker<'h>(hold: &'h Hold, marker: &str) -> &'h str {
    hold.name().rsplit_once(marker).map_or("", |(_, rest)| rest)
}

guard!(ReadGuard);

guard!(WriteGuard);

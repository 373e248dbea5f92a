//! A lock that is held for a limited time.
//!
//! Other locks are held as long as their holder's session lives, so a holder that hangs, but whose client still
//! answers the servers, holds its lock for ever. Here the holder gives a maximum time, the lease. When it has passed
//! without a renewal, any waiter may take the lock over, and the former holder's fenced writes are then rejected.
//!
//! # Nodes
//! The path itself, ephemeral, with JSON: `{"lease_ms":30000,"owner":"host-1"}`; beside it `<path>-fence`, which
//! distinguishes one holder from the next. The nodes above them are containers. A renewal writes the same data again.
//!
//! # Time
//! No two clocks are compared. The holder counts from the moment at which it *sent* the request that made it the
//! holder, or its last renewal. A waiter counts from the moment at which it first *saw* that holder, or its last
//! renewal. So the holder stops before a waiter takes over, if both clocks run at the same speed and the holder's
//! process runs. For all other cases there are [`Hold::fenced`] and [`Hold::token`]. A new waiter waits for a whole
//! lease, even if most of it has passed.

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Optional, Session, Watch, Zxid};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::{default_owner, within};
use crate::claim::{Claim, Replaced, fence_of};
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::hold_options::{HoldOptions, Holder};
use crate::path;
use crate::retrying::{reply_lost, retrying};

/// A lock that waiters may take over when its holder has had it for longer than its lease. It is not fair: any of the
/// waiters may get it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use std::time::Duration;
/// use herdsman_recipes::LeaseLock;
///
/// zk.create("/report", "").await?;
/// let lock = LeaseLock::new(&zk, "/jobs/report", Duration::from_secs(30))?;
/// let guard = lock.acquire().await?;
/// guard.fenced().set("/report", "half").await?; // fails if the lock was taken over
/// guard.renew().await?;                         // another 30 seconds
/// guard.fenced().set("/report", "all").await?;
/// guard.release().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct LeaseLock {
    holder: Holder,
    path: String,
    lease: Duration,
}

/// Longest lease, a hundred years: a time after now that every system can represent.
const LEASE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The data of the node.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    lease_ms: u64,
    owner: String,
}

/// A holder, as a waiter has seen it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The last renewal, or the creation.
    mzxid: Zxid,
    /// When its lease expires, by this waiter's clock.
    due: Instant,
}

impl LeaseLock {
    /// Creates a handle for the lock that is the node at `path`, held for at most `lease` at a time. A lease of more
    /// than a hundred years counts as a hundred years.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `lease` is less than a millisecond, or `path` is not a path below the root.
    pub fn new(client: &Client, path: &str, lease: Duration) -> Result<Self> {
        path::check_below_root("a lock", path)?;
        if lease.as_millis() == 0 {
            return Err(Error::invalid("a lease must last at least a millisecond"));
        }
        let holder = Holder::new(client, default_owner());
        Ok(LeaseLock { holder, path: path.to_owned(), lease: lease.min(LEASE_MAX) })
    }

    /// Sets when a guard counts as lost before its lease has expired, the owner text that other clients read, and the
    /// ACL of its nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.holder.set(options);
        self
    }

    /// Waits for the lock: until it is released, its holder's session has ended, or its holder's lease has expired.
    /// Dropping the future gives up.
    pub async fn acquire(&self) -> Result<LeaseGuard> {
        let seen = Mutex::new(None);
        self.holder.in_session(|session| self.acquire_in(session, &seen)).await
    }

    /// Takes the lock if it is not held. A holder whose lease has expired still holds it: only waiters can know of
    /// the expiry.
    pub async fn try_acquire(&self) -> Result<Option<LeaseGuard>> {
        self.holder.in_session(|session| self.claim(session, None)).await
    }

    /// Waits for the lock up to `limit`, then fails with [`Error::TimedOut`]. Zero means [`LeaseLock::try_acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<LeaseGuard> {
        if limit.is_zero() {
            return self.try_acquire().await?.ok_or(Error::TimedOut);
        }
        within(limit, self.acquire()).await
    }

    async fn acquire_in(&self, session: Session, seen: &Mutex<Option<Seen>>) -> Result<LeaseGuard> {
        let client = retrying(&self.holder.client.bound_to(&session));
        let mut replaced = None;
        loop {
            if let Some(guard) = self.claim(session.clone(), replaced.take()).await? {
                return Ok(guard);
            }
            let Some((holder, due, watch)) = self.read_holder(&client, seen).await? else {
                continue;
            };
            tokio::select! {
                event = watch => drop(event?),
                () = sleep_until(due) => replaced = Some(holder),
            }
        }
    }

    /// Returns the holder, and when its lease expires; `None` if the lock is not held, or its fence is missing: a
    /// claim creates that again.
    async fn read_holder(
        &self,
        client: &Client,
        seen: &Mutex<Option<Seen>>,
    ) -> Result<Option<(Replaced, Instant, Watch)>> {
        // Before the node: if the holder changes in between, the fence has another version than this one, and the
        // claim that replaces the holder is rejected.
        let Some(fence) = client.exists(&fence_of(&self.path)).await? else {
            return Ok(None);
        };
        let Some((node, watch)) = client.get(&self.path).watch().await.optional()? else {
            return Ok(None);
        };
        let record: Record = serde_json::from_slice(&node.data).map_err(|error| Error::Codec {
            path: self.path.clone(),
            reason: format!("not the holder of a lease lock: {error}"),
        })?;
        let mut seen = seen.lock();
        let due = match &*seen {
            Some(seen) if seen.mzxid == node.stat.mzxid => seen.due,
            _ => Instant::now() + Duration::from_millis(record.lease_ms).min(LEASE_MAX),
        };
        *seen = Some(Seen { mzxid: node.stat.mzxid, due });
        let holder = Replaced { fence_version: fence.version, node_version: node.stat.version };
        Ok(Some((holder, due, watch)))
    }

    async fn claim(
        &self,
        session: Session,
        replaced: Option<Replaced>,
    ) -> Result<Option<LeaseGuard>> {
        let data = self.data();
        let claim = Claim::new(&self.holder, session, &self.path, data.clone());
        let claim = match replaced {
            Some(replaced) => claim.replacing(replaced),
            None => claim,
        };
        let sent = Instant::now();
        let hold = claim.make().await?;
        let guard = |hold: Hold| {
            let hold = hold.expiring(sent + self.lease);
            LeaseGuard { hold, data, lease: self.lease }
        };
        Ok(hold.map(guard))
    }

    fn data(&self) -> Bytes {
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let owner = String::from_utf8_lossy(&self.holder.owner).into_owned();
        let record = Record { lease_ms, owner };
        // A struct of text and numbers can always be encoded as JSON.
        serde_json::to_vec(&record).unwrap_or_default().into()
    }
}

/// Proof, as far as a client can know, that the lock is held for a limited time. Dropping it releases the lock in the
/// background.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct LeaseGuard {
    hold: Hold,
    data: Bytes,
    lease: Duration,
}

impl LeaseGuard {
    /// Returns the moment from which on waiters may take the lock over.
    #[must_use]
    pub fn expires_at(&self) -> Instant {
        self.hold.expires_at().expect("a lease expires")
    }

    /// Holds the lock for another lease, counted from now. Also succeeds when the lease has expired and the lock was
    /// not taken over.
    ///
    /// # Errors
    /// [`Error::Lost`] if it is not held any more.
    pub async fn renew(&self) -> Result<()> {
        loop {
            let sent = Instant::now();
            match self.hold.fenced().set(self.hold.path(), self.data.clone()).await {
                Ok(_) => {
                    self.hold.extend(sent + self.lease);
                    return Ok(());
                }
                Err(error) => match error.kind() {
                    ErrorKind::Deposed | ErrorKind::SessionExpired | ErrorKind::NoNode => {
                        return Err(Error::Lost);
                    }
                    // Renewing twice does no harm.
                    _ if reply_lost(&error) => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }
}

guard!(LeaseGuard);

//! Snowflake ids with leased worker ids.
//!
//! In: the clock, and a worker id [leased from the tree](crate::worker_id). Out: 64-bit ids, nearly all of them
//! without a round trip; the arithmetic is in [`crate::snowflake`].
//!
//! A generator uses only timestamps that it has reserved in the tree, three seconds ahead of its clock, and keeps
//! reserving in the background while it is used. So it stops by itself three seconds after the servers can no longer
//! be reached, and the next owner of the worker id begins after the last timestamp that this one can have used: a
//! clock that went back, a process that was paused and a session that ended unnoticed all lead to a pause or an
//! error, never to a repeated id. When the lease is lost, the next call takes another one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::IdGenerator;
use crate::error::{Error, Result};
use crate::snowflake::{Snowflake, SnowflakeError, WORKER_ID_MAX};
use crate::worker_id::{WorkerIds, WorkerLease, unix_ms};

/// How far ahead of the clock time is reserved.
const RESERVE_MS: u64 = 3_000;
/// With this much left, more time is reserved in the background.
const RESERVE_AGAIN_MS: u64 = RESERVE_MS / 2;
/// A worker id whose reserved time is further ahead was used with a wrong clock, or this clock is wrong.
const AHEAD_MS_MAX: u64 = 3 * RESERVE_MS;

/// Snowflake ids: 64 bits that grow with time, from any number of processes.
///
/// Clones share their worker id.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::WorkerIds;
/// use herdsman_recipes::ids::{IdGenerator, SnowflakeIds};
///
/// let workers = WorkerIds::new(&zk, "/ids/snowflake", 0..=1023)?;
/// let ids = SnowflakeIds::new(workers, 1_735_689_600_000)?; // since 2025
/// let (first, second) = (ids.next().await?, ids.next().await?);
/// assert!(first < second);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SnowflakeIds {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    workers: WorkerIds,
    epoch_ms: u64,
    issuer: Mutex<Option<Issuer>>,
    /// Locked while a lease is taken: one at a time.
    leasing: tokio::sync::Mutex<()>,
    /// Locked while time is reserved in the background: one at a time.
    reserving: Arc<tokio::sync::Mutex<()>>,
}

/// A worker id in use.
#[derive(Debug)]
struct Issuer {
    lease: Arc<WorkerLease>,
    ids: Snowflake,
}

/// Why no id can be issued at once.
enum NotYet {
    /// There is no lease that can be trusted.
    NoLease,
    /// The current time is not reserved.
    NotReserved(Arc<WorkerLease>),
    Refused(SnowflakeError),
}

impl SnowflakeIds {
    /// Creates a generator of ids with worker ids of `workers`, counting time from `epoch_ms` (milliseconds since
    /// 1970), without any request. All generators that share the ids must use the same path and epoch.
    ///
    /// # Errors
    /// If the range has worker ids above [`WORKER_ID_MAX`].
    pub fn new(workers: WorkerIds, epoch_ms: u64) -> Result<Self> {
        let last = *workers.range().end();
        if last > WORKER_ID_MAX {
            return Err(Error::invalid(format!(
                "worker ids up to {last}; those of snowflakes end at {WORKER_ID_MAX}"
            )));
        }
        let shared = Shared {
            workers,
            epoch_ms,
            issuer: Mutex::default(),
            leasing: tokio::sync::Mutex::default(),
            reserving: Arc::default(),
        };
        Ok(SnowflakeIds { shared: Arc::new(shared) })
    }

    /// Returns the worker id in use, if there is one that can be trusted at present.
    #[must_use]
    pub fn worker_id(&self) -> Option<u16> {
        let issuer = self.shared.issuer.lock();
        issuer.as_ref().filter(|issuer| issuer.lease.is_trusted()).map(|issuer| issuer.lease.id())
    }

    /// Reserves more time while the reserved time lasts.
    fn reserve_ahead(&self, lease: Arc<WorkerLease>, now_ms: u64) {
        if lease.reserved_until_ms() > now_ms + RESERVE_AGAIN_MS {
            return;
        }
        let Ok(turn) = self.shared.reserving.clone().try_lock_owned() else {
            return;
        };
        tokio::spawn(async move {
            // A caller that finds no reserved time tries again and gets the error.
            if let Err(error) = lease.reserve_until(now_ms + RESERVE_MS).await {
                tracing::debug!(%error, worker = lease.id(), "time was not reserved ahead");
            }
            drop(turn);
        });
    }
}

impl IdGenerator for SnowflakeIds {
    type Id = u64;

    async fn next(&self) -> Result<u64> {
        loop {
            let now_ms = unix_ms();
            match self.shared.issue(now_ms) {
                Ok((id, lease)) => {
                    self.reserve_ahead(lease, now_ms);
                    return Ok(id);
                }
                Err(NotYet::NoLease) => self.shared.take_lease().await?,
                Err(NotYet::NotReserved(lease)) => {
                    match lease.reserve_until(now_ms + RESERVE_MS).await {
                        Err(Error::Lost) => self.shared.forget(&lease),
                        reserved => reserved?,
                    }
                }
                Err(NotYet::Refused(error)) => match error.retry_after() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(error.into()),
                },
            }
        }
    }
}

impl Shared {
    /// Returns an id for this moment, without a round trip.
    fn issue(&self, now_ms: u64) -> std::result::Result<(u64, Arc<WorkerLease>), NotYet> {
        let mut issuer = self.issuer.lock();
        let Some(Issuer { lease, ids }) = issuer.as_mut().filter(|it| it.lease.is_trusted()) else {
            return Err(NotYet::NoLease);
        };
        if lease.reserved_until_ms() < now_ms {
            return Err(NotYet::NotReserved(lease.clone()));
        }
        let id = ids.next(now_ms).map_err(NotYet::Refused)?;
        lease.note_used_until(now_ms);
        Ok((id, lease.clone()))
    }

    /// Takes another worker id, unless another caller just did.
    async fn take_lease(&self) -> Result<()> {
        let _turn = self.leasing.lock().await;
        if self.issuer.lock().as_ref().is_some_and(|issuer| issuer.lease.is_trusted()) {
            return Ok(());
        }
        // Released before another one is taken, if it is still held.
        drop(self.issuer.lock().take());
        let lease = self.workers.lease().await?;
        wait_until_after(lease.used_before_ms()).await?;
        let ids = Snowflake::new(lease.id(), self.epoch_ms)?.resume_after(lease.used_before_ms());
        *self.issuer.lock() = Some(Issuer { lease: Arc::new(lease), ids });
        Ok(())
    }

    fn forget(&self, lost: &Arc<WorkerLease>) {
        let mut issuer = self.issuer.lock();
        if issuer.as_ref().is_some_and(|issuer| Arc::ptr_eq(&issuer.lease, lost)) {
            *issuer = None;
        }
    }
}

/// Waits until the time that the previous owner may have used has passed; fails if that would take long.
async fn wait_until_after(used_ms: u64) -> Result<()> {
    loop {
        match used_ms.checked_sub(unix_ms()) {
            None => return Ok(()),
            Some(by_ms) if by_ms > AHEAD_MS_MAX => {
                return Err(SnowflakeError::ClockWentBack { by_ms }.into());
            }
            Some(by_ms) => tokio::time::sleep(Duration::from_millis(by_ms + 1)).await,
        }
    }
}

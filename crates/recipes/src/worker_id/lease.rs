//! One leased worker id: its reserved time, and its release.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use herdsman_client::ErrorKind;
use parking_lot::Mutex;

use super::parse_time;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::owned_node::{Incarnation, LastData};
use crate::retrying::reply_lost;

/// A leased worker id; see [`Hold`] for all that it can do. Dropping it releases the id in the background.
///
/// The result of [`fenced`](Hold::fenced) is valid until the next [`reserve_until`](WorkerLease::reserve_until): each
/// reservation changes the node by whose version the owners of an id are distinguished.
#[derive(Debug)]
#[must_use = "the worker id is released when this is dropped"]
pub struct WorkerLease {
    id: u16,
    hold: Hold,
    time: LeasedTime,
    /// Locked while the time is changed: one change at a time.
    changing: tokio::sync::Mutex<()>,
}

/// The node with the time of a leased id.
#[derive(Clone, Debug)]
pub(super) struct LeasedTime {
    path: String,
    used_before_ms: u64,
    now: Arc<Mutex<Time>>,
    /// The version of the node, by which owners are distinguished.
    version: Arc<AtomicI32>,
}

/// The known state of the id's time.
#[derive(Clone, Copy, Debug)]
struct Time {
    reserved_until_ms: u64,
    /// The last timestamp that was used, if the owner has reported it.
    used_until_ms: Option<u64>,
}

impl LeasedTime {
    /// Creates it for a node that has this version since the lease was made.
    pub(super) fn new(path: String, used_before_ms: u64, version: i32) -> Self {
        let now = Time { reserved_until_ms: used_before_ms, used_until_ms: None };
        let (now, version) = (Arc::new(Mutex::new(now)), Arc::new(version.into()));
        LeasedTime { path, used_before_ms, now, version }
    }

    /// Returns what distinguishes this owner from others. The end of the time that was used is written when the id is
    /// released.
    pub(super) fn incarnation(&self) -> Incarnation {
        let now = self.now.clone();
        let last_data = LastData::new(move |_| {
            let now = *now.lock();
            now.used_until_ms.unwrap_or(now.reserved_until_ms).to_string().into()
        });
        Incarnation {
            guard: self.path.clone(),
            version: self.version.clone(),
            marker: None,
            last_data: Some(last_data),
            may_be_bypassed: false,
        }
    }

    fn note(&self, reserved_until_ms: u64, version: i32) {
        self.now.lock().reserved_until_ms = reserved_until_ms;
        self.version.store(version, Ordering::Relaxed);
    }
}

impl WorkerLease {
    pub(super) fn new(id: u16, hold: Hold, time: LeasedTime) -> Self {
        WorkerLease { id, hold, time, changing: tokio::sync::Mutex::default() }
    }

    /// Returns the number.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Returns the time, in ms since 1970, up to which timestamps belong to earlier owners.
    #[must_use]
    pub fn used_before_ms(&self) -> u64 {
        self.time.used_before_ms
    }

    /// Returns the time up to which timestamps are reserved for this lease, if they come after
    /// [`used_before_ms`](Self::used_before_ms).
    #[must_use]
    pub fn reserved_until_ms(&self) -> u64 {
        self.time.now.lock().reserved_until_ms
    }

    /// Reserves all timestamps up to `unix_ms` for this lease: no later owner of the number will use them.
    ///
    /// # Errors
    /// [`Error::Lost`] if the number is no longer held; nothing is reserved then.
    pub async fn reserve_until(&self, unix_ms: u64) -> Result<()> {
        let _turn = self.changing.lock().await;
        let client = self.hold.client();
        loop {
            if self.reserved_until_ms() >= unix_ms {
                return Ok(());
            }
            let version = self.time.version.load(Ordering::Relaxed);
            let set = client.set(&self.time.path, unix_ms.to_string()).version(version);
            match set.await {
                Ok(stat) => self.time.note(unix_ms, stat.version),
                Err(error) => match error.kind() {
                    // Written by an earlier attempt of this lease, or by the next owner.
                    ErrorKind::BadVersion => self.read_time().await?,
                    ErrorKind::NoNode | ErrorKind::SessionExpired => return Err(Error::Lost),
                    _ if reply_lost(&error) => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }

    /// Notes which time was actually used, so that the next owner need not wait for the end of the reserved time.
    /// Written when the lease is released.
    pub(crate) fn note_used_until(&self, unix_ms: u64) {
        self.time.now.lock().used_until_ms = Some(unix_ms);
    }

    /// Reads the current time, and checks that the number is still held: read in this order, no other client can have
    /// written it.
    async fn read_time(&self) -> Result<()> {
        let client = self.hold.client();
        let (time, worker) =
            (client.get(&self.time.path).send(), client.exists(self.hold.path()).send());
        let (time, worker) = match (time.await, worker.await) {
            (Ok(time), Ok(Some(worker))) => (time, worker),
            (Err(error), _) | (_, Err(error)) if !is_lost(&error) => return Err(error.into()),
            _ => return Err(Error::Lost),
        };
        if worker.czxid != self.hold.czxid() {
            return Err(Error::Lost);
        }
        self.time.note(parse_time(&self.time.path, &time)?, time.stat.version);
        Ok(())
    }
}

guard!(WorkerLease);

fn is_lost(error: &herdsman_client::Error) -> bool {
    error.is_no_node() || error.is_session_expired()
}

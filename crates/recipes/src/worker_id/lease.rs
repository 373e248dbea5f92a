//! One leased worker id: its reserved time, and its release.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use herdsman_client::{ErrorKind, Node, Outcome};
use parking_lot::Mutex;

use super::parse_time;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::owned_node::{Incarnation, LastData};

/// A leased worker id; see [`Hold`] for all that it can do. Dropping it releases the id in the background.
///
/// The result of [`fenced`](Hold::fenced) is valid until the next [`reserve_until`](WorkerLease::reserve_until): each
/// reservation changes the node by whose version the owners of an id are distinguished.
#[derive(Debug)]
#[must_use = "the worker id is released when this is dropped"]
pub struct WorkerLease {
    id: u16,
    hold: Hold,
    used_before_ms: u64,
    time_path: String,
    time: Arc<Mutex<Time>>,
    /// The version of the node at `time_path`, by which owners are distinguished.
    version: Arc<AtomicI32>,
    /// Locked while the time is changed: one change at a time.
    changing: tokio::sync::Mutex<()>,
}

/// The known state of the id's time.
#[derive(Clone, Copy, Debug)]
struct Time {
    reserved_until_ms: u64,
    /// The last timestamp that was used, if the owner has reported it.
    used_until_ms: Option<u64>,
}

impl WorkerLease {
    /// Creates a lease. `time` is the id's time, read after its node was found to be ours.
    pub(super) fn new(id: u16, hold: Hold, time_path: String, time: &Node) -> Result<Self> {
        let used_before_ms = parse_time(&time_path, time)?;
        let version = Arc::new(AtomicI32::new(time.stat.version));
        let time = Time { reserved_until_ms: used_before_ms, used_until_ms: None };
        let time = Arc::new(Mutex::new(time));
        let last_time = time.clone();
        let last_data = LastData::new(move |_| {
            let time = *last_time.lock();
            time.used_until_ms.unwrap_or(time.reserved_until_ms).to_string().into()
        });
        let hold = hold.with_incarnation(Incarnation {
            guard: time_path.clone(),
            version: version.clone(),
            marker: None,
            last_data: Some(last_data),
            may_be_bypassed: false,
        });
        let changing = tokio::sync::Mutex::default();
        Ok(WorkerLease { id, hold, used_before_ms, time_path, time, version, changing })
    }

    /// Returns the number.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Returns the time, in ms since 1970, up to which timestamps belong to earlier owners.
    #[must_use]
    pub fn used_before_ms(&self) -> u64 {
        self.used_before_ms
    }

    /// Returns the time up to which timestamps are reserved for this lease, if they come after
    /// [`used_before_ms`](Self::used_before_ms).
    #[must_use]
    pub fn reserved_until_ms(&self) -> u64 {
        self.time.lock().reserved_until_ms
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
            let version = self.version.load(Ordering::Relaxed);
            let set = client.set(&self.time_path, unix_ms.to_string()).version(version);
            match set.await {
                Ok(stat) => self.note(unix_ms, stat.version),
                Err(error) => match error.kind() {
                    // Written by an earlier attempt of this lease, or by the next owner.
                    ErrorKind::BadVersion => self.read_time().await?,
                    ErrorKind::NoNode | ErrorKind::SessionExpired => return Err(Error::Lost),
                    _ if error.outcome() == Outcome::Unknown && error.is_retriable() => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }

    /// Notes which time was actually used, so that the next owner need not wait for the end of the reserved time.
    /// Written when the lease is released.
    pub(crate) fn note_used_until(&self, unix_ms: u64) {
        self.time.lock().used_until_ms = Some(unix_ms);
    }

    fn note(&self, reserved_until_ms: u64, version: i32) {
        self.time.lock().reserved_until_ms = reserved_until_ms;
        self.version.store(version, Ordering::Relaxed);
    }

    /// Reads the current time, and checks that the number is still held: read in this order, no other client can have
    /// written it.
    async fn read_time(&self) -> Result<()> {
        let client = self.hold.client();
        let (time, worker) =
            (client.get(&self.time_path).send(), client.exists(self.hold.path()).send());
        let (time, worker) = match (time.await, worker.await) {
            (Ok(time), Ok(Some(worker))) => (time, worker),
            (Err(error), _) | (_, Err(error)) if !is_lost(&error) => return Err(error.into()),
            _ => return Err(Error::Lost),
        };
        if u64::try_from(worker.czxid.0) != Ok(self.hold.token()) {
            return Err(Error::Lost);
        }
        self.note(parse_time(&self.time_path, &time)?, time.stat.version);
        Ok(())
    }
}

guard!(WorkerLease);

fn is_lost(error: &herdsman_client::Error) -> bool {
    error.is_no_node() || error.is_session_expired()
}

//! One leased worker id: its time, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Node, Op, Outcome};
use parking_lot::Mutex;

use super::parse_time;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::owned_node::Incarnation;
use crate::patient::patient;

/// A worker id that is ours; see [`Hold`] for all that it can do. Dropping it gives the id back in the background.
///
/// What [`fenced`](Hold::fenced) returns holds until the next [`reserve_until`](WorkerLease::reserve_until): each
/// reservation changes the node by whose version the owners of an id are told apart.
#[derive(Debug)]
#[must_use = "the worker id is given back when this is dropped"]
pub struct WorkerLease {
    id: u16,
    hold: Hold,
    used_before_ms: u64,
    slot: Arc<Slot>,
    is_released: bool,
}

/// The two nodes of an id, as its owner knows them.
#[derive(Debug)]
struct Slot {
    client: Client,
    worker_path: String,
    time_path: String,
    /// What tells our node from that of another owner.
    nonce: String,
    time: Mutex<Time>,
    /// The version of the time, for fenced writes.
    version: Arc<AtomicI32>,
    /// Held by who changes the time: one at a time.
    changing: tokio::sync::Mutex<()>,
}

/// What is kept of the id's time.
#[derive(Clone, Copy, Debug)]
struct Time {
    reserved_until_ms: u64,
    version: i32,
    /// The last moment that was used, if the owner said so.
    used_until_ms: Option<u64>,
}

impl WorkerLease {
    /// `time` is the id's time, read after its node was found to be ours.
    pub(super) fn new(
        id: u16,
        nonce: &str,
        mut hold: Hold,
        incarnation: Incarnation,
        time: &Node,
    ) -> Result<Self> {
        let Incarnation { guard: time_path, version: fenced_version, .. } = incarnation;
        // This file deletes the node, together with a change of the time.
        hold.let_go();
        let used_before_ms = parse_time(&time_path, time)?;
        let (reserved_until_ms, version) = (used_before_ms, time.stat.version);
        let time = Time { reserved_until_ms, version, used_until_ms: None };
        let slot = Slot {
            client: hold.client().clone(),
            worker_path: hold.path().to_owned(),
            time_path,
            nonce: nonce.to_owned(),
            time: Mutex::new(time),
            version: fenced_version,
            changing: tokio::sync::Mutex::default(),
        };
        Ok(WorkerLease { id, hold, used_before_ms, slot: Arc::new(slot), is_released: false })
    }

    /// The number.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Moments up to this one, in ms since 1970, belong to owners before us.
    #[must_use]
    pub fn used_before_ms(&self) -> u64 {
        self.used_before_ms
    }

    /// Moments up to this one are reserved for us, if they come after
    /// [`used_before_ms`](Self::used_before_ms).
    #[must_use]
    pub fn reserved_until_ms(&self) -> u64 {
        self.slot.time.lock().reserved_until_ms
    }

    /// Reserves all moments up to `unix_ms` for us: no later owner of the number will use them.
    ///
    /// # Errors
    /// [`Error::Lost`] if the number is no longer ours; nothing is reserved then.
    pub async fn reserve_until(&self, unix_ms: u64) -> Result<()> {
        self.slot.reserve_until(unix_ms).await
    }

    /// Tells what was used in fact, so that the next owner need not wait for the end of what was
    /// reserved. Written when the lease is given back.
    pub(crate) fn note_used_until(&self, unix_ms: u64) {
        self.slot.time.lock().used_until_ms = Some(unix_ms);
    }

    /// Gives the number back, and waits until the server knows; through an outage, if need be.
    /// Dropping the future, or the lease itself, leaves that to the background.
    ///
    /// # Errors
    /// [`Error::Lost`] if it was lost before.
    pub async fn release(mut self) -> Result<()> {
        let given_back = self.slot.give_back().await;
        self.is_released = true;
        given_back
    }
}

guard!(WorkerLease, hold, release);

impl Drop for WorkerLease {
    fn drop(&mut self) {
        if !self.is_released {
            let slot = self.slot.clone();
            self.slot.client.spawn(async move {
                // It fails if the number was lost before.
                let _ = slot.give_back().await;
            });
        }
    }
}

impl Slot {
    async fn reserve_until(&self, unix_ms: u64) -> Result<()> {
        let _turn = self.changing.lock().await;
        loop {
            let Time { reserved_until_ms, version, .. } = *self.time.lock();
            if reserved_until_ms >= unix_ms {
                return Ok(());
            }
            let set = self.client.set(&self.time_path, unix_ms.to_string()).version(version);
            match set.await {
                Ok(stat) => self.note(unix_ms, stat.version),
                Err(error) => match error.kind() {
                    // Written by an earlier attempt of ours, or by the next owner.
                    ErrorKind::BadVersion => self.read_time(&self.client).await?,
                    ErrorKind::NoNode | ErrorKind::SessionExpired => return Err(Error::Lost),
                    _ if error.outcome() == Outcome::Unknown && error.is_retriable() => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }

    async fn give_back(&self) -> Result<()> {
        let _turn = self.changing.lock().await;
        let patient = patient(&self.client);
        let (mut may_be_done, mut was_refused) = (false, false);
        loop {
            let Err(error) = patient.transaction(self.last_ops()).await else {
                return Ok(());
            };
            match error.kind() {
                _ if error.outcome() == Outcome::Unknown && error.is_retriable() => {
                    may_be_done = true;
                    continue;
                }
                ErrorKind::SessionExpired => return Err(Error::Lost),
                ErrorKind::BadVersion | ErrorKind::NoNode => {}
                _ => return Err(error.into()),
            }
            // A repeated request is refused after its own success, too: then the id is not ours any more.
            let read = match was_refused {
                true => Err(Error::Lost),
                false => self.read_time(&patient).await,
            };
            match read {
                Err(Error::Lost) if may_be_done => return Ok(()),
                read => read?,
            }
            was_refused = true;
        }
    }

    fn note(&self, reserved_until_ms: u64, version: i32) {
        let mut time = self.time.lock();
        time.reserved_until_ms = reserved_until_ms;
        time.version = version;
        self.version.store(version, Ordering::Relaxed);
    }

    /// The time as it is now, provided that the number is still ours: read in this order, nobody
    /// else can have written it.
    async fn read_time(&self, client: &Client) -> Result<()> {
        let time = client.get(&self.time_path).send();
        let worker = client.get(&self.worker_path).send();
        let (time, worker) = match (time.await, worker.await) {
            (Ok(time), Ok(worker)) => (time, worker),
            (Err(error), _) | (_, Err(error)) if is_gone(error.kind()) => return Err(Error::Lost),
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        if worker.data != self.nonce.as_bytes() {
            return Err(Error::Lost);
        }
        self.note(parse_time(&self.time_path, &time)?, time.stat.version);
        Ok(())
    }

    /// Both depend on the version, so that the node of another owner is safe from us.
    fn last_ops(&self) -> [Op; 2] {
        let time = *self.time.lock();
        let until_ms = time.used_until_ms.unwrap_or(time.reserved_until_ms);
        [
            Op::set(&self.time_path, Bytes::from(until_ms.to_string())).version(time.version),
            Op::delete(&self.worker_path),
        ]
    }
}

fn is_gone(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::BadVersion | ErrorKind::NoNode | ErrorKind::SessionExpired)
}

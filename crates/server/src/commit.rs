//! Group commit: the thread that makes txns durable, a batch at a time.
//!
//! While the disk works on one batch the next one gathers, so batches form by themselves and grow
//! with the load. Nothing is reported before its sync has returned. A full disk is waited for: the
//! batch stays, the node refuses new writes meanwhile. Any other failure is final.
//!
//! The queue needs no limit of its own: `globalOutstandingLimit` bounds what clients put in, and
//! the server's own txns (ends of sessions, sweeps) stop while the log takes nothing.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herdsman_node::{Input, StorageState};
use herdsman_proto::Zxid;
use herdsman_store::{AppendError, LogWriter, SyncMode};
use parking_lot::{Condvar, Mutex};
use tracing::{error, info, warn};

use crate::clock::millis;
use crate::core::Core;
use crate::snapshots::SnapshotPolicy;

/// How often a full disk is tried again.
const FULL_RETRY: Duration = Duration::from_millis(500);

/// Txns on their way to the log.
#[derive(Debug, Default)]
pub struct CommitQueue {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    batch: Batch,
    stopping: bool,
    abandoned: bool,
}

#[derive(Debug, Default)]
struct Batch {
    txns: Vec<(Zxid, Range<usize>)>,
    bytes: Vec<u8>,
}

impl CommitQueue {
    /// Adds a txn. Zxids go up.
    pub fn push(&self, zxid: Zxid, payload: &[u8]) {
        let Batch { txns, bytes } = &mut self.queue.lock().batch;
        let start = bytes.len();
        bytes.extend_from_slice(payload);
        txns.push((zxid, start..bytes.len()));
    }

    /// Wakes the thread, if it waits for something to do.
    pub fn wake(&self) {
        self.filled.notify_one();
    }

    /// Lets the thread end once everything is written.
    pub fn stop(&self) {
        self.queue.lock().stopping = true;
        self.filled.notify_one();
    }

    /// Lets the thread end at once, whatever is still to be written: what a killed process does.
    pub fn abandon(&self) {
        let mut queue = self.queue.lock();
        queue.stopping = true;
        queue.abandoned = true;
        self.filled.notify_one();
    }

    /// Waits for txns, and then up to `delay` for company; false when the thread should end.
    fn take(&self, batch: &mut Batch, delay: Duration, txns_max: usize) -> bool {
        batch.txns.clear();
        batch.bytes.clear();
        let mut queue = self.queue.lock();
        while queue.batch.txns.is_empty() || queue.abandoned {
            if queue.stopping {
                return false;
            }
            self.filled.wait(&mut queue);
        }
        if !delay.is_zero() {
            let deadline = Instant::now() + delay;
            let crowded = |queue: &Queue| queue.batch.txns.len() >= txns_max || queue.stopping;
            while !crowded(&queue) && !self.filled.wait_until(&mut queue, deadline).timed_out() {}
        }
        std::mem::swap(&mut queue.batch, batch);
        true
    }

    /// The thread has been told to end.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.queue.lock().stopping
    }

    /// Sleeps, but not past a stop.
    fn pause(&self, duration: Duration) {
        let mut queue = self.queue.lock();
        if !queue.stopping {
            self.filled.wait_for(&mut queue, duration);
        }
    }
}

/// How batches are made durable.
#[derive(Clone, Copy, Debug)]
pub struct CommitSettings {
    /// Whether a batch is synced before it is answered.
    pub sync: SyncMode,
    /// How long a txn may wait for company (`flushDelay`).
    pub delay: Duration,
    /// Txns in one sync at the most.
    pub batch_txns_max: usize,
    /// A sync that takes longer is reported.
    pub sync_warning_ms: u64,
}

/// The committing thread's state.
pub struct Committer {
    core: Arc<Core>,
    queue: Arc<CommitQueue>,
    log: LogWriter,
    settings: CommitSettings,
    snapshots: SnapshotPolicy,
}

impl Committer {
    /// Takes over the log.
    #[must_use]
    pub fn new(
        core: Arc<Core>,
        queue: Arc<CommitQueue>,
        log: LogWriter,
        settings: CommitSettings,
        snapshots: SnapshotPolicy,
    ) -> Self {
        Committer { core, queue, log, settings, snapshots }
    }

    /// Works until the queue is stopped, or for good after a failure.
    pub fn run(mut self) {
        let mut batch = Batch::default();
        let CommitSettings { delay, batch_txns_max, .. } = self.settings;
        while self.queue.take(&mut batch, delay, batch_txns_max) {
            for txns in batch.txns.chunks(self.settings.batch_txns_max) {
                let done = self.append(txns, &batch.bytes).and_then(|()| self.flush());
                match done {
                    Ok(zxid) => self.report(zxid, txns.len()),
                    Err(failure) => return self.fail(failure.as_ref()),
                }
            }
        }
    }

    fn append(
        &mut self,
        txns: &[(Zxid, Range<usize>)],
        bytes: &[u8],
    ) -> Result<(), Option<AppendError>> {
        for (zxid, payload) in txns {
            self.log.append(*zxid, &bytes[payload.clone()]).map_err(Some)?;
        }
        Ok(())
    }

    /// Writes the batch, however long it takes to find room for it. `Err(None)`: the server stops
    /// before there was room.
    fn flush(&mut self) -> Result<Zxid, Option<AppendError>> {
        let mut full = false;
        loop {
            let start = Instant::now();
            match self.log.flush(self.settings.sync) {
                Ok(flushed) => {
                    self.note_sync(start.elapsed());
                    if full {
                        info!("there is room on the disk again: writes are accepted");
                        self.core.step(Input::Storage(StorageState::Writable));
                    }
                    return Ok(flushed.last_zxid);
                }
                Err(failure @ AppendError::Full { .. }) => {
                    if !full {
                        full = true;
                        error!("{failure}; writes are refused until there is room, reads go on");
                        self.core.step(Input::Storage(StorageState::Full));
                    }
                    if self.queue.is_stopping() {
                        return Err(None);
                    }
                    self.queue.pause(FULL_RETRY);
                }
                Err(failure) => return Err(Some(failure)),
            }
        }
    }

    fn note_sync(&self, took: Duration) {
        let took_ms = millis(took);
        self.core.stats.fsync.add(took_ms);
        if took_ms > self.settings.sync_warning_ms {
            self.core.stats.fsync_slow.add(1);
            let threshold = self.settings.sync_warning_ms;
            warn!(
                "log sync took {took_ms} ms (fsync.warningthresholdms={threshold}); every write waited for it"
            );
        }
    }

    fn report(&mut self, zxid: Zxid, txns: usize) {
        self.core.stats.batch_size.add(txns as u64);
        if self.snapshots.count(txns, self.log.written_bytes()) {
            self.log.roll();
        }
        self.core.step(Input::Flushed { zxid });
    }

    /// What this process still has in memory is no longer known to be on disk, so it acknowledges
    /// nothing more. Reads go on.
    fn fail(self, failure: Option<&AppendError>) {
        let Some(failure) = failure else { return };
        self.core.stats.unrecoverable_errors.add(1);
        error!(
            "{failure}; writes are refused from now on, reads go on: check the disk, then restart"
        );
        self.core.step(Input::Storage(StorageState::Failed));
        let mut discarded = Batch::default();
        while self.queue.take(&mut discarded, Duration::ZERO, 1) {}
    }
}

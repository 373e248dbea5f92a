//! Group commit: the thread that makes txns durable, a batch at a time, and does whatever else
//! changes the data directory, in the order in which it was asked for.
//!
//! While the disk works on one batch the next one gathers, so batches form by themselves and grow
//! with the load. Nothing is reported before its sync has returned. A full disk is waited for, and so is a
//! file descriptor if there is none left to open a file: the batch stays, the node refuses new writes
//! meanwhile. Any other failure is final.
//!
//! The queue has no limit of its own: `globalOutstandingLimit` bounds what clients put in, and
//! the server's own txns (ends of sessions, sweeps) stop while the log takes nothing. On a learner that catches up the
//! thread that reads the leader's link waits while the queue holds too much ([`CommitQueue::room`]). Once it has caught
//! up the link is read whatever the queue holds, and lost when that is far too much.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use herdsman_node::{Input, StorageState};
use herdsman_proto::Zxid;
use herdsman_store::{AppendError, LogWriter, SyncMode};
use parking_lot::{Condvar, Mutex};
use tracing::{error, info, warn};

use crate::clients::io_wakers::ThreadSet;
use crate::core::Core;
use crate::log::disk_keeper::{CompletedChange, DiskChange, DiskKeeper};
use crate::log::snapshots::SnapshotPolicy;
use herdsman_quorum::ReadPermission;
use herdsman_runtime::millis;

/// Why the thread ends for good; `None`: the server stops while the disk takes nothing.
type Failure = Option<String>;

/// How often a disk that is full, or a file that cannot be opened, is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Bytes of txns in the queue beyond which a learner that catches up does not read its leader's link.
const LEARNER_QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of txns in a batch, unless it is one txn. A batch is freed as a whole, so this is how much more memory the
/// queue may take than it counts.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What a txn in the queue counts besides its payload.
const TXN_BYTES: usize = size_of::<QueuedTxn>();

/// Txns on their way to the log.
#[derive(Debug, Default)]
pub struct CommitQueue {
    queue: Mutex<Queue>,
    filled: Condvar,
    /// The thread has done some of its work.
    emptied: Condvar,
    /// Somebody takes from it.
    committer_running: AtomicBool,
}

/// The queue counts as served from the moment this is made, before the thread has started to run, until it
/// is dropped, whatever makes the thread end.
struct CommitterGuard(Arc<CommitQueue>);

impl CommitterGuard {
    fn begin(queue: &Arc<CommitQueue>) -> Self {
        queue.committer_running.store(true, Ordering::Release);
        CommitterGuard(Arc::clone(queue))
    }
}

impl Drop for CommitterGuard {
    fn drop(&mut self) {
        self.0.committer_running.store(false, Ordering::Release);
    }
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Of all jobs, and of the one that the thread has taken.
    load: Load,
    /// Of the work that the thread has taken.
    taken: Load,
    stopping: bool,
    abandoned: bool,
}

/// How much work there is.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Of txns.
    bytes: usize,
    /// Changes after which the history on disk is another one.
    replacements: usize,
}

impl Load {
    fn of_txn(payload: &[u8]) -> Self {
        Load { bytes: payload.len() + TXN_BYTES, replacements: 0 }
    }

    fn of_change(change: &DiskChange) -> Self {
        Load { bytes: 0, replacements: usize::from(change.replaces_history()) }
    }

    fn of_txns(txns: &[QueuedTxn]) -> Self {
        let bytes = txns.iter().map(|txn| txn.payload.len() + TXN_BYTES).sum();
        Load { bytes, replacements: 0 }
    }

    fn of(job: &Job) -> Self {
        match job {
            Job::Append(Batch { txns, .. }) => Load::of_txns(txns),
            Job::Change(change) => Load::of_change(change),
        }
    }

    fn add(&mut self, other: Load) {
        self.bytes += other.bytes;
        self.replacements += other.replacements;
    }

    fn remove(&mut self, other: Load) {
        self.bytes -= other.bytes;
        self.replacements -= other.replacements;
    }
}

/// What the thread takes at a time.
#[derive(Debug)]
enum Job {
    Append(Batch),
    Change(DiskChange),
}

#[derive(Debug, Default)]
struct Batch {
    txns: Vec<QueuedTxn>,
    bytes: Vec<u8>,
    /// Whose connections wait for it.
    requesters: ThreadSet,
}

impl Batch {
    /// With memory for a whole batch, so that it need not grow, which could take twice as much.
    fn with_room_for(load: Load) -> Self {
        let bytes = Vec::with_capacity(load.bytes.max(BATCH_BYTES_MAX));
        Batch { bytes, ..Batch::default() }
    }

    fn has_room_for(&self, load: Load) -> bool {
        self.bytes.len() + self.txns.len() * TXN_BYTES + load.bytes <= BATCH_BYTES_MAX
    }
}

#[derive(Debug)]
struct QueuedTxn {
    zxid: Zxid,
    payload: Range<usize>,
    at: Instant,
}

impl CommitQueue {
    /// Adds a txn, for a connection of this I/O thread if it is one's. Zxids go up.
    pub fn push(&self, zxid: Zxid, payload: &[u8], requester: Option<usize>) {
        let mut queue = self.queue.lock();
        let load = Load::of_txn(payload);
        queue.load.add(load);
        let batch = match queue.jobs.back() {
            Some(Job::Append(batch)) if batch.has_room_for(load) => None,
            // As the disk is behind, this one will be filled too.
            Some(Job::Append(_)) => Some(Batch::with_room_for(load)),
            Some(Job::Change(_)) | None => Some(Batch::default()),
        };
        queue.jobs.extend(batch.map(Job::Append));
        if let Some(Job::Append(Batch { txns, bytes, requesters })) = queue.jobs.back_mut() {
            requesters.extend(requester);
            let start = bytes.len();
            bytes.extend_from_slice(payload);
            txns.push(QueuedTxn { zxid, payload: start..bytes.len(), at: Instant::now() });
        }
    }

    /// Adds a change of the data directory, to be done after what was added before.
    pub fn push_change(&self, change: DiskChange) {
        let mut queue = self.queue.lock();
        queue.load.add(Load::of_change(&change));
        queue.jobs.push_back(Job::Change(change));
    }

    /// Whether a learner may read more from its leader. One that serves clients may at once. One that catches up waits
    /// for it, up to `wait`: until the txns that are not durable take little memory, and the log is not about to be cut
    /// or replaced.
    #[must_use]
    pub fn room(&self, is_active: bool, wait: Duration) -> ReadPermission {
        let mut queue = self.queue.lock();
        if is_active {
            return ReadPermission::Active { queued_bytes: queue.load.bytes };
        }
        if !queue.has_room() {
            self.emptied.wait_for(&mut queue, wait);
        }
        if queue.has_room() { ReadPermission::Free } else { ReadPermission::Full }
    }

    /// Whether somebody takes from it.
    #[must_use]
    pub fn is_committer_running(&self) -> bool {
        self.committer_running.load(Ordering::Acquire)
    }

    /// A part of the batch that the thread has taken is durable. The rest of it counts as done when the next one is
    /// taken.
    fn written(&self, part: Load) {
        let mut queue = self.queue.lock();
        queue.taken.remove(part);
        queue.load.remove(part);
        self.emptied.notify_all();
    }

    /// Drops the txns that are not written yet: another history has taken the place of theirs.
    pub fn forget_txns(&self) {
        let mut queue = self.queue.lock();
        let Queue { jobs, load, .. } = &mut *queue;
        jobs.retain(|job| {
            let is_forgotten = matches!(job, Job::Append(_));
            if is_forgotten {
                load.remove(Load::of(job));
            }
            !is_forgotten
        });
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

    /// Waits for something to do, and with txns up to `delay` for company; `None` when the thread
    /// should end.
    fn take(&self, delay: Duration, txns_max: usize) -> Option<Job> {
        let mut queue = self.queue.lock();
        // What was taken before is done.
        let done = std::mem::take(&mut queue.taken);
        queue.load.remove(done);
        if done.bytes > 0 || done.replacements > 0 {
            self.emptied.notify_all();
        }
        while queue.jobs.is_empty() || queue.abandoned {
            if queue.stopping {
                return None;
            }
            self.filled.wait(&mut queue);
        }
        if !delay.is_zero() {
            let deadline = Instant::now() + delay;
            let wait = |queue: &Queue| {
                !queue.stopping && queue.jobs.len() == 1 && queue.txns_in_front() < txns_max
            };
            while wait(&queue) && !self.filled.wait_until(&mut queue, deadline).timed_out() {}
        }
        let job = queue.jobs.pop_front()?;
        queue.taken = Load::of(&job);
        Some(job)
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

impl Queue {
    fn has_room(&self) -> bool {
        let Load { bytes, replacements } = self.load;
        self.stopping || (bytes <= LEARNER_QUEUE_BYTES_MAX && replacements == 0)
    }

    /// A change of the directory counts as more than any batch: it need not wait for company.
    fn txns_in_front(&self) -> usize {
        match self.jobs.front() {
            Some(Job::Append(batch)) => batch.txns.len(),
            Some(Job::Change(_)) | None => usize::MAX,
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
    /// Makes what other than txns is asked of the disk; a standalone server asks for nothing.
    keeper: DiskKeeper,
    _guard: CommitterGuard,
}

impl Committer {
    /// Takes over the log. The queue counts as served from now on: a health check may come before the thread
    /// that calls [`run`](Committer::run) has had its first turn.
    #[must_use]
    pub fn new(
        core: Arc<Core>,
        queue: Arc<CommitQueue>,
        log: LogWriter,
        settings: CommitSettings,
        snapshots: SnapshotPolicy,
        keeper: DiskKeeper,
    ) -> Self {
        let _guard = CommitterGuard::begin(&queue);
        keeper.progress.publish(&log);
        Committer { core, queue, log, settings, snapshots, keeper, _guard }
    }

    /// Works until the queue is stopped, or for good after a failure.
    pub fn run(mut self) {
        let CommitSettings { delay, batch_txns_max, .. } = self.settings;
        while let Some(job) = self.queue.take(delay, batch_txns_max) {
            let done = match job {
                Job::Append(batch) => self.commit(&batch),
                Job::Change(change) => self.change(change),
            };
            if let Err(failure) = done {
                return self.fail(failure.as_deref());
            }
        }
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), Failure> {
        let mut chunks = batch.txns.chunks(self.settings.batch_txns_max).peekable();
        while let Some(txns) = chunks.next() {
            self.append(txns, &batch.bytes)?;
            let zxid = self.flush()?;
            self.keeper.progress.publish(&self.log);
            self.report(zxid, txns, batch.requesters);
            if chunks.peek().is_some() {
                self.queue.written(Load::of_txns(txns));
            }
        }
        Ok(())
    }

    /// Everything that was appended before is durable: a batch is never left behind. What could not be done
    /// for want of a file descriptor is done from its start again.
    fn change(&mut self, mut change: DiskChange) -> Result<(), Failure> {
        let mut reported = false;
        if change.changes_log() {
            self.keeper.progress.begin_change();
        }
        let made = loop {
            match self.keeper.make(&self.core, &mut change, &mut self.log) {
                // A try that failed may have cut part of the log, and what is left then seems to end too early.
                Ok(Some(CompletedChange {
                    input: herdsman_zab::Input::TruncateMissed, ..
                })) if reported => {
                    return Err(Some("the log was only partly truncated".to_owned()));
                }
                Ok(made) => break made,
                Err(failure) if failure.is_temporary() => {
                    if !reported {
                        reported = true;
                        error!(
                            "{failure}; trying again until a file can be opened (see ulimit -n)"
                        );
                    }
                    self.wait_to_retry()?;
                }
                Err(failure) => return Err(Some(failure.to_string())),
            }
        };
        self.note_finished();
        self.keeper.progress.publish(&self.log);
        match made {
            Some(CompletedChange { input, tree: Some((tree, hold)) }) => {
                self.core.replace_tree(tree, Input::Peer(input));
                drop(hold);
            }
            Some(CompletedChange { input, tree: None }) => self.core.step(Input::Peer(input)),
            None => {}
        }
        Ok(())
    }

    /// Tells the archive how far the log files are finished.
    fn note_finished(&self) {
        if let Some(archive) = &self.keeper.snapshots.archive
            && self.log.current_file().is_none()
        {
            archive.set_finished(self.log.last_zxid());
        }
    }

    /// `Err(None)`: the server stops.
    fn wait_to_retry(&self) -> Result<(), Failure> {
        if self.queue.is_stopping() {
            return Err(None);
        }
        self.queue.pause(RETRY);
        Ok(())
    }

    fn append(&mut self, txns: &[QueuedTxn], bytes: &[u8]) -> Result<(), Failure> {
        for QueuedTxn { zxid, payload, .. } in txns {
            let appended = self.log.append(*zxid, &bytes[payload.clone()]);
            appended.map_err(|failure| Some(failure.to_string()))?;
        }
        Ok(())
    }

    /// Writes the batch, however long it takes until the disk takes it. `Err(None)`: the server stops
    /// before that.
    fn flush(&mut self) -> Result<Zxid, Failure> {
        let mut waited = false;
        loop {
            let start = Instant::now();
            match self.log.flush(self.settings.sync) {
                Ok(flushed) => {
                    self.note_sync(start.elapsed());
                    if waited {
                        self.core.step(Input::Storage(StorageState::Writable));
                        info!("the log can be written again: accepting writes");
                    }
                    return Ok(flushed.last_zxid);
                }
                Err(failure) if failure.is_temporary() => {
                    if !waited {
                        waited = true;
                        self.report_waiting(&failure);
                        self.core.step(Input::Storage(StorageState::Full));
                    }
                    self.wait_to_retry()?;
                }
                Err(failure) => return Err(Some(failure.to_string())),
            }
        }
    }

    fn report_waiting(&self, failure: &AppendError) {
        let needed = match failure {
            AppendError::NotOpened { .. } => "files can be opened again (ulimit -n)",
            _ => "there is room",
        };
        match self.core.peers() {
            None => error!("{failure}; writes are refused until {needed}, reads continue"),
            Some(_) => error!("{failure}; this server leaves the ensemble until {needed}"),
        }
    }

    fn note_sync(&self, took: Duration) {
        let took_ms = millis(took);
        self.core.stats.fsync.add(took_ms);
        self.core.stats.durations.fsync.add(took);
        if took_ms > self.settings.sync_warning_ms {
            self.core.stats.fsync_slow.add(1);
            let threshold = self.settings.sync_warning_ms;
            warn!(
                "log sync took {took_ms} ms (fsync.warningthresholdms={threshold}); every write waited for it"
            );
        }
    }

    fn report(&mut self, zxid: Zxid, txns: &[QueuedTxn], requesters: ThreadSet) {
        let now = Instant::now();
        for txn in txns {
            self.core.stats.durations.commit.add(now.saturating_duration_since(txn.at));
        }
        self.core.stats.batch_size.add(txns.len() as u64);
        let znodes = || self.core.tree().node_count() as u64;
        let rolls = self.snapshots.count(txns.len(), self.log.written_bytes(), znodes);
        self.core.flushed(zxid, requesters);
        // After the replies: freeing the unused space of a file takes a while.
        if rolls {
            self.log.roll();
        }
        self.note_finished();
    }

    /// What this process still has in memory is no longer known to be on disk, so it acknowledges
    /// nothing more. Reads go on.
    fn fail(self, failure: Option<&str>) {
        let Some(failure) = failure else { return };
        self.keeper.progress.fail();
        self.core.stats.unrecoverable_errors.add(1);
        let from_now_on = match self.core.peers() {
            None => "writes are refused from now on, reads continue",
            Some(_) => "this server leaves the ensemble",
        };
        error!("{failure}; {from_now_on}: check the disk, then restart");
        self.core.step(Input::Storage(StorageState::Failed));
        while self.queue.take(Duration::ZERO, 1).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use herdsman_node::{Node, SessionPasswords};
    use herdsman_store::{Dirs, Disk, EpochFile, MemoryDisk};
    use herdsman_tree::Tree;
    use herdsman_zab::{EpochKind, TreeAfterCut};

    use crate::clients::Clients;
    use crate::clients::listener::ClientPort;
    use crate::clock::Clock;
    use crate::operators::stats::ServerStats;
    use crate::start::repair::FilesState;
    use crate::start::settings;
    use herdsman_config::{Config, SystemProperties};

    /// A committer whose thread has not started yet.
    fn committer(queue: &Arc<CommitQueue>, disk: &MemoryDisk) -> Committer {
        let config = Config::standalone_default(&SystemProperties::new()).expect("defaults").config;
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let dirs = Dirs::below(Path::new("/data"), Path::new("/data"));
        let options = settings::tree_options(&config, 0);
        let (tree, clock) = (Tree::new(options.clone()), Clock::start());
        let node_settings =
            settings::node_settings(&config, FilesState::Whole, SessionPasswords::Apache, 0);
        let node = Node::new(node_settings, &tree, clock.now());
        let clients = Clients::new(settings::conn_limits(&config), 1);
        let stats = ServerStats::default();
        let core = Core::new(node, tree, clients, stats, clock, Arc::clone(queue), None);
        let log_options = settings::log_options(&config);
        let keeper = DiskKeeper {
            disk: Arc::clone(&disk),
            recover: settings::recover_options(&config, options),
            log: log_options,
            snapshots: settings::snapshot_settings(&config, &disk, &dirs),
            dirs: dirs.clone(),
            files: None,
            client_port: Arc::new(ClientPort::at(None)),
            requests: Arc::default(),
            progress: Arc::default(),
        };
        Committer::new(
            Arc::new(core),
            Arc::clone(queue),
            LogWriter::new(disk, &dirs.log, Zxid(0), settings::log_options(&config)),
            settings::commit_settings(&config),
            settings::snapshot_policy(&config, 0, Arc::default()),
            keeper,
        )
    }

    /// A health check may come before the thread has had its first turn.
    #[test]
    fn the_queue_counts_as_served_before_its_thread_runs_and_until_it_ends() {
        let queue = Arc::new(CommitQueue::default());
        let committer = committer(&queue, &MemoryDisk::new());
        assert!(queue.is_committer_running());
        queue.stop();
        committer.run();
        assert!(!queue.is_committer_running());
    }

    fn take(queue: &CommitQueue) -> Option<Job> {
        queue.take(Duration::ZERO, 1)
    }

    /// What the leader sent used to gather in memory, however slow the disk was.
    #[test]
    fn a_learner_waits_until_its_disk_has_written_most_of_what_came() {
        let queue = CommitQueue::default();
        let has_room = || queue.room(false, Duration::ZERO) == ReadPermission::Free;
        let payload = vec![0; LEARNER_QUEUE_BYTES_MAX / 2];
        queue.push(Zxid(1), &payload, None);
        assert!(has_room());
        queue.push(Zxid(2), &payload, None);
        assert!(!has_room());
        assert!(matches!(take(&queue), Some(Job::Append(_))));
        assert!(!has_room(), "it is not durable yet");
        queue.written(Load { bytes: payload.len() + TXN_BYTES, replacements: 0 });
        assert!(has_room(), "half of it is");
        queue.push(Zxid(3), &payload, None);
        assert!(!has_room());
        queue.stop();
        assert!(has_room(), "no thread waits for a disk that is given up");
        queue.queue.lock().stopping = false;
        assert!(take(&queue).is_some() && take(&queue).is_some());
        assert!(has_room());
    }

    /// It would not read the leader's PINGs, and with the answers to them the leader hears of its clients: their
    /// sessions used to expire while the disk was behind.
    #[test]
    fn a_learner_that_serves_clients_does_not_wait_for_its_disk() {
        let queue = CommitQueue::default();
        let queued_bytes = 2 * LEARNER_QUEUE_BYTES_MAX;
        queue.push(Zxid(1), &vec![0; queued_bytes - TXN_BYTES], None);
        assert_eq!(queue.room(false, Duration::ZERO), ReadPermission::Full);
        assert_eq!(queue.room(true, Duration::MAX), ReadPermission::Active { queued_bytes });
    }

    /// All that waited used to be one batch, which is freed when all of it is written, and which had grown by doubling.
    #[test]
    fn the_queue_takes_little_more_memory_than_it_counts() {
        let queue = CommitQueue::default();
        let payload = vec![0; 1000];
        for number in 1..=50_000 {
            queue.push(Zxid(number), &payload, None);
        }
        queue.push(Zxid(50_001), &vec![0; 2 * BATCH_BYTES_MAX], None);
        queue.push(Zxid(50_002), &payload, None);
        let queue = queue.queue.lock();
        let mut taken_bytes = 0;
        for job in &queue.jobs {
            let Job::Append(Batch { txns, bytes, .. }) = job else { panic!("{job:?}") };
            taken_bytes += bytes.capacity() + txns.capacity() * TXN_BYTES;
            assert!(Load::of(job).bytes <= BATCH_BYTES_MAX || txns.len() == 1);
        }
        let counted_bytes = queue.load.bytes;
        assert!(taken_bytes < counted_bytes * 5 / 4, "{taken_bytes}, counted {counted_bytes}");
    }

    #[test]
    fn a_learner_waits_until_its_log_is_cut() {
        let queue = CommitQueue::default();
        let has_room = || queue.room(false, Duration::ZERO) == ReadPermission::Free;
        queue.push_change(DiskChange::SaveEpoch { kind: EpochKind::Accepted, epoch: 7 });
        assert!(has_room());
        queue.push_change(DiskChange::Truncate { zxid: Zxid(1), tree: TreeAfterCut::Kept });
        queue.push_change(DiskChange::AllowVoting);
        for _ in 0..2 {
            assert!(!has_room());
            assert!(take(&queue).is_some());
        }
        assert!(!has_room(), "it is being cut");
        assert!(take(&queue).is_some());
        assert!(has_room());
    }

    #[test]
    fn forgotten_txns_take_no_room() {
        let queue = CommitQueue::default();
        queue.push(Zxid(1), &vec![0; 2 * LEARNER_QUEUE_BYTES_MAX], None);
        queue.forget_txns();
        assert_eq!(queue.room(false, Duration::ZERO), ReadPermission::Free);
    }

    /// An epoch that could not be saved for want of a file descriptor is saved by the next try.
    #[test]
    fn a_change_can_be_made_when_files_can_be_opened_again() {
        let disk = MemoryDisk::new();
        let mut committer = committer(&Arc::new(CommitQueue::default()), &disk);
        let dirs = committer.keeper.dirs.clone();
        dirs.create(&disk).unwrap();
        let mut change = DiskChange::SaveEpoch { kind: EpochKind::Accepted, epoch: 7 };
        let Committer { core, keeper, log, .. } = &mut committer;
        disk.set_openable(false);
        let error = keeper.make(core, &mut change, log).unwrap_err();
        assert!(error.is_temporary(), "{error}");
        disk.set_openable(true);
        assert!(keeper.make(core, &mut change, log).unwrap().is_some());
        disk.crash(|_| false);
        let saved = herdsman_store::read_epoch(&disk, &dirs.data, EpochFile::Accepted);
        assert_eq!(saved.unwrap(), Some(7));
        // A failed sync stays final.
        disk.fail_sync(0);
        let mut change = DiskChange::SaveEpoch { kind: EpochKind::Accepted, epoch: 8 };
        assert!(!keeper.make(core, &mut change, log).unwrap_err().is_temporary());
    }
}

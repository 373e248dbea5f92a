//! Reads all logs and snapshots in the background, finds what the disk has damaged, and repairs it while the tree in
//! memory is intact.
//!
//! In: the files, through [`Scrub`], at a limited rate. Out: warnings, metrics, and a snapshot where one is needed.
//!
//! **What is repaired, and how.** A start needs the newest valid snapshot and every record after it. If one of
//! these is damaged, this server could not start, or would have one snapshot less to start from, but it still has
//! everything in memory. So the log begins a new file, and once the tree has everything that the log had when it
//! was read, a snapshot is taken and read back. Then a start needs nothing that is older. This works for a record
//! that is logged and not yet committed: it is in memory, too, but not in the tree, so the snapshot waits until it
//! is applied; if it is taken back instead, the log is cut, and is read again. The snapshot is not taken from other
//! servers' files, so it works for a standalone server, too.
//!
//! Damaged files that are no longer needed stay: a log is read only to synchronize learners, which detects damage,
//! and a purge does not count a snapshot that is known to be damaged. They are reported once, and a later purge
//! removes them. They are not renamed, because their names prove that their txns existed, which shows recovery and
//! learners a gap before a new epoch. There is one exception: if the damage is at the end of the log, recovery
//! cannot see that the snapshot covers what was there until a txn follows. Then the log file is renamed to
//! `damaged.log.X`, on the thread that owns the log, unless a txn has come meanwhile. That name counts as a proof,
//! too.
//!
//! **What it does not disturb.** Requests for snapshots take turns with all others. After one attempt the next one
//! waits [`REPAIR_PAUSE`]. The node is never locked, the tree only to read its zxid. When the disk has failed,
//! nothing is done any more: what is in memory may be ahead of what was acknowledged.
//!
//! Apache has nothing like it: its server learns of damage when it starts.

mod known;

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use herdsman_proto::Zxid;
use herdsman_store::names::{list_logs, list_snapshots};
use herdsman_store::{
    DataFile, Finding, LogName, LogState, Scrub, ScrubError, ScrubHost, ScrubReport, ScrubScope,
};
use parking_lot::{Condvar, Mutex};
use tracing::{debug, error, info, warn};

use crate::core::Core;
use crate::log::disk_keeper::DiskChange;
use crate::log::progress::LogProgress;
use crate::log::snapshots::{SnapshotRequests, SnapshotSettings};
use herdsman_runtime::{spawn, wall_ms};

pub use known::DamagedSnapshots;
use known::KnownDamage;

/// The longest time from the start to the first pass.
const FIRST_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Time from one attempt at a repair to the next.
const REPAIR_PAUSE: Duration = Duration::from_secs(600);
/// Time after which a pass without a result is repeated, and the longest time that a repair waits for txns to be
/// applied.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// Shorter waits are saved up.
const WAIT_MIN: Duration = Duration::from_millis(5);
/// How often it is checked whether a condition has come true.
const POLL: Duration = Duration::from_millis(50);

/// A damaged log file to rename, because a snapshot covers it and recovery cannot see that.
#[derive(Debug)]
pub struct SetAside {
    /// The file stays if the log was cut or replaced since: [`LogState::changes`].
    pub changes: u64,
    /// The file.
    pub log: LogName,
    /// The last txn that a valid snapshot has. With a later one in the log, the file stays.
    pub covered: Zxid,
    /// Told when it is done.
    pub done: Sender<()>,
}

/// How and what a server scrubs.
pub struct ScrubSettings {
    /// When and how fast.
    pub config: herdsman_config::Scrub,
    /// Where, and which snapshots are known to be damaged.
    pub files: SnapshotSettings,
    /// How far the log is durable.
    pub progress: Arc<LogProgress>,
    /// Where snapshots are requested.
    pub requests: Arc<SnapshotRequests>,
}

/// The scrubbing thread.
pub struct Scrubber {
    host: Arc<Host>,
    handle: JoinHandle<()>,
}

impl Scrubber {
    /// Starts it.
    pub fn start(core: Arc<Core>, settings: ScrubSettings) -> std::io::Result<Self> {
        let ScrubSettings { config, files, progress, requests } = settings;
        let rate = config.bytes_per_second;
        let host = Arc::new(Host {
            core: Arc::clone(&core),
            progress,
            rate,
            stopping: Mutex::new(false),
            stop: Condvar::new(),
            owed: Mutex::new(Duration::ZERO),
        });
        let as_host = Arc::clone(&host) as Arc<dyn ScrubHost>;
        let worker = Worker {
            scrub: Scrub::new(Arc::clone(&files.disk), files.dirs.clone(), as_host),
            known: KnownDamage::new(files.damaged.clone()),
            core,
            files,
            requests,
            host: Arc::clone(&host),
            repaired_at: None,
            is_repairing: false,
        };
        let handle = spawn("scrub", move || worker.run(config.pause()))?;
        Ok(Scrubber { host, handle })
    }

    /// Ends it at its next step. It may wait for a snapshot, which ends when the thread for snapshots is stopped.
    pub fn begin_stop(&self) {
        *self.host.stopping.lock() = true;
        self.host.stop.notify_all();
    }

    /// Waits until it has ended.
    pub fn join(self) {
        self.begin_stop();
        _ = self.handle.join();
    }
}

/// What a pass asks of the server.
struct Host {
    core: Arc<Core>,
    progress: Arc<LogProgress>,
    rate: NonZeroU64,
    stopping: Mutex<bool>,
    stop: Condvar,
    /// The time that reading should have taken so far.
    owed: Mutex<Duration>,
}

impl Host {
    /// Waits; breaks at once when the server stops.
    fn wait(&self, duration: Duration) -> ControlFlow<()> {
        let end = Instant::now().checked_add(duration);
        let mut stopping = self.stopping.lock();
        while !*stopping {
            match end {
                None => self.stop.wait(&mut stopping),
                Some(end) => {
                    if self.stop.wait_until(&mut stopping, end).timed_out() {
                        break;
                    }
                }
            }
        }
        if *stopping { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.lock()
    }
}

impl ScrubHost for Host {
    fn pace(&self, bytes: u64) -> ControlFlow<()> {
        self.core.stats.scrub.bytes.add(bytes);
        let wait = {
            let mut owed = self.owed.lock();
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.get());
            *owed += Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            if *owed < WAIT_MIN { Duration::ZERO } else { std::mem::take(&mut *owed) }
        };
        if self.progress.has_failed() {
            return ControlFlow::Break(());
        }
        self.wait(wait)
    }

    fn log_state(&self) -> Option<LogState> {
        self.progress.state()
    }
}

struct Worker {
    scrub: Scrub,
    known: KnownDamage,
    core: Arc<Core>,
    files: SnapshotSettings,
    requests: Arc<SnapshotRequests>,
    host: Arc<Host>,
    /// When the last snapshot was asked for.
    repaired_at: Option<Instant>,
    /// Something is damaged that a start needs.
    is_repairing: bool,
}

impl Worker {
    fn run(mut self, pause: Duration) {
        let mut wait = pause.min(FIRST_PAUSE_MAX);
        let mut all_at = Instant::now().checked_add(wait);
        while self.host.wait(wait).is_continue() && !self.host.progress.has_failed() {
            let is_due = all_at.is_some_and(|at| at <= Instant::now());
            let scope = if is_due { ScrubScope::All } else { ScrubScope::NeededAtStart };
            match self.look(scope) {
                Ok(()) if is_due => all_at = Instant::now().checked_add(pause),
                Ok(()) => {}
                Err(ScrubError::Stopped) => continue,
                Err(failure) => {
                    debug!("the data directory was not checked for damage: {failure}");
                    wait = pause.min(RETRY_PAUSE);
                    continue;
                }
            }
            let left = |at: Instant| at.saturating_duration_since(Instant::now());
            wait = all_at.map_or(Duration::MAX, left);
            if self.is_repairing {
                wait = wait.min(self.repair_pause());
            }
        }
    }

    /// The time until the next repair may be tried.
    fn repair_pause(&self) -> Duration {
        self.repaired_at.map_or(Duration::ZERO, |at| REPAIR_PAUSE.saturating_sub(at.elapsed()))
    }

    /// Reads the files, and repairs what can be.
    fn look(&mut self, scope: ScrubScope) -> Result<(), ScrubError> {
        let mut report = self.pass(scope)?;
        if report.wants_snapshot() && self.repair_pause().is_zero() {
            self.is_repairing = true;
            self.repaired_at = Some(Instant::now());
            self.repair(&report)?;
            report = self.pass(ScrubScope::NeededAtStart)?;
            if let (Some(log), Some(newest)) = (report.covered_end, report.newest_valid()) {
                self.set_aside(report.changes, log, newest.zxid)?;
                report = self.pass(ScrubScope::NeededAtStart)?;
            }
        }
        match (report.wants_snapshot(), self.is_repairing) {
            (false, true) => self.report_repaired(&report),
            (true, _) => error!(
                "a restart of this server would fail or lose a snapshot to start from: damaged files could not be \
                 repaired yet; trying again in {} s. Do not stop this server before that, and check the disk",
                self.repair_pause().as_secs()
            ),
            (false, false) => {}
        }
        self.is_repairing = report.wants_snapshot();
        Ok(())
    }

    fn pass(&mut self, scope: ScrubScope) -> Result<ScrubReport, ScrubError> {
        let report = self.scrub.pass(scope)?;
        for finding in self.known.update(&report, scope) {
            warn!("{finding}; {}", advice(&finding));
        }
        self.forget_missing();
        let stats = &self.core.stats.scrub;
        if scope == ScrubScope::All {
            stats.passes.add(1);
            stats.last_pass_ms.store(wall_ms().cast_unsigned(), Ordering::Relaxed);
        }
        Ok(report)
    }

    /// Forgets damaged files that were purged or renamed, and updates the metrics.
    fn forget_missing(&mut self) {
        let (disk, dirs) = (&*self.files.disk, &self.files.dirs);
        if let (Ok(logs), Ok(snapshots)) =
            (list_logs(disk, &dirs.log), list_snapshots(disk, &dirs.data))
        {
            let mut present: Vec<DataFile> = logs.into_iter().map(DataFile::Log).collect();
            present.extend(snapshots.into_iter().map(DataFile::Snapshot));
            self.known.retain(|file| present.contains(&file));
        }
        let (damaged, needed) = self.known.counts();
        let stats = &self.core.stats.scrub;
        // In this order: who reads the first number finds the second one set.
        stats.needed_files.store(needed, Ordering::Relaxed);
        stats.damaged_files.store(damaged, Ordering::Release);
    }

    /// Begins a new log file, and takes a snapshot of everything that the log had when it was read.
    fn repair(&mut self, report: &ScrubReport) -> Result<(), ScrubError> {
        self.core.change_disk(DiskChange::RollLog);
        let start = Instant::now();
        while self.core.tree().last_zxid() < report.last_zxid {
            if start.elapsed() > RETRY_PAUSE || self.host.progress.changes() != report.changes {
                return Err(ScrubError::Unsettled);
            }
            if self.host.wait(POLL).is_break() {
                return Err(ScrubError::Stopped);
            }
        }
        if self.host.is_stopping() || self.host.progress.has_failed() {
            return Err(ScrubError::Stopped);
        }
        // A failure is in the log already, and the next pass shows what is missing.
        _ = self.requests.request_and_wait();
        Ok(())
    }

    fn report_repaired(&self, report: &ScrubReport) {
        let newest = report.newest_valid().map(|name| name.path(&self.files.dirs.data));
        info!(
            "the damage is repaired: a start needs only {} and the log after it, and both were read back",
            newest.unwrap_or_default().display()
        );
    }

    /// Lets the thread that owns the log rename a file, and waits for it.
    fn set_aside(&self, changes: u64, log: LogName, covered: Zxid) -> Result<(), ScrubError> {
        let (done, is_done) = channel();
        let order = SetAside { changes, log, covered, done };
        self.core.change_disk(DiskChange::SetAside(order));
        loop {
            match is_done.recv_timeout(POLL) {
                Ok(()) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(ScrubError::Unsettled),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.host.is_stopping() || self.host.progress.has_failed() {
                return Err(ScrubError::Stopped);
            }
        }
    }
}

fn advice(finding: &Finding) -> &'static str {
    if finding.is_covered {
        "a start of this server does not need it, and a purge will remove it; check the disk"
    } else {
        "a start of this server would need it. Everything is still in memory: a snapshot will be taken; check the disk"
    }
}

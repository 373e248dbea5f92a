//! The thread that copies finished log files and complete snapshots to the archive.
//!
//! In: how far the log files are finished (from the commit thread) and committed (from the node). Out: verified copies,
//! made by `herdsman_store::archive`, and what purges and metrics need to know about them. The thread has the log file
//! ended at an interval, if anything was written, so that the last points are soon in the archive; it reads files that
//! nobody writes, at a limited rate, and takes no lock while it copies.
//!
//! A failure never stops the server. It is logged once a minute, counted, and the work is tried again. Purges keep what
//! is not archived yet, but not for ever ([`ArchiveProgress::purge_floor`]).

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use herdsman_config::{Config, Mode};
use herdsman_node::Node;
use herdsman_proto::Zxid;
use herdsman_runtime::{LimitedLog, spawn, wall_ms};
use herdsman_store::archive::history::{self, ArchivedServer};
use herdsman_store::archive::{Archive, ArchiveError, ArchiveSource, Pass};
use herdsman_store::{Dirs, Disk};
use parking_lot::{Condvar, Mutex};
use tracing::{info, warn};

use crate::core::Core;
use crate::log::disk_keeper::{DiskChange, DiskKeeper};
use crate::operators::stats::Counter;
use crate::start::settings::random_seed;

/// How often the thread looks for finished files.
const TICK: Duration = Duration::from_secs(1);
/// How often it looks for snapshots, if the log is not ended at an interval.
const PERIOD_WITHOUT_ROLLS: Duration = Duration::from_secs(60);
/// How long it waits after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// How often damaged files are tried again, and old files are removed from the archive.
const UPKEEP: Duration = Duration::from_secs(3600);
/// How long purges wait for an archive that does not get further.
const PURGE_WAITS_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a stop waits for the thread.
const STOP_WAITS_MAX: Duration = Duration::from_secs(5);
/// The directory of a standalone server in the archive.
const STANDALONE: &str = "server";
const DAY_MS: i64 = 86_400_000;

/// How and where files are archived.
#[derive(Clone)]
pub(crate) struct ArchiveSettings {
    /// The root of the archive.
    pub(crate) root: PathBuf,
    /// The server's directory in it.
    pub(crate) server: String,
    /// The disk of both.
    pub(crate) disk: Arc<dyn Disk>,
    /// The server's files.
    pub(crate) dirs: Dirs,
    /// How often the log file is ended.
    pub(crate) roll_every: Option<Duration>,
    /// The rate.
    pub(crate) bytes_per_second_max: Option<NonZeroU64>,
    /// How long files stay in the archive.
    pub(crate) keep_days: Option<u32>,
    /// The last txn that the server had when it started.
    pub(crate) last_zxid: Zxid,
    /// Where others see how far the archive is.
    pub(crate) progress: Arc<ArchiveProgress>,
}

impl ArchiveSettings {
    /// For a server that starts; its log continues in a new file. `None` if nothing is archived.
    pub(crate) fn of(config: &Config, keeper: &DiskKeeper, last_zxid: Zxid) -> Option<Self> {
        let archive = &config.archive;
        let progress = Arc::clone(keeper.snapshots.archive.as_ref()?);
        progress.set_finished(last_zxid);
        let every = u64::from(archive.every_seconds);
        Some(ArchiveSettings {
            root: archive.dir.clone()?,
            server: match &config.mode {
                Mode::Standalone => STANDALONE.to_owned(),
                Mode::Ensemble { my_id, .. } => my_id.0.to_string(),
            },
            disk: Arc::clone(&keeper.disk),
            dirs: keeper.dirs.clone(),
            roll_every: (every > 0).then(|| Duration::from_secs(every)),
            bytes_per_second_max: archive.bytes_per_second_max,
            keep_days: archive.keep_days.map(std::num::NonZeroU32::get),
            last_zxid,
            progress,
        })
    }
}

/// How far the archive is: shared by the thread, the commit thread, purges and metrics.
#[derive(Debug)]
pub struct ArchiveProgress {
    /// Log files up to this txn are no longer written.
    finished: AtomicI64,
    /// Log files up to this txn are in the archive.
    archived: AtomicI64,
    /// When everything that was finished was in the archive.
    complete_at: Mutex<Instant>,
    stopping: Mutex<bool>,
    changed: Condvar,
    /// The thread has ended.
    ended: Mutex<bool>,
    has_ended: Condvar,
    /// Files copied.
    pub(crate) files: Counter,
    /// Bytes copied.
    pub(crate) bytes: Counter,
    /// Passes that failed.
    pub(crate) failures: Counter,
    /// Damaged files found.
    pub(crate) damaged: Counter,
}

impl Default for ArchiveProgress {
    fn default() -> Self {
        ArchiveProgress {
            finished: AtomicI64::new(0),
            archived: AtomicI64::new(0),
            complete_at: Mutex::new(Instant::now()),
            stopping: Mutex::new(false),
            changed: Condvar::new(),
            ended: Mutex::new(false),
            has_ended: Condvar::new(),
            files: Counter::default(),
            bytes: Counter::default(),
            failures: Counter::default(),
            damaged: Counter::default(),
        }
    }
}

impl ArchiveProgress {
    /// Notes that no log file with a txn up to this one is written any more.
    pub(crate) fn set_finished(&self, zxid: Zxid) {
        self.finished.store(zxid.0, Ordering::Release);
    }

    fn finished(&self) -> Zxid {
        Zxid(self.finished.load(Ordering::Acquire))
    }

    /// Log files up to this txn are in the archive.
    pub(crate) fn archived(&self) -> Zxid {
        Zxid(self.archived.load(Ordering::Acquire))
    }

    fn set_archived(&self, zxid: Zxid) {
        self.archived.store(zxid.0, Ordering::Release);
    }

    /// How long the archive has not been complete.
    pub(crate) fn behind_for(&self) -> Duration {
        self.complete_at.lock().elapsed()
    }

    /// Purges keep the txns after this one. `None` if they should no longer wait: a full disk stops the server, and
    /// that is worse than a hole in the archive.
    pub(crate) fn purge_floor(&self) -> Option<Zxid> {
        let archived = self.archived();
        let may_wait = archived >= self.finished() || self.behind_for() < PURGE_WAITS_MAX;
        may_wait.then_some(archived)
    }

    fn stop(&self) {
        *self.stopping.lock() = true;
        self.changed.notify_all();
    }

    fn note_end(&self) {
        *self.ended.lock() = true;
        self.has_ended.notify_all();
    }

    /// Waits until the thread has ended; false if it takes longer than `patience`.
    fn wait_for_end(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut ended = self.ended.lock();
        while !*ended && !self.has_ended.wait_until(&mut ended, deadline).timed_out() {}
        *ended
    }

    /// Sleeps, but not past a stop. Returns whether the work goes on.
    fn wait(&self, until: Instant) -> ControlFlow<()> {
        let mut stopping = self.stopping.lock();
        while !*stopping && !self.changed.wait_until(&mut stopping, until).timed_out() {}
        if *stopping { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The running thread.
pub(crate) struct Archiver {
    progress: Arc<ArchiveProgress>,
    handle: JoinHandle<()>,
}

impl Archiver {
    /// Starts it.
    pub(crate) fn start(core: Arc<Core>, settings: ArchiveSettings) -> std::io::Result<Self> {
        let progress = Arc::clone(&settings.progress);
        let shared = Arc::clone(&progress);
        let work = move || {
            ArchiveThread::new(core, settings).run();
            shared.note_end();
        };
        let handle = spawn("archive", work)?;
        Ok(Archiver { progress, handle })
    }

    /// Ends it. A copy under way is given up; the next start makes it. A thread that waits for an archive that does not
    /// answer, such as a network disk, is left behind.
    pub(crate) fn stop(self) {
        self.progress.stop();
        if self.progress.wait_for_end(STOP_WAITS_MAX) {
            _ = self.handle.join();
        } else {
            warn!("the archive does not answer; stopping without waiting for it");
        }
    }
}

struct ArchiveThread {
    core: Arc<Core>,
    settings: ArchiveSettings,
    progress: Arc<ArchiveProgress>,
    archive: Option<Archive>,
    /// The last txn when the log file was last to be ended.
    asked_to_end: Zxid,
    failures: LimitedLog,
    is_failing: bool,
    upkeep_at: Instant,
}

impl ArchiveThread {
    fn new(core: Arc<Core>, settings: ArchiveSettings) -> Self {
        ArchiveThread {
            core,
            progress: Arc::clone(&settings.progress),
            settings,
            archive: None,
            asked_to_end: Zxid::ZERO,
            failures: LimitedLog::once_a_minute(),
            is_failing: false,
            upkeep_at: Instant::now() + UPKEEP,
        }
    }

    fn run(mut self) {
        let period = self.settings.roll_every.unwrap_or(PERIOD_WITHOUT_ROLLS);
        let mut look_at = Instant::now();
        let mut next = Instant::now();
        while self.progress.wait(next).is_continue() {
            let is_due = Instant::now() >= look_at;
            if is_due {
                look_at = Instant::now() + period;
                self.end_log_file();
            }
            let is_behind = self.progress.archived() < self.progress.finished();
            let worked = if is_due || is_behind { self.work() } else { Ok(()) };
            next = Instant::now() + TICK;
            match worked {
                Err(ArchiveError::Stopped) => return,
                Err(error) => {
                    self.report(&error);
                    next = Instant::now() + RETRY;
                }
                Ok(()) => self.note_success(),
            }
        }
    }

    /// Has the log file ended if it has txns. A disk that takes nothing is asked once.
    fn end_log_file(&mut self) {
        let last = self.core.tree().last_zxid();
        let is_written = last > self.progress.finished() && last != self.asked_to_end;
        if self.settings.roll_every.is_some() && is_written {
            self.asked_to_end = last;
            self.core.change_disk(DiskChange::EndLogFile);
        }
    }

    /// Copies what is finished and committed.
    fn work(&mut self) -> Result<(), ArchiveError> {
        let begun = Instant::now();
        // Before the files are read: what is committed by now is not truncated later.
        let finished = self.progress.finished();
        let committed = committed(&self.core);
        let mut archive = match self.archive.take() {
            Some(archive) => archive,
            None => self.open()?,
        };
        let ArchiveSettings { disk, dirs, .. } = &self.settings;
        let source = ArchiveSource { disk: &**disk, dirs, finished, committed };
        let mut throttle = Throttle::new(&self.settings, &self.progress);
        let passed = archive.pass(&source, &mut |bytes| throttle.step(bytes));
        self.progress.set_archived(archive.archived_until());
        let kept = self.keep_up(&mut archive);
        self.archive = Some(archive);
        let pass = passed?;
        if !pass.is_waiting {
            *self.progress.complete_at.lock() = begun;
        }
        self.count(&pass);
        kept
    }

    fn open(&self) -> Result<Archive, ArchiveError> {
        let ArchiveSettings { root, server, disk, dirs, last_zxid, .. } = &self.settings;
        let server = ArchivedServer { disk: &**disk, dirs, name: server, last_zxid: *last_zxid };
        let mut name = || format!("{:016x}{:016x}", random_seed(), random_seed());
        let archive = history::open(disk, root, server, &mut name)?;
        info!("archiving logs and snapshots to {}", archive.dir().display());
        Ok(archive)
    }

    fn count(&self, pass: &Pass) {
        self.progress.files.add(pass.files);
        self.progress.bytes.add(pass.bytes);
        self.progress.damaged.add(pass.damaged.len() as u64);
        for (path, reason) in &pass.damaged {
            warn!(
                "{} is not archived: {reason}; points that need it cannot be restored from the archive",
                path.display()
            );
        }
    }

    /// Does what need not be done at each pass.
    fn keep_up(&mut self, archive: &mut Archive) -> Result<(), ArchiveError> {
        if Instant::now() < self.upkeep_at {
            return Ok(());
        }
        self.upkeep_at = Instant::now() + UPKEEP;
        archive.retry_damaged();
        let Some(days) = self.settings.keep_days else { return Ok(()) };
        let purged = archive.purge_before(wall_ms() - i64::from(days) * DAY_MS)?;
        if purged.logs + purged.snapshots > 0 {
            info!(
                "removed {} logs and {} snapshots from the archive (herdsman.archiveKeepDays={days})",
                purged.logs, purged.snapshots
            );
        }
        Ok(())
    }

    fn report(&mut self, error: &ArchiveError) {
        self.progress.failures.add(1);
        self.is_failing = true;
        self.failures.warn(format_args!(
            "{error}; it is tried again, and purges keep the files meanwhile, for at most 24 hours"
        ));
    }

    fn note_success(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            info!("the archive can be written again");
        }
    }
}

/// The last txn that is known to be committed, and that this server's files hold.
fn committed(core: &Core) -> Zxid {
    let agreed = |node: &Node| {
        let log = node.zab()?.log();
        Some(log.committed().min(log.flushed()))
    };
    core.with_node(agreed).unwrap_or_else(|| core.tree().last_zxid())
}

/// Keeps the copying below a rate, and ends it when the server stops.
struct Throttle<'a> {
    progress: &'a ArchiveProgress,
    bytes_per_second_max: Option<NonZeroU64>,
    next: Instant,
}

impl<'a> Throttle<'a> {
    fn new(settings: &ArchiveSettings, progress: &'a ArchiveProgress) -> Self {
        let bytes_per_second_max = settings.bytes_per_second_max;
        Throttle { progress, bytes_per_second_max, next: Instant::now() }
    }

    fn step(&mut self, bytes: u64) -> ControlFlow<()> {
        let now = Instant::now();
        if let Some(rate) = self.bytes_per_second_max {
            let seconds = bytes as f64 / rate.get() as f64;
            self.next = self.next.max(now) + Duration::from_secs_f64(seconds);
            return self.progress.wait(self.next);
        }
        self.progress.wait(now)
    }
}

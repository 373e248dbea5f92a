//! Snapshots while writes go on, and removal of old files.
//!
//! A thread of its own walks the tree in small steps, under a read guard each, and writes between
//! the steps. The result is fuzzy and replay makes it exact: see `herdsman_tree::dump`. At most one
//! snapshot is under way; a request that comes meanwhile is not kept, the next count will ask again.
//!
//! What an operator asks for is beside it: `copy` makes an exact copy that needs no log, `restore` puts
//! such a copy in the place of everything.

mod copy;
mod forecast;
mod restore;
mod service;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use herdsman_proto::Zxid;
use herdsman_store::snapshot::LastZxid;
use herdsman_store::{
    Compression, Dirs, Disk, LogName, SnapshotFile, SnapshotWriteError, SnapshotWriter, Trailer,
    plan_purge_of, purge_knowing,
};
use herdsman_tree::Dump;
use parking_lot::{Condvar, Mutex};
use tracing::{error, info, warn};

use crate::core::Core;
use crate::log::archive::ArchiveProgress;
use crate::log::scrubber::DamagedSnapshots;
use herdsman_config::Purge;
use herdsman_runtime::millis;
use herdsman_runtime::spawn;

pub use copy::{CopyError, TreeCopy};
pub use forecast::PurgeForecast;
pub use restore::{
    IncomingError, IncomingSnapshot, RestoreError, RestoreRequest, Restored, VerifiedSnapshot,
};
pub(crate) use restore::{resume_writes, stop_writes, tell, zxid_after};
pub use service::SnapshotService;

/// Znodes written down under one guard of the tree.
const NODES_PER_GUARD: usize = 128;
/// Written down before it goes to the disk.
const SPILL_BYTES: usize = 256 * 1024;

/// Znodes that a snapshot of a large tree writes for each txn since the one before. So snapshots cost the same for each
/// txn, however large the tree is.
const ZNODES_PER_TXN: u64 = 4;

/// The most txns between two snapshots; the actual number is random between half of it and all of it.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotTxns {
    /// The limit for a small tree.
    pub small_tree_max: u64,
    /// Whether a large tree raises the limit to a quarter of its znodes.
    pub follow_tree: bool,
}

impl SnapshotTxns {
    fn max(self, znodes: u64) -> u64 {
        let for_tree = if self.follow_tree { znodes / ZNODES_PER_TXN } else { 0 };
        self.small_tree_max.max(for_tree)
    }
}

/// When a snapshot is due. Apache: `SyncRequestProcessor.shouldSnapshot`.
#[derive(Debug)]
pub struct SnapshotPolicy {
    txns_max: SnapshotTxns,
    log_bytes_max: Option<u64>,
    txns: u64,
    log_bytes_before: u64,
    due_log_bytes: Option<u64>,
    requests: Arc<SnapshotRequests>,
    random: RandomState,
    draws: u64,
    draw: u64,
}

impl SnapshotPolicy {
    /// Counts from here; `txns` are in the log already since the last snapshot.
    #[must_use]
    pub fn new(
        txns_max: SnapshotTxns,
        log_bytes_max: Option<u64>,
        txns: u64,
        requests: Arc<SnapshotRequests>,
    ) -> Self {
        let mut policy = SnapshotPolicy {
            txns_max,
            log_bytes_max,
            txns,
            log_bytes_before: 0,
            due_log_bytes: None,
            requests,
            random: RandomState::new(),
            draws: 0,
            draw: 0,
        };
        policy.draw();
        policy
    }

    /// Servers of an ensemble should not all snapshot at once, so the point is a random one in the
    /// upper half.
    fn draw(&mut self) {
        self.draws += 1;
        self.draw = self.random.hash_one(self.draws);
        self.due_log_bytes = self.log_bytes_max.map(|max| point_in_upper_half(max, self.draw));
    }

    /// Counts txns that were logged. True when the log should roll, because a snapshot was asked for.
    /// `znodes` is asked only if it matters.
    pub fn count(&mut self, txns: usize, log_bytes: u64, znodes: impl FnOnce() -> u64) -> bool {
        self.txns += txns as u64;
        // A log that took another one's place counts anew.
        self.log_bytes_before = self.log_bytes_before.min(log_bytes);
        let bytes = log_bytes - self.log_bytes_before;
        let has_txns =
            |znodes| self.txns >= point_in_upper_half(self.txns_max.max(znodes), self.draw);
        let due = self.due_log_bytes.is_some_and(|due| bytes >= due)
            || (has_txns(0) && (!self.txns_max.follow_tree || has_txns(znodes())));
        if !due || !self.requests.request() {
            return false;
        }
        self.txns = 0;
        self.log_bytes_before = log_bytes;
        self.draw();
        true
    }
}

fn point_in_upper_half(max: u64, draw: u64) -> u64 {
    max / 2 + draw % (max / 2).max(1) + 1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Wanted,
    Busy,
    Stopping,
}

#[derive(Debug)]
struct Requested {
    state: State,
    /// The thread must not touch the directory.
    held: bool,
}

/// How the snapshotting thread is asked.
#[derive(Debug)]
pub struct SnapshotRequests {
    /// One mutex for both: whoever waits must not miss a change of either.
    state: Mutex<Requested>,
    changed: Condvar,
    /// How many snapshots were tried, and what became of the last one.
    last: Mutex<(u64, Option<SnapshotResult>)>,
}

/// What became of a snapshot. The failure is for people.
pub type SnapshotResult = Result<SnapshotFile, String>;

impl Default for SnapshotRequests {
    fn default() -> Self {
        SnapshotRequests {
            state: Mutex::new(Requested { state: State::Idle, held: false }),
            changed: Condvar::new(),
            last: Mutex::default(),
        }
    }
}

/// While it lives, no snapshot is written and nothing is purged.
#[derive(Debug)]
pub struct SnapshotHold<'a>(&'a SnapshotRequests);

impl Drop for SnapshotHold<'_> {
    fn drop(&mut self) {
        self.0.state.lock().held = false;
        self.0.changed.notify_all();
    }
}

impl SnapshotRequests {
    /// Asks for a snapshot; false if one is under way or the server stops.
    pub fn request(&self) -> bool {
        let mut requested = self.state.lock();
        if requested.state != State::Idle {
            return false;
        }
        requested.state = State::Wanted;
        self.changed.notify_all();
        true
    }

    /// Asks for a snapshot, behind one that is under way, and waits for it.
    ///
    /// # Errors
    /// It could not be written, or the server stops.
    pub fn request_and_wait(&self) -> SnapshotResult {
        let stopping = || Err("the server is stopping".to_owned());
        let mut requested = self.state.lock();
        while requested.state != State::Idle {
            if requested.state == State::Stopping {
                return stopping();
            }
            self.changed.wait(&mut requested);
        }
        requested.state = State::Wanted;
        let tried_before = self.last.lock().0;
        self.changed.notify_all();
        loop {
            if let (tried, Some(result)) = &*self.last.lock()
                && *tried > tried_before
            {
                return result.clone();
            }
            if requested.state == State::Stopping {
                return stopping();
            }
            self.changed.wait(&mut requested);
        }
    }

    /// Keeps the thread from touching the directory; a snapshot under way is given up. Waits until it
    /// has.
    pub fn hold(&self) -> SnapshotHold<'_> {
        let mut requested = self.state.lock();
        requested.held = true;
        while requested.state == State::Busy {
            self.changed.wait(&mut requested);
        }
        SnapshotHold(self)
    }

    fn stop(&self) {
        self.state.lock().state = State::Stopping;
        self.changed.notify_all();
    }

    /// Waits for a request until `deadline`. `Some(true)`: take a snapshot; `None`: stop. The thread
    /// is busy from then on.
    fn wait(&self, deadline: Option<Instant>) -> Option<bool> {
        let mut requested = self.state.lock();
        loop {
            match requested.state {
                State::Stopping => return None,
                _ if requested.held => self.changed.wait(&mut requested),
                State::Wanted => {
                    requested.state = State::Busy;
                    return Some(true);
                }
                State::Idle | State::Busy => match deadline {
                    None => self.changed.wait(&mut requested),
                    Some(deadline) => {
                        if self.changed.wait_until(&mut requested, deadline).timed_out()
                            && requested.state == State::Idle
                            && !requested.held
                        {
                            requested.state = State::Busy;
                            return Some(false);
                        }
                    }
                },
            }
        }
    }

    /// The thread is idle again; `result` is what became of the snapshot, if it was one.
    fn done(&self, result: Option<SnapshotResult>) {
        let mut requested = self.state.lock();
        if result.is_some() {
            let mut last = self.last.lock();
            *last = (last.0 + 1, result);
        }
        if requested.state == State::Busy {
            requested.state = State::Idle;
        }
        self.changed.notify_all();
    }

    /// A snapshot under way should be given up.
    fn is_unwanted(&self) -> bool {
        let requested = self.state.lock();
        requested.held || requested.state == State::Stopping
    }
}

/// How and where snapshots are kept.
#[derive(Clone)]
pub struct SnapshotSettings {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Where.
    pub dirs: Dirs,
    /// How they are packed.
    pub compression: Compression,
    /// Whether the trailer has the last zxid.
    pub last_zxid: LastZxid,
    /// When old files are removed, and how many snapshots stay; `None` keeps all.
    pub purge: Option<Purge>,
    /// The archive, if there is one: a purge keeps what is not in it yet.
    pub archive: Option<Arc<ArchiveProgress>>,
    /// Snapshots that are known to be damaged: a purge does not count them.
    pub damaged: DamagedSnapshots,
}

/// The snapshotting thread.
pub struct Snapshotter {
    requests: Arc<SnapshotRequests>,
    handle: JoinHandle<()>,
}

impl Snapshotter {
    /// Starts it.
    pub fn start(
        core: Arc<Core>,
        requests: Arc<SnapshotRequests>,
        settings: SnapshotSettings,
    ) -> std::io::Result<Self> {
        let asked = Arc::clone(&requests);
        let work = move || serve_requests(&core, &asked, &settings);
        let handle = spawn("snapshot", work)?;
        Ok(Snapshotter { requests, handle })
    }

    /// Ends it; a snapshot under way is given up, it would be taken again after the next start.
    pub fn stop(self) {
        self.requests.stop();
        _ = self.handle.join();
    }
}

fn serve_requests(core: &Core, requests: &SnapshotRequests, settings: &SnapshotSettings) {
    // Never at once: an operator who reads in the log what will go has this long to keep it.
    let next_purge =
        || settings.purge.and_then(|purge| Instant::now().checked_add(purge.interval()));
    let mut purge_at = next_purge();
    forecast::announce(settings);
    while let Some(snapshot_wanted) = requests.wait(purge_at) {
        let mut result = None;
        if snapshot_wanted {
            result = Some(take_snapshot(core, requests, settings));
        } else if let Some(purge) = settings.purge {
            purge_old_files(core, settings, purge.snapshots_kept as usize);
            purge_at = next_purge();
        }
        requests.done(result);
    }
}

fn take_snapshot(
    core: &Core,
    requests: &SnapshotRequests,
    settings: &SnapshotSettings,
) -> SnapshotResult {
    let start = Instant::now();
    match write_in_steps(core, requests, settings) {
        Ok(Some(file)) => {
            let took_ms = millis(start.elapsed());
            core.stats.snapshot.add(took_ms);
            info!("snapshot {} of {} bytes took {took_ms} ms", file.path.display(), file.bytes);
            Ok(file)
        }
        Ok(None) => {
            let given_up = "snapshot abandoned: the server is stopping, or its tree was replaced";
            info!("{given_up}");
            Err(given_up.to_owned())
        }
        Err(failure) => {
            core.stats.snapshot_errors.add(1);
            error!("{failure}; log files are kept until a later snapshot succeeds");
            Err(failure.to_string())
        }
    }
}

/// Writes a snapshot while writes go on; the tree is held for a step at a time. `None` when the
/// server stops before it is done, or the tree was replaced by one from the leader.
fn write_in_steps(
    core: &Core,
    requests: &SnapshotRequests,
    settings: &SnapshotSettings,
) -> Result<Option<SnapshotFile>, SnapshotWriteError> {
    let (mut dump, generation) = {
        let tree = core.tree();
        (Dump::start(&tree), core.tree_generation())
    };
    let mut writer = SnapshotWriter::begin(
        Arc::clone(&settings.disk),
        &settings.dirs.data,
        (dump.zxid(), settings.compression),
        dump.sessions(),
        dump.acls(),
    )?;
    let mut more = true;
    while more {
        let tree = core.tree();
        if core.tree_generation() != generation {
            return Ok(None);
        }
        more = dump.step(&tree, NODES_PER_GUARD, &mut |path, data, acl, stat| {
            writer.encode_node(path, data, acl, stat);
        });
        drop(tree);
        if writer.buffered_bytes() >= SPILL_BYTES {
            writer.spill(&mut |_| {})?;
            if requests.is_unwanted() {
                return Ok(None);
            }
        }
    }
    let trailer = {
        let tree = core.tree();
        if core.tree_generation() != generation {
            return Ok(None);
        }
        Trailer::of(&tree, settings.last_zxid)
    };
    writer.finish(&trailer, &mut |_| {}).map(Some)
}

fn purge_old_files(core: &Core, settings: &SnapshotSettings, keep: usize) {
    let now_ms = core.clock.monotonic_ms();
    let needed = core.with_node(|node| node.zab().and_then(|zab| zab.log_needed_after(now_ms)));
    let needed = [needed, needed_by_archive(settings, keep, needed)].into_iter().flatten().min();
    let damaged = settings.damaged.get();
    match purge_knowing(&*settings.disk, &settings.dirs, keep, needed, &damaged) {
        Ok(removed) if removed.is_empty() => {}
        Ok(removed) => {
            info!(
                "purge removed {} old files and kept {keep} snapshots (autopurge)",
                removed.len()
            );
        }
        Err(failure) => warn!("purge failed: {failure}; it will be retried"),
    }
}

/// The txn after which the archive needs the log, as long as the disk has room for what is kept only for that.
fn needed_by_archive(
    settings: &SnapshotSettings,
    keep: usize,
    needed: Option<Zxid>,
) -> Option<Zxid> {
    let floor = settings.archive.as_ref()?.purge_floor()?;
    let SnapshotSettings { disk, dirs, .. } = settings;
    let held = held_bytes(&**disk, dirs, keep, (needed, floor));
    match held.and_then(|held| Ok((held, disk.free_bytes(&dirs.log)?))) {
        Ok((held, free)) if held > free => {
            warn!(
                "purging log files that are not archived yet: they take {held} bytes and {free} are free"
            );
            None
        }
        Ok(_) => Some(floor),
        Err(failure) => {
            warn!("cannot tell what the archive still needs: {failure}; purging nothing of it");
            Some(floor)
        }
    }
}

/// Bytes of the logs that would be removed if the archive did not need the txns after `floor`.
fn held_bytes(
    disk: &dyn Disk,
    dirs: &Dirs,
    keep: usize,
    (needed, floor): (Option<Zxid>, Zxid),
) -> std::io::Result<u64> {
    let all = plan_purge_of(disk, dirs, keep, needed)?.logs;
    let floor = needed.map_or(floor, |needed| needed.min(floor));
    let without_held: BTreeSet<LogName> =
        plan_purge_of(disk, dirs, keep, Some(floor))?.logs.into_iter().collect();
    let held = all.iter().filter(|name| !without_held.contains(name));
    let held: BTreeSet<String> = held.map(|name| name.file_name()).collect();
    let entries = disk.list(&dirs.log)?;
    Ok(entries.iter().filter(|entry| held.contains(&entry.name)).map(|entry| entry.bytes).sum())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The number of txns after which a snapshot is asked for.
    fn due_after(small_tree_max: u64, follow_tree: bool, znodes: u64) -> u64 {
        let txns = SnapshotTxns { small_tree_max, follow_tree };
        let mut policy = SnapshotPolicy::new(txns, None, 0, Arc::default());
        (1..).find(|_| policy.count(1, 0, || znodes)).unwrap()
    }

    #[test]
    fn a_snapshot_is_due_in_the_upper_half_of_its_txns() {
        for _ in 0..100 {
            assert!((51..=100).contains(&due_after(100, true, 50)));
            assert!((51..=100).contains(&due_after(100, false, 1_000_000)));
        }
    }

    #[test]
    fn a_large_tree_has_fewer_snapshots() {
        for _ in 0..100 {
            assert!((501..=1_000).contains(&due_after(100, true, 4_000)));
        }
    }

    /// A request made while the thread is held is served when the hold ends, at whatever moment that is.
    #[test]
    fn the_end_of_a_hold_is_not_missed() {
        let requests = Arc::new(SnapshotRequests::default());
        let (sender, served) = mpsc::channel();
        let asked = Arc::clone(&requests);
        let thread = std::thread::spawn(move || {
            while asked.wait(None).is_some() {
                asked.done(None);
                sender.send(()).unwrap();
            }
        });
        for _ in 0..2000 {
            let hold = requests.hold();
            assert!(requests.request());
            drop(hold);
            served.recv().unwrap();
        }
        requests.stop();
        thread.join().unwrap();
    }
}

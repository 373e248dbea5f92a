//! Damage of every kind is found, and nothing that a working server does is taken for damage.

use std::path::Path;
use std::sync::Mutex;

use super::*;
use crate::disk::{MemoryDisk, RealDisk};
use crate::history::{HistoryLimits, read_history};
use crate::install::install_snapshot;
use crate::log::HEADER_BYTES;
use crate::log::range::{LogRange, PrecedingTxn, RangeError};
use crate::log::writer::{LogWriter, SyncMode};
use crate::names::Compression;
use crate::purge::purge;
use crate::recover::{RecoverOptions, load};
use crate::snapshot::LastZxid;
use crate::snapshot::writer::write_snapshot;
use crate::testing::*;

/// A server that only stands by.
struct Idle {
    state: LogState,
    /// Reads after which the pass is ended.
    reads: Mutex<Option<u32>>,
}

impl Idle {
    fn at(writer: &LogWriter) -> Self {
        Idle { state: state_of(writer, 0), reads: Mutex::new(None) }
    }
}

impl ScrubHost for Idle {
    fn pace(&self, _: u64) -> ControlFlow<()> {
        match &mut *self.reads.lock().unwrap() {
            Some(0) => ControlFlow::Break(()),
            Some(reads) => {
                *reads -= 1;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Continue(()),
        }
    }

    fn log_state(&self) -> Option<LogState> {
        Some(self.state)
    }
}

fn state_of(writer: &LogWriter, changes: u64) -> LogState {
    let name = |path: &Path| LogName::parse(path.file_name()?.to_str()?);
    let open = writer.current_file().and_then(|(path, end)| Some((name(path)?, end)));
    LogState { changes, last_zxid: writer.last_zxid(), open }
}

/// Three logs, the last of them open; snapshots of txns 0, 5 and 9.
fn three_logs() -> (MemoryDisk, LogWriter) {
    let disk = disk();
    snapshot(&disk, &tree_of(&[]));
    let mut log = writer(&disk, Zxid(0));
    write_batch(&mut log, 1, 3);
    write_batch(&mut log, 4, 5);
    snapshot(&disk, &tree_of(&creates(1..=5)));
    log.roll();
    write_batch(&mut log, 6, 9);
    snapshot(&disk, &tree_of(&creates(1..=9)));
    log.roll();
    write_batch(&mut log, 10, 12);
    write_batch(&mut log, 13, 14);
    (disk, log)
}

fn scrub(disk: &MemoryDisk, log: &LogWriter) -> ScrubReport {
    scrub_in(disk, log, ScrubScope::All)
}

fn scrub_in(disk: &MemoryDisk, log: &LogWriter, scope: ScrubScope) -> ScrubReport {
    let host = Arc::new(Idle::at(log));
    Scrub::new(Arc::new(disk.clone()), dirs(), host).pass(scope).unwrap()
}

fn would_start(disk: &MemoryDisk) -> bool {
    load(disk, &dirs(), &RecoverOptions::default(), &mut |_| {}).is_ok()
}

#[test]
fn intact_files_have_no_findings() {
    let (disk, log) = three_logs();
    let report = scrub(&disk, &log);
    assert_eq!(report.findings, []);
    assert_eq!(report.valid.iter().map(|name| name.zxid.0).collect::<Vec<_>>(), [0, 5, 9]);
    assert_eq!(report.last_zxid, Zxid(14));
    assert!(!report.wants_snapshot());
}

/// Whatever a start refuses is found before, and so is everything else that is checked.
#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (disk, log) = three_logs();
    let (_, log_end) = log.current_file().unwrap();
    let newest = Zxid(9);
    for (name, content) in files(&disk) {
        let path = dir().join(&name);
        let file = LogName::parse(&name)
            .map_or_else(|| DataFile::Snapshot(SnapshotName::parse(&name).unwrap()), DataFile::Log);
        let is_open = name == "log.a";
        // What follows the last record of an ended log is not read if the next one continues it.
        let end = match &name[..] {
            "log.1" => log_bytes(&creates(1..=5)).len(),
            "log.6" => log_bytes(&creates(6..=9)).len(),
            "log.a" => usize::try_from(log_end).unwrap(),
            _ => content.len(),
        };
        // Nobody reads a log's dbid.
        let is_checked = |at: usize| !name.starts_with("log.") || !(8..16).contains(&at);
        let is_needed = match file {
            DataFile::Log(_) => is_open,
            DataFile::Snapshot(name) => name.zxid >= newest,
        };
        for at in (0..end).filter(|at| is_checked(*at)) {
            disk.flip_bit(&path, at, u8::try_from(at % 8).unwrap());
            // Behind a damaged header the records are found all the same.
            let is_needed = is_needed && !(is_open && at < 8);
            let report = scrub(&disk, &log);
            let [finding] = &report.findings[..] else {
                panic!("{name} at {at}: {:?}", report.findings)
            };
            assert_eq!((finding.file, finding.is_covered), (file, !is_needed), "{finding}");
            assert!(would_start(&disk) || report.wants_snapshot(), "{finding}");
            let needed = scrub_in(&disk, &log, ScrubScope::NeededAtStart);
            assert_eq!(needed.wants_snapshot(), is_needed, "{finding}");
            disk.flip_bit(&path, at, u8::try_from(at % 8).unwrap());
        }
    }
    assert_eq!(scrub(&disk, &log).findings, []);
}

#[test]
fn what_is_not_durable_yet_is_not_read() {
    let (disk, mut log) = three_logs();
    let (path, end) = log.current_file().map(|(path, end)| (path.to_owned(), end)).unwrap();
    disk.open_write(&path).unwrap().write_at(end, b"half a record").unwrap();
    assert_eq!(scrub(&disk, &log).findings, []);
    // The next file is begun, and not in the state of the log yet.
    let before = Idle::at(&log);
    log.roll();
    write_batch(&mut log, 15, 15);
    let report = Scrub::new(Arc::new(disk), dirs(), Arc::new(before));
    let report = report.pass(ScrubScope::All).unwrap();
    assert_eq!(report.last_zxid, Zxid(14));
}

#[test]
fn a_log_that_is_gone_or_shorter_is_found() {
    let (disk, log) = three_logs();
    let (path, end) = log.current_file().map(|(path, end)| (path.to_owned(), end)).unwrap();
    let content = disk.content(&path).unwrap();
    let cut = |bytes: u64| {
        disk.put(&path, content[..usize::try_from(bytes).unwrap()].to_vec());
        scrub(&disk, &log)
    };
    let check = |report: &ScrubReport| {
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        assert!(report.wants_snapshot());
        assert_eq!(report.findings[0].path, path);
        assert_eq!(report.covered_end, None);
    };
    for bytes in [HEADER_BYTES, end - 1] {
        check(&cut(bytes));
    }
    disk.remove(&path).unwrap();
    check(&scrub(&disk, &log));
    disk.put(&path, content);
    assert_eq!(scrub(&disk, &log).findings, []);
    // A snapshot covers these.
    disk.remove(&log_path(6)).unwrap();
    assert_eq!(scrub(&disk, &log).findings, []);
}

/// Without a txn after it, nothing in the log shows that damage at its end is covered.
#[test]
fn a_covered_end_is_named_and_can_be_set_aside() {
    let (disk, mut log) = three_logs();
    let end = log.current_file().unwrap().1;
    disk.flip_bit(&log_path(10), usize::try_from(end).unwrap() - 5, 0);
    assert_eq!(scrub(&disk, &log).covered_end, None);
    snapshot(&disk, &tree_of(&creates(1..=14)));
    log.roll();
    let report = scrub(&disk, &log);
    assert!(!would_start(&disk));
    assert!(report.wants_snapshot());
    assert_eq!(report.covered_end, Some(LogName { zxid: Zxid(10) }));
    let name = report.covered_end.unwrap();
    assert_eq!(set_log_aside(&disk, dir(), name).unwrap(), dir().join("damaged.log.a"));
    assert!(set_log_aside(&disk, dir(), name).is_err());
    assert!(would_start(&disk));
    assert_eq!(scrub(&disk, &log).findings, []);
    write_batch(&mut log, 15, 16);
    assert_eq!(scrub(&disk, &log).findings, []);
    assert_eq!(recovered(&disk).tree.last_zxid(), Zxid(16));
}

/// The name of the file that was set aside shows that there were txns before a new epoch, also when the snapshot
/// that covers them is gone.
#[test]
fn what_was_set_aside_is_a_gap_in_the_history() {
    let (disk, _) = three_logs();
    let epoch_start = Zxid(0x1_0000_0001);
    let mut log = writer(&disk, Zxid(14));
    log.append(epoch_start, &payload(&create(epoch_start.0, 40))).unwrap();
    log.flush(SyncMode::Sync).unwrap();
    let limits = HistoryLimits { txns_max: 100, bytes_max: 1 << 20, after: Zxid(0) };
    let base = || read_history(&disk, &dirs(), epoch_start, limits).unwrap().base;
    let range = |after| {
        let memory = Arc::new(disk.clone());
        let after = (after, PrecedingTxn::Known);
        let mut range = LogRange::open(memory, &dirs(), after, epoch_start).unwrap();
        while range.next_txn()?.is_some() {}
        Ok::<_, RangeError>(())
    };
    assert_eq!(base(), Zxid(0));
    range(Zxid(9)).unwrap();
    set_log_aside(&disk, dir(), LogName { zxid: Zxid(10) }).unwrap();
    assert!(base() > Zxid(9), "{}", base());
    assert!(range(Zxid(9)).is_err());
}

#[test]
fn without_a_valid_snapshot_nothing_is_covered() {
    let (disk, log) = three_logs();
    for zxid in [0, 5, 9] {
        disk.flip_bit(&dir().join(format!("snapshot.{zxid:x}")), 20, 1);
    }
    disk.flip_bit(&log_path(1), 60, 1);
    let report = scrub(&disk, &log);
    assert_eq!(report.newest_valid(), None);
    assert_eq!(report.findings.len(), 4, "{:?}", report.findings);
    assert!(report.findings.iter().all(|finding| !finding.is_covered));
}

#[test]
fn a_pass_ends_wherever_it_is_told_to() {
    let (disk, log) = three_logs();
    disk.flip_bit(&log_path(10), 60, 1);
    for reads in 0.. {
        let host = Arc::new(Idle::at(&log));
        *host.reads.lock().unwrap() = Some(reads);
        match Scrub::new(Arc::new(disk.clone()), dirs(), host).pass(ScrubScope::All) {
            Err(ScrubError::Stopped) => {}
            Ok(report) => {
                assert_eq!(report.findings.len(), 1);
                assert!(reads > 5, "{reads}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn no_descriptors_are_no_damage() {
    let (disk, log) = three_logs();
    let host = Arc::new(Idle::at(&log));
    let scrub = Scrub::new(Arc::new(disk.clone()), dirs(), host);
    disk.set_openable(false);
    assert!(matches!(scrub.pass(ScrubScope::All), Err(ScrubError::Io { .. })));
}

#[test]
fn a_file_that_cannot_be_opened_is_found() {
    let root = tempfile::tempdir().unwrap();
    let dirs = Dirs::below(root.path(), root.path());
    dirs.create(&RealDisk).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let tree = tree_of(&creates(1..=2));
    write_snapshot(Arc::clone(&disk), &dirs.data, Compression::None, &tree, LastZxid::Write)
        .unwrap();
    let mut log = LogWriter::new(Arc::clone(&disk), &dirs.log, Zxid(2), OPTIONS);
    write_batch(&mut log, 3, 5);
    let pass = || {
        let scrub = Scrub::new(Arc::clone(&disk), dirs.clone(), Arc::new(Idle::at(&log)));
        scrub.pass(ScrubScope::All).unwrap()
    };
    assert_eq!(pass().findings, []);
    let path = dirs.log.join("log.3");
    std::fs::rename(&path, dirs.log.join("moved")).unwrap();
    std::os::unix::fs::symlink(root.path().join("missing"), &path).unwrap();
    let report = pass();
    assert_eq!(report.findings.len(), 1);
    assert_eq!((&report.findings[0].path, report.wants_snapshot()), (&path, true));
}

/// What happens at one of the reads of a pass, and how the log is then.
type Event = dyn Fn(LogState) -> LogState + Send + Sync;

/// A server to which something happens once.
struct Eventful {
    state: Mutex<LogState>,
    reads_left: Mutex<Option<u32>>,
    event: Box<Event>,
}

impl ScrubHost for Eventful {
    fn pace(&self, _: u64) -> ControlFlow<()> {
        let mut left = self.reads_left.lock().unwrap();
        if *left == Some(0) {
            let mut state = self.state.lock().unwrap();
            *state = (self.event)(*state);
        }
        *left = left.and_then(|left| left.checked_sub(1));
        ControlFlow::Continue(())
    }

    fn log_state(&self) -> Option<LogState> {
        Some(*self.state.lock().unwrap())
    }
}

/// Lets the event happen at each read of a pass in turn, and checks the results. At the end it comes too late.
fn check_event(
    event: impl Fn(MemoryDisk, LogWriter) -> Box<Event>,
    check: impl Fn(&Result<ScrubReport, ScrubError>),
) {
    for reads in 0.. {
        let (disk, log) = three_logs();
        let state = Mutex::new(state_of(&log, 0));
        let event = event(disk.clone(), log);
        let reads_left = Mutex::new(Some(reads));
        let host = Arc::new(Eventful { state, reads_left, event });
        let as_host = Arc::clone(&host) as Arc<dyn ScrubHost>;
        let result = Scrub::new(Arc::new(disk), dirs(), as_host).pass(ScrubScope::All);
        if host.reads_left.lock().unwrap().is_some() {
            assert!(reads > 5, "{reads}");
            return;
        }
        check(&result);
    }
}

#[test]
fn a_pass_during_a_change_has_no_result() {
    check_event(
        |_, _| Box::new(|state| LogState { changes: state.changes + 1, ..state }),
        |result| assert!(matches!(result, Err(ScrubError::Unsettled)), "{result:?}"),
    );
}

/// Newer snapshots have made the log after the one that was read needless.
#[test]
fn a_purge_of_what_was_needed_is_no_damage() {
    check_event(
        |disk, log| {
            let log = Mutex::new(log);
            Box::new(move |_| {
                let log = &mut *log.lock().unwrap();
                for last in [16, 18, 20] {
                    log.roll();
                    write_batch(log, last - 1, last);
                    snapshot(&disk, &tree_of(&creates(1..=last)));
                }
                let removed = purge(&disk, &dirs(), 3, None).unwrap();
                assert!(removed.contains(&log_path(10)));
                state_of(log, 0)
            })
        },
        |result| assert_eq!(result.as_ref().unwrap().findings, []),
    );
}

/// A server that works: it does something between the reads of a pass.
struct Busy {
    disk: MemoryDisk,
    world: Mutex<World>,
}

struct World {
    log: LogWriter,
    /// The history that the files have.
    entries: Vec<herdsman_proto::txn::Entry>,
    changes: u64,
    is_changing: bool,
    random: u64,
    /// What was done, for a failure.
    actions: Vec<String>,
}

impl World {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn last(&self) -> Zxid {
        self.entries.last().map_or(Zxid(0), |entry| entry.header.zxid)
    }
}

impl Busy {
    fn new(seed: u64) -> Self {
        let disk = disk();
        snapshot(&disk, &tree_of(&[]));
        let log = writer(&disk, Zxid(0));
        let world = World {
            log,
            entries: Vec::new(),
            changes: 0,
            is_changing: false,
            random: seed * 2_654_435_761 + 1,
            actions: Vec::new(),
        };
        let busy = Busy { disk, world: Mutex::new(world) };
        for _ in 0..30 {
            busy.act();
        }
        busy
    }

    fn act(&self) {
        let world = &mut *self.world.lock().unwrap();
        let action = world.random(20);
        world.actions.push(format!("{action} at {}", world.last()));
        match action {
            0..8 => self.append(world),
            8 | 9 => world.log.roll(),
            10..13 => _ = snapshot(&self.disk, &tree_of(&world.entries)),
            13 => {
                let meanwhile = usize::try_from(world.random(4)).unwrap().min(world.entries.len());
                let (before, meanwhile) = world.entries.split_at(world.entries.len() - meanwhile);
                fuzzy_snapshot(&self.disk, before, meanwhile, LastZxid::Write);
            }
            14 | 15 => _ = purge(&self.disk, &dirs(), 3, None).unwrap(),
            16 => self.write_half(world),
            17 => self.truncate(world),
            18 => self.install(world),
            _ => world.is_changing = false,
        }
    }

    fn append(&self, world: &mut World) {
        for _ in 0..=world.random(4) {
            let bytes = if world.random(40) == 0 { 150_000 } else { 40 };
            let entry = create(world.last().0 + 1, bytes);
            world.log.append(entry.header.zxid, &payload(&entry)).unwrap();
            world.entries.push(entry);
        }
        world.log.flush(SyncMode::Sync).unwrap();
    }

    /// Part of a batch that is not durable; the next one overwrites it.
    fn write_half(&self, world: &World) {
        if let Some((path, end)) = world.log.current_file() {
            self.disk.open_write(path).unwrap().write_at(end, b"half a record").unwrap();
        }
    }

    fn truncate(&self, world: &mut World) {
        let back = usize::try_from(world.random(6)).unwrap();
        let left = world.entries.len().saturating_sub(back);
        let zxid = world.entries[..left].last().map_or(Zxid(0), |entry| entry.header.zxid);
        world.changes += 1;
        world.is_changing = true;
        world.log = writer(&self.disk, world.last());
        if crate::truncate(&self.disk, &dirs(), zxid).is_ok() {
            world.entries.truncate(left);
            world.log = writer(&self.disk, zxid);
        }
    }

    fn install(&self, world: &mut World) {
        world.changes += 1;
        world.is_changing = true;
        let left = world.entries.len().saturating_sub(3);
        world.entries.truncate(left);
        let first = world.last().0 + 1;
        let more = i64::try_from(world.random(5)).unwrap();
        world.entries.extend(creates(first..=first + more));
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let tree = tree_of(&world.entries);
        install_snapshot(&disk, &dirs(), &tree, Compression::None, LastZxid::Write).unwrap();
        world.log = writer(&self.disk, world.last());
    }
}

impl ScrubHost for Busy {
    fn pace(&self, _: u64) -> ControlFlow<()> {
        let actions = {
            let mut world = self.world.lock().unwrap();
            let limit = world.random(4);
            world.random(limit + 1)
        };
        for _ in 0..actions {
            self.act();
        }
        ControlFlow::Continue(())
    }

    fn log_state(&self) -> Option<LogState> {
        let world = self.world.lock().unwrap();
        (!world.is_changing).then(|| state_of(&world.log, world.changes))
    }
}

/// Whatever the server does while its files are read, nothing is taken for damage.
#[test]
fn a_working_server_raises_no_alarm() {
    let (mut finished, mut unsettled) = (0, 0);
    for seed in 1..=120 {
        let busy = Arc::new(Busy::new(seed));
        let host = Arc::clone(&busy);
        let scrub = Scrub::new(Arc::new(busy.disk.clone()), dirs(), host);
        for _ in 0..20 {
            let scope = match finished % 3 {
                0 => ScrubScope::NeededAtStart,
                _ => ScrubScope::All,
            };
            match scrub.pass(scope) {
                Ok(report) => {
                    let actions = &busy.world.lock().unwrap().actions;
                    assert_eq!(report.findings, [], "seed {seed}: {actions:?}");
                    finished += 1;
                }
                Err(ScrubError::Unsettled) => unsettled += 1,
                Err(error) => panic!("seed {seed}: {error}"),
            }
            busy.world.lock().unwrap().is_changing = false;
        }
    }
    assert!(finished > 500 && unsettled > 100, "{finished} finished, {unsettled} unsettled");
}

//! Simulates a member of an ensemble on one disk: it logs, takes snapshots while it logs, truncates txns,
//! installs a leader's tree, and the power fails at any moment. After each failure the disk must
//! have a history that the member could have had, and the member continues from there.
//!
//! The model is a list of txns. The histories that a failure may leave, by action:
//! | action | allowed histories |
//! |---|---|
//! | appending | the old one and any number of the new txns, from the first on |
//! | truncating | any prefix of the old one that is not shorter than requested |
//! | installing | the old one or the new one, nothing between |
//! | anything else | the old one |

use std::path::Path;
use std::sync::Arc;

use herdsman_proto::txn::Entry;
use herdsman_proto::{Txn, Zxid};
use herdsman_tree::{Dump, Tree};
use proptest::prelude::*;

use crate::testing::*;
use crate::*;

#[derive(Clone, Debug)]
enum Action {
    /// Append and flush a batch.
    Append(Vec<u8>),
    /// Start a new file with the next batch.
    Roll,
    /// Take a snapshot of an unchanging tree.
    Snapshot(Compression),
    /// Take a snapshot during which a batch is appended, after this many znodes.
    Fuzzy(usize, Vec<u8>),
    /// Truncate this many txns, to the last that stays or to the start of the epoch after it.
    TakeBack(usize, Target),
    /// Install a history that has lost this many txns and has these instead.
    TakeOver(usize, Vec<u8>),
    /// Stop cleanly and start again.
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Txn,
    EpochStart,
}

fn batch() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..5)
}

fn action() -> impl Strategy<Value = Action> {
    let target = prop_oneof![Just(Target::Txn), Just(Target::EpochStart)];
    prop_oneof![
        5 => batch().prop_map(Action::Append),
        1 => Just(Action::Roll),
        1 => Just(Action::Snapshot(Compression::None)),
        1 => Just(Action::Snapshot(Compression::Snappy)),
        3 => (0..6usize, batch()).prop_map(|(nodes, batch)| Action::Fuzzy(nodes, batch)),
        3 => (0..8usize, target).prop_map(|(back, target)| Action::TakeBack(back, target)),
        2 => (0..12usize, prop::collection::vec(any::<u8>(), 0..4))
            .prop_map(|(lost, batch)| Action::TakeOver(lost, batch)),
        1 => Just(Action::Restart),
    ]
}

/// When the power fails, and which unsynced changes survive.
#[derive(Clone, Copy, Debug)]
struct Failure {
    after_changes: u64,
    survivors: usize,
    /// Recovery itself is interrupted too.
    during_recovery: u64,
}

fn failure() -> impl Strategy<Value = Failure> {
    (0..60u64, 0..30usize, 0..30u64).prop_map(|(after_changes, survivors, during_recovery)| {
        Failure { after_changes, survivors, during_recovery }
    })
}

struct Member {
    disk: MemoryDisk,
    dirs: Dirs,
    log: LogWriter,
    tree: Tree,
    history: Vec<Entry>,
    /// The next txn starts a new epoch, as after every change of leader.
    new_epoch: bool,
    epochs: u32,
}

impl Member {
    fn new(dirs: Dirs) -> Self {
        let disk = MemoryDisk::new();
        dirs.create(&disk).unwrap();
        let tree = tree_of(&[]);
        let shared = Arc::new(disk.clone());
        write_snapshot(shared, &dirs.data, Compression::None, &tree, LastZxid::Write).unwrap();
        disk.put(&dirs.data.join("acceptedEpoch"), b"1000".to_vec());
        disk.put(&dirs.data.join("currentEpoch"), b"0".to_vec());
        recover_epochs(&disk, &dirs, Zxid::ZERO).unwrap();
        let log = writer_in(&disk, &dirs, Zxid::ZERO);
        Member { disk, dirs, log, tree, history: Vec::new(), new_epoch: true, epochs: 0 }
    }

    fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }

    /// Txns that continue a history: creations, changes and deletions.
    fn txns(&mut self, history: &[Entry], batch: &[u8]) -> Vec<Entry> {
        let mut history = history.to_vec();
        let old = history.len();
        for &byte in batch {
            let last = history.last().map_or(Zxid::ZERO, |entry| entry.header.zxid);
            let zxid = if std::mem::take(&mut self.new_epoch) {
                self.epochs += 1;
                Zxid::start_of(self.epochs).next()
            } else {
                last.next()
            };
            let paths = live_paths(&history);
            let path = paths.get(usize::from(byte / 3) % paths.len().max(1));
            history.push(match (byte % 3, path) {
                (0, Some(path)) => set_data(zxid.0, path),
                (1, Some(path)) => delete(zxid.0, path),
                _ => nth_create(zxid, &history),
            });
        }
        history.split_off(old)
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), AppendError> {
        for entry in entries {
            self.log.append(entry.header.zxid, &payload(entry))?;
        }
        self.log.flush(SyncMode::Sync)?;
        for entry in entries {
            self.tree.replay(entry);
        }
        self.history.extend_from_slice(entries);
        Ok(())
    }

    fn fuzzy(&mut self, nodes: usize, entries: &[Entry]) -> Option<()> {
        let mut dump = Dump::start(&self.tree);
        let head = (dump.zxid(), Compression::None);
        let (disk, dir) = (self.shared(), self.dirs.data.clone());
        let writer = SnapshotWriter::begin(disk, &dir, head, dump.sessions(), dump.acls());
        let mut writer = writer.ok()?;
        let mut step = |dump: &mut Dump, tree: &Tree, nodes| {
            dump.step(tree, nodes, &mut |path, data, key, stat| {
                writer.encode_node(path, data, key, stat);
            })
        };
        step(&mut dump, &self.tree, nodes);
        self.append(entries).ok()?;
        while step(&mut dump, &self.tree, 2) {}
        writer.finish(&Trailer::of(&self.tree, LastZxid::Write), &mut |_| {}).ok()?;
        Some(())
    }

    /// Runs an action. Returns the histories that a power failure may leave meanwhile. `None`: it failed.
    fn act(&mut self, action: &Action) -> (Vec<Vec<Entry>>, Option<()>) {
        let old = self.history.clone();
        match action {
            Action::Append(batch) => {
                let entries = self.txns(&old, batch);
                (extensions(&old, &entries), self.append(&entries).ok())
            }
            Action::Fuzzy(nodes, batch) => {
                let entries = self.txns(&old, batch);
                (extensions(&old, &entries), self.fuzzy(*nodes, &entries))
            }
            Action::Roll => {
                self.log.roll();
                (vec![old], Some(()))
            }
            Action::Snapshot(compression) => {
                let (disk, dir) = (self.shared(), &self.dirs.data);
                let last_zxid = LastZxid::Write;
                let result = write_snapshot(disk, dir, *compression, &self.tree, last_zxid);
                (vec![old], result.ok().map(|_| ()))
            }
            Action::TakeBack(back, target) => {
                let kept = old.len().saturating_sub(*back);
                (
                    (kept..=old.len()).map(|len| old[..len].to_vec()).collect(),
                    self.take_back(kept, *target),
                )
            }
            Action::TakeOver(lost, batch) => self.take_over(*lost, batch),
            Action::Restart => (vec![old], self.restart()),
        }
    }

    fn take_back(&mut self, kept: usize, target: Target) -> Option<()> {
        let last = kept.checked_sub(1).map_or(Zxid::ZERO, |at| self.history[at].header.zxid);
        let next = self.history.get(kept).map(|entry| entry.header.zxid);
        let zxid = match next {
            Some(next) if target == Target::EpochStart && next.epoch() > last.epoch() => {
                Zxid::start_of(next.epoch())
            }
            _ => last,
        };
        let options = RecoverOptions::default();
        match truncate_and_reload(&self.disk, &self.dirs, zxid, &options, &mut |_| {}) {
            Ok(recovered) => {
                self.history.truncate(kept);
                self.new_epoch = true;
                self.go_on(recovered);
                Some(())
            }
            // Further back than any snapshot; a real member would ask for a tree.
            Err(ReloadError::Impossible { .. }) => Some(()),
            Err(ReloadError::Failed(_)) => None,
        }
    }

    fn take_over(&mut self, lost: usize, batch: &[u8]) -> (Vec<Vec<Entry>>, Option<()>) {
        let old = self.history.clone();
        let mut new = old[..old.len().saturating_sub(lost)].to_vec();
        self.new_epoch = true;
        let entries = self.txns(&new, batch);
        new.extend(entries);
        let tree = tree_of(&new);
        let (disk, last_zxid) = (self.shared(), LastZxid::Write);
        let result = install_snapshot(&disk, &self.dirs, &tree, Compression::None, last_zxid);
        if result.is_ok() {
            self.history.clone_from(&new);
            self.new_epoch = true;
            self.log = writer_in(&self.disk, &self.dirs, tree.last_zxid());
            self.tree = tree;
        }
        (vec![old, new], result.ok().map(|_| ()))
    }

    fn restart(&mut self) -> Option<()> {
        let options = RecoverOptions::default();
        let recovered = recover(&self.disk, &self.dirs, &options, &mut |_| {}).ok()?;
        recover_epochs(&self.disk, &self.dirs, recovered.tree.last_zxid()).ok()?;
        self.go_on(recovered);
        Some(())
    }

    fn go_on(&mut self, recovered: Recovered) {
        let last = recovered.tree.last_zxid();
        self.log = writer_in(&self.disk, &self.dirs, last);
        self.tree = recovered.tree;
    }

    /// Checks after a power failure that the disk has one of the allowed histories.
    fn fail(&mut self, allowed: &[Vec<Entry>], failure: Failure) {
        self.crash(failure.survivors);
        self.disk.cut_power_after(failure.during_recovery);
        if self.restart().is_none() {
            self.crash(failure.survivors / 2);
        }
        self.disk.crash(|_| true);
        let options = RecoverOptions::default();
        let recovered = match recover(&self.disk, &self.dirs, &options, &mut |_| {}) {
            Ok(recovered) => recovered,
            Err(error) => panic!("{error}"),
        };
        recover_epochs(&self.disk, &self.dirs, recovered.tree.last_zxid()).unwrap();
        let matches = |history: &&Vec<Entry>| same(&recovered.tree, &tree_of(history));
        let found = allowed.iter().find(matches);
        let last = recovered.tree.last_zxid();
        self.history.clone_from(found.unwrap_or_else(|| panic!("{last} was never a state")));
        self.new_epoch = true;
        self.go_on(recovered);
        self.check();
    }

    fn crash(&self, survivors: usize) {
        let mut asked = 0;
        self.disk.crash(|_| {
            asked += 1;
            asked <= survivors
        });
    }

    /// Checks that memory equals the model, and that the window of txns is the end of its history.
    fn check(&self) {
        assert!(same(&self.tree, &tree_of(&self.history)));
        let last = self.tree.last_zxid();
        for txns_max in [2, 1000] {
            let limits = HistoryLimits { txns_max, bytes_max: 1 << 20, after: Zxid::ZERO };
            let window = read_history(&self.disk, &self.dirs, last, limits).unwrap();
            assert!(window.txns.len() <= txns_max);
            let before = self.history.len() - window.txns.len();
            for ((zxid, bytes), entry) in window.txns.iter().zip(&self.history[before..]) {
                assert_eq!((*zxid, &bytes[..]), (entry.header.zxid, &payload(entry)[..]));
            }
            let previous = self.history[..before].last().map(|entry| entry.header.zxid);
            let first = window.txns.first().map_or(last.next(), |(zxid, _)| *zxid);
            assert!(previous <= Some(window.base) && window.base < first, "{window:?}");
        }
    }
}

fn writer_in(disk: &MemoryDisk, dirs: &Dirs, last: Zxid) -> LogWriter {
    LogWriter::new(Arc::new(disk.clone()), &dirs.log, last, OPTIONS).noted_in(&dirs.data)
}

fn extensions(old: &[Entry], entries: &[Entry]) -> Vec<Vec<Entry>> {
    (0..=entries.len()).map(|len| [old, &entries[..len]].concat()).collect()
}

/// Paths that a history has made and not deleted.
fn live_paths(history: &[Entry]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for entry in history {
        match &entry.txn {
            Txn::Create(create) => paths.push(create.path.to_string()),
            Txn::Delete { path, .. } => paths.retain(|live| **live != **path),
            _ => {}
        }
    }
    paths
}

/// A creation as a leader would prepare it: the parent's counter continues.
fn nth_create(zxid: Zxid, history: &[Entry]) -> Entry {
    let creates = history.iter().filter(|entry| matches!(entry.txn, Txn::Create(_))).count();
    let mut entry = create(zxid.0, 40);
    if let Txn::Create(create) = &mut entry.txn {
        create.parent_cversion = i32::try_from(creates).unwrap() + 1;
    }
    entry
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_failure_leaves_a_history_that_could_have_been(
        actions in prop::collection::vec(action(), 1..30),
        failures in prop::collection::vec(failure(), 1..6),
        log_dir in prop_oneof![Just("/data"), Just("/logs")],
    ) {
        let mut member = Member::new(Dirs::below(Path::new("/data"), Path::new(log_dir)));
        let mut failures = failures.into_iter();
        let mut failure = failures.next();
        if let Some(failure) = failure {
            member.disk.cut_power_after(failure.after_changes);
        }
        for action in &actions {
            let (allowed, done) = member.act(action);
            if done.is_some() {
                member.check();
                continue;
            }
            let happened = failure.expect("only a power failure makes an action fail");
            member.fail(&allowed, happened);
            failure = failures.next();
            if let Some(failure) = failure {
                member.disk.cut_power_after(failure.after_changes);
            }
        }
        // At the end, once more, without an action in progress.
        let history = member.history.clone();
        let last = Failure { after_changes: 0, survivors: 0, during_recovery: 1000 };
        member.fail(&[history], last);
    }
}

//! A server's files: opening them after a crash, and the jobs that agreement asks for.
//!
//! Everything is done by `store`, on a [`MemoryDisk`]. Here is only what a driver adds: in which order
//! the pieces are called, and what a failure means for the process.

mod rot;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::Zxid;
use herdsman_store::disk::Unsynced;
use herdsman_store::log::RECORD_END;
use herdsman_store::names::{list_logs, list_snapshots};
use herdsman_store::recover::load;
use herdsman_store::repair::{
    Assessment, Damage, Gap, RecordsBetween, Repair, assess, assess_refusal, read_records, splice,
};
use herdsman_store::{
    Compression, Dirs, Disk, EmptyDirs, EpochFile, Epochs, HistoryLimits, InstallError, LastZxid,
    LogOptions, LogPosition, LogRange, LogWriter, MemoryDisk, PrecedingTxn, RangeError,
    RecoverOptions, ReloadError, ServerKind, copied_epoch, install_snapshot, read_epoch,
    read_history, recover, recover_epochs, truncate_and_reload, voting, write_epoch,
    write_snapshot,
};
use herdsman_tree::Tree;
use herdsman_zab::{EpochKind, InitialFiles, Voting};

use crate::plan::Plan;
use crate::random::Random;
pub use rot::{Rot, RotPlace};

/// The head of a log record: checksum and length.
const HEAD_BYTES: usize = 12;
/// As long as the head of a log record.
const GARBAGE_BYTES: u64 = HEAD_BYTES as u64;

/// A server's disk and where its files are.
#[derive(Clone)]
pub struct Storage {
    /// The disk.
    pub disk: MemoryDisk,
    /// The directories.
    pub dirs: Dirs,
}

/// What a server finds when it starts.
pub struct RecoveredState {
    /// Its tree.
    pub tree: Tree,
    /// The epochs it remembers.
    pub epochs: Epochs,
    /// The txn before the tail.
    pub base: Zxid,
    /// The last txns.
    pub tail: Vec<(Zxid, Bytes)>,
    /// Why it must not vote before a leader has brought it up to date.
    pub suspended: Option<String>,
    /// What the files allow it to begin with.
    pub files: InitialFiles,
}

impl Storage {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        let disk = MemoryDisk::new();
        let dirs = Dirs::below(Path::new("/data"), Path::new("/log"));
        dirs.create(&disk).expect("a disk in memory has room for directories");
        Storage { disk, dirs }
    }

    fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }

    fn options(plan: &Plan) -> RecoverOptions {
        let serves = ServerKind::InEnsemble { empty: EmptyDirs::New };
        RecoverOptions { tree: plan.tree_options(), serves, ..RecoverOptions::default() }
    }

    /// What a server does when it starts. An error says why it does not.
    ///
    /// # Errors
    /// In the words of `store`.
    pub fn open(&self, plan: &Plan) -> Result<RecoveredState, String> {
        let recovered = recover(&self.disk, &self.dirs, &Storage::options(plan), &mut |_| {})
            .map_err(|error| error.to_string())?;
        if let Some(mismatch) = recovered.digest_mismatch {
            return Err(format!("recovery found a wrong digest: {mismatch:?}"));
        }
        let tree = recovered.tree;
        if recovered.fresh {
            write_snapshot(
                self.shared(),
                &self.dirs.data,
                Compression::None,
                &tree,
                LastZxid::Write,
            )
            .map_err(|error| error.to_string())?;
        }
        let last = tree.last_zxid();
        let epochs =
            recover_epochs(&self.disk, &self.dirs, last).map_err(|error| error.to_string())?;
        let is_new = voting::is_initialized(&self.disk, &self.dirs);
        let is_new = is_new.map_err(|error| error.to_string())?;
        let suspended =
            voting::settle(&self.disk, &self.dirs).map_err(|error| error.to_string())?;
        let (base, tail) = self.history(plan, last)?;
        let remembered =
            herdsman_zab::Epochs { current: epochs.current, accepted: epochs.accepted };
        let files = match InitialFiles::of(last, remembered) {
            InitialFiles::Empty if is_new => InitialFiles::Whole,
            files => files,
        };
        Ok(RecoveredState { tree, epochs, base, tail, suspended, files })
    }

    /// What other servers might repair, if that is why this one does not start.
    #[must_use]
    pub fn damage(&self, plan: &Plan) -> Option<Damage> {
        let options = Storage::options(plan);
        match assess(&self.disk, &self.dirs, &options) {
            Ok(Assessment::Damaged(damage)) => Some(damage),
            Ok(Assessment::Whole) => {
                let refusal = load(&self.disk, &self.dirs, &options, &mut |_| {}).err()?;
                assess_refusal(&self.disk, &self.dirs, &options, &refusal).ok()?
            }
            Err(_) => None,
        }
    }

    /// Whether the copies of the epochs are there and say how far the log reached.
    #[must_use]
    pub fn remembers_log(&self) -> bool {
        let (disk, dir) = (&self.disk, &self.dirs.data);
        let accepted = read_epoch(disk, dir, EpochFile::Accepted).ok().flatten();
        let copied = copied_epoch(disk, dir, EpochFile::Accepted);
        copied.is_some_and(|copied| accepted.is_none_or(|accepted| accepted <= copied))
    }

    /// The records between two txns, for a server that lacks some of them.
    ///
    /// # Errors
    /// In the words of `store`.
    pub fn records(&self, after: Zxid, before: Zxid) -> Result<RecordsBetween, RangeError> {
        read_records(self.shared(), &self.dirs, after, before)
    }

    /// Puts records of other servers into the log.
    ///
    /// # Errors
    /// In the words of `store`.
    pub fn splice(&self, plan: &Plan, repair: &Repair) -> Result<(), String> {
        let spliced = splice(&self.disk, &self.dirs, &Storage::options(plan), repair);
        spliced.map(drop).map_err(|error| error.to_string())
    }

    /// What a server starts with that has damaged files and takes everything from a leader. Nothing is written.
    #[must_use]
    pub fn open_unusable(&self, plan: &Plan) -> RecoveredState {
        let known = |file| {
            let found = read_epoch(&self.disk, &self.dirs.data, file).ok().flatten();
            found.max(copied_epoch(&self.disk, &self.dirs.data, file)).unwrap_or(0)
        };
        let (current, accepted) = (known(EpochFile::Current), known(EpochFile::Accepted));
        RecoveredState {
            tree: Tree::new(plan.tree_options()),
            epochs: Epochs { current, accepted: accepted.max(current) },
            base: Zxid::ZERO,
            tail: Vec::new(),
            suspended: Some("its files are damaged".to_owned()),
            files: InitialFiles::Unusable,
        }
    }

    fn history(&self, plan: &Plan, last: Zxid) -> Result<(Zxid, Vec<(Zxid, Bytes)>), String> {
        let limits = HistoryLimits {
            txns_max: plan.history_txns_max,
            bytes_max: plan.history_bytes_max,
            after: Zxid::ZERO,
        };
        let history = read_history(&self.disk, &self.dirs, last, limits)
            .map_err(|error| error.to_string())?;
        Ok((history.base, history.txns))
    }

    /// A part of the log, to be sent to a learner.
    ///
    /// # Errors
    /// In the words of `store`.
    pub fn log_range(&self, after: (Zxid, PrecedingTxn), to: Zxid) -> Result<LogRange, RangeError> {
        LogRange::open(self.shared(), &self.dirs, after, to)
    }

    /// The same from a place on that was found before.
    ///
    /// # Errors
    /// In the words of `store`.
    pub fn log_range_at(
        &self,
        position: Option<LogPosition>,
        after: Zxid,
        to: Zxid,
    ) -> Result<LogRange, RangeError> {
        LogRange::resume(self.shared(), &self.dirs, position, after, to)
    }

    /// The end of the log, in a file of its own.
    #[must_use]
    pub fn writer(&self, plan: &Plan, last: Zxid) -> LogWriter {
        let options = LogOptions { pre_alloc_bytes: plan.pre_alloc_bytes, ..LogOptions::default() };
        LogWriter::new(self.shared(), &self.dirs.log, last, options).noted_in(&self.dirs.data)
    }

    /// Saves an epoch.
    ///
    /// # Errors
    /// In the words of `store`.
    pub fn save_epoch(&self, kind: EpochKind, epoch: u32) -> Result<(), String> {
        let file = match kind {
            EpochKind::Accepted => EpochFile::Accepted,
            EpochKind::Current => EpochFile::Current,
        };
        write_epoch(&self.disk, &self.dirs.data, file, epoch).map_err(|error| error.to_string())
    }

    /// Cuts the log and loads the tree again; `None` if it cannot be cut there.
    ///
    /// # Errors
    /// The disk failed.
    pub fn truncate(&self, plan: &Plan, zxid: Zxid) -> Result<Option<Tree>, String> {
        let options = Storage::options(plan);
        match truncate_and_reload(&self.disk, &self.dirs, zxid, &options, &mut |_| {}) {
            Ok(recovered) => Ok(Some(recovered.tree)),
            Err(ReloadError::Impossible { .. }) => Ok(None),
            Err(ReloadError::Failed(error)) => Err(error.to_string()),
        }
    }

    /// Cuts the log and leaves the tree alone; false if it cannot be cut there.
    ///
    /// # Errors
    /// The disk failed.
    pub fn truncate_log(&self, zxid: Zxid) -> Result<bool, String> {
        match herdsman_store::truncate(&self.disk, &self.dirs, zxid) {
            Ok(()) => Ok(true),
            Err(ReloadError::Impossible { .. }) => Ok(false),
            Err(ReloadError::Failed(error)) => Err(error.to_string()),
        }
    }

    /// Notes that the server must not vote.
    pub fn suspend_voting(&self, reason: &str) {
        voting::suspend(&self.disk, &self.dirs, reason).expect("a disk in memory has room");
    }

    /// Says, as an operator does, that the server is new.
    pub fn initialize(&self) {
        let data_dir = self.dirs.data.parent().expect("it is below dataDir");
        self.disk.put(&data_dir.join(voting::INITIALIZE_FILE), Vec::new());
    }

    /// Forgets that the server must not vote.
    ///
    /// # Errors
    /// In the words of `store`.
    pub fn allow_voting(&self) -> Result<(), String> {
        voting::allow(&self.disk, &self.dirs).map_err(|error| error.to_string())
    }

    /// Puts a tree from a leader in the place of everything.
    ///
    /// # Errors
    /// In the words of `store`.
    pub fn install(&self, tree: Tree, voting: Voting) -> Result<Tree, InstallError> {
        if voting == Voting::Suspended {
            let suspended =
                voting::suspend(&self.disk, &self.dirs, "a leader's tree was installed");
            suspended
                .map_err(|error| InstallError::Io { path: error.path, source: error.source })?;
        }
        install_snapshot(&self.shared(), &self.dirs, &tree, Compression::None, LastZxid::Write)?;
        Ok(tree)
    }

    /// Starts a snapshot of a tree that goes on changing.
    ///
    /// # Errors
    /// In the words of `store`.
    pub fn begin_snapshot(
        &self,
        dump: &herdsman_tree::Dump,
    ) -> Result<herdsman_store::SnapshotWriter, herdsman_store::SnapshotWriteError> {
        herdsman_store::SnapshotWriter::begin(
            self.shared(),
            &self.dirs.data,
            (dump.zxid(), Compression::None),
            dump.sessions(),
            dump.acls(),
        )
    }

    /// The power fails. Of what was not synced, names survive in order, and of each file a prefix: a
    /// journaling file system tears writes nowhere else (see `store::log::ending`).
    pub fn crash(&self, random: &mut Random) {
        let mut torn = None;
        self.disk.crash(|unsynced| match unsynced {
            Unsynced::Name(_) | Unsynced::Length(_) => random.per_mille(500),
            Unsynced::Sector(path, _) => {
                if torn.as_deref() == Some(path) {
                    return false;
                }
                let survives = random.per_mille(700);
                if !survives {
                    torn = Some(path.to_owned());
                }
                survives
            }
        });
    }

    /// The txn up to which the newest snapshot has everything.
    #[must_use]
    pub fn newest_snapshot(&self) -> Zxid {
        let snapshots = list_snapshots(&self.disk, &self.dirs.data).unwrap_or_default();
        snapshots.iter().map(|name| name.zxid).max().unwrap_or(Zxid::ZERO)
    }

    /// The txn up to which the oldest snapshot has everything; purging keeps what follows.
    #[must_use]
    pub fn oldest_snapshot(&self) -> Zxid {
        let snapshots = list_snapshots(&self.disk, &self.dirs.data).unwrap_or_default();
        snapshots.iter().map(|name| name.zxid).min().unwrap_or(Zxid::ZERO)
    }

    /// All files and what is in them.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for dir in [&self.dirs.data, &self.dirs.log] {
            for entry in self.disk.list(dir).unwrap_or_default() {
                let path = dir.join(&entry.name);
                files.extend(self.disk.content(&path).map(|content| (path, content)));
            }
        }
        files
    }

    /// Where the records of the log are: zxid, file, and the bytes in it.
    #[must_use]
    pub fn record_places(&self) -> Vec<(Zxid, PathBuf, Range<usize>)> {
        let Ok(mut records) = self.records(Zxid(-1), Zxid(i64::MAX)) else { return Vec::new() };
        let logs = list_logs(&self.disk, &self.dirs.log).unwrap_or_default();
        // The first zxid of each file, its content, and where the last record that was found in it ends.
        let mut files: Vec<_> = logs
            .iter()
            .map(|name| (name.zxid, name.path(&self.dirs.log)))
            .filter_map(|(first, path)| Some((first, self.disk.content(&path)?, path, 0)))
            .collect();
        let mut places = Vec::new();
        while let Ok(Some((zxid, payload))) = records.next_record() {
            for (_, content, path, end) in files.iter_mut().rev().filter(|file| file.0 <= zxid) {
                let rest = &content[*end..];
                let found = rest.windows(payload.len()).position(|part| part == payload);
                if let Some(at) = found.map(|at| *end + at) {
                    *end = at + payload.len();
                    places.push((zxid, path.clone(), at - HEAD_BYTES..*end + 1));
                    break;
                }
            }
        }
        places
    }

    /// Damages a record: a bit of it is turned over, or all of it becomes zeros. It stays intact if the damage cannot
    /// be told from a torn write: the power has failed before the slots of the last batch were durable.
    pub fn damage_noticeably(
        &self,
        plan: &Plan,
        path: &Path,
        record: Range<usize>,
        zxid: Zxid,
        random: &mut Random,
    ) -> bool {
        let Some(content) = self.disk.content(path) else { return false };
        let mut damaged = content.clone();
        if random.per_mille(300) {
            damaged[record].fill(0);
        } else {
            let at = record.start + random.index(record.len());
            damaged[at] ^= 1 << random.below(8);
        }
        self.disk.put(path, damaged);
        let names_it = |gap: &Gap| gap.known.iter().any(|id| id.zxid == zxid);
        let is_noticed = |damage: Damage| {
            damage.gaps.iter().any(names_it) && damage.gaps.iter().all(|gap| gap.is_complete)
        };
        if self.damage(plan).is_some_and(is_noticed) && self.copy().open(plan).is_err() {
            return true;
        }
        self.disk.put(path, content);
        false
    }

    /// Turns over a bit of some log or snapshot, or makes garbage of a few bytes. Gives how many log records that can
    /// reach. Epoch files have no checksum in Apache's format, so rot in them cannot be noticed by anybody.
    pub fn rot(&self, random: &mut Random) -> usize {
        let mut files = Vec::new();
        for dir in [&self.dirs.data, &self.dirs.log] {
            for entry in self.disk.list(dir).unwrap_or_default() {
                if entry.bytes > 0 && !entry.name.contains("poch") {
                    files.push((dir.join(&entry.name), entry.bytes));
                }
            }
        }
        if files.is_empty() {
            return 0;
        }
        let (path, bytes) = random.pick(&files).clone();
        if random.per_mille(300) {
            self.flip_bit(&path, random.below(bytes), random);
            return 1;
        }
        let start = self.some_record_end(&path, random).unwrap_or(0);
        for _ in 0..40 {
            let offset = (start + random.below(GARBAGE_BYTES)).min(bytes - 1);
            self.flip_bit(&path, offset, random);
        }
        2
    }

    fn flip_bit(&self, path: &Path, offset: u64, random: &mut Random) {
        let offset = usize::try_from(offset).expect("a place in a file");
        self.disk.flip_bit(path, offset, u8::try_from(random.below(8)).expect("a bit"));
    }

    /// Right behind a byte that ends log records: what is damaged there is, more often than not, the head of one.
    fn some_record_end(&self, path: &Path, random: &mut Random) -> Option<u64> {
        let file = self.disk.open_read(path).ok()?;
        let mut bytes = vec![0; usize::try_from(file.bytes().ok()?).ok()?];
        file.read_at(0, &mut bytes).ok()?;
        let ends: Vec<_> = (1..bytes.len()).filter(|at| bytes[at - 1] == RECORD_END).collect();
        (!ends.is_empty()).then(|| *random.pick(&ends) as u64)
    }
}

impl Default for Storage {
    fn default() -> Self {
        Storage::new()
    }
}

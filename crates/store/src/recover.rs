//! Builds the tree from what is on disk when a server starts.
//!
//! In: the two directories. Out: the tree as of the last txn in the log, or an error that names file,
//! offset and what to do. Steps: load the newest complete snapshot, then replay every txn after it. Reading divides the
//! log into pieces ([`crate::log::pieces`]); a pure function decides from the pieces what to do ([`plan`]).
//! [`load`] only reads; [`recover`] also repairs, and only after everything was verified:
//! it cuts the torn tail, removes empty and unfinished files, and syncs what it has read, because a
//! server must not serve a state that the next power failure may undo.
//!
//! Rules:
//! - What the snapshot covers may be damaged, or unreadable. What it does not cover must be intact;
//!   [`crate::repair`] says what is missing.
//! - A snapshot from a leader that was being installed when the power failed is the whole state; see
//!   [`crate::install`].
//! - A damaged snapshot is skipped for an older one only if the log continues from the older one
//!   without gaps, through the damaged one's own txn: then nothing is missing.
//! - The log must reach the zxid up to which the snapshot is fuzzy, or the tree would be one that never existed.
//! - It must also reach what the copies of the epochs say was durable here, and the file that was begun last must have
//!   its end ([`crate::epoch`]): otherwise the newest log is missing or was cut.
//! - Logs without any snapshot are refused unless `trust_empty` says that they start at the very
//!   beginning (servers before 3.5 wrote no first snapshot); the first txn must then have counter 1.
//! - What we would rather not guess, the operator can decide with `accept_loss_after`: it names the last
//!   good txn, so it applies to one case only and does no harm if it stays in the configuration.
//! - The last digest in the log must be that of the tree, if the two can be compared ([`DigestMismatch`]).
//! - A member of an ensemble that has lost something does not vote ([`crate::voting`]).
//! - After recovery the log continues in a new file.
//!
//! One thread builds the tree; what can be read, checked and decoded without it is done ahead on a second
//! one, in batches that arrive in order (`ahead.rs`).
//!
//! Apache: `FileTxnSnapLog.restore`, `fastForwardFromEdits`. It does not check continuity and only warns if
//! the log ends before the snapshot does.

mod digests;
mod entries;
mod error;
mod mend;
pub mod plan;

use std::path::{Path, PathBuf};

use herdsman_proto::{SessionId, Zxid};
use herdsman_tree::{Loader, Tree, TreeOptions};

use crate::archive;
use crate::disk::{Dirs, Disk, TolerantDisk, io_at};
use crate::epoch::{self, KnownLog};
use crate::install::{clear_and_name, find_installing};
use crate::log::pieces::LogFiles;
use crate::log::repeats::files_with;
use crate::log::table::txns_before;
use crate::log::walk::LogWalkError;
use crate::names::{LogName, SnapshotName, list_logs, list_snapshots};
use crate::repair::name_unreadable;
use crate::snapshot::Trailer;
use crate::snapshot::reader::{SnapshotError, SnapshotSummary, read_snapshot_at};
use crate::voting;

use digests::DigestCheck;
pub use digests::DigestMismatch;
use entries::read_entries;
pub use error::RecoverError;
pub(crate) use mend::{remove_unfinished, sync_all};
use plan::{RecoveryInput, RecoveryRefusal, SnapshotReach};
pub use plan::{RecoveryPlan, plan_recovery};

/// Options of recovery.
#[derive(Clone, Debug, Default)]
pub struct RecoverOptions {
    /// The rules of the tree.
    pub tree: TreeOptions,
    /// Logs without a snapshot are the whole history. Apache: `snapshot.trust.empty`.
    pub trust_empty: bool,
    /// The operator gives up everything after this txn.
    pub accept_loss_after: Option<Zxid>,
    /// What to do with a tree whose digest is not the one in the files.
    pub on_mismatch: OnDigestMismatch,
    /// The kind of server.
    pub serves: ServerKind,
}

/// The kind of server: one that votes must not have lost anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerKind {
    /// A standalone server.
    #[default]
    Alone,
    /// A member of an ensemble.
    InEnsemble {
        /// What empty directories mean.
        empty: EmptyDirs,
    },
}

/// What it means for a member of an ensemble if there are no snapshots and no logs. Apache: `db.autocreate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyDirs {
    /// It is new.
    #[default]
    New,
    /// It has lost its data.
    Lost,
}

/// What to do with a tree whose digest is not the one in the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDigestMismatch {
    /// Refuse it: txns are missing, or the tree is not that of the other servers.
    #[default]
    Refuse,
    /// Report it, for tools that only inspect.
    Report,
}

/// The progress of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A snapshot is being read.
    Snapshot {
        /// Which.
        path: &'a Path,
        /// Bytes read of it.
        bytes: u64,
        /// Bytes in it.
        bytes_total: u64,
    },
    /// Txns are being replayed.
    Log {
        /// The last one.
        zxid: Zxid,
        /// How many so far.
        txns: u64,
    },
}

/// Called often with the progress of recovery; the caller decides when to log it.
pub type ReportProgress<'a> = dyn FnMut(Progress<'_>) + 'a;

/// The snapshot that recovery started from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotUsed {
    /// Which file.
    pub path: PathBuf,
    /// Its name.
    pub name: SnapshotName,
    /// Its length.
    pub bytes: u64,
    /// Its trailer.
    pub trailer: Trailer,
    /// The last txn of which some znode in it shows an effect.
    pub newest_effect: Zxid,
}

/// The torn write that was cut off the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornCut {
    /// The file.
    pub path: PathBuf,
    /// Its new length.
    pub offset: u64,
}

impl SnapshotUsed {
    /// The last txn of which it may show an effect.
    pub(crate) fn fuzzy_until(&self) -> Zxid {
        self.trailer.fuzzy_until(self.name.zxid).max(self.newest_effect)
    }
}

/// The recovered state of a server.
#[derive(Debug)]
pub struct Recovered {
    /// The tree; its zxid is the last one in the log.
    pub tree: Tree,
    /// The snapshot it started from; `None` on a fresh server, and with `trust_empty`.
    pub snapshot: Option<SnapshotUsed>,
    /// There were no files: the caller should write `snapshot.0` before anything else, as Apache does.
    pub fresh: bool,
    /// Newer snapshots that could not be used.
    pub damaged_snapshots: Vec<SnapshotError>,
    /// Txns replayed.
    pub txns_replayed: u64,
    /// Their bytes in the log.
    pub log_bytes_replayed: u64,
    /// Sessions that own ephemerals and are not open; the caller must close them.
    pub orphan_ephemeral_sessions: Vec<SessionId>,
    /// A mismatch before a later digest that matched; any mismatch with [`OnDigestMismatch::Report`].
    pub digest_mismatch: Option<DigestMismatch>,
    /// The torn tail that was cut off.
    pub cut: Option<TornCut>,
    /// What was given up at the operator's request. The caller should then take a snapshot at once.
    pub accepted_loss: Option<RecoverError>,
}

/// Loads the state, and repairs what a crash has left.
pub fn recover(
    disk: &dyn Disk,
    dirs: &Dirs,
    options: &RecoverOptions,
    progress: &mut ReportProgress<'_>,
) -> Result<Recovered, RecoverError> {
    let (mut recovered, plan) = load(disk, dirs, options, progress)?;
    // Before a change that would remove the evidence of what was lost.
    if let Some(reason) = &plan.suspend_voting {
        voting::suspend(disk, dirs, reason)?;
    }
    if plan.loss.is_some() {
        archive::history::forget(disk, dirs)?;
    }
    finish_installing(disk, dirs, &mut recovered)?;
    recovered.cut = mend::mend(disk, dirs, &recovered, &plan.log)?;
    Ok(recovered)
}

/// Loads the state without changing anything.
pub fn load(
    disk: &dyn Disk,
    dirs: &Dirs,
    options: &RecoverOptions,
    progress: &mut ReportProgress<'_>,
) -> Result<(Recovered, RecoveryPlan), RecoverError> {
    let source = RecoverySource { disk, dirs, options };
    // Then nothing else counts, wherever it is.
    if let Some(name) = find_installing(disk, &dirs.data)? {
        let base = source.installing(name, progress)?;
        return source.replay(base, &[], ReplayTo::End(KnownLog::default()), progress);
    }
    let (snapshots, logs) = source.list()?;
    let base = if snapshots.is_empty() {
        source.without_snapshot(&logs)?
    } else {
        source.newest_snapshot(&snapshots, progress)?
    };
    let known = epoch::known_log(disk, &dirs.data);
    source.replay(base, &logs, ReplayTo::End(known), progress)
}

/// How far the log is replayed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplayTo {
    /// To its end, with what is known about it.
    End(KnownLog),
    /// To this txn.
    Txn(Zxid),
}

/// Renames a snapshot that was read under its installing name to its final name.
fn finish_installing(
    disk: &dyn Disk,
    dirs: &Dirs,
    recovered: &mut Recovered,
) -> Result<(), RecoverError> {
    let installing = find_installing(disk, &dirs.data)?;
    if let (Some(name), Some(snapshot)) = (installing, &mut recovered.snapshot) {
        snapshot.path = clear_and_name(disk, dirs, name)?;
    }
    Ok(())
}

/// The state from which replay starts.
pub(crate) struct ReplayBase {
    pub(crate) tree: Tree,
    pub(crate) snapshot: Option<SnapshotUsed>,
    /// Newer snapshots that cannot be read.
    pub(crate) damaged: Vec<(SnapshotName, SnapshotError)>,
    /// Txns that name newer snapshots, or come right before log files; the log must contain them.
    pub(crate) known: Vec<Zxid>,
    pub(crate) fresh: bool,
}

impl ReplayBase {
    /// The last txn of which the tree may hold an effect.
    fn fuzzy_until(&self) -> Zxid {
        self.snapshot.as_ref().map_or(Zxid::ZERO, SnapshotUsed::fuzzy_until)
    }

    /// The last txn that the log must reach.
    pub(crate) fn reach(&self) -> Zxid {
        self.reaches().iter().map(|reach| reach.zxid).max().unwrap_or(Zxid::ZERO)
    }

    /// The txns that the log must reach.
    fn reaches(&self) -> Vec<SnapshotReach> {
        let used = self.snapshot.iter();
        let used = used.map(|used| SnapshotReach { snapshot: used.name, zxid: used.fuzzy_until() });
        let damaged = self.damaged.iter();
        used.chain(damaged.map(|(name, _)| SnapshotReach { snapshot: *name, zxid: name.zxid }))
            .collect()
    }
}

/// The files and options of a recovery.
#[derive(Clone, Copy)]
pub(crate) struct RecoverySource<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) dirs: &'a Dirs,
    pub(crate) options: &'a RecoverOptions,
}

impl RecoverySource<'_> {
    /// Lists snapshots and logs. Fails if a file is in the wrong directory.
    pub(crate) fn list(&self) -> Result<(Vec<SnapshotName>, Vec<LogName>), RecoverError> {
        let RecoverySource { disk, dirs, .. } = *self;
        let snapshots = list_snapshots(disk, &dirs.data).map_err(io_at(&dirs.data))?;
        let logs = list_logs(disk, &dirs.log).map_err(io_at(&dirs.log))?;
        if dirs.data != dirs.log {
            let stray_log = list_logs(disk, &dirs.data).map_err(io_at(&dirs.data))?;
            if let Some(name) = stray_log.first() {
                return Err(RecoverError::Misplaced {
                    path: name.path(&dirs.data),
                    what: "a txn log in dataDir",
                });
            }
            let stray_snapshot = list_snapshots(disk, &dirs.log).map_err(io_at(&dirs.log))?;
            if let Some(name) = stray_snapshot.first() {
                return Err(RecoverError::Misplaced {
                    path: name.path(&dirs.log),
                    what: "a snapshot in dataLogDir",
                });
            }
        }
        Ok((snapshots, logs))
    }

    pub(crate) fn without_snapshot(&self, logs: &[LogName]) -> Result<ReplayBase, RecoverError> {
        if let (Some(first), false) = (logs.first(), self.options.trust_empty) {
            return Err(RecoverError::NoSnapshot {
                dir: self.dirs.data.clone(),
                log: first.path(&self.dirs.log),
            });
        }
        Ok(ReplayBase {
            tree: Tree::new(self.options.tree.clone()),
            snapshot: None,
            damaged: Vec::new(),
            known: Vec::new(),
            fresh: logs.is_empty(),
        })
    }

    /// Loads the newest complete snapshot.
    pub(crate) fn newest_snapshot(
        &self,
        snapshots: &[SnapshotName],
        progress: &mut ReportProgress<'_>,
    ) -> Result<ReplayBase, RecoverError> {
        let (mut damaged, mut known) = (Vec::new(), Vec::new());
        for &name in snapshots.iter().rev() {
            match self.load_snapshot(name, &name.path(&self.dirs.data), progress) {
                Ok((tree, snapshot)) => {
                    let snapshot = Some(snapshot);
                    return Ok(ReplayBase { tree, snapshot, damaged, known, fresh: false });
                }
                Err(error) => {
                    tracing::warn!(%error, "looking for an older snapshot");
                    damaged.push((name, error));
                    known.push(name.zxid);
                }
            }
        }
        Err(RecoverError::SnapshotsDamaged {
            dir: self.dirs.data.clone(),
            damaged: damaged.into_iter().map(|(_, error)| error).collect(),
        })
    }

    /// Loads the snapshot that replaces everything else.
    pub(crate) fn installing(
        &self,
        name: SnapshotName,
        progress: &mut ReportProgress<'_>,
    ) -> Result<ReplayBase, RecoverError> {
        let path = self.dirs.data.join(name.installing_name());
        match self.load_snapshot(name, &path, progress) {
            Ok((tree, snapshot)) => {
                let snapshot = Some(snapshot);
                Ok(ReplayBase {
                    tree,
                    snapshot,
                    damaged: Vec::new(),
                    known: Vec::new(),
                    fresh: false,
                })
            }
            Err(error) => Err(RecoverError::InstallingDamaged(error)),
        }
    }

    pub(crate) fn load_snapshot(
        &self,
        name: SnapshotName,
        path: &Path,
        progress: &mut ReportProgress<'_>,
    ) -> Result<(Tree, SnapshotUsed), SnapshotError> {
        let bytes_total = self.disk.open_read(path).and_then(|file| file.bytes());
        let bytes_total = bytes_total.unwrap_or_default();
        let mut loader = Loader::new(self.options.tree.clone());
        let mut report = |bytes| {
            progress(Progress::Snapshot { path, bytes, bytes_total });
        };
        let compression = name.compression;
        let summary = read_snapshot_at(self.disk, path, compression, &mut loader, &mut report)?;
        let newest_effect = loader.newest_effect();
        let tree = loader.finish(name.zxid).map_err(|fault| SnapshotError {
            path: path.to_owned(),
            offset: 0,
            fault: fault.into(),
        })?;
        let SnapshotSummary { file_bytes: bytes, trailer, .. } = summary;
        let used = SnapshotUsed { path: path.to_owned(), name, bytes, trailer, newest_effect };
        Ok((tree, used))
    }

    /// Replays the log over the base, and decides whether the result can be used.
    pub(crate) fn replay(
        &self,
        mut base: ReplayBase,
        logs: &[LogName],
        to: ReplayTo,
        progress: &mut ReportProgress<'_>,
    ) -> Result<(Recovered, RecoveryPlan), RecoverError> {
        let after = base.tree.last_zxid();
        let mut digests = DigestCheck::new(&base);
        let files = files_with(self.disk, &self.dirs.log, logs, after);
        let (until, KnownLog { last: known_last, open }) = match to {
            ReplayTo::End(known) => (None, known),
            ReplayTo::Txn(until) => (Some(until), KnownLog::default()),
        };
        base.known.extend(txns_before(self.disk, &self.dirs.log, files));
        let log = LogFiles { dir: &self.dirs.log, files, after, until, known: &base.known, open };
        let (tree, mut txns) = (&mut base.tree, 0);
        let tolerant = TolerantDisk::new(self.disk);
        let mut pieces = read_entries(&tolerant, &log, &mut |entry| {
            let zxid = entry.header.zxid;
            tree.replay(entry);
            digests.check(tree, zxid, entry.digest);
            txns += 1;
            progress(Progress::Log { zxid, txns });
        })?;
        name_unreadable(&tolerant, self.dirs, &mut pieces.pieces);
        let digest_mismatch = digests.mismatch;
        let found = RecoveryInput {
            is_fresh: base.fresh,
            log,
            pieces: &pieces,
            reaches: &base.reaches(),
            known_last,
            digest_mismatch,
        };
        let plan = match until {
            None => plan_recovery(&found, self.options),
            // What an operator gives up is at the end, and is not read.
            Some(_) => plan_recovery(
                &found,
                &RecoverOptions { accept_loss_after: None, ..self.options.clone() },
            ),
        };
        let plan = plan.map_err(|refusal| self.refuse(&refusal, &mut base))?;
        let last = plan.log.last_zxid;
        assert_eq!(base.tree.last_zxid(), last, "what was replayed is not what was planned");
        let accepted_loss = plan.loss.as_ref().map(|loss| self.error(loss, &base));
        let recovered = Recovered {
            orphan_ephemeral_sessions: base.tree.orphan_ephemeral_owners(),
            damaged_snapshots: skipped_snapshots(&mut base),
            tree: base.tree,
            snapshot: base.snapshot,
            fresh: base.fresh,
            txns_replayed: pieces.txns,
            log_bytes_replayed: pieces.bytes,
            digest_mismatch,
            cut: None,
            accepted_loss,
        };
        Ok((recovered, plan))
    }

    /// The error for a refusal, with the snapshots that were skipped before.
    fn refuse(&self, refusal: &RecoveryRefusal, base: &mut ReplayBase) -> RecoverError {
        match self.error(refusal, base) {
            RecoverError::Log { source, .. } => {
                RecoverError::Log { source, passed_over: skipped_snapshots(base) }
            }
            error => error,
        }
    }

    /// The error for a refusal.
    fn error(&self, refusal: &RecoveryRefusal, base: &ReplayBase) -> RecoverError {
        match refusal {
            RecoveryRefusal::Log(fault) => RecoverError::Log {
                source: LogWalkError::of(fault, &self.dirs.log),
                passed_over: Vec::new(),
            },
            RecoveryRefusal::Digest(mismatch) => RecoverError::Digest {
                mismatch: *mismatch,
                snapshot: base.snapshot.as_ref().map(|used| used.path.clone()),
            },
            RecoveryRefusal::LogLost { known, last } => {
                RecoverError::LogLost { dir: self.dirs.log.clone(), known: *known, last: *last }
            }
            RecoveryRefusal::LogTooShort { reach, last } => {
                let damaged = base.damaged.iter().find(|(name, _)| *name == reach.snapshot);
                RecoverError::LogTooShort {
                    snapshot: reach.snapshot.path(&self.dirs.data),
                    reaches: reach.zxid,
                    last: *last,
                    damage: damaged.map(|(_, error)| error.fault.to_string()),
                }
            }
        }
    }
}

fn skipped_snapshots(base: &mut ReplayBase) -> Vec<SnapshotError> {
    let damaged = std::mem::take(&mut base.damaged);
    damaged.into_iter().map(|(_, error)| error).collect()
}

#[cfg(test)]
#[path = "recover/tests.rs"]
mod tests;

//! Builds the tree from what is on disk when a server starts.
//!
//! In: the two directories. Out: the tree as of the last txn in the log, or a refusal that names file,
//! offset and what to do. Steps: the newest snapshot that is whole, then every txn after it.
//! [`load`] only reads; [`recover`] also mends, and only after everything was found to be good:
//! it cuts the torn tail, removes empty and unfinished files, and syncs what it has read, because a
//! server must not show anybody a state that the next power failure takes back.
//!
//! Rules:
//! - A damaged snapshot is passed over for an older one only if the log goes on from the older one
//!   without a hole, at least to the damaged one's zxid: then nothing is missing.
//! - The log must reach the zxid up to which the snapshot is fuzzy, or the tree has never existed.
//! - Logs without any snapshot are refused unless `trust_empty` says that they start at the very
//!   beginning (servers before 3.5 wrote no first snapshot); the first txn must then have counter 1.
//! - What we would rather not guess, the operator can decide with `accept_loss_after`: it names the last
//!   good txn, so it fits one case only and does no harm when it stays in the configuration.
//! - After recovery the log goes on in a new file.
//!
//! Apache: `FileTxnSnapLog.restore`, `fastForwardFromEdits`. It checks no continuity and only warns where
//! the log ends before the snapshot does.

mod error;
mod mend;

use std::path::{Path, PathBuf};

use herdsman_proto::txn::{Entry, TxnDigest};
use herdsman_proto::{SessionId, Zxid};
use herdsman_tree::{Loader, Tree, TreeOptions};

use crate::disk::{Dirs, Disk};
use crate::log::walk::{Walk, Walked, files_needed, walk};
use crate::names::{LogName, SnapshotName, list_logs, list_snapshots};
use crate::snapshot::Trailer;
use crate::snapshot::reader::{SnapshotError, SnapshotSummary, read_snapshot};

pub use error::RecoverError;

/// How to recover.
#[derive(Clone, Debug, Default)]
pub struct RecoverOptions {
    /// The rules of the tree.
    pub tree: TreeOptions,
    /// Logs without a snapshot are the whole history. Apache: `snapshot.trust.empty`.
    pub trust_empty: bool,
    /// The operator gives up whatever follows this txn.
    pub accept_loss_after: Option<Zxid>,
}

/// How far recovery is.
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

/// Is told how far recovery is, often; the caller decides when it is worth a line.
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
    /// What stands behind its znodes.
    pub trailer: Trailer,
    /// The last txn of which some znode in it shows an effect.
    pub newest_effect: Zxid,
}

/// The tree does not have the digest that it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestMismatch {
    /// After which txn.
    pub zxid: Zxid,
    /// What the file says.
    pub expected: i64,
    /// What the tree has.
    pub found: i64,
}

/// What was cut off the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// From which file.
    pub path: PathBuf,
    /// From here on.
    pub offset: u64,
}

/// The state of a server as it was.
#[derive(Debug)]
pub struct Recovered {
    /// The tree; its zxid is the last one in the log.
    pub tree: Tree,
    /// Where it started from; `None` on a fresh server, and with `trust_empty`.
    pub snapshot: Option<SnapshotUsed>,
    /// Nothing was there: the caller should write `snapshot.0` before anything else, as Apache does.
    pub fresh: bool,
    /// Newer snapshots that could not be used.
    pub damaged_snapshots: Vec<SnapshotError>,
    /// Txns replayed.
    pub txns_replayed: u64,
    /// Their bytes in the log.
    pub log_bytes_replayed: u64,
    /// Sessions that own ephemerals and are not open: to be closed.
    pub orphan_ephemeral_sessions: Vec<SessionId>,
    /// The first digest that did not fit. Not an error, since Apache's own bugs have made some.
    pub digest_mismatch: Option<DigestMismatch>,
    /// The torn tail that was cut off.
    pub cut: Option<Cut>,
    /// What was given up because the operator said so. The caller should then take a snapshot at once.
    pub accepted_loss: Option<RecoverError>,
}

/// Reads, and mends what a crash has left.
pub fn recover(
    disk: &dyn Disk,
    dirs: &Dirs,
    options: &RecoverOptions,
    progress: &mut ReportProgress<'_>,
) -> Result<Recovered, RecoverError> {
    let (mut recovered, walked) = load(disk, dirs, options, progress)?;
    recovered.cut = mend::mend(disk, dirs, &recovered, &walked)?;
    if let Some(source) = walked.accepted {
        let passed_over = Vec::new();
        recovered.accepted_loss = Some(RecoverError::Log { source, passed_over });
    }
    Ok(recovered)
}

/// Reads, and changes nothing.
pub fn load(
    disk: &dyn Disk,
    dirs: &Dirs,
    options: &RecoverOptions,
    progress: &mut ReportProgress<'_>,
) -> Result<(Recovered, Walked), RecoverError> {
    let (snapshots, logs) = list(disk, dirs)?;
    let base = if snapshots.is_empty() {
        Base::without_snapshot(dirs, &logs, options)?
    } else {
        Base::from_snapshots(disk, &dirs.data, &snapshots, options, progress)?
    };
    replay(disk, dirs, base, &logs, options, progress)
}

/// What there is, if each thing is where it belongs.
fn list(disk: &dyn Disk, dirs: &Dirs) -> Result<(Vec<SnapshotName>, Vec<LogName>), RecoverError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| RecoverError::Io { path, source }
    };
    let snapshots = list_snapshots(disk, &dirs.data).map_err(io(&dirs.data))?;
    let logs = list_logs(disk, &dirs.log).map_err(io(&dirs.log))?;
    if dirs.data != dirs.log {
        let stray_log = list_logs(disk, &dirs.data).map_err(io(&dirs.data))?;
        if let Some(name) = stray_log.first() {
            return Err(RecoverError::Misplaced {
                path: name.path(&dirs.data),
                what: "a txn log in dataDir",
            });
        }
        let stray_snapshot = list_snapshots(disk, &dirs.log).map_err(io(&dirs.log))?;
        if let Some(name) = stray_snapshot.first() {
            return Err(RecoverError::Misplaced {
                path: name.path(&dirs.log),
                what: "a snapshot in dataLogDir",
            });
        }
    }
    Ok((snapshots, logs))
}

/// Where replay starts.
struct Base {
    tree: Tree,
    snapshot: Option<SnapshotUsed>,
    damaged: Vec<(SnapshotName, SnapshotError)>,
    fresh: bool,
}

impl Base {
    fn without_snapshot(
        dirs: &Dirs,
        logs: &[LogName],
        options: &RecoverOptions,
    ) -> Result<Self, RecoverError> {
        if let (Some(first), false) = (logs.first(), options.trust_empty) {
            return Err(RecoverError::NoSnapshot {
                dir: dirs.data.clone(),
                log: first.path(&dirs.log),
            });
        }
        Ok(Base {
            tree: Tree::new(options.tree.clone()),
            snapshot: None,
            damaged: Vec::new(),
            fresh: logs.is_empty(),
        })
    }

    /// Loads the newest snapshot that is whole.
    fn from_snapshots(
        disk: &dyn Disk,
        dir: &Path,
        snapshots: &[SnapshotName],
        options: &RecoverOptions,
        progress: &mut ReportProgress<'_>,
    ) -> Result<Self, RecoverError> {
        let mut damaged = Vec::new();
        for &name in snapshots.iter().rev() {
            match load_snapshot(disk, dir, name, &options.tree, progress) {
                Ok((tree, snapshot)) => {
                    return Ok(Base { tree, snapshot: Some(snapshot), damaged, fresh: false });
                }
                Err(error) => {
                    tracing::warn!(%error, "looking for an older snapshot");
                    damaged.push((name, error));
                }
            }
        }
        Err(RecoverError::SnapshotsDamaged {
            dir: dir.to_owned(),
            damaged: damaged.into_iter().map(|(_, error)| error).collect(),
        })
    }

    /// The last txn of which the tree may hold an effect.
    fn fuzzy_until(&self) -> Zxid {
        self.snapshot.as_ref().map_or(Zxid::ZERO, |snapshot| {
            snapshot.trailer.fuzzy_until(snapshot.name.zxid).max(snapshot.newest_effect)
        })
    }
}

fn load_snapshot(
    disk: &dyn Disk,
    dir: &Path,
    name: SnapshotName,
    options: &TreeOptions,
    progress: &mut ReportProgress<'_>,
) -> Result<(Tree, SnapshotUsed), SnapshotError> {
    let path = name.path(dir);
    let bytes_total = disk.open_read(&path).and_then(|file| file.bytes());
    let bytes_total = bytes_total.unwrap_or_default();
    let mut loader = Loader::new(options.clone());
    let mut report = |bytes| {
        progress(Progress::Snapshot { path: &path, bytes, bytes_total });
    };
    let summary = read_snapshot(disk, dir, name, &mut loader, &mut report)?;
    let newest_effect = loader.newest_effect();
    let tree = loader.finish(name.zxid).map_err(|fault| SnapshotError {
        path: path.clone(),
        offset: 0,
        fault: fault.into(),
    })?;
    let SnapshotSummary { file_bytes: bytes, trailer, .. } = summary;
    let used = SnapshotUsed { path, name, bytes, trailer, newest_effect };
    Ok((tree, used))
}

/// Replays the log over the base and sees whether the result is whole.
fn replay(
    disk: &dyn Disk,
    dirs: &Dirs,
    mut base: Base,
    logs: &[LogName],
    options: &RecoverOptions,
    progress: &mut ReportProgress<'_>,
) -> Result<(Recovered, Walked), RecoverError> {
    let after = base.tree.last_zxid();
    let mut digests = DigestCheck::new(&base);
    let tree = &mut base.tree;
    let mut txns = 0;
    let plan = Walk {
        dir: &dirs.log,
        files: files_needed(logs, after),
        after,
        accept_loss_after: options.accept_loss_after,
    };
    let walked = walk(disk, plan, &mut |record| {
        let entry = Entry::decode(record.payload)?;
        tree.replay(&entry);
        digests.check(tree, entry.header.zxid, entry.digest);
        txns += 1;
        progress(Progress::Log { zxid: record.zxid, txns });
        Ok(())
    });
    let passed_over = |base: &mut Base| {
        let damaged = std::mem::take(&mut base.damaged);
        damaged.into_iter().map(|(_, error)| error).collect()
    };
    let walked = match walked {
        Ok(walked) => walked,
        Err(source) => {
            return Err(RecoverError::Log { source, passed_over: passed_over(&mut base) });
        }
    };
    let accepted_loss = match too_short(&base, walked.last_zxid) {
        Some(error) if options.accept_loss_after != Some(walked.last_zxid) => return Err(error),
        accepted => accepted,
    };
    let recovered = Recovered {
        orphan_ephemeral_sessions: base.tree.orphan_ephemeral_owners(),
        damaged_snapshots: passed_over(&mut base),
        tree: base.tree,
        snapshot: base.snapshot,
        fresh: base.fresh,
        txns_replayed: walked.txns,
        log_bytes_replayed: walked.bytes,
        digest_mismatch: digests.mismatch,
        cut: None,
        accepted_loss,
    };
    Ok((recovered, walked))
}

/// The snapshot, if there is one, that says that the log once went further than `last`.
fn too_short(base: &Base, last: Zxid) -> Option<RecoverError> {
    if let Some(snapshot) = &base.snapshot
        && base.fuzzy_until() > last
    {
        return Some(RecoverError::LogTooShort {
            snapshot: snapshot.path.clone(),
            reaches: base.fuzzy_until(),
            last,
            damage: None,
        });
    }
    let unreached = base.damaged.iter().find(|(name, _)| name.zxid > last);
    unreached.map(|(name, error)| RecoverError::LogTooShort {
        snapshot: error.path.clone(),
        reaches: name.zxid,
        last,
        damage: Some(error.fault.to_string()),
    })
}

/// Compares the tree's digest with the ones in the files, wherever that means something.
struct DigestCheck {
    /// Before this txn the tree may be ahead of the log.
    from: Zxid,
    mismatch: Option<DigestMismatch>,
}

impl DigestCheck {
    fn new(base: &Base) -> Self {
        let mut check = DigestCheck { from: base.fuzzy_until(), mismatch: None };
        let snapshot = base.snapshot.as_ref();
        let in_snapshot = snapshot.and_then(|snapshot| snapshot.trailer.digest);
        if let Some(digest) = in_snapshot
            && digest.zxid > Zxid::ZERO
            && digest.zxid == base.tree.last_zxid()
        {
            let digest_in_txn = TxnDigest { version: digest.version, tree_digest: digest.digest };
            check.check(&base.tree, digest.zxid, Some(digest_in_txn));
        }
        check
    }

    fn check(&mut self, tree: &Tree, zxid: Zxid, digest: Option<TxnDigest>) {
        let Some(digest) = digest.filter(|digest| digest.version == TxnDigest::VERSION) else {
            return;
        };
        if !tree.options().digest || zxid < self.from || self.mismatch.is_some() {
            return;
        }
        if digest.tree_digest != tree.digest() {
            self.mismatch =
                Some(DigestMismatch { zxid, expected: digest.tree_digest, found: tree.digest() });
        }
    }
}

#[cfg(test)]
#[path = "recover/tests.rs"]
mod tests;

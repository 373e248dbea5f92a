//! Recovers the tree from the data directory, and logs progress if that takes long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use herdsman_node::membership_of;
use herdsman_proto::Zxid;
use herdsman_store::replace;
use herdsman_store::{
    DirLock, Dirs, Disk, EpochFile, Epochs, HistoryLimits, Progress, RecoverOptions, Recovered,
    TxnHistory, copied_epoch, lock_dirs, read_epoch, read_history, recover_epochs, voting,
};
use herdsman_zab::{InitialFiles, InitialState, Voting, ZabSettings};
use tracing::{info, warn};

use crate::error::StartError;
use crate::operators::stats::ServerStats;
use crate::start::repair::FilesState;
use herdsman_config::{Config, DynamicFiles, Mode, check_directories};
use herdsman_runtime::millis;

/// Interval of progress lines during a long start.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Creates and locks the directories.
pub(crate) fn open_dirs(
    disk: &dyn Disk,
    config: &Config,
    dirs: &Dirs,
) -> Result<DirLock, StartError> {
    let storage = &config.storage;
    // Recovery completes a committed restore. Files that it removes and replaces must not prevent the start.
    let is_restoring = matches!(replace::pending(disk, dirs), Ok(Some(_)));
    if !is_restoring {
        check_directories(storage)?;
    }
    let made =
        |path: &std::path::Path, source| StartError::Directory { path: path.to_owned(), source };
    disk.create_dir(&dirs.data).map_err(|source| made(&dirs.data, source))?;
    disk.create_dir(&dirs.log).map_err(|source| made(&dirs.log, source))?;
    let lock = lock_dirs(disk, &storage.data_dir, &storage.log_dir, dirs, std::process::id())?;
    // A standalone server needs no epochs, but unreadable files indicate that more may be damaged.
    // A member restores them from their copies, or does not vote.
    if !is_restoring && matches!(config.mode, Mode::Standalone) {
        for file in [EpochFile::Current, EpochFile::Accepted] {
            read_epoch(disk, &dirs.data, file)?;
        }
    }
    Ok(lock)
}

/// Whether a member of an ensemble repairs damaged files.
pub(crate) fn repairs_itself(config: &Config) -> bool {
    matches!(config.mode, Mode::Ensemble { .. }) && config.storage.self_repair
}

/// The latest epoch of an epoch file and its copy, as far as they can be read.
pub(crate) fn known_epoch(disk: &dyn Disk, dirs: &Dirs, file: EpochFile) -> u32 {
    let found = read_epoch(disk, &dirs.data, file).ok().flatten();
    found.max(copied_epoch(disk, &dirs.data, file)).unwrap_or(0)
}

/// Records durably that a member has lost its snapshots and logs but not its epochs, which show that it is not new.
/// Must be called before the first snapshot makes it look like a server that never had a txn.
pub(crate) fn suspend_if_lost(
    disk: &dyn Disk,
    config: &Config,
    dirs: &Dirs,
    recovered: &Recovered,
) -> Result<(), StartError> {
    let is_member = matches!(config.mode, Mode::Ensemble { .. });
    let epoch = known_epoch(disk, dirs, EpochFile::Current);
    if is_member && recovered.fresh && epoch > 0 {
        let reason = format!("no snapshots and no logs, but this server has been in epoch {epoch}");
        voting::suspend(disk, dirs, &reason)?;
    }
    Ok(())
}

/// A member's recovered state: its epochs and the end of its log.
pub(crate) fn past(
    disk: &dyn Disk,
    config: &Config,
    dirs: &Dirs,
    (recovered, files): (&Recovered, FilesState),
    zab: &ZabSettings,
) -> Result<InitialState, StartError> {
    if files == FilesState::Unusable {
        return past_of_unusable(disk, config, dirs);
    }
    let last_zxid = recovered.tree.last_zxid();
    let Epochs { current, accepted } = recover_epochs(disk, dirs, last_zxid)?;
    // The operator has marked this server as new.
    let is_new = voting::is_initialized(disk, dirs)?;
    let voting = match suspended(disk, dirs)? {
        Some(_) => Voting::Suspended,
        None => Voting::Allowed,
    };
    let epochs = herdsman_zab::Epochs { current, accepted };
    let files = match InitialFiles::of(last_zxid, epochs) {
        InitialFiles::Empty if is_new => InitialFiles::Whole,
        files => files,
    };
    let limits = HistoryLimits {
        txns_max: zab.history.txns_max,
        bytes_max: zab.history.bytes_max,
        after: history_floor(recovered),
    };
    let TxnHistory { base, txns } =
        read_history(disk, dirs, last_zxid, limits).map_err(Box::new)?;
    Ok(InitialState {
        membership: Arc::new(config.quorum.membership.clone()),
        in_tree: membership_of(&recovered.tree),
        voting,
        epochs,
        base,
        tail: txns,
        files,
    })
}

/// The same if the files cannot be used. Nothing is written: the files still show what this server has
/// acknowledged and promised.
fn past_of_unusable(
    disk: &dyn Disk,
    config: &Config,
    dirs: &Dirs,
) -> Result<InitialState, StartError> {
    let current = known_epoch(disk, dirs, EpochFile::Current);
    let accepted = known_epoch(disk, dirs, EpochFile::Accepted);
    suspended(disk, dirs)?;
    Ok(InitialState {
        membership: Arc::new(config.quorum.membership.clone()),
        in_tree: None,
        voting: Voting::Suspended,
        epochs: herdsman_zab::Epochs { current, accepted: accepted.max(current) },
        base: Zxid::ZERO,
        tail: Vec::new(),
        files: InitialFiles::Unusable,
    })
}

/// Txns up to this one are not offered to learners: a digest before it did not match, so some may be missing.
pub(crate) fn history_floor(recovered: &Recovered) -> Zxid {
    recovered.digest_mismatch.and_then(|it| it.healed_by).unwrap_or(Zxid::ZERO)
}

/// Why this server must not vote before a leader has brought it up to date; `None` if it may. Logs the reason.
pub(crate) fn suspended(disk: &dyn Disk, dirs: &Dirs) -> Result<Option<String>, StartError> {
    let reason = voting::settle(disk, dirs)?;
    if let Some(reason) = &reason {
        let data_dir = dirs.data.parent().unwrap_or(&dirs.data);
        warn!(
            "this server does not vote until a leader has brought it up to date: {reason}. If nothing was lost (for example, a new ensemble started from a copy), create the empty file {} and restart the server",
            data_dir.join(voting::INITIALIZE_FILE).display()
        );
    }
    Ok(reason)
}

/// The files of the membership, if it may change. The original zoo.cfg is kept. If a new membership cannot be
/// written, this server proposes no change: a server that forgot one would vote by the previous membership.
pub(crate) fn dynamic_files(config: &mut Config) -> Option<DynamicFiles> {
    let Mode::Ensemble { my_id, .. } = config.mode else { return None };
    if !config.quorum.reconfig_enabled {
        return None;
    }
    let path = config.file.clone()?;
    let files = DynamicFiles::new(path.clone(), my_id);
    if let Err(failure) = files.back_up().and_then(|()| files.check_writable()) {
        config.quorum.membership_is_fixed = true;
        warn!(
            "cannot replace {}, which a change of the membership needs: {failure}. While this server leads, reconfig is \
             refused; make the file and its directory writable and restart the server",
            path.display()
        );
    }
    Some(files)
}

/// Loads the tree and logs what was found.
pub(crate) fn recover(
    disk: &dyn Disk,
    dirs: &Dirs,
    options: &RecoverOptions,
    stats: &ServerStats,
) -> Result<Recovered, StartError> {
    let start = Instant::now();
    let mut clock = PhaseClock { start, reported: start, log_start: None };
    let recovered =
        herdsman_store::recover(disk, dirs, options, &mut |progress| clock.tell(progress))
            .map_err(Box::new)?;
    let log_start = clock.log_start.unwrap_or_else(Instant::now);
    stats.startup_snapshot_load.add(millis(log_start - start));
    stats.startup_txns_load.add(millis(log_start.elapsed()));
    stats.startup_txns.add(recovered.txns_replayed);
    stats.startup_load.add(millis(start.elapsed()));
    report(&recovered, start.elapsed());
    Ok(recovered)
}

struct PhaseClock {
    start: Instant,
    reported: Instant,
    log_start: Option<Instant>,
}

impl PhaseClock {
    fn tell(&mut self, progress: Progress<'_>) {
        let now = Instant::now();
        if matches!(progress, Progress::Log { .. }) {
            self.log_start.get_or_insert(now);
        }
        if now - self.reported < PROGRESS_EVERY {
            return;
        }
        self.reported = now;
        let seconds = (now - self.start).as_secs();
        match progress {
            Progress::Snapshot { path, bytes, bytes_total } => {
                let percent = bytes * 100 / bytes_total.max(1);
                info!("starting ({seconds} s so far): read {percent} % of {}", path.display());
            }
            Progress::Log { zxid, .. } => {
                info!("starting ({seconds} s so far): replayed the log up to {zxid}");
            }
        }
    }
}

fn report(recovered: &Recovered, took: Duration) {
    for damaged in &recovered.damaged_snapshots {
        warn!(
            "{damaged}; recovered the complete state from an older snapshot and the logs after it"
        );
    }
    if let Some(loss) = &recovered.accepted_loss {
        warn!(
            "accepted by herdsman.acceptLossAfter: {loss}; the discarded data is kept as damaged.*"
        );
    }
    if let Some(cut) = &recovered.cut {
        warn!(
            "{}: truncated an incomplete record at offset {}; it was never acknowledged",
            cut.path.display(),
            cut.offset
        );
    }
    if let Some(mismatch) = &recovered.digest_mismatch {
        warn!("{mismatch}; the digests of later txns match, so the tree is correct");
    }
    let tree = &recovered.tree;
    info!(
        "recovered {} znodes and {} sessions up to {} in {} ms ({} txns replayed)",
        tree.node_count(),
        tree.sessions().count(),
        tree.last_zxid(),
        took.as_millis(),
        recovered.txns_replayed,
    );
}

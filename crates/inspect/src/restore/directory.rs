//! Restores into the directories of a server that does not run.
//!
//! In: a snapshot that was read, and the directories. Out: this snapshot and nothing else that a server reads; the
//! files as they were are in `before-restore-<time>` in the same `version-2` directories. `myid` and the rest of
//! dataDir stay as they are. Files are exchanged and not directories, so `version-2` keeps its owner and mode, and may
//! be a link or a mount point. What happens in which order is in [`herdsman_store::replace`].
//!
//! The epoch files: `currentEpoch` is the epoch of the snapshot's last txn, because that is the history that
//! this server now has; `acceptedEpoch` is that or what the server had promised before, whichever is
//! later, since a promise to a leader holds for any data. If that file is missing, the other epoch file and
//! the names of logs and snapshots give a lower bound of what was promised. So the next leader's epoch is later
//! than any before, and no zxid is given twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use herdsman_store::names::{GUARD, TEMPORARY, list_logs, list_snapshots};
use herdsman_store::recover::load;
use herdsman_store::replace::{self, StagedSnapshot};
use herdsman_store::{
    Compression, DirLock, Dirs, Disk, EpochFile, Epochs, InstallError, RealDisk, SnapshotName,
    copied_epoch, read_epoch, voting,
};

use super::RestoreArguments;
use crate::console::{Console, Outcome};
use crate::durable::ToolDisk;
use crate::identity::{OwnerRights, report_other_owner};
use crate::kept_files::KeptFiles;
use crate::location::Location;
use crate::pending::finish_pending;
use crate::show::clean;
use crate::snapshot_file::LoadedSnapshot;
use crate::verify::data_dir::load_options;

/// The prefix of the name of the directory with the old files.
const KEPT: &str = "before-restore";

impl RestoreArguments {
    pub(super) fn restore_dir(
        &self,
        loaded: &LoadedSnapshot,
        console: &mut Console<'_>,
    ) -> Result<Outcome> {
        let location = self.place.target(self.data_dir.as_deref())?;
        let _rights = OwnerRights::take(&location)?;
        if may_be_done(&location, loaded)? {
            let _lock = location.lock()?;
            let disk = location.disk()?;
            let kept = replace::kept_by_pending(&RealDisk, &location.dirs);
            let is_finished = finish_pending(&location, &disk, console)?.is_some();
            if holds(&location, loaded)? {
                replace::discard(&disk, &location.dirs)?;
                console.set_changed("restored");
                for dir in &kept {
                    let dir = clean(&dir.display().to_string());
                    console.print(format_args!("the previous state is in {dir}"))?;
                }
                let is_resumed = is_finished || !kept.is_empty();
                let done = if is_resumed { "restored" } else { "already has this state" };
                return report(&location, loaded, self.kind_of_source(), done, console);
            }
            if is_finished {
                bail!(
                    "an interrupted operation is finished, but its epochs are not those of {}. Nothing else was changed; run the same command again to restore it",
                    self.source()
                );
            }
        }
        if !self.may_replace(&location, console)? {
            return Ok(Outcome::Problems);
        }
        let is_new = !location.data_dir.exists() || !location.log_dir.exists();
        let _lock = create_and_lock(&location)?;
        let is_finished = finish_pending(&location, &location.disk()?, console)?.is_some();
        let nothing = if is_finished { "nothing else" } else { "nothing" };
        let kept = self.put_in_place(&location, loaded, nothing)?;
        console.set_changed("restored");
        for dir in kept {
            console.print(format_args!("the previous state is in {}", dir.display()))?;
        }
        if is_new && rustix::process::geteuid().is_root() {
            console.print(format_args!(
                "{} is new and belongs to root: give it to the server's user (chown -R) before the server starts",
                location.data_dir.display()
            ))?;
        }
        report_other_owner(&location, console)?;
        report(&location, loaded, self.kind_of_source(), "restored", console)
    }

    /// Whether an existing state may be replaced.
    fn may_replace(&self, location: &Location, console: &mut Console<'_>) -> Result<bool> {
        location.refuse_missing_log()?;
        if !has_data(&location.dirs)? {
            return Ok(true);
        }
        if !self.force {
            bail!(
                "{} is not empty; --force moves the existing state to a separate directory and restores. Nothing was changed",
                location.dirs.data.display()
            );
        }
        let question =
            format!("Move the state in {} aside and restore?", location.data_dir.display());
        self.confirmed(&question, console)
    }

    /// Replaces the files. Returns where the old ones are. `nothing` is what was changed if this fails before the
    /// decision.
    fn put_in_place(
        &self,
        location: &Location,
        loaded: &LoadedSnapshot,
        nothing: &str,
    ) -> Result<Vec<PathBuf>> {
        let disk = location.disk()?;
        let dirs = &location.dirs;
        let mut keeper = KeptFiles::new(KEPT, disk);
        let prepared = keep_all(&mut keeper, dirs)
            .and_then(|()| self.epochs(dirs, loaded))
            .and_then(|epochs| prepare(dirs, disk, loaded, epochs, keeper.dirs()));
        let decided = prepared.and_then(|staged| Ok(staged.decide(&disk)?));
        if let Err(error) = decided {
            // A file that cannot be removed may not exist: a read-only file system does not tell.
            let _ = replace::discard(&disk, dirs);
            keeper.discard();
            let guard = dirs.log.join(GUARD);
            return Err(error).context(match fs::symlink_metadata(&guard) {
                Err(_) => format!("{nothing} was changed"),
                Ok(_) => format!(
                    "{nothing} was changed, but files of this attempt are left: Apache ZooKeeper refuses to start while {} exists. Start Herdsman or run the same command again to remove it",
                    guard.display()
                ),
            });
        }
        let name = SnapshotName { zxid: loaded.as_of, compression: Compression::None };
        let kept = keeper.dirs().to_vec();
        replace::finish(&disk, dirs, name).map_err(|error| unfinished(location, &error, &kept))?;
        Ok(kept)
    }

    /// The epochs to store with the snapshot. A file that cannot be read counts as missing with `--force`.
    fn epochs(&self, dirs: &Dirs, loaded: &LoadedSnapshot) -> Result<Epochs> {
        let current = loaded.as_of.epoch();
        let mut accepted = current;
        for file in [EpochFile::Accepted, EpochFile::Current] {
            accepted = accepted.max(copied_epoch(&RealDisk, &dirs.data, file).unwrap_or(0));
            match read_epoch(&RealDisk, &dirs.data, file) {
                Ok(epoch) => accepted = accepted.max(epoch.unwrap_or(0)),
                Err(_) if self.force => {}
                Err(error) => {
                    return Err(error).context("--force keeps the file and restores without it");
                }
            }
        }
        let logs = list_logs(&RealDisk, &dirs.log)?.into_iter().map(|name| name.zxid);
        let snapshots = list_snapshots(&RealDisk, &dirs.data)?.into_iter().map(|name| name.zxid);
        let named = logs.chain(snapshots).map(|zxid| zxid.epoch()).max();
        Ok(Epochs { current, accepted: accepted.max(named.unwrap_or(0)) })
    }
}

/// Whether an earlier run of this command has done it, or all but the end of it. Another interrupted restore is
/// finished only when it is known that this one may replace it.
fn may_be_done(location: &Location, loaded: &LoadedSnapshot) -> Result<bool> {
    let Dirs { data, log } = &location.dirs;
    if !data.is_dir() || !log.is_dir() {
        return Ok(false);
    }
    let name = SnapshotName { zxid: loaded.as_of, compression: Compression::None };
    match replace::pending(&RealDisk, &location.dirs) {
        Ok(None) => {}
        Ok(Some(pending)) => return Ok(pending == name && is_state(location, loaded)),
        Err(_) => return Ok(false),
    }
    let is_alone =
        list_snapshots(&RealDisk, data)? == [name] && list_logs(&RealDisk, log)?.is_empty();
    Ok(is_alone)
}

/// Whether the directories hold exactly the state that a restore would make.
fn holds(location: &Location, loaded: &LoadedSnapshot) -> Result<bool> {
    let dirs = &location.dirs;
    let epoch = |file| read_epoch(&RealDisk, &dirs.data, file).ok().flatten();
    let has_epochs = epoch(EpochFile::Current) == Some(loaded.as_of.epoch())
        && epoch(EpochFile::Accepted).is_some_and(|accepted| accepted >= loaded.as_of.epoch());
    if !list_logs(&RealDisk, &dirs.log)?.is_empty()
        || !has_epochs
        || voting::suspended(&RealDisk, dirs)?.is_some()
    {
        return Ok(false);
    }
    Ok(is_state(location, loaded))
}

/// Whether a server would start with this tree.
fn is_state(location: &Location, loaded: &LoadedSnapshot) -> bool {
    load(&RealDisk, &location.dirs, &load_options(), &mut |_| {}).is_ok_and(|(found, _)| {
        found.tree.digest() == loaded.tree.digest()
            && found.tree.last_zxid() == loaded.as_of
            && found.damaged_snapshots.is_empty()
    })
}

fn has_data(dirs: &Dirs) -> Result<bool> {
    let is_pending = || !matches!(replace::pending(&RealDisk, dirs), Ok(None));
    let has_logs =
        |dir: &Path| -> Result<bool> { Ok(dir.exists() && !list_logs(&RealDisk, dir)?.is_empty()) };
    let has_snapshots =
        dirs.data.exists() && (is_pending() || !list_snapshots(&RealDisk, &dirs.data)?.is_empty());
    Ok(has_snapshots || has_logs(&dirs.data)? || has_logs(&dirs.log)?)
}

/// Creates the directories where they are missing, and ensures that no server runs on them.
fn create_and_lock(location: &Location) -> Result<DirLock> {
    let create = |dir: &Path| {
        let created = ToolDisk::private().create_dir(dir);
        created.with_context(|| format!("cannot create {}. Nothing was changed", dir.display()))
    };
    create(&location.data_dir)?;
    create(&location.log_dir)?;
    location.lock()
}

/// The error for a restore that is decided while some of the old files are still there.
fn unfinished(location: &Location, error: &InstallError, kept: &[PathBuf]) -> anyhow::Error {
    let dir = location.dirs.data.display();
    let mut text = format!(
        "{dir} is restored, but some of the old files are not removed yet: {error}. Run the same command again, or start the server: either finishes it"
    );
    for dir in kept {
        text.push_str(&format!(". The previous state is in {}", dir.display()));
    }
    anyhow!(text)
}

/// Keeps every file of the old state.
fn keep_all(keeper: &mut KeptFiles, dirs: &Dirs) -> Result<()> {
    let mut places = vec![&dirs.data];
    if dirs.log != dirs.data {
        places.push(&dirs.log);
    }
    for dir in places {
        let failed = || format!("cannot read {}", dir.display());
        let entries = fs::read_dir(dir).with_context(failed)?;
        let mut entries = entries.collect::<Result<Vec<_>, _>>().with_context(failed)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let is_unfinished = name.to_str().is_some_and(|name| name.starts_with(TEMPORARY));
            let kind = entry.file_type().with_context(failed)?;
            if (kind.is_file() || kind.is_symlink()) && !is_unfinished && name != GUARD {
                keeper.keep(&entry.path(), dir)?;
            }
        }
    }
    Ok(())
}

/// Writes the new state, and reads it again.
fn prepare(
    dirs: &Dirs,
    disk: ToolDisk,
    loaded: &LoadedSnapshot,
    epochs: Epochs,
    kept: &[PathBuf],
) -> Result<StagedSnapshot> {
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let staged = replace::stage(&shared, dirs, &loaded.tree, epochs, kept)?;
    let found = LoadedSnapshot::load(&staged.path(), &mut |_| {})?;
    if found.tree.digest() != loaded.tree.digest() || found.as_of != loaded.as_of {
        bail!("the file does not read back as it was written: is the disk failing?");
    }
    Ok(staged)
}

/// Loads the restored state as a server would, and prints it.
fn report(
    location: &Location,
    loaded: &LoadedSnapshot,
    source: &str,
    done: &str,
    console: &mut Console<'_>,
) -> Result<Outcome> {
    let data = location.dirs.data.display();
    let (recovered, _) = load(&RealDisk, &location.dirs, &load_options(), &mut |_| {})
        .with_context(|| format!("{data} is restored, but cannot be loaded"))?;
    let tree = &recovered.tree;
    if tree.digest() != loaded.tree.digest() || tree.last_zxid() != loaded.as_of {
        bail!("{data} is restored, but does not read back as it was written: is the disk failing?");
    }
    console.print(format_args!(
        "{} {done}: {} znodes as of txn {}, digest {}",
        location.dirs.data.display(),
        tree.node_count(),
        tree.last_zxid(),
        tree.digest()
    ))?;
    if let Some(reason) = location.missing_log()?.filter(|_| done != "restored") {
        console.note(reason);
    }
    if location.data_dir.join("myid").exists() {
        console.print(format_args!("this is a member of an ensemble: restore the same {source} on every other member before any of them starts"))?;
    }
    Ok(Outcome::Sound)
}

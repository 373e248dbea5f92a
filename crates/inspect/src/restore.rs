//! `herdsman restore`: puts a backup in the place of a server's state, in its directory or over its admin
//! port.
//!
//! In: a snapshot file of any name and packing, found sound. Out: a data directory with this snapshot and
//! nothing else, or a running server that has taken it. Offline, an old `version-2` is moved aside whole;
//! `myid` and the rest of dataDir stay as they are.
//!
//! The epoch files: `currentEpoch` is the epoch of the snapshot's last txn, for that is the history that
//! this server now has; `acceptedEpoch` is that or what the server had promised before, whichever is
//! later, since a promise to a leader holds whatever data one has. So the next leader's epoch is later
//! than any before, and no zxid is given twice.
//!
//! An ensemble is restored by stopping all servers, restoring the same file on each, and starting them: a
//! member that keeps newer data would win the election and undo it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use herdsman_proto::Zxid;
use herdsman_store::names::{list_logs, list_snapshots};
use herdsman_store::recover::load;
use herdsman_store::snapshot::pack::unpack;
use herdsman_store::snapshot::reader::detect_compression;
use herdsman_store::{
    Compression, Dirs, Disk, EpochFile, LastZxid, RealDisk, read_epoch, write_epoch, write_snapshot,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::console::{Console, EXIT_CODES_OF_CHANGES, Outcome};
use crate::durable::{give_to_owner_of, stamp, sync_dir};
use crate::http::{AdminServer, ServerArguments};
use crate::location::{Location, LogDirArgument};
use crate::progress::Meter;
use crate::snapshot_file::{DigestVerdict, LoadedSnapshot};
use crate::verify::data_dir::load_options;

const VERSION_DIR: &str = "version-2";

/// Put a backup in the place of a server's state, offline or over the admin port.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("target").required(true).args(["data_dir", "server"]), after_help = help())]
pub struct RestoreArguments {
    /// A snapshot: what herdsman backup wrote, or one from a server's version-2.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Restore into this dataDir; its server must not run.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    log: LogDirArgument,
    #[command(flatten)]
    server: ServerArguments,
    /// Move what is there aside and restore.
    #[arg(long)]
    force: bool,
    /// Restore a snapshot that was taken while writes went on, without the log that completes it.
    #[arg(long)]
    accept_fuzzy: bool,
    /// Do not ask. Needed where there is no terminal and something is replaced.
    #[arg(long, short)]
    yes: bool,
}

fn help() -> String {
    format!(
        "\
Examples:
  herdsman restore /backup/zk.snapshot --data-dir /var/lib/zookeeper --force
  HERDSMAN_AUTH=digest:super:secret herdsman restore /backup/zk.snapshot --server http://127.0.0.1:8080

An ensemble: stop all servers, restore the same file on each of them, start them. A member that
is left out would have the newer data, win the election, and undo the restore. Over the admin
port only the one server that is asked is restored: that is for a standalone server.

Clients that have seen later txns refuse a server that has gone back, and must be restarted.

{EXIT_CODES_OF_CHANGES}"
    )
}

impl RestoreArguments {
    /// Carries the command out on the given console.
    pub fn execute(&self, console: &mut Console<'_>) -> Result<Outcome> {
        let loaded = self.read_backup(console)?;
        match (self.server.open()?, &self.data_dir) {
            (Some(server), _) => self.restore_server(&server, &loaded, console),
            (None, Some(dir)) => self.restore_dir(dir, &loaded, console),
            (None, None) => bail!("give --data-dir or --server"),
        }
    }

    /// Reads the backup to its end, before anything is changed.
    fn read_backup(&self, console: &Console<'_>) -> Result<LoadedSnapshot> {
        let bytes = fs::metadata(&self.file).map_or(0, |metadata| metadata.len());
        let mut meter = Meter::of_bytes(console, "reading the backup", bytes);
        let loaded = LoadedSnapshot::load(&self.file, &mut |read| meter.set(read))
            .map_err(anyhow::Error::from)
            .context("nothing was changed")?;
        let file = self.file.display();
        match loaded.digest_verdict() {
            DigestVerdict::Differs { expected, found } => bail!(
                "{file} says digest {expected}, but its znodes give {found}: it is damaged. Nothing was changed"
            ),
            DigestVerdict::Fuzzy if !self.accept_fuzzy => bail!(
                "{file} was taken while writes went on and is not of one moment; the log that would complete it is not here. --accept-fuzzy restores it all the same. Nothing was changed"
            ),
            DigestVerdict::Fuzzy | DigestVerdict::Fits | DigestVerdict::Absent => Ok(loaded),
        }
    }

    fn confirmed(&self, question: &str, console: &mut Console<'_>) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !console.can_ask() {
            bail!("there is no terminal to ask on: add --yes. Nothing was changed");
        }
        let is_confirmed = console.ask(question)?;
        if !is_confirmed {
            console.say("nothing was changed")?;
        }
        Ok(is_confirmed)
    }

    fn restore_server(
        &self,
        server: &AdminServer,
        loaded: &LoadedSnapshot,
        console: &mut Console<'_>,
    ) -> Result<Outcome> {
        let (nodes, as_of) = (loaded.tree.node_count(), loaded.as_of);
        let question = format!(
            "Replace the whole state of {} with {nodes} znodes as of txn {as_of}?",
            server.base()
        );
        if !self.confirmed(&question, console)? {
            return Ok(Outcome::Problems);
        }
        let compression = detect_compression(&RealDisk, &self.file)?.unwrap_or_default();
        let file = fs::File::open(&self.file)?;
        let bytes = file.metadata()?.len();
        let meter = Meter::of_bytes(console, "sending", bytes);
        // Admin servers take only plain snapshots.
        let plain_bytes = (compression == Compression::None).then_some(bytes);
        let mut content = unpack(Metered { file, meter }, compression);
        let last_zxid = server.restore(&mut *content, plain_bytes)?;
        drop(content);
        console.say(format_args!("{} restored: txn {last_zxid}, {nodes} znodes", server.base()))?;
        Ok(Outcome::Sound)
    }

    fn restore_dir(
        &self,
        dir: &Path,
        loaded: &LoadedSnapshot,
        console: &mut Console<'_>,
    ) -> Result<Outcome> {
        let location = target_location(dir, self.log.log_dir.as_deref())?;
        let is_used = has_data(&location.dirs)?;
        if is_used && !self.force {
            bail!(
                "{} is not empty; --force moves it aside. Nothing was changed",
                location.dirs.data.display()
            );
        }
        let question =
            format!("Move the state in {} aside and restore?", location.data_dir.display());
        if is_used && !self.confirmed(&question, console)? {
            return Ok(Outcome::Problems);
        }
        for dir in [&location.data_dir, &location.log_dir] {
            RealDisk.create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let _lock = location.lock()?;
        for kept in put_in_place(&location, loaded)? {
            console.say(format_args!("what was there is in {}", kept.display()))?;
        }
        self.check(&location, loaded, console)
    }

    /// Loads what was restored as a server would.
    fn check(
        &self,
        location: &Location,
        loaded: &LoadedSnapshot,
        console: &mut Console<'_>,
    ) -> Result<Outcome> {
        let (recovered, _) = load(&RealDisk, &location.dirs, &load_options(), &mut |_| {})?;
        let tree = &recovered.tree;
        if tree.digest() != loaded.tree.digest() || tree.last_zxid() != loaded.as_of {
            bail!("what was restored does not read as it should: is the disk failing?");
        }
        console.say(format_args!(
            "{} restored: {} znodes as of txn {}, digest {}",
            location.dirs.data.display(),
            tree.node_count(),
            tree.last_zxid(),
            tree.digest()
        ))?;
        if location.data_dir.join("myid").exists() {
            console.say("a member of an ensemble: restore the same file on every other member before any of them starts")?;
        }
        Ok(Outcome::Sound)
    }
}

/// The directories to restore into, which need not be there yet.
fn target_location(dir: &Path, log_dir: Option<&Path>) -> Result<Location> {
    let configured = |dir: &Path| {
        let parent = dir.parent().filter(|_| dir.ends_with(VERSION_DIR));
        let dir = parent.unwrap_or(dir).to_owned();
        if dir.exists() && !dir.is_dir() {
            bail!("{} is not a directory", dir.display())
        } else {
            Ok(dir)
        }
    };
    let data_dir = configured(dir)?;
    let log_dir = log_dir.map(configured).transpose()?.unwrap_or_else(|| data_dir.clone());
    let dirs = Dirs::below(&data_dir, &log_dir);
    Ok(Location { data_dir, log_dir, dirs })
}

fn has_data(dirs: &Dirs) -> Result<bool> {
    let is_empty = !dirs.data.exists() || list_snapshots(&RealDisk, &dirs.data)?.is_empty();
    let has_logs =
        |dir: &Path| -> Result<bool> { Ok(dir.exists() && !list_logs(&RealDisk, dir)?.is_empty()) };
    Ok(!is_empty || has_logs(&dirs.data)? || has_logs(&dirs.log)?)
}

/// Makes the new `version-2` beside the old one, then swaps them. Where the old ones are comes back.
fn put_in_place(location: &Location, loaded: &LoadedSnapshot) -> Result<Vec<PathBuf>> {
    let Location { data_dir, log_dir, dirs } = location;
    let promised = read_epoch(&RealDisk, &dirs.data, EpochFile::Accepted)
        .context("nothing was changed")?
        .unwrap_or(0);
    let prepared = tempfile::Builder::new().prefix("restoring-").tempdir_in(data_dir)?;
    prepare(prepared.path(), data_dir, promised, loaded).context("nothing was changed")?;
    let aside = format!("{VERSION_DIR}.before-restore-{}", stamp());
    let mut kept = Vec::new();
    // The old log must not be replayed over the new snapshot, so it goes first.
    if dirs.log != dirs.data && dirs.log.exists() {
        let aside = log_dir.join(&aside);
        fs::rename(&dirs.log, &aside)
            .with_context(|| format!("cannot move {} aside", dirs.log.display()))?;
        sync_dir(log_dir)?;
        kept.push(aside);
    }
    let prepared = prepared.keep();
    if dirs.data.exists() {
        let aside = data_dir.join(&aside);
        exchange(&prepared, &dirs.data, &aside)?;
        kept.push(aside);
    } else {
        fs::rename(&prepared, &dirs.data)?;
    }
    sync_dir(data_dir)?;
    RealDisk.create_dir(&dirs.log)?;
    give_to_owner_of(log_dir, &dirs.log)?;
    Ok(kept)
}

/// Snapshot and epoch files, durable, of the same owner as `data_dir`.
fn prepare(dir: &Path, data_dir: &Path, promised: u32, loaded: &LoadedSnapshot) -> Result<()> {
    let disk = Arc::new(RealDisk);
    write_snapshot(disk, dir, Compression::None, &loaded.tree, LastZxid::Write)?;
    let current = Zxid::epoch(loaded.as_of);
    write_epoch(&RealDisk, dir, EpochFile::Accepted, current.max(promised))?;
    write_epoch(&RealDisk, dir, EpochFile::Current, current)?;
    // As other directories are, and not as temporary ones are.
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(dir, mode)?;
    for entry in fs::read_dir(dir)? {
        give_to_owner_of(data_dir, &entry?.path())?;
    }
    give_to_owner_of(data_dir, dir)?;
    sync_dir(dir)
}

/// Puts `new` in the place of `old`, which becomes `aside`. In one step where the file system can: then
/// there is no moment without a state, in which a server would start empty.
fn exchange(new: &Path, old: &Path, aside: &Path) -> Result<()> {
    if renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).is_ok() {
        let left = || format!("restored; what was there is left in {}", new.display());
        return fs::rename(new, aside).with_context(left);
    }
    if let Err(error) = fs::rename(old, aside) {
        // It holds nothing but a copy of the backup.
        let _ = fs::remove_dir_all(new);
        return Err(error).with_context(|| format!("cannot move {} aside", old.display()));
    }
    fs::rename(new, old).with_context(|| format!("cannot rename {}", new.display()))
}

/// A file whose reading is shown.
struct Metered {
    file: fs::File,
    meter: Meter,
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.meter.add(count as u64);
        Ok(count)
    }
}

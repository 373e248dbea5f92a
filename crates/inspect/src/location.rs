//! Finds the directories of a server from command-line arguments.
//!
//! In: `dataDir` or its `version-2`, and the same for `dataLogDir`; or zoo.cfg, which names both. Out: the four paths,
//! or an error that says what is missing. A dataLogDir that was forgotten is detected from the snapshots.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result, bail};
use clap::Args;
use herdsman_properties::Properties;
use herdsman_proto::Zxid;
use herdsman_store::names::{LogName, SnapshotName, list_logs, list_snapshots};
use herdsman_store::{DirLock, Dirs, Disk as _, RealDisk, lock_dirs, replace};

use crate::durable::ToolDisk;
use crate::http::ServerArguments;
use crate::log_file::{LogItem, read_log};

pub(crate) const VERSION_DIR: &str = "version-2";
/// Limit for a process id with its line end.
const PROCESS_ID_BYTES_MAX: usize = 64;

/// The directories of a server.
#[derive(Args, Clone, Debug)]
pub(crate) struct DirArguments {
    /// The server's dataDir, or the version-2 directory in it.
    #[arg(value_name = "DIR", required_unless_present = "config", conflicts_with = "config")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    place: LocationArguments,
}

/// The directory of the txn logs, if it is another one; or the configuration file that names both.
#[derive(Args, Clone, Debug)]
pub(crate) struct LocationArguments {
    /// The server's dataLogDir. If it has none, give the dataDir again.
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    log_dir: Option<PathBuf>,
    /// Read dataDir and dataLogDir from this zoo.cfg.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl DirArguments {
    /// Finds the directories, which must exist.
    pub(crate) fn locate(&self) -> Result<Location> {
        self.place.locate(self.dir.as_deref())
    }
}

impl LocationArguments {
    /// Whether zoo.cfg names the directories.
    pub(crate) fn is_configured(&self) -> bool {
        self.config.is_some()
    }

    /// Refuses `--log-dir` with `--admin`: a running server knows its own directories.
    pub(crate) fn refuse_beside_server(&self, server: &ServerArguments) -> Result<()> {
        if self.log_dir.is_some() && server.admin.is_some() {
            bail!("--log-dir cannot be used with --admin");
        }
        Ok(())
    }

    /// Finds the directories, which must exist.
    pub(crate) fn locate(&self, dir: Option<&Path>) -> Result<Location> {
        let (dir, log_dir) = self.directories(dir)?;
        let (data_dir, data) = find_one(&dir, "dataDir")?;
        let (log_dir, log, log_is_assumed) = match log_dir {
            Some(dir) => {
                let (log_dir, log) = find_one(&dir, "dataLogDir")?;
                (log_dir, log, false)
            }
            None => (data_dir.clone(), data.clone(), !self.is_configured()),
        };
        let dirs = Dirs { data, log };
        Ok(Location { data_dir, log_dir, dirs, log_is_assumed }.with_one_name())
    }

    /// Finds the directories to write a new state to, which need not exist yet.
    pub(crate) fn target(&self, dir: Option<&Path>) -> Result<Location> {
        let (dir, log_dir) = self.directories(dir)?;
        let data_dir = target_dir(&dir)?;
        let log_is_assumed = log_dir.is_none() && !self.is_configured();
        let log_dir = log_dir.map(|dir| target_dir(&dir)).transpose()?;
        let log_dir = log_dir.unwrap_or_else(|| data_dir.clone());
        let dirs = Dirs::below(&data_dir, &log_dir);
        Ok(Location { data_dir, log_dir, dirs, log_is_assumed }.with_one_name())
    }

    /// dataDir, and dataLogDir if it is set.
    fn directories(&self, dir: Option<&Path>) -> Result<(PathBuf, Option<PathBuf>)> {
        match (&self.config, dir) {
            (Some(config), _) => configured(config),
            (None, Some(dir)) => Ok((dir.to_owned(), self.log_dir.clone())),
            (None, None) => bail!("give the server's dataDir, or its zoo.cfg with --config"),
        }
    }
}

/// Reads dataDir and dataLogDir from zoo.cfg. Relative paths are resolved by this process, as by a server.
fn configured(config: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
    let name = config.display();
    let bytes = fs::read(config).with_context(|| format!("cannot read {name}"))?;
    let properties = match Properties::parse(&bytes) {
        Ok(properties) => properties,
        Err(error) => bail!("{name}, line {}: {error}", error.line),
    };
    let read = |key: &str| match properties.get(key) {
        Some(entry) if properties.beyond_ascii.contains(&entry.line) => bail!(
            "{name}: {key} contains characters that are not ASCII, which Apache reads differently. Give the directories with --data-dir and --log-dir"
        ),
        entry => Ok(entry.map(|entry| PathBuf::from(&entry.value))),
    };
    let data_dir = read("dataDir")?.with_context(|| format!("{name} has no dataDir"))?;
    Ok((data_dir, read("dataLogDir")?))
}

/// The directories of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// `dataDir`.
    pub(crate) data_dir: PathBuf,
    /// `dataLogDir`; may be the same.
    pub(crate) log_dir: PathBuf,
    /// Their `version-2` directories.
    pub(crate) dirs: Dirs,
    /// The directory of the logs was not given.
    log_is_assumed: bool,
}

impl Location {
    /// Finds the directories of a server of which only this one was given.
    pub(crate) fn find(dir: &Path) -> Result<Self> {
        LocationArguments { log_dir: None, config: None }.locate(Some(dir))
    }

    /// If both are the same directory under two names, uses one name for both, so that they compare equal.
    fn with_one_name(mut self) -> Self {
        let is_same = |a: &Path, b: &Path| match (fs::metadata(a), fs::metadata(b)) {
            (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
            _ => a == b,
        };
        if is_same(&self.data_dir, &self.log_dir) || is_same(&self.dirs.data, &self.dirs.log) {
            self.log_dir.clone_from(&self.data_dir);
            self.dirs.log.clone_from(&self.dirs.data);
        }
        self
    }

    /// Ensures that no server runs on these directories until the lock is dropped.
    pub(crate) fn lock(&self) -> Result<DirLock> {
        self.refuse_if_apache_runs()?;
        let disk = ToolDisk::private();
        lock_dirs(&disk, &self.data_dir, &self.log_dir, &self.dirs, std::process::id())
            .context("nothing was changed")
    }

    /// The disk for new files beside the existing ones: with their owner and mode.
    pub(crate) fn disk(&self) -> Result<ToolDisk> {
        let dir = if self.dirs.data.is_dir() { &self.dirs.data } else { &self.data_dir };
        let snapshots = list_snapshots(&RealDisk, dir)?.into_iter().map(|name| name.path(dir));
        let logs = list_logs(&RealDisk, &self.dirs.log).unwrap_or_default();
        let logs = logs.into_iter().map(|name| name.path(&self.dirs.log));
        // A dangling link has no mode.
        let like = snapshots.rev().chain(logs.rev()).find(|path| path.exists());
        ToolDisk::in_dir(dir, like.as_deref())
    }

    /// Explains why the logs must be elsewhere, if their directory was not given and they are not here.
    pub(crate) fn missing_log(&self) -> Result<Option<String>> {
        let Dirs { data, log } = &self.dirs;
        let is_pending = || !matches!(replace::pending(&RealDisk, &self.dirs), Ok(None));
        if !self.log_is_assumed || !data.is_dir() || is_pending() {
            return Ok(None);
        }
        let Some(newest) = list_snapshots(&RealDisk, data)?.pop() else {
            return Ok(None);
        };
        let advice = format!(
            "does the server have a dataLogDir? Give it with --log-dir, or give zoo.cfg with --config. If there is no other log, use --log-dir {}",
            self.data_dir.display()
        );
        let Some(last) = list_logs(&RealDisk, log)?.pop() else {
            let dir = data.display();
            return Ok(Some(format!("{dir} has snapshots, but no txn log: {advice}")));
        };
        if last.zxid > newest.zxid {
            return Ok(None);
        }
        let end = last_txn(&last.path(log)).filter(|end| *end < newest.zxid);
        Ok(end.map(|end| {
            let newest = newest.file_name();
            format!("the txn log in {} ends at txn {end}, before {newest}: {advice}", log.display())
        }))
    }

    /// Fails if the log is elsewhere, because the snapshots alone are not the whole state.
    pub(crate) fn refuse_missing_log(&self) -> Result<()> {
        match self.missing_log()? {
            Some(reason) => bail!("{reason}. Nothing was changed"),
            None => Ok(()),
        }
    }

    /// Apache takes no lock, but its script writes the process id to a file.
    fn refuse_if_apache_runs(&self) -> Result<()> {
        let path = self.data_dir.join("zookeeper_server.pid");
        let mut start = [0; PROCESS_ID_BYTES_MAX];
        let read = RealDisk.open_read(&path).and_then(|file| file.read_at(0, &mut start));
        let Ok(bytes) = read else {
            return Ok(());
        };
        let text = str::from_utf8(&start[..bytes]).unwrap_or_default();
        let process_id = text.trim().parse::<u32>().ok();
        let runs = |id: u32| Path::new("/proc").join(id.to_string()).is_dir();
        match process_id.filter(|id| runs(*id)) {
            None => Ok(()),
            Some(process_id) => bail!(
                "according to {}, a server runs as process {process_id}. Stop it, or remove that file if it is stale. Nothing was changed",
                path.display()
            ),
        }
    }
}

/// The last txn of a log; `None` if the file cannot be read or has none.
fn last_txn(path: &Path) -> Option<Zxid> {
    let mut last = None;
    let read = read_log(path, &mut |piece| {
        if let LogItem::Txn { entry, .. } = piece {
            last = Some(entry.header.zxid);
        }
        Ok(())
    });
    read.ok().and(last)
}

/// Fails if a path does not exist or is not a directory.
pub(crate) fn refuse_no_dir(dir: &Path) -> Result<()> {
    match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => bail!("{} is not a directory", dir.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{} does not exist", dir.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot access {}", dir.display())),
    }
}

/// Finds a configured directory and its `version-2`.
fn find_one(dir: &Path, setting: &str) -> Result<(PathBuf, PathBuf)> {
    refuse_no_dir(dir)?;
    let below = dir.join(VERSION_DIR);
    if below.is_dir() {
        return Ok((dir.to_owned(), below));
    }
    // `.` has no name. In its dataDir, `version-2` may be a link.
    let full = absolute(dir)?;
    if let (true, Some(parent)) = (full.ends_with(VERSION_DIR), full.parent()) {
        return Ok((parent.to_owned(), dir.to_owned()));
    }
    // Resolve a link with another name: the lock and the old files belong beside its target, not beside the link.
    let real = full.canonicalize().with_context(|| format!("cannot access {}", dir.display()))?;
    if let (true, Some(parent)) = (is_version_dir(&real), real.parent()) {
        return Ok((parent.to_owned(), real));
    }
    bail!(
        "{} has no {VERSION_DIR} directory and no snapshots or txn logs: give the {setting} of a server",
        dir.display()
    );
}

/// Finds a configured directory from its own path or from that of its `version-2`.
fn target_dir(dir: &Path) -> Result<PathBuf> {
    // `.` has no name, and `version-2` no parent.
    let full = absolute(dir)?;
    let real = full.canonicalize().unwrap_or_else(|_| full.clone());
    let is_below = |dir: &Path| dir.ends_with(VERSION_DIR) && !dir.join(VERSION_DIR).is_dir();
    let found = if full.ends_with(VERSION_DIR) {
        full.parent().map(Path::to_owned)
    } else if is_below(&real) {
        real.parent().map(Path::to_owned)
    } else {
        None
    };
    let found = found.unwrap_or(full);
    if found.exists() && !found.is_dir() {
        bail!("{} is not a directory", found.display());
    }
    if has_files(&found) && !found.join(VERSION_DIR).is_dir() {
        bail!(
            "{} contains snapshots or txn logs and is not named {VERSION_DIR}: give a dataDir, in which a server expects a directory {VERSION_DIR}",
            found.display()
        );
    }
    Ok(found)
}

fn is_version_dir(dir: &Path) -> bool {
    dir.ends_with(VERSION_DIR) || has_files(dir)
}

fn has_files(dir: &Path) -> bool {
    fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        entry.file_name().to_str().is_some_and(|name| {
            SnapshotName::parse(name).is_some() || LogName::parse(name).is_some()
        })
    })
}

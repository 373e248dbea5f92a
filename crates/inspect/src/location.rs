//! Finds the directories of a server from what an operator has typed.
//!
//! In: `dataDir` or its `version-2`, and the same for `dataLogDir`. Out: the four paths, or a line that
//! says what is missing. Nothing is made here.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use herdsman_store::lock::FILE_NAME as LOCK_FILE;
use herdsman_store::names::{LogName, SnapshotName};
use herdsman_store::{DirLock, Dirs, RealDisk, lock_dirs};

use crate::durable::give_to_owner_of;

const VERSION_DIR: &str = "version-2";

/// Which server's files.
#[derive(Args, Clone, Debug)]
pub(crate) struct DirArguments {
    /// The server's dataDir, or the version-2 directory in it.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    log: LogDirArgument,
}

/// Where the txn logs are, if elsewhere.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogDirArgument {
    /// The server's dataLogDir, if it has one of its own.
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
}

impl DirArguments {
    /// The directories, which must be there.
    pub(crate) fn locate(&self) -> Result<Location> {
        Location::find(&self.dir, self.log.log_dir.as_deref())
    }
}

/// The directories of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// `dataDir`.
    pub(crate) data_dir: PathBuf,
    /// `dataLogDir`; may be the same.
    pub(crate) log_dir: PathBuf,
    /// What is below them.
    pub(crate) dirs: Dirs,
}

impl Location {
    /// The directories, which must be there.
    pub(crate) fn find(dir: &Path, log_dir: Option<&Path>) -> Result<Self> {
        let (data_dir, data) = find_one(dir, "dataDir")?;
        let (log_dir, log) = match log_dir {
            Some(dir) => find_one(dir, "dataLogDir")?,
            None => (data_dir.clone(), data.clone()),
        };
        Ok(Location { data_dir, log_dir, dirs: Dirs { data, log } })
    }

    /// Makes sure that no server runs on these directories, until the lock is dropped.
    pub(crate) fn lock(&self) -> Result<DirLock> {
        self.refuse_if_apache_runs()?;
        let lock = lock_dirs(&RealDisk, &self.data_dir, &self.log_dir, std::process::id())
            .context("nothing was changed")?;
        for dir in [&self.data_dir, &self.log_dir] {
            give_to_owner_of(dir, &dir.join(LOCK_FILE))?;
        }
        Ok(lock)
    }

    /// Apache takes no lock, but its script leaves the process id.
    fn refuse_if_apache_runs(&self) -> Result<()> {
        let path = self.data_dir.join("zookeeper_server.pid");
        let Ok(text) = std::fs::read_to_string(&path) else {
            return Ok(());
        };
        let process_id = text.trim().parse::<u32>().ok();
        let runs = |id: u32| Path::new("/proc").join(id.to_string()).is_dir();
        match process_id.filter(|id| runs(*id)) {
            None => Ok(()),
            Some(process_id) => bail!(
                "{} says that a server runs as process {process_id}. Stop it, or remove that file if it is an old one. Nothing was changed",
                path.display()
            ),
        }
    }
}

/// A configured directory and what is below it.
fn find_one(dir: &Path, setting: &str) -> Result<(PathBuf, PathBuf)> {
    if !dir.is_dir() {
        bail!("{} is not a directory", dir.display());
    }
    let below = dir.join(VERSION_DIR);
    if below.is_dir() {
        return Ok((dir.to_owned(), below));
    }
    // `.` has no name of its own.
    let absolute = dir.canonicalize()?;
    if let (true, Some(parent)) = (is_version_dir(&absolute), absolute.parent()) {
        return Ok((parent.to_owned(), dir.to_owned()));
    }
    bail!(
        "{} has no {VERSION_DIR} directory and no snapshots or txn logs: give the {setting} of a server",
        dir.display()
    );
}

fn is_version_dir(dir: &Path) -> bool {
    let has_files = || {
        std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
            entry.file_name().to_str().is_some_and(|name| {
                SnapshotName::parse(name).is_some() || LogName::parse(name).is_some()
            })
        })
    };
    dir.ends_with(VERSION_DIR) || has_files()
}

//! `herdsman backup`: one snapshot file with the whole state, from a directory or from a running server.
//!
//! In: a data directory (of a server that runs or not), or the address of an admin server. Out: a snapshot
//! in Apache's format that was read back and found sound, under a name that it gets only then. From a
//! directory the newest snapshot and the log give the state as of the last txn in the log; a member of an
//! ensemble may have logged a txn or two that are not agreed on yet.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use herdsman_store::recover::load;
use herdsman_store::{
    Compression, LastZxid, Progress, RealDisk, RecoverError, Recovered, write_snapshot,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::console::{Console, EXIT_CODES_OF_CHANGES, Outcome};
use crate::durable::sync_dir;
use crate::http::{AdminServer, ServerArguments};
use crate::location::{Location, LogDirArgument};
use crate::progress::Meter;
use crate::show::size_text;
use crate::snapshot_file::{DigestVerdict, LoadedSnapshot};
use crate::verify::data_dir::load_options;

/// While a server runs, it may purge a file between our listing and our reading.
const ATTEMPTS: usize = 3;

/// Write one snapshot file with the whole state, from a data directory or over the admin port.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("source").required(true).args(["data_dir", "server"]), after_help = help())]
pub struct BackupArguments {
    /// Back up this server's dataDir; the server may run.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    log: LogDirArgument,
    #[command(flatten)]
    server: ServerArguments,
    /// The file to write; .gz and .snappy are packed. In a directory it is named snapshot.<zxid>.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Replace a file that is there.
    #[arg(long)]
    force: bool,
}

fn help() -> String {
    format!(
        "\
Examples:
  herdsman backup --data-dir /var/lib/zookeeper -o /backup/zk.snapshot
  HERDSMAN_AUTH=digest:super:secret herdsman backup --server http://127.0.0.1:8080 -o /backup/
  herdsman backup --server https://zk1:8080 --tls-trust-store ca.pem --tls-key-store me.pem -o /backup/
  herdsman restore /backup/zk.snapshot --data-dir /var/lib/zookeeper

{EXIT_CODES_OF_CHANGES}"
    )
}

impl BackupArguments {
    /// Carries the command out on the given console.
    pub fn execute(&self, console: &mut Console<'_>) -> Result<Outcome> {
        let target = Target::new(&self.output, self.force)?;
        match (self.server.open()?, &self.data_dir) {
            (Some(server), _) => back_up_server(&server, &target, console),
            (None, Some(dir)) => {
                let location = Location::find(dir, self.log.log_dir.as_deref())?;
                back_up_dir(&location, &target, console)
            }
            (None, None) => bail!("give --data-dir or --server"),
        }
    }
}

/// Where the backup goes.
struct Target {
    /// An existing directory.
    dir: PathBuf,
    /// `None`: named by its zxid.
    name: Option<String>,
    force: bool,
}

impl Target {
    fn new(output: &Path, force: bool) -> Result<Self> {
        if output.is_dir() {
            return Ok(Target { dir: output.to_owned(), name: None, force });
        }
        let name = output.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} is no file name", output.display()))?;
        let dir = match output.parent() {
            Some(dir) if dir != Path::new("") => dir.to_owned(),
            _ => PathBuf::from("."),
        };
        if !dir.is_dir() {
            bail!("{} is not a directory", dir.display());
        }
        if output.exists() && !force {
            bail!("{} is there already; --force replaces it", output.display());
        }
        Ok(Target { dir, name: Some(name.to_owned()), force })
    }

    fn compression(&self) -> Compression {
        match self.name.as_deref() {
            Some(name) if name.ends_with(".gz") => Compression::Gzip,
            Some(name) if name.ends_with(".snappy") => Compression::Snappy,
            _ => Compression::None,
        }
    }

    /// A place beside the target that goes if the work is not finished.
    fn scratch(&self) -> Result<TempDir> {
        let dir = tempfile::Builder::new().prefix(".herdsman-backup-").tempdir_in(&self.dir);
        dir.with_context(|| format!("cannot write in {}", self.dir.display()))
    }

    /// Gives a finished file its name.
    fn take(&self, finished: &Path, default_name: &str) -> Result<PathBuf> {
        let name = self.name.as_deref().unwrap_or(default_name);
        let path = if self.dir == Path::new(".") { name.into() } else { self.dir.join(name) };
        let named =
            if self.force { fs::rename(finished, &path) } else { rename_new(finished, &path) };
        match named {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{} is there already; --force replaces it", path.display())
            }
            named => named.with_context(|| format!("cannot write {}", path.display()))?,
        }
        sync_dir(&self.dir)?;
        Ok(path)
    }
}

/// Renames, but does not replace what came into being in the meantime.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system knows how.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if to.exists() => {
            Err(ErrorKind::AlreadyExists.into())
        }
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

fn back_up_dir(location: &Location, target: &Target, console: &mut Console<'_>) -> Result<Outcome> {
    let recovered = load_while_it_runs(location, console)?;
    if recovered.fresh {
        bail!("{} has no snapshots and no logs: nothing to back up", location.dirs.data.display());
    }
    for damaged in &recovered.damaged_snapshots {
        console.remark(format_args!("{damaged}; an older one was used, and nothing is missing"));
    }
    let scratch = target.scratch()?;
    let disk = Arc::new(RealDisk);
    let tree = recovered.tree;
    let written =
        write_snapshot(disk, scratch.path(), target.compression(), &tree, LastZxid::Write)?;
    let digest = tree.digest();
    drop(tree);
    let loaded = read_back(&written.path, console)?;
    if loaded.tree.digest() != digest {
        bail!("what was written does not read as it should: is the disk failing? Nothing was kept");
    }
    let path = target.take(&written.path, &written.name.file_name())?;
    report(&path, &loaded, console)?;
    Ok(Outcome::Sound)
}

/// Loads a directory in which a server may be at work.
fn load_while_it_runs(location: &Location, console: &Console<'_>) -> Result<Recovered> {
    let mut attempt = 1;
    loop {
        let mut meter = Meter::of_bytes(console, "reading", 0);
        let loaded = load(&RealDisk, &location.dirs, &load_options(), &mut |progress| {
            if let Progress::Snapshot { bytes, .. } = progress {
                meter.set(bytes);
            }
        });
        match loaded {
            Ok((recovered, _)) => return Ok(recovered),
            Err(error) if is_gone(&error) && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(error).context("nothing was written"),
        }
    }
}

fn is_gone(error: &RecoverError) -> bool {
    matches!(error, RecoverError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

fn back_up_server(
    server: &AdminServer,
    target: &Target,
    console: &mut Console<'_>,
) -> Result<Outcome> {
    let scratch = target.scratch()?;
    let stream = server.snapshot()?;
    let last_zxid = stream.last_zxid.clone();
    let mut meter = Meter::of_bytes(console, "receiving", stream.bytes.unwrap_or(0));
    let received = scratch.path().join("received");
    let mut file = BufWriter::new(File::create(&received).context("cannot write here")?);
    stream.copy_to(&mut file, &mut |bytes| meter.add(bytes))?;
    let file = file.into_inner().map_err(|error| error.into_error())?;
    file.sync_all()?;
    drop(meter);
    let loaded = read_back(&received, console).context("what came is no sound snapshot")?;
    let verdict = loaded.digest_verdict();
    let zxid = last_zxid.as_deref().and_then(|zxid| zxid.strip_prefix("0x")).unwrap_or("");
    let is_hex = !zxid.is_empty() && zxid.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name =
        if is_hex { format!("snapshot.{zxid}") } else { format!("snapshot.{:x}", loaded.as_of.0) };
    let path = target.take(&received, &name)?;
    report(&path, &loaded, console)?;
    if matches!(verdict, DigestVerdict::Fuzzy | DigestVerdict::Differs { .. }) {
        console.remark(
            "it was taken while writes went on, so it is not exactly of one moment. Its digest shows that; for an exact one, back up a data directory, or repeat this when it is quiet",
        );
    }
    Ok(Outcome::Sound)
}

/// Reads what was written, to its last byte.
fn read_back(path: &Path, console: &Console<'_>) -> Result<LoadedSnapshot> {
    let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut meter = Meter::of_bytes(console, "verifying", bytes);
    Ok(LoadedSnapshot::load(path, &mut |read| meter.set(read))?)
}

fn report(path: &Path, loaded: &LoadedSnapshot, console: &mut Console<'_>) -> Result<()> {
    console.say(format_args!(
        "{}: {} znodes as of txn {}, {}, digest {}; read back and sound",
        path.display(),
        loaded.tree.node_count(),
        loaded.as_of,
        size_text(loaded.summary.file_bytes),
        loaded.tree.digest()
    ))
}

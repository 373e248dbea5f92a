//! `herdsman backup`: one snapshot file with the whole state, from a directory or from a running server.
//!
//! In: a data directory (of a server that runs or not), the address of an admin server, or an archive and a point in
//! time. Out: a snapshot
//! in Apache's format, which gets its name only after it was read back and verified. From a
//! directory the newest snapshot and the log give the state as of the last txn in the log; a member of an
//! ensemble may have logged a txn or two that are not agreed on yet.

use std::fs;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use herdsman_store::disk::WriteFile;
use herdsman_store::recover::load;
use herdsman_store::{
    Compression, Disk as _, LastZxid, Progress, RealDisk, RecoverError, Recovered, write_snapshot,
};
use herdsman_tree::Tree;

use crate::console::{Console, EXIT_CODES_OF_CHANGES, Outcome};
use crate::durable::{ScratchDir, ToolDisk};
use crate::http::{AdminServer, ServerArguments};
use crate::location::{Location, LocationArguments, VERSION_DIR, refuse_no_dir};
use crate::point::PointArguments;
use crate::progress::Meter;
use crate::show::size_text;
use crate::snapshot_file::{DigestVerdict, LoadedSnapshot};
use crate::verify::data_dir::load_options;

/// A running server may purge a file after it was listed and before it is read.
const ATTEMPTS: usize = 3;
/// The start of the message about output that cannot be written.
const WRITTEN: &str = "the backup is written";

/// Write one snapshot file with the whole state, from a data directory or over the admin port.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("source").required(true).args(["data_dir", "admin", "config", "from"]), after_help = help())]
pub struct BackupArguments {
    /// Back up this server's dataDir; the server may be running.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    place: LocationArguments,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    point: PointArguments,
    /// The file to write; .gz and .snappy select compression. If it is a directory, the file is named snapshot.<zxid>.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

fn help() -> String {
    format!(
        "\
Examples:
  herdsman backup --config /etc/zookeeper/zoo.cfg -o /backup/zk.snapshot
  herdsman backup --data-dir /var/lib/zookeeper --log-dir /var/log/zookeeper -o /backup/zk.gz
  HERDSMAN_AUTH=digest:super:secret herdsman backup --admin http://127.0.0.1:8080 -o /backup/
  herdsman backup --at 2026-11-19T07:30:00Z --from /archive/server/history-1 -o /backup/half-past.snapshot
  herdsman backup --admin https://zk1:8080 --tls-trust-store ca.pem --tls-key-store me.pem -o /backup/

The file is readable only by its owner (mode 0600), because it contains all data, including password digests.

{EXIT_CODES_OF_CHANGES}"
    )
}

impl BackupArguments {
    /// Runs the command on the given console.
    pub fn execute(&self, console: &mut Console<'_>) -> Result<Outcome> {
        let target = Target::new(&self.output, self.force)?;
        self.place.refuse_beside_server(&self.server)?;
        if self.point.is_archive() {
            let loaded = self.point.load(console).context("nothing was written")?;
            return write_tree(loaded.tree, &target, console);
        }
        match self.server.open()? {
            Some(server) => back_up_server(&server, &target, console),
            None => {
                let location = self.place.locate(self.data_dir.as_deref())?;
                location.refuse_missing_log()?;
                back_up_dir(&location, &target, console)
            }
        }
    }
}

/// The file to write.
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
            refuse_version_dir(output)?;
            return Ok(Target { dir: output.to_owned(), name: None, force });
        }
        let name = output.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} is not a file name", output.display()))?;
        let dir = match output.parent() {
            Some(dir) if dir != Path::new("") => dir.to_owned(),
            _ => PathBuf::from("."),
        };
        if name == "-" {
            bail!("a backup cannot be written to standard output: give a file with -o");
        }
        refuse_no_dir(&dir)?;
        refuse_version_dir(&dir)?;
        refuse_no_file(output)?;
        if output.exists() && !force {
            bail!("{} already exists; --force replaces it", output.display());
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

    /// Creates a directory beside the target, which is removed if the work is not finished.
    fn scratch(&self) -> Result<ScratchDir> {
        let dir = ScratchDir::new(".herdsman-backup-", &self.dir);
        dir.with_context(|| format!("cannot write in {}", self.dir.display()))
    }

    /// Renames the finished file to its final name.
    fn take(&self, finished: &Path, default_name: &str) -> Result<PathBuf> {
        let name = self.name.as_deref().unwrap_or(default_name);
        let path = if self.dir == Path::new(".") { name.into() } else { self.dir.join(name) };
        refuse_no_file(&path)?;
        let disk = ToolDisk::private();
        let named = match self.force {
            true => disk.rename(finished, &path),
            false => disk.rename_new(finished, &path),
        };
        match named {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{} already exists; --force replaces it", path.display())
            }
            named => named.with_context(|| format!("cannot write {}", path.display()))?,
        }
        disk.sync_dir(&self.dir).with_context(|| {
            format!("{} is written, but cannot be made durable", path.display())
        })?;
        Ok(path)
    }
}

/// Refuses to replace a device, a FIFO, a link or anything else that is not a regular file.
fn refuse_no_file(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            bail!("{} is not a regular file: it is not replaced", path.display())
        }
        _ => Ok(()),
    }
}

/// Refuses a `version-2` directory: a server would take the backup for a snapshot of its own.
fn refuse_version_dir(dir: &Path) -> Result<()> {
    if dir.canonicalize().is_ok_and(|dir| dir.ends_with(VERSION_DIR)) {
        bail!(
            "{} is a directory from which a server reads every snapshot: write the backup elsewhere",
            dir.display()
        );
    }
    Ok(())
}

fn back_up_dir(location: &Location, target: &Target, console: &mut Console<'_>) -> Result<Outcome> {
    let recovered = load_while_it_runs(location, console)?;
    if recovered.fresh {
        bail!("{} has no snapshots and no logs: nothing to back up", location.dirs.data.display());
    }
    for damaged in &recovered.damaged_snapshots {
        console.note(format_args!("{damaged}; an older one was used, nothing is missing"));
    }
    write_tree(recovered.tree, target, console)
}

/// Writes a tree to the file.
fn write_tree(tree: Tree, target: &Target, console: &mut Console<'_>) -> Result<Outcome> {
    let scratch = target.scratch()?;
    let disk = Arc::new(ToolDisk::private());
    let written =
        write_snapshot(disk, scratch.path(), target.compression(), &tree, LastZxid::Write)?;
    let digest = tree.digest();
    drop(tree);
    let loaded = read_back(&written.path, console)?;
    if loaded.tree.digest() != digest {
        bail!(
            "the file does not read back as it was written: is the disk failing? Nothing was kept"
        );
    }
    let path = target.take(&written.path, &written.name.file_name())?;
    console.set_changed(WRITTEN);
    report(&path, &loaded, "read back and verified", console)?;
    Ok(Outcome::Sound)
}

/// Loads the directory of a server that may be running.
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
    let file = ToolDisk::private().create(&received).context("cannot write here")?;
    let mut file = BufWriter::new(AppendWriter { file, at: 0 });
    stream.copy_to(&mut file, &mut |bytes| meter.add(bytes))?;
    let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?.file;
    file.sync_data().context("cannot write here")?;
    drop(meter);
    let loaded =
        read_back(&received, console).context("the server did not send a valid snapshot")?;
    let verdict = loaded.digest_verdict();
    let zxid = last_zxid.as_deref().and_then(|zxid| zxid.strip_prefix("0x")).unwrap_or("");
    let is_hex = !zxid.is_empty() && zxid.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name =
        if is_hex { format!("snapshot.{zxid}") } else { format!("snapshot.{:x}", loaded.as_of.0) };
    let path = target.take(&received, &name)?;
    console.set_changed(WRITTEN);
    if matches!(verdict, DigestVerdict::Fuzzy | DigestVerdict::Differs { .. }) {
        report(&path, &loaded, "read back, but its digest does not match its znodes", console)?;
        console.note(
            "it was taken during writes, so it does not show a single point in time, and restore needs --accept-fuzzy for it. For an exact backup, back up a data directory, or repeat this while no client writes",
        );
        return Ok(Outcome::Problems);
    }
    report(&path, &loaded, "read back and verified", console)?;
    Ok(Outcome::Sound)
}

/// A sequential writer over a [`WriteFile`].
struct AppendWriter {
    file: Box<dyn WriteFile>,
    at: u64,
}

impl Write for AppendWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.at, bytes)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the written file to its last byte.
fn read_back(path: &Path, console: &Console<'_>) -> Result<LoadedSnapshot> {
    let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut meter = Meter::of_bytes(console, "verifying", bytes);
    Ok(LoadedSnapshot::load(path, &mut |read| meter.set(read))?)
}

fn report(
    path: &Path,
    loaded: &LoadedSnapshot,
    verdict: &str,
    console: &mut Console<'_>,
) -> Result<()> {
    console.print(format_args!(
        "{}: {} znodes as of txn {}, {}, digest {}; {verdict}",
        path.display(),
        loaded.tree.node_count(),
        loaded.as_of,
        size_text(loaded.summary.file_bytes),
        loaded.tree.digest()
    ))
}

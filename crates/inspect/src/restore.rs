//! `herdsman restore`: replaces a server's state by a backup, in its directory or over its admin
//! port.
//!
//! In: a snapshot file of any name and compression, which is verified. Out: a data directory with this snapshot and
//! nothing else (`directory.rs`), or a running server that has loaded it. Or in: an archive and a point in time, from
//! which the state is built ([`crate::point`]).
//!
//! An ensemble is restored by stopping all servers, restoring the same file on each, and starting them: a
//! member that keeps newer data would win the election and undo it.

mod directory;
mod list;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use herdsman_store::snapshot::pack::unpack;
use herdsman_store::snapshot::reader::detect_compression;
use herdsman_store::{Compression, RealDisk};

use crate::console::{Console, EXIT_CODES_OF_CHANGES, Outcome};
use crate::http::{AdminServer, ServerArguments};
use crate::location::LocationArguments;
use crate::point::PointArguments;
use crate::progress::Meter;
use crate::snapshot_file::{DigestVerdict, LoadedSnapshot};

/// Replace a server's state with a backup, offline or over the admin port.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("target").required(true).args(["data_dir", "admin", "config", "list"]),
    after_help = help()
)]
pub struct RestoreArguments {
    /// A snapshot: what herdsman backup wrote, or one from a server's version-2.
    #[arg(value_name = "FILE", required_unless_present = "from", conflicts_with = "from")]
    file: Option<PathBuf>,
    #[command(flatten)]
    point: PointArguments,
    /// List the points that can be restored from the archive.
    #[arg(long, requires = "from", conflicts_with_all = ["at", "base"])]
    list: bool,
    /// Restore into this dataDir; its server must be stopped.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    place: LocationArguments,
    #[command(flatten)]
    server: ServerArguments,
    /// Restore even if there is a state: it is kept in version-2/before-restore-TIME.
    #[arg(long)]
    force: bool,
    /// Restore a snapshot that was taken during writes, without the log that completes it.
    #[arg(long)]
    accept_fuzzy: bool,
    /// Do not ask for confirmation. Required if there is no terminal and something is replaced.
    #[arg(long, short)]
    yes: bool,
}

fn help() -> String {
    format!(
        "\
Examples:
  herdsman restore /backup/zk.snapshot --config /etc/zookeeper/zoo.cfg --force
  herdsman restore /backup/zk.snapshot --data-dir /var/lib/zookeeper --force
  HERDSMAN_AUTH=digest:super:secret herdsman restore /backup/zk.snapshot --admin http://127.0.0.1:8080
  herdsman restore --list --from /archive
  herdsman restore --at 2026-11-19T07:30:00Z --from /archive/server/history-1 --config zoo.cfg --force
  herdsman restore --at 0x200000017 --from /archive/1/history-1 --data-dir /var/lib/zookeeper --force

--at restores from an archive (herdsman.archiveDir): all txns up to the given one, or up to the last one
before the first whose time is later than the given one. It starts from the newest archived snapshot that is
not later, or from --base, and refuses if a txn after it is missing.

An ensemble: stop all servers, restore the same file or point on each of them, start them. A member that
is left out would have the newer data, win the election, and undo the restore. Over the admin
port only the one server that is asked is restored: that is for a standalone server.

Clients that have seen later txns refuse a server that has gone back, and must be restarted.

Stopped at any moment, the directories have the old state or the new one. The same command again, or
a start of the server, finishes what was decided; until then Apache ZooKeeper refuses to start.

{EXIT_CODES_OF_CHANGES}"
    )
}

impl RestoreArguments {
    /// Runs the command on the given console.
    pub fn execute(&self, console: &mut Console<'_>) -> Result<Outcome> {
        self.place.refuse_beside_server(&self.server)?;
        if self.list {
            return self.point.list(console);
        }
        let loaded = match &self.file {
            Some(file) => self.read_backup(file, console)?,
            None => self.read_point(console)?,
        };
        match self.server.open()? {
            Some(server) => {
                let file = self.file.as_deref().context("a point is not restored to a server")?;
                self.restore_server(&server, file, &loaded, console)
            }
            None => self.restore_dir(&loaded, console),
        }
    }

    /// Builds the requested state from an archive, before anything is changed.
    fn read_point(&self, console: &mut Console<'_>) -> Result<LoadedSnapshot> {
        if self.server.admin.is_some() {
            bail!(
                "--at does not restore over the admin port: write the state to a file with herdsman backup --at POINT --from DIR -o FILE, and restore that"
            );
        }
        self.point.load(console).context("nothing was changed")
    }

    /// Describes what is restored.
    fn source(&self) -> String {
        match &self.file {
            Some(file) => file.display().to_string(),
            None => self.point.to_string(),
        }
    }

    /// What has to be restored on every member.
    fn kind_of_source(&self) -> &'static str {
        if self.file.is_some() { "file" } else { "point" }
    }

    /// Reads the backup to its end, before anything is changed.
    fn read_backup(&self, path: &Path, console: &Console<'_>) -> Result<LoadedSnapshot> {
        let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
        let mut meter = Meter::of_bytes(console, "reading the backup", bytes);
        let loaded = LoadedSnapshot::load(path, &mut |read| meter.set(read))
            .map_err(anyhow::Error::from)
            .context("nothing was changed")?;
        let file = path.display();
        match loaded.digest_verdict() {
            DigestVerdict::Differs { expected, found } => bail!(
                "{file} records digest {expected}, but its znodes have digest {found}: it is damaged. Nothing was changed"
            ),
            _ if loaded.is_fuzzy() && !self.accept_fuzzy => bail!(
                "{file} was taken during writes and does not show a single point in time; the log that would complete it is missing. --accept-fuzzy restores it anyway. Nothing was changed"
            ),
            DigestVerdict::Fuzzy | DigestVerdict::Fits | DigestVerdict::Absent => Ok(loaded),
        }
    }

    fn confirmed(&self, question: &str, console: &mut Console<'_>) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !console.can_ask() {
            bail!("no terminal to ask for confirmation: use --yes. Nothing was changed");
        }
        let is_confirmed = console.ask(question)?;
        if !is_confirmed {
            console.print("nothing was changed")?;
        }
        Ok(is_confirmed)
    }

    fn restore_server(
        &self,
        server: &AdminServer,
        file: &Path,
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
        let compression = detect_compression(&RealDisk, file)?.unwrap_or_default();
        let file = fs::File::open(file)?;
        let bytes = file.metadata()?.len();
        let meter = Meter::of_bytes(console, "sending", bytes);
        // Admin servers accept only uncompressed snapshots.
        let plain_bytes = (compression == Compression::None).then_some(bytes);
        let mut content = unpack(Metered { file, meter }, compression);
        let last_zxid = server.restore(&mut *content, plain_bytes)?;
        drop(content);
        console.set_changed("restored");
        console
            .print(format_args!("{} restored: txn {last_zxid}, {nodes} znodes", server.base()))?;
        Ok(Outcome::Sound)
    }
}

/// A reader that updates a progress bar.
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

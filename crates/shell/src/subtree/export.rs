//! Writes a subtree as lines of JSON, see [`super::file`] for the format.
//!
//! In: a client and a path. Out: a line for each znode of the walk, so that memory stays bounded.
//! Not here: opening files, progress bars, and removing unfinished files.

use std::io::Write;

use herdsman_client::{Client, Lifetime, Zxid};

use super::error::{Result, SubtreeError};
use super::file::{End, FORMAT, Header, VERSION};
use super::human::{hex, newest_zxid, now_ms, time};
use super::lifetime::TypeHints;
use super::path;
use super::record::Record;
use super::walk::{Fetch, SystemZnodes, Visit, Walk, WalkOptions, Znode};

/// What to do about znodes that may not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    /// Fail: a partial export is not useful.
    #[default]
    Fail,
    /// Skip them, with everything below them, and count them.
    Skip,
}

/// Options of an export.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// What to do about znodes that may not be read.
    pub unreadable: Unreadable,
    /// Whether `/zookeeper` is exported.
    pub system: SystemZnodes,
    /// Which znodes are containers or have a time to live.
    pub hints: TypeHints,
}

/// The counts of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// Znodes written.
    pub znodes: u64,
    /// Their bytes of data.
    pub bytes: u64,
    /// How many of them are ephemeral.
    pub ephemerals: u64,
    /// How many of them have an ACL with a digest that the server hid.
    pub hidden_acls: u64,
    /// Znodes that were deleted during the walk.
    pub vanished: u64,
    /// Znodes that may not be read and were skipped.
    pub unreadable: u64,
    newest: Zxid,
}

/// Writes the subtree at `root` to `out`. Calls `progress` after each znode.
pub async fn export<W: Write>(
    client: &Client,
    root: &str,
    options: &ExportOptions,
    mut out: W,
    mut progress: impl FnMut(&ExportCounts),
) -> Result<ExportCounts> {
    // So that the export includes what the user has just written through another server.
    client.sync(root).await?;
    let started_ms = now_ms();
    let walk_options =
        WalkOptions { fetch: Fetch::Everything, depth_max: None, system: options.system };
    let mut walk = Walk::new(client, root, walk_options);
    let mut counts = ExportCounts::default();
    while let Some(visit) = walk.next().await? {
        match visit {
            Visit::Znode(znode) => {
                if counts.znodes == 0 {
                    write_json(&mut out, &header(&znode, root, started_ms))?;
                }
                let record = record_of(root, znode, &options.hints);
                counts.add(&record);
                write_line(&mut out, &record.to_line())?;
            }
            Visit::Unreadable(position)
                if position.depth > 0 && options.unreadable == Unreadable::Skip =>
            {
                counts.unreadable += 1;
            }
            Visit::Unreadable(position) => return Err(SubtreeError::Unreadable(position.path)),
        }
        counts.vanished = walk.vanished();
        progress(&counts);
    }
    counts.vanished = walk.vanished();
    let end = End { end: true, znodes: counts.znodes, zxid: hex(counts.newest.0) };
    write_json(&mut out, &end)?;
    out.flush().map_err(SubtreeError::Output)?;
    Ok(counts)
}

/// A walked znode as a record of the subtree at `root`.
#[must_use]
pub fn record_of(root: &str, znode: Znode, hints: &TypeHints) -> Record {
    let relative = path::relative(root, &znode.position.path);
    Record {
        lifetime: hints.lifetime(relative, &znode.stat),
        path: relative.to_owned(),
        data: znode.data,
        acl: znode.acl,
        stat: Some(znode.stat),
    }
}

impl ExportCounts {
    fn add(&mut self, record: &Record) {
        self.znodes += 1;
        self.bytes += record.data.len() as u64;
        self.ephemerals += u64::from(record.lifetime == Lifetime::Ephemeral);
        self.hidden_acls += u64::from(record.has_hidden_acl());
        self.newest =
            record.stat.as_ref().map_or(self.newest, |stat| self.newest.max(newest_zxid(stat)));
    }
}

fn header(root_znode: &Znode, root: &str, started_ms: i64) -> Header {
    Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        root: root.to_owned(),
        zxid: hex(newest_zxid(&root_znode.stat).0),
        time: time(started_ms),
    }
}

fn write_json(out: &mut impl Write, value: &impl serde::Serialize) -> Result<()> {
    let line = serde_json::to_string(value).expect("texts and numbers always have a JSON form");
    write_line(out, &line)
}

fn write_line(out: &mut impl Write, line: &str) -> Result<()> {
    let written = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
    written.map_err(SubtreeError::Output)
}

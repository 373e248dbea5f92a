//! The changes that a repair is made of. Each keeps the file that it changes or removes, writes a new one
//! beside it, syncs and renames.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use herdsman_store::log::HEADER;
use herdsman_store::names::TEMPORARY;
use herdsman_store::{Compression, LastZxid, RealDisk, SnapshotName, write_snapshot};
use herdsman_tree::Tree;

use super::keep::Keeper;
use super::plan::Plan;
use crate::console::Console;
use crate::durable::{give_to_owner_of, sync_dir};
use crate::location::Location;
use crate::log_file::short_name;

/// One change.
pub(super) enum Step {
    /// A log keeps only these parts of it.
    Rewrite { path: PathBuf, kept: Vec<Range<u64>> },
    /// A file goes.
    Remove { path: PathBuf, why: String },
    /// A snapshot of this tree is written.
    WriteSnapshot { path: PathBuf, tree: Box<Tree> },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Rewrite { path, kept } => {
                let parts: Vec<String> =
                    kept.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
                write!(f, "keep of {} only the records at {}", short_name(path), parts.join(", "))
            }
            Step::Remove { path, why } => write!(f, "remove {}: {why}", short_name(path)),
            Step::WriteSnapshot { path, tree } => {
                write!(f, "write {} with {} znodes", short_name(path), tree.node_count())
            }
        }
    }
}

impl Step {
    /// Writes a tree where its name belongs.
    pub(super) fn snapshot(tree: Tree, location: &Location) -> Self {
        let name = SnapshotName { zxid: tree.last_zxid(), compression: Compression::None };
        Step::WriteSnapshot { path: name.path(&location.dirs.data), tree: Box::new(tree) }
    }

    /// The file that is changed, removed or made.
    pub(super) fn target(&self) -> PathBuf {
        match self {
            Step::Rewrite { path, .. }
            | Step::Remove { path, .. }
            | Step::WriteSnapshot { path, .. } => path.clone(),
        }
    }

    fn carry_out(&self, keeper: &mut Keeper, location: &Location) -> Result<()> {
        match self {
            Step::Rewrite { path, kept } => {
                keeper.keep(path, &location.log_dir)?;
                rewrite(path, kept)
            }
            Step::Remove { path, .. } => {
                let dir = path.parent().unwrap_or(Path::new("."));
                let is_log = dir == location.dirs.log;
                keeper.keep(path, if is_log { &location.log_dir } else { &location.data_dir })?;
                fs::remove_file(path)?;
                sync_dir(dir)
            }
            Step::WriteSnapshot { path, tree } => {
                if path.exists() {
                    keeper.keep(path, &location.data_dir)?;
                }
                let disk = Arc::new(RealDisk);
                write_snapshot(
                    disk,
                    &location.dirs.data,
                    Compression::None,
                    tree,
                    LastZxid::Write,
                )?;
                give_to_owner_of(&location.dirs.data, path)
            }
        }
    }
}

/// Writes a log anew from parts of it.
fn rewrite(path: &Path, kept: &[Range<u64>]) -> Result<()> {
    let dir = path.parent().context("a log lies in a directory")?;
    let temporary = dir.join(format!("{TEMPORARY}{}", short_name(path)));
    let result = copy_parts(path, &temporary, kept)
        .map_err(anyhow::Error::from)
        .and_then(|()| give_to_owner_of(path, &temporary))
        .and_then(|()| Ok(fs::rename(&temporary, path)?));
    if result.is_err() {
        // It may not even be there.
        let _ = fs::remove_file(&temporary);
    }
    result.with_context(|| format!("cannot rewrite {}", path.display()))?;
    sync_dir(dir)
}

fn copy_parts(from: &Path, to: &Path, kept: &[Range<u64>]) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::create(to)?;
    target.write_all(&HEADER)?;
    for range in kept {
        source.seek(SeekFrom::Start(range.start))?;
        let wanted = range.end - range.start;
        let copied = io::copy(&mut (&source).take(wanted), &mut target)?;
        if copied != wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    target.set_permissions(source.metadata()?.permissions())?;
    target.sync_all()
}

impl Plan {
    /// Does it, in order. Says where the old files are, also when something fails in between.
    pub(super) fn carry_out(&self, location: &Location, console: &mut Console<'_>) -> Result<()> {
        let mut keeper = Keeper::new();
        let result = self.steps.iter().try_for_each(|step| {
            step.carry_out(&mut keeper, location)?;
            console.say(format_args!("done: {step}"))
        });
        for dir in keeper.dirs() {
            console.say(format_args!("the files as they were are in {}", dir.display()))?;
        }
        result
    }
}

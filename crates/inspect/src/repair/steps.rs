//! The steps of a repair. Each keeps the file that it changes or removes, writes a new one
//! beside it, syncs and renames.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use herdsman_store::log::{HEADER, HEADER_BYTES};
use herdsman_store::names::TEMPORARY;
use herdsman_store::{Compression, Disk as _, LastZxid, SnapshotName, write_snapshot};
use herdsman_tree::Tree;

use super::plan::RepairPlan;
use crate::console::Console;
use crate::durable::{ToolDisk, copy_from};
use crate::kept_files::KeptFiles;
use crate::location::Location;
use crate::log_file::short_name;

/// A change of one file.
pub(super) enum RepairStep {
    /// Rewrites a log with only these parts.
    Rewrite { path: PathBuf, kept: Vec<Range<u64>> },
    /// Removes a file.
    Remove { path: PathBuf, why: String },
    /// Writes a snapshot of this tree.
    WriteSnapshot { path: PathBuf, tree: Box<Tree> },
}

impl fmt::Display for RepairStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepairStep::Rewrite { path, kept } => {
                let parts: Vec<String> =
                    kept.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
                write!(f, "keep only the records of {} at {}", short_name(path), parts.join(", "))
            }
            RepairStep::Remove { path, why } => write!(f, "remove {}: {why}", short_name(path)),
            RepairStep::WriteSnapshot { path, tree } => {
                write!(f, "write {} with {} znodes", short_name(path), tree.node_count())
            }
        }
    }
}

impl RepairStep {
    /// The step that writes a snapshot of a tree under its name.
    pub(super) fn snapshot(tree: Tree, location: &Location) -> Self {
        let name = SnapshotName { zxid: tree.last_zxid(), compression: Compression::None };
        RepairStep::WriteSnapshot { path: name.path(&location.dirs.data), tree: Box::new(tree) }
    }

    /// The file that is changed, removed or created.
    pub(super) fn target(&self) -> PathBuf {
        match self {
            RepairStep::Rewrite { path, .. }
            | RepairStep::Remove { path, .. }
            | RepairStep::WriteSnapshot { path, .. } => path.clone(),
        }
    }

    fn carry_out(&self, keeper: &mut KeptFiles, disk: ToolDisk, location: &Location) -> Result<()> {
        match self {
            RepairStep::Rewrite { path, kept } => {
                keeper.keep(path, &location.log_dir)?;
                rewrite(path, kept, disk)
            }
            RepairStep::Remove { path, .. } => {
                let dir = path.parent().unwrap_or(Path::new("."));
                let is_log = dir == location.dirs.log;
                keeper.keep(path, if is_log { &location.log_dir } else { &location.data_dir })?;
                let removed = disk.remove(path).and_then(|()| disk.sync_dir(dir));
                removed.with_context(|| format!("cannot remove {}", path.display()))
            }
            RepairStep::WriteSnapshot { path, tree } => {
                if std::fs::symlink_metadata(path).is_ok() {
                    keeper.keep(path, &location.data_dir)?;
                }
                let (disk, dir) = (Arc::new(disk), &location.dirs.data);
                write_snapshot(disk, dir, Compression::None, tree, LastZxid::Write)?;
                Ok(())
            }
        }
    }
}

/// Rewrites a log from parts of it. If it is a link, the new file replaces the link.
fn rewrite(path: &Path, kept: &[Range<u64>], disk: ToolDisk) -> Result<()> {
    let dir = path.parent().context("a log lies in a directory")?;
    let temporary = dir.join(format!("{TEMPORARY}{}", short_name(path)));
    let result = copy_parts(path, &temporary, kept, disk)
        .and_then(|()| Ok(disk.rename(&temporary, path)?))
        .and_then(|()| Ok(disk.sync_dir(dir)?));
    if result.is_err() {
        // It may not exist.
        let _ = disk.remove(&temporary);
    }
    result.with_context(|| format!("cannot rewrite {}", path.display()))
}

fn copy_parts(from: &Path, to: &Path, kept: &[Range<u64>], disk: ToolDisk) -> Result<()> {
    let source = File::open(from)?;
    match disk.remove(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut target =
        ToolDisk::in_dir(from.parent().unwrap_or(Path::new(".")), Some(from))?.create(to)?;
    target.write_at(0, &HEADER)?;
    let mut at = HEADER_BYTES;
    for part in kept {
        copy_from(&source, part.clone(), &mut *target, at)?;
        at += part.end - part.start;
    }
    Ok(target.sync_data()?)
}

impl RepairPlan {
    /// Carries out the steps in order. Prints where the old files are, also if a step fails. Output that fails is no
    /// reason to stop: the caller has called `Console::set_changed`.
    pub(super) fn carry_out(
        &self,
        location: &Location,
        disk: ToolDisk,
        console: &mut Console<'_>,
    ) -> Result<()> {
        let mut keeper = KeptFiles::new("repair-backup", disk);
        let mut done = 0;
        let result = self.steps.iter().try_for_each(|step| {
            step.carry_out(&mut keeper, disk, location)?;
            done += 1;
            console.print(format_args!("done: {step}"))
        });
        for dir in keeper.dirs() {
            console.print(format_args!("the original files are in {}", dir.display()))?;
        }
        let steps = self.steps.len();
        result.with_context(|| {
            format!("{done} of {steps} steps are done; run the same command again for the rest")
        })
    }
}

//! Plans for a new snapshot, from an older one and the logs or from the logs alone.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use herdsman_proto::Zxid;
use herdsman_proto::txn::Entry;
use herdsman_store::log::pieces::LogFiles;
use herdsman_store::log::walk::{files_needed, walk};
use herdsman_store::names::{SnapshotName, list_logs, list_snapshots};
use herdsman_store::{RealDisk, RecoverError};
use herdsman_tree::{Loader, Tree};

use super::diagnosis::Diagnosis;
use super::plan::{RepairPlan, not_first};
use super::steps::RepairStep;
use crate::location::Location;
use crate::snapshot_file::{LoadedSnapshot, read_parts, tree_options};

/// Builds from the newest usable snapshot, or from the logs alone if they are complete.
pub(super) fn rebuild_snapshot(diagnosis: Diagnosis, location: &Location) -> Result<RepairPlan> {
    let is_complete = diagnosis.logs_are_complete;
    let tree = match diagnosis.loaded {
        Ok((recovered, _)) if recovered.fresh => bail!("there is no state to write a snapshot of"),
        Ok((recovered, _)) => recovered.tree,
        Err(RecoverError::NoSnapshot { .. } | RecoverError::SnapshotsDamaged { .. })
            if is_complete =>
        {
            replay_all(location)?
        }
        Err(error) => return Err(not_first(&error)),
    };
    let mut plan = RepairPlan::default();
    let written = RepairStep::snapshot(tree, location);
    let replaced = written.target();
    plan.steps.push(written);
    for path in damaged_snapshots(location)? {
        if path != replaced {
            plan.steps.push(RepairStep::Remove { path, why: "it is damaged".to_owned() });
        }
    }
    Ok(plan)
}

/// Every damaged snapshot, also one that is older than the newest good one: an interrupted repair may have left
/// it.
fn damaged_snapshots(location: &Location) -> Result<Vec<PathBuf>> {
    let data = &location.dirs.data;
    let mut damaged = Vec::new();
    for path in list_snapshots(&RealDisk, data)?.iter().rev().map(|name| name.path(data)) {
        if LoadedSnapshot::load(&path, &mut |_| {}).is_err() {
            damaged.push(path);
        }
    }
    Ok(damaged)
}

/// Builds from the snapshot that the operator trusts; all later ones are removed.
pub(super) fn rebuild_from(older: &str, location: &Location) -> Result<RepairPlan> {
    let data = &location.dirs.data;
    let snapshots = list_snapshots(&RealDisk, data)?;
    let older = snapshots.iter().find(|name| name.file_name() == older).with_context(|| {
        let names: Vec<String> = snapshots.iter().map(|name| name.file_name()).collect();
        format!("there is no snapshot {older} in {}, only {}", data.display(), names.join(", "))
    })?;
    let later: Vec<SnapshotName> =
        snapshots.iter().filter(|name| name.zxid > older.zxid).copied().collect();
    let mut loader = Loader::new(tree_options());
    let summary = read_parts(&older.path(data), &mut loader, &mut |_| {})?;
    let fuzzy_until = summary.trailer.fuzzy_until(older.zxid).max(loader.newest_effect());
    let mut tree = loader.finish(older.zxid)?;
    replay(&mut tree, location)?;
    let reached = later.iter().map(|name| name.zxid).fold(fuzzy_until, Zxid::max);
    if tree.last_zxid() < reached {
        bail!(
            "the log ends at {}, but snapshots reach {reached}: they cannot be rebuilt from {}. Nothing was changed",
            tree.last_zxid(),
            older.file_name()
        );
    }
    let mut plan = RepairPlan::default();
    let written = RepairStep::snapshot(tree, location);
    let replaced = written.target();
    plan.steps.push(written);
    for path in later.iter().map(|name| name.path(data)).filter(|path| *path != replaced) {
        let why = format!("it comes after {}", older.file_name());
        plan.steps.push(RepairStep::Remove { path, why });
    }
    Ok(plan)
}

/// Builds the tree from the logs alone, starting with the first txn.
fn replay_all(location: &Location) -> Result<Tree> {
    let mut tree = Tree::new(tree_options());
    replay(&mut tree, location)?;
    Ok(tree)
}

/// Replays the log, in which no txn may be missing, to its end.
fn replay(tree: &mut Tree, location: &Location) -> Result<()> {
    let logs = list_logs(&RealDisk, &location.dirs.log)?;
    let after = tree.last_zxid();
    let files = files_needed(&logs, after);
    let dir = &location.dirs.log;
    let log = LogFiles { dir, files, after, until: None, known: &[], open: None };
    walk(&RealDisk, &log, &mut |record| {
        tree.replay(&Entry::decode(record.payload)?);
        Ok(())
    })
    .context("nothing was changed")?;
    Ok(())
}

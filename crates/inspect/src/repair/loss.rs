//! Plans for repairs that give up txns, with a list of what is lost.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use herdsman_proto::Zxid;
use herdsman_store::log::HEADER_BYTES;
use herdsman_store::log::walk::{LogEnd, LogWalkError};
use herdsman_store::names::{LogName, list_logs};
use herdsman_store::recover::load;
use herdsman_store::{
    Compression, LastZxid, RealDisk, RecoverOptions, Recovered, SnapshotName, write_snapshot,
};

use super::plan::{RepairPlan, end_after_records};
use super::steps::RepairStep;
use crate::inspect::change_line;
use crate::location::Location;
use crate::log_file::{DamagedRange, LogItem, read_log, short_name};
use crate::snapshot_file::LoadedSnapshot;
use crate::verify::data_dir::load_options;

/// Goes back to the last good txn; everything after it is removed.
pub(super) fn accept_later(last_good: Zxid, location: &Location) -> Result<RepairPlan> {
    let (recovered, walked) = load_until(last_good, location)?;
    let mut plan = RepairPlan { lost: lost_after(last_good, location)?, ..RepairPlan::default() };
    // Newest first, so that the log never has a hole.
    for name in walked.given_up.iter().rev() {
        let path = name.path(&location.dirs.log);
        plan.steps
            .push(RepairStep::Remove { path, why: format!("it comes after txn {last_good}") });
    }
    plan.steps.extend(walked.empty.iter().map(|tail| end_after_records(tail, location)));
    for error in recovered.damaged_snapshots {
        let name = error.path.file_name().and_then(|name| name.to_str());
        if name.and_then(SnapshotName::parse).is_some_and(|name| name.zxid > last_good) {
            plan.steps
                .push(RepairStep::Remove { path: error.path, why: "it is damaged".to_owned() });
        }
    }
    plan.steps.extend(walked.tail.iter().map(|tail| end_after_records(tail, location)));
    Ok(plan)
}

/// Gives up only what is damaged or missing; a new snapshot covers the gap.
pub(super) fn accept_damaged_only(
    last_good: Zxid,
    fault: &LogWalkError,
    location: &Location,
) -> Result<RepairPlan> {
    if matches!(fault, LogWalkError::Backwards { .. } | LogWalkError::Io { .. }) {
        bail!("{fault}: only --accept-loss=later can help here. Nothing was changed");
    }
    let (recovered, _) = load_until(last_good, location)?;
    let mut tree = recovered.tree;
    let mut plan = RepairPlan::default();
    let mut rewrites = Vec::new();
    for log in list_logs(&RealDisk, &location.dirs.log)? {
        let path = log.path(&location.dirs.log);
        let mut damages = Vec::new();
        let totals = read_log(&path, &mut |piece| {
            match piece {
                LogItem::Txn { entry, .. } if entry.header.zxid > tree.last_zxid() => {
                    let (last, next) = (tree.last_zxid(), entry.header.zxid);
                    if !last.is_continued_by(next) {
                        plan.lost.push(format!("any txns after {last} and before {next}"));
                    }
                    tree.replay(entry);
                }
                LogItem::Unknown { zxid, .. } => {
                    plan.lost.push(format!("{zxid}, which cannot be read"));
                }
                LogItem::Damage(damage) => damages.push(damage.clone()),
                LogItem::Txn { .. } | LogItem::Repeat { .. } | LogItem::Torn { .. } => {}
            }
            Ok(())
        })?;
        if !damages.is_empty() {
            rewrites.push(RepairStep::Rewrite { path, kept: without(&damages, totals.used_bytes) });
        }
    }
    if plan.lost.is_empty() {
        plan.lost.push(format!("everything after txn {last_good}; no readable txn follows"));
    }
    plan.steps.push(RepairStep::snapshot(tree, location));
    plan.steps.extend(rewrites);
    Ok(plan)
}

/// The parts of a log between its damaged ranges.
fn without(damages: &[DamagedRange], used_bytes: u64) -> Vec<Range<u64>> {
    let mut kept = Vec::new();
    let mut start = HEADER_BYTES;
    for damage in damages {
        kept.push(start..damage.offset.max(start));
        start = damage.next_valid.map_or(used_bytes, |(offset, _)| offset);
    }
    kept.push(start..used_bytes.max(start));
    kept.retain(|range| !range.is_empty());
    kept
}

/// Plans for a log that ends before the snapshot does: takes the snapshot as it is, as of the last txn that it
/// shows an effect of.
pub(super) fn accept_short_log(last: Zxid, location: &Location) -> Result<RepairPlan> {
    let (recovered, _) = load_until(last, location)?;
    // Once written and read again, it is named by the last txn of which it shows an effect.
    let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
    let written = write_snapshot(
        Arc::new(RealDisk),
        dir.path(),
        Compression::None,
        &recovered.tree,
        LastZxid::Write,
    )?;
    let tree = LoadedSnapshot::load(&written.path, &mut |_| {})?.tree;
    let lost = vec![format!("parts of the txns after {last}, up to {}", tree.last_zxid())];
    Ok(RepairPlan {
        steps: vec![RepairStep::snapshot(tree, location)],
        lost,
        ..RepairPlan::default()
    })
}

fn load_until(last_good: Zxid, location: &Location) -> Result<(Recovered, LogEnd)> {
    let options = RecoverOptions { accept_loss_after: Some(last_good), ..load_options() };
    let (recovered, plan) = load(&RealDisk, &location.dirs, &options, &mut |_| {})?;
    Ok((recovered, plan.log))
}

/// Lists every txn after the last good one that can still be read.
fn lost_after(last_good: Zxid, location: &Location) -> Result<Vec<String>> {
    let mut lost = Vec::new();
    let logs = list_logs(&RealDisk, &location.dirs.log)?;
    let first = logs.iter().rposition(|log| log.zxid <= last_good.next()).unwrap_or(0);
    for log in &logs[first..] {
        lost_in(*log, &log.path(&location.dirs.log), last_good, &mut lost)?;
    }
    Ok(lost)
}

fn lost_in(log: LogName, path: &Path, last_good: Zxid, lost: &mut Vec<String>) -> Result<()> {
    let read = read_log(path, &mut |piece| {
        match piece {
            LogItem::Txn { entry, .. } if entry.header.zxid > last_good => {
                lost.push(change_line(entry));
            }
            LogItem::Unknown { zxid, .. } => lost.push(format!("{zxid}, which cannot be read")),
            LogItem::Damage(damage) => {
                let name = short_name(path);
                lost.push(format!(
                    "the bytes at offset {} of {name}: {}",
                    damage.offset,
                    damage.text()
                ));
            }
            LogItem::Txn { .. } | LogItem::Repeat { .. } | LogItem::Torn { .. } => {}
        }
        Ok(())
    });
    if let Err(error) = read {
        // A file of another format is given up too; its txns are not known.
        lost.push(format!("all of {}: {error:#}", log.file_name()));
    }
    Ok(())
}

//! A summary of a data directory: files, znodes, sessions, txns over time, what a purge would keep.
//!
//! In: a directory. Out: a [`DirSummary`], which is serialized as JSON; [`super::summary_text`] formats it
//! as text.

use anyhow::{Context, Result};
use clap::Args;
use herdsman_proto::Zxid;
use herdsman_store::names::{list_logs, list_snapshots};
use herdsman_store::purge::{Candidate, SNAPSHOTS_KEPT_MIN};
use herdsman_store::recover::load;
use herdsman_store::snapshot::reader::looks_whole;
use herdsman_store::{EpochFile, RealDisk, plan_purge, read_epoch};
use herdsman_tree::{Dump, Tree};
use serde::Serialize;

use super::timeline::{Bucket, Timeline};
use crate::console::Console;
use crate::counts::{Subtree, TreeCounts};
use crate::location::Location;
use crate::log_file::{LogItem, LogTotals, read_log};
use crate::progress::Meter;
use crate::verify::data_dir::load_options;

/// Znodes that are counted in one step.
const STEP_NODES: usize = 4096;

/// The size of the lists in a summary.
#[derive(Args, Clone, Debug)]
pub(super) struct TopArguments {
    /// Number of lines in each top list.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..))]
    top: u16,
    /// Maximum depth of the subtrees in these lists.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    depth: u16,
}

impl TopArguments {
    pub(super) fn depth(&self) -> usize {
        self.depth.into()
    }
}

/// The summary of a directory.
#[derive(Serialize)]
pub(super) struct DirSummary {
    pub(super) data_dir: String,
    pub(super) log_dir: String,
    pub(super) current_epoch: Option<u32>,
    pub(super) accepted_epoch: Option<u32>,
    pub(super) snapshots: Vec<SnapshotRow>,
    pub(super) logs: Vec<LogRow>,
    pub(super) purge_keeps: usize,
    /// The tree that a server would start with.
    pub(super) tree: Option<TreeSummary>,
    /// Why there is no tree.
    pub(super) refused: Option<String>,
    pub(super) last_zxid: Option<String>,
    pub(super) digest: Option<i64>,
    pub(super) txn_types: Vec<(&'static str, u64)>,
    pub(super) txns_over_time: Vec<Bucket>,
}

/// A snapshot in the list of files.
#[derive(Serialize)]
pub(super) struct SnapshotRow {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) zxid: String,
    /// The result of a quick check of both ends of the file.
    pub(super) looks_whole: bool,
    pub(super) purge: PurgeAction,
}

/// A log in the list of files.
#[derive(Serialize)]
pub(super) struct LogRow {
    pub(super) name: String,
    /// The file's length.
    pub(super) bytes: u64,
    /// Bytes up to the end of the last record; the rest was preallocated.
    pub(super) used_bytes: u64,
    pub(super) txns: u64,
    pub(super) first_zxid: Option<String>,
    pub(super) last_zxid: Option<String>,
    pub(super) is_damaged: bool,
    pub(super) is_torn: bool,
    pub(super) purge: PurgeAction,
}

/// What a purge would do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PurgeAction {
    Keep,
    Remove,
}

impl PurgeAction {
    fn removed_if(is_planned: bool) -> Self {
        if is_planned { PurgeAction::Remove } else { PurgeAction::Keep }
    }
}

/// The summary of a tree.
#[derive(Serialize)]
pub(super) struct TreeSummary {
    pub(super) znodes: u64,
    pub(super) data_bytes: u64,
    pub(super) path_bytes: u64,
    pub(super) containers: u64,
    pub(super) ttl_znodes: u64,
    pub(super) ephemerals: u64,
    pub(super) sessions: u64,
    pub(super) largest_znode: Option<(String, u64)>,
    pub(super) top_parents: Vec<(String, u64)>,
    pub(super) top_subtrees_by_bytes: Vec<(String, Subtree)>,
    pub(super) top_subtrees_by_znodes: Vec<(String, Subtree)>,
    pub(super) ephemerals_by_session: Vec<(String, u64)>,
}

impl TreeSummary {
    pub(super) fn of(census: &TreeCounts, sessions: u64, arguments: &TopArguments) -> Self {
        let top = arguments.top.into();
        let mut owners: Vec<_> =
            census.ephemerals.iter().map(|(id, count)| (id.to_string(), *count)).collect();
        owners.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        owners.truncate(top);
        TreeSummary {
            znodes: census.nodes,
            data_bytes: census.data_bytes,
            path_bytes: census.path_bytes,
            containers: census.containers,
            ttl_znodes: census.ttls,
            ephemerals: census.ephemerals.values().sum(),
            sessions,
            largest_znode: census.largest.clone(),
            top_parents: census.top_parents(top),
            top_subtrees_by_bytes: census.top_by_bytes(top),
            top_subtrees_by_znodes: census.top_by_nodes(top),
            ephemerals_by_session: owners,
        }
    }

    fn of_tree(tree: &Tree, arguments: &TopArguments) -> Self {
        let mut census = TreeCounts::new(arguments.depth());
        let mut dump = Dump::start(tree);
        while dump.step(tree, STEP_NODES, &mut |path, data, _, stat| {
            census.count(path, data.map_or(0, <[u8]>::len), stat.ephemeral_owner);
        }) {}
        TreeSummary::of(&census, tree.sessions().count() as u64, arguments)
    }
}

impl DirSummary {
    /// Reads the whole directory.
    pub(super) fn read(
        location: &Location,
        keep: usize,
        arguments: &TopArguments,
        console: &Console<'_>,
    ) -> Result<Self> {
        let (snapshots, mut logs) = list_files(location, keep)?;
        let mut timeline = Timeline::default();
        let mut meter =
            Meter::of_bytes(console, "reading logs", logs.iter().map(|log| log.bytes).sum());
        for log in &mut logs {
            read_log_row(&location.dirs.log.join(&log.name), log, &mut timeline)?;
            meter.add(log.bytes);
        }
        drop(meter);
        let loaded = load(&RealDisk, &location.dirs, &load_options(), &mut |_| {});
        let (tree, refused) = match loaded {
            Ok((recovered, _)) => (Some(recovered.tree), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let epoch = |file| read_epoch(&RealDisk, &location.dirs.data, file).ok().flatten();
        Ok(DirSummary {
            data_dir: location.dirs.data.display().to_string(),
            log_dir: location.dirs.log.display().to_string(),
            current_epoch: epoch(EpochFile::Current),
            accepted_epoch: epoch(EpochFile::Accepted),
            snapshots,
            logs,
            purge_keeps: keep.max(SNAPSHOTS_KEPT_MIN),
            last_zxid: tree.as_ref().map(|tree| tree.last_zxid().to_string()),
            digest: tree.as_ref().map(Tree::digest),
            tree: tree.map(|tree| TreeSummary::of_tree(&tree, arguments)),
            refused,
            txn_types: timeline.totals(),
            txns_over_time: timeline.buckets(),
        })
    }
}

/// Lists the files, and what a purge would do with each.
fn list_files(location: &Location, keep: usize) -> Result<(Vec<SnapshotRow>, Vec<LogRow>)> {
    let dirs = &location.dirs;
    let failed = |dir: &std::path::Path| format!("cannot list {}", dir.display());
    let names = list_snapshots(&RealDisk, &dirs.data).with_context(|| failed(&dirs.data))?;
    let logs = list_logs(&RealDisk, &dirs.log).with_context(|| failed(&dirs.log))?;
    let look =
        |name| Candidate { name, whole: looks_whole(&RealDisk, &dirs.data, name).unwrap_or(false) };
    let candidates: Vec<Candidate> = names.into_iter().map(look).collect();
    let plan = plan_purge(&candidates, &logs, keep.max(SNAPSHOTS_KEPT_MIN), None);
    let bytes = |path: std::path::PathBuf| std::fs::metadata(path).map_or(0, |data| data.len());
    let snapshots = candidates.iter().map(|candidate| SnapshotRow {
        name: candidate.name.file_name(),
        bytes: bytes(candidate.name.path(&dirs.data)),
        zxid: candidate.name.zxid.to_string(),
        looks_whole: candidate.whole,
        purge: PurgeAction::removed_if(plan.snapshots.contains(&candidate.name)),
    });
    let logs = logs.iter().map(|log| LogRow {
        name: log.file_name(),
        bytes: bytes(log.path(&dirs.log)),
        used_bytes: 0,
        txns: 0,
        first_zxid: None,
        last_zxid: None,
        is_damaged: false,
        is_torn: false,
        purge: PurgeAction::removed_if(plan.logs.contains(log)),
    });
    Ok((snapshots.collect(), logs.collect()))
}

/// Fills in what only reading shows.
fn read_log_row(path: &std::path::Path, row: &mut LogRow, timeline: &mut Timeline) -> Result<()> {
    let read = read_log(path, &mut |piece| {
        match piece {
            LogItem::Txn { entry, .. } => timeline.count(entry.header.time_ms, entry.txn.op()),
            LogItem::Unknown { .. } | LogItem::Damage(_) => row.is_damaged = true,
            LogItem::Torn { .. } => row.is_torn = true,
            LogItem::Repeat { .. } => {}
        }
        Ok(())
    });
    // A file of another format with a log's name is damage here, and no reason to say nothing else.
    row.is_damaged |= read.is_err();
    let totals = read.unwrap_or_else(|_| LogTotals::default());
    row.used_bytes = totals.used_bytes;
    row.txns = totals.records;
    row.first_zxid = totals.first.map(|zxid: Zxid| zxid.to_string());
    row.last_zxid = totals.last.map(|zxid: Zxid| zxid.to_string());
    Ok(())
}

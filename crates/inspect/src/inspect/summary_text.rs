//! Formats a summary as text: aligned lists and a small chart.

use anyhow::Result;

use super::summary::{DirSummary, LogRow, PurgeAction, SnapshotRow, TreeSummary};
use super::timeline::Bucket;
use crate::console::Console;
use crate::counts::Subtree;
use crate::show::{aligned, bar, clean, counted, size_text};

const BAR_WIDTH: u64 = 40;

impl DirSummary {
    pub(super) fn print(&self, console: &mut Console<'_>) -> Result<()> {
        console.print(&self.data_dir)?;
        if self.log_dir != self.data_dir {
            console.print(format_args!("txn logs in {}", self.log_dir))?;
        }
        self.print_files(console)?;
        match (&self.tree, &self.refused) {
            (Some(tree), _) => {
                let zxid = self.last_zxid.as_deref().unwrap_or_default();
                let digest = self.digest.unwrap_or_default();
                console.print(format_args!("\nTree as of txn {zxid}, digest {digest}"))?;
                tree.print(console)?;
            }
            (None, refused) => {
                let why = refused.as_deref().unwrap_or_default();
                console.print(format_args!("\nA server would refuse to start from this: {why}"))?;
            }
        }
        self.print_txns(console)
    }

    fn print_files(&self, console: &mut Console<'_>) -> Result<()> {
        if let (Some(current), Some(accepted)) = (self.current_epoch, self.accepted_epoch) {
            console.print(format_args!("currentEpoch {current}, acceptedEpoch {accepted}"))?;
        }
        console.print(format_args!(
            "\nFiles (a purge that keeps {} snapshots would remove those marked)",
            self.purge_keeps
        ))?;
        let snapshots = self.snapshots.iter().map(snapshot_cells);
        let rows: Vec<Vec<String>> = snapshots.chain(self.logs.iter().map(log_cells)).collect();
        if rows.is_empty() {
            console.print("  none")?;
        }
        if self.logs.is_empty() && !self.snapshots.is_empty() {
            console
                .print("  no txn logs; if the server has a dataLogDir, give it with --log-dir")?;
        }
        aligned(&rows).iter().try_for_each(|line| console.print(format_args!("  {line}")))
    }

    fn print_txns(&self, console: &mut Console<'_>) -> Result<()> {
        if self.txn_types.is_empty() {
            return Ok(());
        }
        console.print("\nTxns by type")?;
        let rows: Vec<_> = self
            .txn_types
            .iter()
            .map(|(name, n)| vec![(*name).to_owned(), n.to_string()])
            .collect();
        print_rows(&rows, console)?;
        let seconds = self.txns_over_time.first().map_or(0, |bucket| bucket.seconds);
        console.print(format_args!("\nTxns over time, {} each", length_text(seconds)))?;
        let most = self.txns_over_time.iter().map(|bucket| bucket.txns).max().unwrap_or(0);
        let rows: Vec<_> =
            self.txns_over_time.iter().map(|bucket| bucket_cells(bucket, most)).collect();
        print_rows(&rows, console)
    }
}

impl TreeSummary {
    /// Prints the counts and the lists of the largest.
    pub(super) fn print(&self, console: &mut Console<'_>) -> Result<()> {
        console.print(format_args!(
            "  {}, {} of data, {} of paths; {}, {}, {} with a TTL; {}",
            counted(self.znodes, "znode"),
            size_text(self.data_bytes),
            size_text(self.path_bytes),
            counted(self.ephemerals, "ephemeral"),
            counted(self.containers, "container"),
            self.ttl_znodes,
            counted(self.sessions, "session"),
        ))?;
        if let Some((path, bytes)) = &self.largest_znode {
            console.print(format_args!(
                "  most data: {} with {}",
                clean(path),
                size_text(*bytes)
            ))?;
        }
        print_list("Parents with the most children", &self.top_parents, console, |n| {
            n.to_string()
        })?;
        let subtree = |tree: &Subtree| {
            format!("{} in {}", size_text(tree.bytes), counted(tree.nodes, "znode"))
        };
        print_list("Largest subtrees by bytes", &self.top_subtrees_by_bytes, console, subtree)?;
        print_list("Largest subtrees by znodes", &self.top_subtrees_by_znodes, console, |tree| {
            format!("{}, {}", counted(tree.nodes, "znode"), size_text(tree.bytes))
        })?;
        print_list("Sessions with the most ephemerals", &self.ephemerals_by_session, console, |n| {
            n.to_string()
        })
    }
}

fn print_list<V>(
    title: &str,
    entries: &[(String, V)],
    console: &mut Console<'_>,
    value_text: impl Fn(&V) -> String,
) -> Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    console.print(format_args!("\n{title}"))?;
    let rows: Vec<_> =
        entries.iter().map(|(name, value)| vec![clean(name), value_text(value)]).collect();
    print_rows(&rows, console)
}

fn print_rows(rows: &[Vec<String>], console: &mut Console<'_>) -> Result<()> {
    aligned(rows).iter().try_for_each(|line| console.print(format_args!("  {line}")))
}

fn snapshot_cells(row: &SnapshotRow) -> Vec<String> {
    let state = if row.looks_whole { "" } else { "not whole" };
    let range = format!("up to {}", row.zxid);
    vec![row.name.clone(), size_text(row.bytes), range, state.to_owned(), purge_text(row.purge)]
}

fn log_cells(row: &LogRow) -> Vec<String> {
    let range = match (&row.first_zxid, &row.last_zxid) {
        (Some(first), Some(last)) => format!("{first} to {last}, {}", counted(row.txns, "txn")),
        _ => "no txns".to_owned(),
    };
    let size = format!("{} of {}", size_text(row.used_bytes), size_text(row.bytes));
    let state = match (row.is_damaged, row.is_torn) {
        (true, _) => "DAMAGED: see --verify",
        (_, true) => "torn at its end",
        _ => "",
    };
    vec![row.name.clone(), size, range, state.to_owned(), purge_text(row.purge)]
}

fn purge_text(fate: PurgeAction) -> String {
    match fate {
        PurgeAction::Keep => String::new(),
        PurgeAction::Remove => "purge".to_owned(),
    }
}

fn bucket_cells(bucket: &Bucket, most: u64) -> Vec<String> {
    let types: Vec<String> =
        bucket.types.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let bar = bar(bucket.txns, most, BAR_WIDTH);
    vec![bucket.from.clone(), bucket.txns.to_string(), bar, types.join(", ")]
}

fn length_text(seconds: i64) -> String {
    match seconds {
        s if s % 86400 == 0 => format!("{} d", s / 86400),
        s if s % 3600 == 0 => format!("{} h", s / 3600),
        s if s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

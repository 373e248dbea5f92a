//! `herdsman inspect snapshot`: prints, summarizes or verifies a snapshot.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use herdsman_proto::{Acl, SessionId, StatPersisted};
use herdsman_store::snapshot::reader::SnapshotVisitor;
use herdsman_tree::LoadError;

use super::snapshot_view::{PartPrinter, Shown};
use super::summary::{TopArguments, TreeSummary};
use crate::console::{Console, Outcome};
use crate::counts::TreeCounts;
use crate::log_file::short_name;
use crate::show::clean;
use crate::snapshot_file::{SnapshotReadError, read_parts};
use crate::verify::Verdict;
use crate::verify::snapshot::verify_snapshot;

/// Print a snapshot: sessions, ACLs, znodes and trailer; or summarise or verify it.
#[derive(Args, Debug)]
pub(super) struct SnapshotArguments {
    /// A snapshot; plain, gzip or snappy, whatever its name.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this znode and its descendants.
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// Show the data of each znode.
    #[arg(long)]
    data: bool,
    /// Show all fields of each znode's stat, as they are stored.
    #[arg(long)]
    stat: bool,
    /// Print a summary instead: znodes, bytes, the largest subtrees.
    #[arg(long, conflicts_with_all = ["path", "data", "stat"])]
    summary: bool,
    #[command(flatten)]
    top: TopArguments,
    /// Only verify the file: checksums, digest, name.
    #[arg(long, conflicts_with_all = ["path", "data", "stat", "summary"])]
    verify: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) fn execute(arguments: &SnapshotArguments, console: &mut Console<'_>) -> Result<Outcome> {
    if arguments.verify {
        let mut verdict = Verdict::default();
        verify_snapshot(&arguments.file, &mut verdict, console)?;
        return verdict.print(arguments.json, console);
    }
    let problem =
        if arguments.summary { summarise(arguments, console)? } else { print(arguments, console)? };
    Ok(match problem {
        None => Outcome::Sound,
        Some(text) => {
            console.note(text);
            Outcome::Problems
        }
    })
}

fn damaged(error: &impl std::fmt::Display) -> String {
    format!("{error}. Do not trust what was printed before this")
}

/// Prints all parts. Returns the problem, if the file is damaged or does not have the requested znode.
fn print(arguments: &SnapshotArguments, console: &mut Console<'_>) -> Result<Option<String>> {
    let shown = Shown {
        path: arguments.path.clone(),
        with_data: arguments.data,
        with_stat: arguments.stat,
        json: arguments.json,
    };
    let mut printer = PartPrinter::new(&shown, console);
    match read_parts(&arguments.file, &mut printer, &mut |_| {}) {
        Ok(summary) => {
            let is_found = printer.has_znodes();
            printer.finish(&summary.trailer)?;
            Ok(arguments.path.as_deref().filter(|_| !is_found).map(|path| {
                format!("{}: there is no znode {}", short_name(&arguments.file), clean(path))
            }))
        }
        Err(SnapshotReadError::Damaged(error)) => {
            printer.stop()?;
            Ok(Some(damaged(&error)))
        }
        Err(SnapshotReadError::Other(error)) => Err(error),
    }
}

fn summarise(arguments: &SnapshotArguments, console: &mut Console<'_>) -> Result<Option<String>> {
    let mut counter = Counter { census: TreeCounts::new(arguments.top.depth()), sessions: 0 };
    match read_parts(&arguments.file, &mut counter, &mut |_| {}) {
        Ok(_) => {}
        Err(SnapshotReadError::Damaged(error)) => return Ok(Some(damaged(&error))),
        Err(SnapshotReadError::Other(error)) => return Err(error),
    }
    let summary = TreeSummary::of(&counter.census, counter.sessions, &arguments.top);
    if arguments.json {
        console.print_json(&summary)?;
    } else {
        console.print(short_name(&arguments.file))?;
        summary.print(console)?;
    }
    Ok(None)
}

/// Counts the parts of a snapshot.
struct Counter {
    census: TreeCounts,
    sessions: u64,
}

impl SnapshotVisitor for Counter {
    fn session(&mut self, _: SessionId, _: i32) {
        self.sessions += 1;
    }

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        _: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        self.census.count(path, data.map_or(0, <[u8]>::len), stat.ephemeral_owner);
        Ok(())
    }
}

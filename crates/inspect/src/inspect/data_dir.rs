//! `herdsman inspect data-dir`: summarizes or verifies a server's directory.

use anyhow::Result;
use clap::Args;

use super::summary::{DirSummary, TopArguments};
use crate::console::{Console, Outcome};
use crate::location::DirArguments;
use crate::verify::Verdict;
use crate::verify::data_dir::verify_data_dir;

/// Summarise a data directory, or verify it: every checksum, every digest, no txn missing.
#[derive(Args, Debug)]
pub(super) struct DataDirArguments {
    #[command(flatten)]
    dir: DirArguments,
    #[command(flatten)]
    top: TopArguments,
    /// How many snapshots a purge would keep (at least 3).
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    retain: u16,
    /// Only verify it. Reads every file and replays all txns.
    #[arg(long)]
    verify: bool,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn execute(arguments: &DataDirArguments, console: &mut Console<'_>) -> Result<Outcome> {
    let location = arguments.dir.locate()?;
    if arguments.verify {
        let mut verdict = Verdict::default();
        verify_data_dir(&location, location.missing_log()?, &mut verdict, console)?;
        return verdict.print(arguments.json, console);
    }
    console.note_missing_log(&location)?;
    let summary = DirSummary::read(&location, arguments.retain.into(), &arguments.top, console)?;
    if arguments.json {
        console.print_json(&summary)?;
    } else {
        summary.print(console)?;
    }
    let is_damaged = summary.refused.is_some() || summary.logs.iter().any(|log| log.is_damaged);
    Ok(if is_damaged { Outcome::Problems } else { Outcome::Sound })
}

//! `herdsman inspect`: print, verify, summarise and compare what is on disk. Reads only.

mod compare;
mod data_dir;
mod filter;
mod history;
mod log;
mod snapshot;
mod snapshot_view;
mod summary;
mod summary_text;
pub(crate) mod time;
mod timeline;
mod txn_view;

use anyhow::Result;
use clap::{Args, Subcommand};
use herdsman_proto::txn::Entry;

use crate::console::{Console, EXIT_CODES, Outcome};
use crate::show::{DataShown, time_text};

/// Print, verify and compare txn logs, snapshots and data directories. Never changes a file.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct InspectArguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  herdsman inspect data-dir /var/lib/zookeeper             summary
  herdsman inspect data-dir /var/lib/zookeeper --verify    check every checksum and digest
  herdsman inspect log /var/lib/zookeeper/version-2/log.1 --tail 20
  herdsman inspect log /var/lib/zookeeper --path /app --since 2h --json
  herdsman inspect snapshot snapshot.5400 --path /app --data
  herdsman inspect compare old/version-2 new/version-2 --brief
  herdsman inspect history /app/leader --data-dir /var/lib/zookeeper

Reads files of Herdsman and of Apache ZooKeeper 3.4 to 3.9, even while a server is running.

Exit codes:
  0    no problems found, or no check requested
  1    problems or differences were found
  2    the command failed: wrong usage, missing files, files of another format
  141  standard output was closed";

#[derive(Subcommand, Debug)]
enum Command {
    #[command(after_help = EXIT_CODES)]
    Log(log::LogArguments),
    #[command(after_help = EXIT_CODES)]
    Snapshot(snapshot::SnapshotArguments),
    #[command(after_help = EXIT_CODES)]
    DataDir(data_dir::DataDirArguments),
    #[command(after_help = EXIT_CODES)]
    Compare(compare::CompareArguments),
    #[command(after_help = EXIT_CODES)]
    History(history::HistoryArguments),
}

impl InspectArguments {
    /// Runs the command on the given console.
    pub fn execute(&self, console: &mut Console<'_>) -> Result<Outcome> {
        match &self.command {
            Command::Log(arguments) => log::execute(arguments, console),
            Command::Snapshot(arguments) => snapshot::execute(arguments, console),
            Command::DataDir(arguments) => data_dir::execute(arguments, console),
            Command::Compare(arguments) => compare::execute(arguments, console),
            Command::History(arguments) => history::execute(arguments, console),
        }
    }
}

/// Formats a txn as one line, for lists of what is lost.
pub(crate) fn change_line(entry: &Entry) -> String {
    let change = txn_view::change_text(&entry.txn, DataShown::Preview);
    let header = &entry.header;
    format!("{} {} session {} {change}", header.zxid, time_text(header.time_ms), header.session)
}

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
mod time;
mod timeline;
mod txn_view;

use anyhow::Result;
use clap::{Args, Subcommand};
use herdsman_proto::txn::Entry;

use crate::console::{Console, EXIT_CODES, Outcome};
use crate::show::{DataShown, time_text};

/// Look into txn logs, snapshots and data directories, and verify them. Never changes a file.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct InspectArguments {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  herdsman inspect data-dir /var/lib/zookeeper             what is in there
  herdsman inspect data-dir /var/lib/zookeeper --verify    is it sound: every checksum, every digest
  herdsman inspect log /var/lib/zookeeper/version-2/log.1 --tail 20
  herdsman inspect log /var/lib/zookeeper --path /app --since 2h --json
  herdsman inspect snapshot snapshot.5400 --path /app --data
  herdsman inspect compare old/version-2 new/version-2 --brief
  herdsman inspect history /app/leader --data-dir /var/lib/zookeeper

It reads what Herdsman and Apache ZooKeeper 3.4 to 3.9 write, also while a server runs.

Exit codes:
  0    sound, or nothing was asked to be checked
  1    problems were found, or a difference
  2    it could not be done: wrong usage, missing files, files of another format
  141  standard output was closed";

#[derive(Subcommand, Debug)]
enum What {
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
    /// Carries the command out on the given console.
    pub fn execute(&self, console: &mut Console<'_>) -> Result<Outcome> {
        match &self.what {
            What::Log(arguments) => log::execute(arguments, console),
            What::Snapshot(arguments) => snapshot::execute(arguments, console),
            What::DataDir(arguments) => data_dir::execute(arguments, console),
            What::Compare(arguments) => compare::execute(arguments, console),
            What::History(arguments) => history::execute(arguments, console),
        }
    }
}

/// A txn in one line, for lists of what is lost.
pub(crate) fn change_line(entry: &Entry) -> String {
    let change = txn_view::change_text(&entry.txn, DataShown::Preview);
    let header = &entry.header;
    format!("{} {} session {} {change}", header.zxid, time_text(header.time_ms), header.session)
}

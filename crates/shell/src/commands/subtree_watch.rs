//! `watch`: prints the changes of a subtree as they happen.

use clap::Args;

use super::Run;
use crate::failure::Failure;
use crate::shell::Shell;
use crate::subtree::watch::{Reach, SubtreeChanges, WithData};

/// Print every change of a subtree until Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  watch /app                       /app and everything below it
  watch /app --no-recursive        its data and its list of children
  watch /app --data --count 1      wait for one change and show the new data
After a lost connection a gap is reported: changes may have been missed. Needs a server of \
version 3.6 or newer.")]
pub(crate) struct WatchSubtree {
    /// The znode.
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    /// Include everything below it; this is the default.
    #[arg(short = 'r', long)]
    recursive: bool,
    /// Only the znode's data and its list of children.
    #[arg(long, conflicts_with = "recursive")]
    no_recursive: bool,
    /// Print the data too; it may be newer than the change.
    #[arg(long)]
    data: bool,
    /// Stop after this many changes.
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
}

impl Run for WatchSubtree {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let reach = if self.no_recursive { Reach::Alone } else { Reach::Recursive };
        let with_data = if self.data { WithData::Yes } else { WithData::No };
        let mut changes =
            SubtreeChanges::start(shell.client()?, &self.path, reach, with_data).await?;
        shell.output.note(format!("watching {}; press Ctrl-C to stop", self.path));
        let mut left = self.count;
        while left != Some(0) {
            let Some(change) = changes.next().await? else {
                return Err(Failure::failed("the connection is closed"));
            };
            match shell.output.is_json() {
                true => shell.output.json(&change.to_json())?,
                false => shell.output.say(change.to_text())?,
            }
            left = left.map(|left| left - 1);
        }
        Ok(())
    }
}

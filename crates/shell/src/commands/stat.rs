//! Commands about znodes besides their data: `stat`, `getEphemerals`, `getAllChildrenNumber`.

use clap::Args;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::format::{bracketed, printable, stat_json, stat_lines};
use crate::shell::Shell;
use crate::watches::WatchKind;

/// Print the stat of a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stat /app        versions, times, sizes
  stat -w /app     also report the next change; it need not exist yet")]
pub(crate) struct Stat {
    /// Watch the znode: report when it is next created, changed or deleted.
    #[arg(short = 'w')]
    watch: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// As in zkCli before 3.5.
    #[arg(hide = true)]
    deprecated_watch: Option<String>,
}

impl Run for Stat {
    async fn run(mut self, shell: &mut Shell) -> Result<(), Failure> {
        if self.deprecated_watch.is_some() {
            let note =
                "'stat path [watch]' has been deprecated. Please use 'stat [-w] path' instead.";
            shell.output.note(note);
            self.watch = true;
        }
        let call = shell.client()?.exists(&self.path);
        let stat = match self.watch {
            true => {
                let (stat, watch) = call.watch().await?;
                shell.watches.keep(&self.path, WatchKind::Data, watch)?;
                stat
            }
            false => call.await?,
        };
        let Some(stat) = stat else {
            return Err(Failure::NoNode(self.path));
        };
        match shell.output.is_json() {
            true => shell.output.json(&json!({"path": self.path, "stat": stat_json(&stat)})),
            false => shell.output.say(stat_lines(&stat)),
        }
    }
}

/// List the ephemeral znodes of this session.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  getEphemerals          all of this session
  getEphemerals /app     those below /app")]
pub(crate) struct GetEphemerals {
    /// Only those at or below this path.
    #[arg(value_name = "PATH", default_value = "/", hide_default_value = true)]
    path: String,
}

impl Run for GetEphemerals {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let mut paths = shell.client()?.ephemerals(&self.path).await?;
        paths.sort_unstable();
        match shell.output.is_json() {
            true => shell.output.json(&json!({"path": self.path, "ephemerals": paths})),
            false => shell.output.say(printable(&bracketed(&paths))),
        }
    }
}

/// Count the znodes below a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  getAllChildrenNumber /app     children, their children and so on")]
pub(crate) struct GetAllChildrenNumber {
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
}

impl Run for GetAllChildrenNumber {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let count = shell.client()?.count_descendants(&self.path).await?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"path": self.path, "count": count})),
            false => shell.output.say(count),
        }
    }
}

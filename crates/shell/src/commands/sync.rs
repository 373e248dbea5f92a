//! `sync`: waits until the server has caught up.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::shell::Shell;

/// Wait until the server has everything that was written before.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  sync /app     then `get /app` shows what any client wrote before the sync")]
pub(crate) struct Sync {
    /// Any znode.
    #[arg(value_name = "PATH", default_value = "/", hide_default_value = true)]
    path: String,
}

/// The same as zkCli's.
const SYNC_MAX: Duration = Duration::from_secs(30);

impl Run for Sync {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        shell.client()?.sync(&self.path).deadline(SYNC_MAX).await?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"synced": self.path})),
            false => shell.output.say("Sync is OK"),
        }
    }
}

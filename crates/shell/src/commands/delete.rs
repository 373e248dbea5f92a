//! `delete`: deletes a znode without children.

use clap::Args;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::shell::Shell;

/// Delete a znode that has no children.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  delete /app/motd          whatever its version
  delete -v 3 /app/motd     only if the data has version 3
To delete a znode and everything below it, use `deleteall`.")]
pub(crate) struct Delete {
    /// Delete it only if the data has this version.
    #[arg(short = 'v', value_name = "VERSION", allow_negative_numbers = true)]
    version: Option<i32>,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// The expected version, as in zkCli before 3.5.
    #[arg(hide = true, allow_negative_numbers = true, conflicts_with = "version")]
    deprecated_version: Option<i32>,
}

impl Run for Delete {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        if self.deprecated_version.is_some() {
            shell.output.note(
                "'delete path [version]' has been deprecated. \
                 Please use 'delete [-v version] path' instead.",
            );
        }
        let mut call = shell.client()?.delete(&self.path);
        if let Some(version) = self.version.or(self.deprecated_version) {
            call = call.version(version);
        }
        call.await?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"deleted": self.path})),
            false => Ok(()),
        }
    }
}

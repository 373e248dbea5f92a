//! Credentials: `addauth` and `whoami`.

use clap::Args;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::format::printable;
use crate::shell::Shell;

/// Add credentials to the session.
#[derive(Args)]
#[command(after_help = "\
Example:
  addauth digest bob:secret     adds the user bob to this session
The line is not written to the history file. Wrong credentials end the session.")]
pub(crate) struct AddAuth {
    /// The scheme, for example digest.
    #[arg(value_name = "SCHEME")]
    scheme: String,
    /// The credentials in the scheme's form; for digest, user:password.
    #[arg(value_name = "AUTH", allow_hyphen_values = true)]
    secret: Option<String>,
}

impl std::fmt::Debug for AddAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddAuth").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl Run for AddAuth {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let secret = self.secret.unwrap_or_default();
        shell.client()?.authenticate(&self.scheme, secret).await?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"scheme": self.scheme})),
            false => Ok(()),
        }
    }
}

/// Print the ids under which the server knows this session.
#[derive(Args, Debug)]
pub(crate) struct WhoAmI {}

impl Run for WhoAmI {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let ids = shell.client()?.who_am_i().await?;
        if shell.output.is_json() {
            let ids: Vec<_> =
                ids.iter().map(|id| json!({"scheme": id.scheme, "user": id.id})).collect();
            return shell.output.json(&ids);
        }
        shell.output.say("Auth scheme: User")?;
        for id in ids {
            shell.output.say(printable(&format!("{}: {}", id.scheme, id.id)))?;
        }
        Ok(())
    }
}

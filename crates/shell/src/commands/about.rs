//! `version`.

use clap::Args;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::shell::Shell;

/// Print the version of this shell.
#[derive(Args, Debug)]
pub(crate) struct Version {}

impl Run for Version {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let version = env!("CARGO_PKG_VERSION");
        match shell.output.is_json() {
            true => shell.output.json(&json!({"version": version})),
            false => shell.output.say(format!("Herdsman shell version: {version}")),
        }
    }
}

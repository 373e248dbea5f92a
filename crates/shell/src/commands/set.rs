//! `set`: replaces the data of a znode.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Args;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::format::{stat_json, stat_lines};
use crate::shell::Shell;

/// Replace the data of a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  set /app/motd 'hello world'     data with a space, in quotes
  set -v 3 /app/motd hello        only if the data has version 3
  set -b /app/blob AAEC/w==       binary data, in base64
  set /app/motd -- -dash          data that begins with a dash")]
pub(crate) struct Set {
    /// Also print the stat.
    #[arg(short = 's')]
    stat: bool,
    /// Change it only if the data has this version.
    #[arg(short = 'v', value_name = "VERSION", allow_negative_numbers = true)]
    version: Option<i32>,
    /// The data is in base64.
    #[arg(short = 'b')]
    base64: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// The new data.
    #[arg(value_name = "DATA", allow_negative_numbers = true)]
    data: String,
    /// The expected version, as in zkCli before 3.5.
    #[arg(hide = true, allow_negative_numbers = true, conflicts_with = "version")]
    deprecated_version: Option<i32>,
}

impl Run for Set {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        if self.deprecated_version.is_some() {
            shell.output.note(
                "'set path data [version]' has been deprecated. \
                 Please use 'set [-s] [-v version] path data' instead.",
            );
        }
        let data = self.bytes()?;
        let mut call = shell.client()?.set(&self.path, data);
        if let Some(version) = self.version.or(self.deprecated_version) {
            call = call.version(version);
        }
        let stat = call.await?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"path": self.path, "stat": stat_json(&stat)})),
            false if self.stat => shell.output.say(stat_lines(&stat)),
            false => Ok(()),
        }
    }
}

impl Set {
    fn bytes(&self) -> Result<Bytes, Failure> {
        if !self.base64 {
            return Ok(Bytes::copy_from_slice(self.data.as_bytes()));
        }
        let decoded = STANDARD.decode(&self.data);
        decoded
            .map(Bytes::from)
            .map_err(|error| Failure::usage(format!("set: the data is not base64: {error}")))
    }
}

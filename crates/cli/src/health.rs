//! `herdsman health`: asks a server's admin port whether it is well, for health checks of containers
//! and scripts that have no HTTP client.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use herdsman_protection::{TlsArguments, https};

/// Ask a running server whether it is well: exit code 0 if so, 1 if not.
#[derive(Args)]
#[command(after_help = "\
Examples:
  herdsman health
  herdsman health --ready
  herdsman health --ready --admin http://zk1:8080
  herdsman health --admin https://zk1:8080 --tls-trust-store ca.pem --tls-key-store me.pem")]
pub struct Arguments {
    /// Whether it serves clients and takes writes, not only whether it is alive
    #[arg(long)]
    ready: bool,
    /// The server's admin port
    #[arg(
        long,
        value_name = "URL",
        env = "HERDSMAN_ADMIN",
        default_value = "http://127.0.0.1:8080"
    )]
    admin: String,
    /// Give up after this time
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = crate::recipe::seconds)]
    timeout: Duration,
    #[command(flatten)]
    tls: TlsArguments,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let question = if arguments.ready { "readyz" } else { "livez" };
    let url = format!("{}/{question}", arguments.admin.trim_end_matches('/'));
    match ask(&url, arguments) {
        Ok((true, answer)) => {
            println!("{}", answer.trim_end());
            ExitCode::SUCCESS
        }
        Ok((false, answer)) => {
            eprintln!("herdsman: {url}: {}", answer.trim_end());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("herdsman: {url}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the answer was good, and what it said.
fn ask(url: &str, arguments: &Arguments) -> Result<(bool, String)> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(arguments.timeout))
        .http_status_as_error(false)
        .build();
    let mut response = https::agent(config, arguments.tls.settings()?)?.get(url).call()?;
    let is_good = response.status().is_success();
    Ok((is_good, response.body_mut().read_to_string()?))
}

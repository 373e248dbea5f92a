//! `herdsman health`: asks a server's admin port whether the server is healthy, for health checks of containers and
//! scripts that have no HTTP client.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use herdsman_protection::{TlsArguments, https};

/// How much of a response is printed; a server's own responses are shorter.
const RESPONSE_CHARS_MAX: usize = 1000;

/// Check whether a running server is healthy: exit code 0 if it is, 1 if not.
#[derive(Args)]
#[command(after_help = "\
Examples:
  herdsman health
  herdsman health --ready
  herdsman health --ready --admin http://zk1:8080
  herdsman health --admin https://zk1:8080 --tls-trust-store ca.pem --tls-key-store me.pem")]
pub struct Arguments {
    /// Check that the server serves clients and accepts writes, not only that it is alive
    #[arg(long)]
    ready: bool,
    /// URL of the server's admin port
    #[arg(
        long,
        value_name = "URL",
        env = "HERDSMAN_ADMIN",
        default_value = "http://127.0.0.1:8080"
    )]
    admin: String,
    /// Give up after this time
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = crate::recipe::positive_seconds)]
    timeout: Duration,
    #[command(flatten)]
    tls: TlsArguments,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let admin = &arguments.admin;
    if !admin.starts_with("http://") && !admin.starts_with("https://") {
        eprintln!("herdsman: {admin}: the URL needs http:// or https://, as in http://{admin}");
        return ExitCode::FAILURE;
    }
    let endpoint = if arguments.ready { "readyz" } else { "livez" };
    let url = format!("{}/{endpoint}", admin.trim_end_matches('/'));
    match request(&url, arguments) {
        Ok((true, response)) => {
            println!("{}", printable(&response));
            ExitCode::SUCCESS
        }
        Ok((false, response)) => {
            eprintln!("herdsman: {url}: {}", printable(&response));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("herdsman: {url}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether the status of the response was a success, and its text.
fn request(url: &str, arguments: &Arguments) -> Result<(bool, String)> {
    // Connect to the server itself, not through a proxy set in the environment.
    let config = ureq::Agent::config_builder()
        .proxy(None)
        .timeout_global(Some(arguments.timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .build();
    let agent = https::agent(config, arguments.tls.settings()?)?;
    let explained = |error: ureq::Error| anyhow!(explain(&error, arguments));
    let mut response = agent.get(url).call().map_err(explained)?;
    let status = response.status();
    let text = response.body_mut().read_to_string().map_err(explained)?;
    let text =
        if text.trim().is_empty() { format!("HTTP status {}", status.as_u16()) } else { text };
    Ok((status.is_success(), text))
}

/// Describes what went wrong and what to do.
fn explain(error: &ureq::Error, arguments: &Arguments) -> String {
    match error {
        ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
            "cannot connect: connection refused. Is the server running, and is this its admin port \
             (admin.serverPort)?"
                .to_owned()
        }
        ureq::Error::Io(error)
            if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) =>
        {
            "the server closed the connection without a response: is this the client port?"
                .to_owned()
        }
        ureq::Error::Timeout(_) => {
            format!("timed out after {} s", arguments.timeout.as_secs_f64())
        }
        ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
            "not an admin URL; expected something like http://host:8080".to_owned()
        }
        other => other.to_string(),
    }
}

/// Makes a response safe to print: one line of limited length, without characters that control a terminal.
fn printable(response: &str) -> String {
    let response = response.trim_end();
    let mut text: String = response
        .chars()
        .take(RESPONSE_CHARS_MAX)
        .map(|symbol| if controls_terminal(symbol) { ' ' } else { symbol })
        .collect();
    if response.chars().nth(RESPONSE_CHARS_MAX).is_some() {
        text.push('…');
    }
    text
}

/// Whether this is a control character or one that changes the direction of the text that follows.
fn controls_terminal(symbol: char) -> bool {
    symbol.is_control()
        || matches!(symbol, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

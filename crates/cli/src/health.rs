//! `herdsman health`: asks a server's admin port whether it is well, for health checks of containers
//! and scripts that have no HTTP client.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use herdsman_protection::{TlsArguments, https};

/// What is shown of an answer; all checks of a server take less.
const ANSWER_CHARS_MAX: usize = 1000;

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
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = crate::recipe::some_seconds)]
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
    let question = if arguments.ready { "readyz" } else { "livez" };
    let url = format!("{}/{question}", admin.trim_end_matches('/'));
    match ask(&url, arguments) {
        Ok((true, answer)) => {
            println!("{}", printable(&answer));
            ExitCode::SUCCESS
        }
        Ok((false, answer)) => {
            eprintln!("herdsman: {url}: {}", printable(&answer));
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
    // The server, and not what a proxy of the environment makes of its address.
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
    let text = if text.trim().is_empty() { format!("answered {}", status.as_u16()) } else { text };
    Ok((status.is_success(), text))
}

/// What went wrong, and what to do.
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
            "the server closed the connection without an answer: is this the client port?"
                .to_owned()
        }
        ureq::Error::Timeout(_) => {
            format!("no answer within {} s", arguments.timeout.as_secs_f64())
        }
        ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
            "not the address of an admin server: give it as http://host:8080".to_owned()
        }
        other => other.to_string(),
    }
}

/// An answer that can be printed: one line, of limited length, without what a terminal obeys.
fn printable(answer: &str) -> String {
    let answer = answer.trim_end();
    let mut text: String = answer
        .chars()
        .take(ANSWER_CHARS_MAX)
        .map(|symbol| if is_obeyed(symbol) { ' ' } else { symbol })
        .collect();
    if answer.chars().nth(ANSWER_CHARS_MAX).is_some() {
        text.push('…');
    }
    text
}

/// Control characters, and those that turn the direction of what follows.
fn is_obeyed(symbol: char) -> bool {
    symbol.is_control()
        || matches!(symbol, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

//! The flags of `herdsman shell` itself. Those of its commands are in [`crate::commands`].

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::protection::ProtectionArguments;

const EXAMPLES: &str = "\
Examples:
  herdsman shell                                     at a terminal: opens a prompt; try `help`
  herdsman shell ls -s /app                          runs one command and exits
  herdsman shell --servers zk1:2181,zk2:2181/app ls /
                                                     other servers; paths are relative to /app
  herdsman shell --json get /app | jq -r .data       output for scripts
  herdsman shell < commands.txt                      runs the lines; stops at the first error
  herdsman shell --servers zk1:2281 --tls-trust-store ca.pem --tls-key-store me.pem ls /

zkCli's own flags (-server, -timeout, -r, -waitforconnection, -client-configuration) are accepted as well.
Passwords come from files, or from HERDSMAN_AUTH, HERDSMAN_TLS_PASSWORD and HERDSMAN_SASL_PASSWORD.

Exit codes:
  0    success
  1    the command failed, or no server could be reached; the message says why
  2    invalid usage
  130  interrupted by Ctrl-C
  141  output closed
  143  terminated by SIGTERM";

/// Read and change znodes: every command of zkCli and more, at a prompt or in scripts.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Print JSON: one value, or one per line, on standard output; errors as objects on standard
    /// error.
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours; by default only on a terminal, and not if NO_COLOR is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
    /// Do not ask before deleting, copying, moving or overwriting.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// With commands from a pipe, continue after an error. The exit code is that of the first error.
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// A command and its arguments. Without it, commands are read from standard input.
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
    // Last, because its heading applies to all flags that follow.
    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArguments {
    /// The servers, as `host:port,host:port/chroot`.
    #[arg(
        long,
        short,
        visible_alias = "server",
        env = "HERDSMAN_SERVERS",
        default_value = "127.0.0.1:2181",
        value_name = "SERVERS"
    )]
    pub(crate) servers: String,
    /// The servers expire the session, and delete its ephemerals, after this time without contact.
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) session_timeout: Duration,
    /// Give up if no server answers in this time.
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) connect_timeout: Duration,
    /// Accept a server that is cut off from its quorum and serves only reads.
    #[arg(long, short)]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) protection: ProtectionArguments,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A time in seconds, with or without a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.parse().map_err(|_| "expected a number of seconds, for example 2.5".to_owned())?;
    Duration::try_from_secs_f64(number)
        .map_err(|_| "the time must not be negative or too large".to_owned())
}

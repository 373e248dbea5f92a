//! The flags of `herdsman bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use herdsman_protection::TlsArguments;
use herdsman_proto::path;

use crate::echo::EchoArgs;
use crate::keys::Distribution;
use crate::names::{LEAVES_PER_PARENT, PARENTS_MAX};
use crate::roofline::RooflineArgs;
use crate::target::TargetSpec;
use crate::workload::Workload;

/// Fewer than a server with default settings accepts from one address (`maxClientCnxns=60`).
const CONNECTIONS: usize = 50;

const EXAMPLES: &str = "\
Examples:
  herdsman bench                                        get, set and mixed on 127.0.0.1:2181
  herdsman bench get --connections 1 --depth 1 --echo   one request at a time, compared with the echo server
  herdsman bench set mixed --read-percent 50 \\
      --target herdsman=zk1:2181 --target apache=zk2:2181
  herdsman bench get --target three=zk1:2181,zk2:2181,zk3:2181 --output result.json --plot result.svg
  herdsman bench --target plain=zk1:2181 --target tls=tls://zk1:2281 --tls-trust-store ca.pem \\
      --tls-key-store me.pem                            the cost of TLS
  herdsman bench fill --keys 5000000                    once; then, as often as needed:
  herdsman bench get --keys 5000000 --filled
  herdsman bench roofline                               the limits of this machine

Each round opens new connections, warms up, measures, and closes them. Rounds of several targets are interleaved,
so that a slow phase of the machine affects all of them. Replies are checked; a wrong reply counts as an error.
Znodes are created under --root and deleted afterwards. Ctrl-C stops the run cleanly: the results so far are
printed, and the znodes are deleted; a second Ctrl-C stops it at once.

Exit codes:
  0    success, and every reply was correct
  1    measured, but some replies were errors, wrong, or missing
  2    could not measure: wrong usage, no server, or a root that was not created by this program
  130  interrupted
  141  standard output was closed";

/// Measure servers: operations per second, latencies, and correctness of replies.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Workloads to measure, one after another.
    #[arg(value_enum, value_name = "WORKLOAD", default_values = ["get", "set", "mixed"])]
    pub(crate) workloads: Vec<Workload>,
    #[command(flatten)]
    pub(crate) target_arguments: TargetArguments,
    #[command(flatten)]
    pub(crate) znodes: Znodes,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    Fill(FillArguments),
    Roofline(RooflineArgs),
    /// Run a server that only replies and does nothing else, for `--echo`.
    #[command(hide = true)]
    EchoServer(EchoArgs),
}

/// Create the keys for `herdsman bench --filled`, and keep them.
#[derive(Args, Clone, Debug)]
pub(crate) struct FillArguments {
    #[command(flatten)]
    pub(crate) target_arguments: TargetArguments,
    #[command(flatten)]
    pub(crate) znodes: Znodes,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Targets")]
pub(crate) struct TargetArguments {
    /// Servers of one target, with a name if there are several targets. Connections are spread over the servers. With
    /// tls:// before the first server the connections use TLS.
    #[arg(
        long = "target",
        visible_alias = "servers",
        alias = "server",
        value_name = "[NAME=][tls://]HOST:PORT[,HOST:PORT...]",
        default_value = "server=127.0.0.1:2181"
    )]
    pub(crate) targets: Vec<TargetSpec>,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
}

/// The znodes that a run works on.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Znodes")]
pub(crate) struct Znodes {
    /// Path under which znodes are created. An existing znode that was not created by this program is refused.
    #[arg(long, default_value = "/bench", value_name = "PATH", value_parser = root_path)]
    pub(crate) root: String,
    /// Number of znodes for get, set, exists, multi and mixed.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PARENTS_MAX * LEAVES_PER_PARENT)))]
    pub(crate) keys: u32,
    /// Size of a value in bytes.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = value_bytes)]
    pub(crate) value_bytes: usize,
}

/// The parameters of the load.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Load")]
pub(crate) struct Shape {
    /// Number of connections, each with its own session.
    #[arg(long, default_value_t = CONNECTIONS, value_name = "N", value_parser = at_least_one)]
    pub(crate) connections: usize,
    /// Number of requests that each connection keeps in flight.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = at_least_one)]
    pub(crate) depth: usize,
    /// Distribution of requests over the keys.
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    pub(crate) distribution: Distribution,
    /// Percentage of reads in the workload mixed.
    #[arg(long, default_value_t = 90, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) read_percent: u8,
    /// Number of children of each znode in the workload children.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) children: u32,
    /// Number of parents over which create, delete and ephemeral spread their znodes.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PARENTS_MAX)))]
    pub(crate) parents: u32,
    /// Duration of a measurement.
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) duration: Duration,
    /// Duration of the warm-up before each measurement.
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) warmup: Duration,
    /// Number of rounds for each target; the median is reported.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = at_least_one)]
    pub(crate) rounds: usize,
    /// Number of threads of the load generator. One is enough for servers with a few cores.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = at_least_one)]
    pub(crate) threads: usize,
    /// Also measure a server that only replies, as target `echo`: the limit of this machine.
    #[arg(long)]
    pub(crate) echo: bool,
    /// Use and keep the existing keys from `herdsman bench fill` or an earlier run with --keep.
    #[arg(long)]
    pub(crate) filled: bool,
    /// Do not delete the znodes afterwards.
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Format of the report on standard output.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// Also write the report to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also draw the report to a file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// The format of the printed report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table.
    #[default]
    Table,
    /// JSON.
    Json,
}

/// The largest value: servers refuse larger ones by default.
const VALUE_BYTES_MAX: usize = 1_000_000;

fn value_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if bytes <= VALUE_BYTES_MAX => Ok(bytes),
        _ => Err(format!(
            "expected a number from 0 to {VALUE_BYTES_MAX}; servers refuse larger requests"
        )),
    }
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=100_000).contains(&number) => Ok(number),
        _ => Err("expected a number from 1 to 100000".to_owned()),
    }
}

/// Parses a time of more than 0 seconds.
fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(|time| match time {
        Duration::ZERO => Err("the time must be more than 0 seconds".to_owned()),
        time => Ok(time),
    })
}

/// Parses a time in seconds, with or without a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.parse().map_err(|_| "expected a number of seconds, for example 2.5".to_owned())?;
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|time| *time <= Duration::from_secs(86_400))
        .ok_or_else(|| "the time must be from 0 to 86400 seconds".to_owned())
}

fn root_path(text: &str) -> Result<String, String> {
    let below = text.strip_prefix(path::ZOOKEEPER);
    if text == path::ROOT || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Err(
            "this path belongs to the servers; choose another one, such as /bench".to_owned()
        );
    }
    if !path::is_valid(text) {
        return Err("not a valid znode path, such as /bench".to_owned());
    }
    Ok(text.to_owned())
}

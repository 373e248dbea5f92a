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

/// Fewer than a server with default settings takes from one address (`maxClientCnxns=60`).
const CONNECTIONS: usize = 50;

const EXAMPLES: &str = "\
Examples:
  herdsman bench                                        get, set and mixed on 127.0.0.1:2181
  herdsman bench get --connections 1 --depth 1 --echo   one request at a time, and the limit beside it
  herdsman bench set mixed --read-percent 50 \\
      --target herdsman=zk1:2181 --target apache=zk2:2181
  herdsman bench get --target three=zk1:2181,zk2:2181,zk3:2181 --output result.json --plot result.svg
  herdsman bench --target plain=zk1:2181 --target tls=tls://zk1:2281 --tls-trust-store ca.pem \\
      --tls-key-store me.pem                            what TLS costs
  herdsman bench fill --keys 5000000                    once; then, as often as needed:
  herdsman bench get --keys 5000000 --filled
  herdsman bench roofline                               what this machine can do at best

Each round opens fresh connections, warms up, measures, and closes them. Rounds of several targets take turns,
so that a bad moment of the machine falls on all of them. What is read is checked; a wrong answer counts as an
error. Znodes live under --root and are deleted afterwards. Ctrl-C ends it in order: what was measured so far is
shown, and the znodes are deleted; a second Ctrl-C ends it at once.

Exit codes:
  0    measured, and every answer was right
  1    measured, but some answers were errors, wrong, or missing
  2    it could not be done: wrong usage, no server, a root that is somebody else's
  130  interrupted
  141  standard output was closed";

/// Measure servers: operations per second, latencies, and whether the answers are right.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// What to measure, one after another.
    #[arg(value_enum, value_name = "WORKLOAD", default_values = ["get", "set", "mixed"])]
    pub(crate) workloads: Vec<Workload>,
    #[command(flatten)]
    pub(crate) where_to: WhereTo,
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
    /// Answer like a server, but do nothing: the limit that `--echo` shows.
    #[command(hide = true)]
    EchoServer(EchoArgs),
}

/// Create the keys that `herdsman bench --filled` works on, and leave them there.
#[derive(Args, Clone, Debug)]
pub(crate) struct FillArguments {
    #[command(flatten)]
    pub(crate) where_to: WhereTo,
    #[command(flatten)]
    pub(crate) znodes: Znodes,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Targets")]
pub(crate) struct WhereTo {
    /// Servers, with a name if there are several such flags. Connections are spread over the servers. With tls://
    /// before the first server they go through TLS.
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
    /// Where they live. A znode that is there and was not made by this program is refused.
    #[arg(long, default_value = "/bench", value_name = "PATH", value_parser = root_path)]
    pub(crate) root: String,
    /// How many znodes get, set, exists, multi and mixed work on.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PARENTS_MAX * LEAVES_PER_PARENT)))]
    pub(crate) keys: u32,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = value_bytes)]
    pub(crate) value_bytes: usize,
}

/// How the load looks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Load")]
pub(crate) struct Shape {
    /// Connections, each with a session of its own.
    #[arg(long, default_value_t = CONNECTIONS, value_name = "N", value_parser = at_least_one)]
    pub(crate) connections: usize,
    /// Requests that each connection keeps in flight.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = at_least_one)]
    pub(crate) depth: usize,
    /// How often each key is used.
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    pub(crate) distribution: Distribution,
    /// Reads among a hundred operations of the workload mixed.
    #[arg(long, default_value_t = 90, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) read_percent: u8,
    /// Children of each znode that the workload children lists.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) children: u32,
    /// Parents over which create, delete and ephemeral spread their znodes.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PARENTS_MAX)))]
    pub(crate) parents: u32,
    /// How long a round measures.
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = some_seconds)]
    pub(crate) duration: Duration,
    /// How long each round runs before it measures.
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) warmup: Duration,
    /// Rounds for each target; the median counts.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = at_least_one)]
    pub(crate) rounds: usize,
    /// Threads of the load generator. One is enough for servers of a few cores.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = at_least_one)]
    pub(crate) threads: usize,
    /// Measure a server that only answers as well, as target `echo`: the limit of this machine.
    #[arg(long)]
    pub(crate) echo: bool,
    /// The keys are there, from `herdsman bench fill` or an earlier run with --keep: use them and leave them.
    #[arg(long)]
    pub(crate) filled: bool,
    /// Leave all znodes there.
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// What is printed.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// Write the report to a file as well, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Draw the report into a file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// What is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns, for people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// A value larger than a server takes by default would only measure its refusal.
const VALUE_BYTES_MAX: usize = 1_000_000;

fn value_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if bytes <= VALUE_BYTES_MAX => Ok(bytes),
        _ => Err(format!("a number from 0 to {VALUE_BYTES_MAX}: servers refuse larger requests")),
    }
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=100_000).contains(&number) => Ok(number),
        _ => Err("a number from 1 to 100000".to_owned()),
    }
}

/// A time that is not 0.
fn some_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(|time| match time {
        Duration::ZERO => Err("a time above 0 seconds".to_owned()),
        time => Ok(time),
    })
}

/// A time in seconds, with or without a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.parse().map_err(|_| "a number of seconds, for example 2.5".to_owned())?;
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|time| *time <= Duration::from_secs(86_400))
        .ok_or_else(|| "a time from 0 to 86400 seconds".to_owned())
}

fn root_path(text: &str) -> Result<String, String> {
    let below = text.strip_prefix(path::ZOOKEEPER);
    if text == path::ROOT || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Err("this belongs to the servers; name a znode of your own, as /bench".to_owned());
    }
    if !path::is_valid(text) {
        return Err("not a path of a znode, as /bench".to_owned());
    }
    Ok(text.to_owned())
}

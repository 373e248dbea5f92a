//! `herdsman bench roofline`: what this machine can do at best, as a report of its own.
//!
//! Two limits. The echo server says how many requests and replies get through the network stack and the load
//! generator; no server with the same framing answers more. The disk loop says how many small appends can be made
//! durable; no server that syncs answers more writes than that times what it puts into a batch.

mod disk;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use herdsman_protection::TlsArguments;

use crate::arguments::{Arguments, Output, Shape, WhereTo, Znodes};
use crate::keys::Distribution;
use crate::machine::this_machine;
use crate::progress::Progress;
use crate::report::{Report, Row};
use crate::stop::Stop;
use crate::suite;
use crate::workload::Workload;
use disk::DiskLoop;

/// Appends for each sync of the second series.
const BATCH_APPENDS: usize = 64;
/// Znodes that requests to the echo server name; it has none.
const KEYS: u32 = 1000;
const VALUE_BYTES: usize = 100;

/// Measure the limits of this machine: a server that only answers, and the disk.
#[derive(Clone, Debug, clap::Args)]
pub struct RooflineArgs {
    /// Where the disk is measured: the directory of a server's logs. A file of up to 512 MiB is made there and
    /// removed.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) data_dir: PathBuf,
    /// Bytes of an append.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = append_bytes)]
    pub(crate) append_bytes: usize,
    /// Connections to the echo server, beside a single one.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = crate::arguments::at_least_one)]
    pub(crate) connections: usize,
    /// Requests that each connection keeps in flight, beside a single one.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = crate::arguments::at_least_one)]
    pub(crate) depth: usize,
    /// How long each of the measurements takes.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = crate::arguments::seconds)]
    pub(crate) duration: Duration,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Measures. When it is stopped, the report holds what there was until then.
pub fn run_roofline(args: &RooflineArgs, progress: Progress, stop: &Stop) -> Result<Report> {
    // First, because a directory that is wrong should be said at once.
    let disk = DiskLoop { dir: &args.data_dir, bytes: args.append_bytes, duration: args.duration };
    let meter = progress.waiting("appending and syncing");
    let limit = disk.run(BATCH_APPENDS, stop)?;
    drop(meter);
    let mut report = Report { machine: this_machine(), rows: Vec::new(), disk: limit };
    for (connections, depth) in shapes(args) {
        if !stop.is_asked() {
            report.rows.extend(measure_echo(args, connections, depth, progress, stop)?);
        }
    }
    Ok(report)
}

/// One request at a time, one on each connection, and all at once.
fn shapes(args: &RooflineArgs) -> Vec<(usize, usize)> {
    let mut shapes = vec![(1, 1), (args.connections, 1), (args.connections, args.depth)];
    shapes.dedup();
    shapes
}

fn measure_echo(
    args: &RooflineArgs,
    connections: usize,
    depth: usize,
    progress: Progress,
    stop: &Stop,
) -> Result<Vec<Row>> {
    let arguments = Arguments {
        command: None,
        workloads: vec![Workload::Get, Workload::Set],
        where_to: WhereTo { targets: Vec::new(), tls: TlsArguments::default() },
        znodes: Znodes { root: "/bench".to_owned(), keys: KEYS, value_bytes: VALUE_BYTES },
        shape: Shape {
            connections,
            depth,
            distribution: Distribution::default(),
            read_percent: 0,
            children: 0,
            parents: 1,
            duration: args.duration,
            warmup: args.duration.min(Duration::from_secs(1)) / 2,
            rounds: 1,
            threads: 1,
            echo: true,
            filled: false,
            keep: false,
        },
        output: args.output.clone(),
    };
    Ok(suite::measure(&arguments, progress, stop)?.rows)
}

fn append_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if (1..=1 << 20).contains(&bytes) => Ok(bytes),
        _ => Err("a number from 1 to 1048576".to_owned()),
    }
}

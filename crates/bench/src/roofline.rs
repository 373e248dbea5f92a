//! `herdsman bench roofline`: a report of the limits of this machine.
//!
//! There are two limits. The echo server shows how many requests and replies get through the network stack and the
//! load generator; no server with the same framing can handle more. The disk loop shows how many small appends can
//! be made durable; a server that syncs can handle at most that number of batches.

mod disk;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use herdsman_protection::TlsArguments;

use crate::arguments::{Arguments, Output, Shape, TargetArguments, Znodes};
use crate::keys::Distribution;
use crate::machine::this_machine;
use crate::progress::Progress;
use crate::report::{Report, Row};
use crate::stop::Stop;
use crate::suite;
use crate::workload::Workload;
use disk::DiskLoop;

/// Number of appends for each sync of the second series.
const BATCH_APPENDS: usize = 64;
/// Number of znodes in requests to the echo server, which has none.
const KEYS: u32 = 1000;
const VALUE_BYTES: usize = 100;

/// Measure the limits of this machine: a server that only replies, and the disk.
#[derive(Clone, Debug, clap::Args)]
pub struct RooflineArgs {
    /// Directory on the disk to measure, such as that of a server's logs. A file of up to 512 MiB is created there
    /// and removed.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) data_dir: PathBuf,
    /// Size of an append in bytes.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = append_bytes)]
    pub(crate) append_bytes: usize,
    /// Number of connections to the echo server; a single one is also measured.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = crate::arguments::at_least_one)]
    pub(crate) connections: usize,
    /// Number of requests that each connection keeps in flight; a single one is also measured.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = crate::arguments::at_least_one)]
    pub(crate) depth: usize,
    /// Duration of each measurement.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = crate::arguments::seconds)]
    pub(crate) duration: Duration,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Measures the limits. When it is stopped, the report contains the results so far.
pub fn run_roofline(args: &RooflineArgs, progress: Progress, stop: &Stop) -> Result<Report> {
    // First, so that a wrong directory is reported at once.
    let disk = DiskLoop { dir: &args.data_dir, bytes: args.append_bytes, duration: args.duration };
    let meter = progress.waiting("appending and syncing");
    let limit = disk.run(BATCH_APPENDS, stop)?;
    drop(meter);
    let mut report = Report { machine: this_machine(), rows: Vec::new(), disk: limit };
    for (connections, depth) in shapes(args) {
        if !stop.is_requested() {
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
        target_arguments: TargetArguments { targets: Vec::new(), tls: TlsArguments::default() },
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
        _ => Err("expected a number from 1 to 1048576".to_owned()),
    }
}

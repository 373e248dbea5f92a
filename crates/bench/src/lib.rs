//! `herdsman bench`: a load generator for ZooKeeper servers, with several targets in one run, and the limits of the
//! machine next to every result.
//!
//! In: the servers, and the parameters of a load. Out: a [`report::Report`], as a table, as JSON or as a plot. It
//! uses raw connections and not the client library, so that the server is measured and not the client.
//!
//! A run: [`measure`] (`suite.rs`) prepares the znodes (`setup.rs`) and interleaves the rounds of the targets; a
//! round (`round.rs`) opens connections (`dial.rs`), and the closed loop (`closed_loop.rs`) keeps requests in flight
//! on them (`lane.rs`). A workload (`workload/`, behind the trait in `load.rs`) creates the requests and checks the
//! replies. The counts (`tally.rs`) become a row of the report.
//!
//! Deliberately not here: an open loop with a fixed rate, logins, reconnecting.
//! Apache: `GenerateLoad`, among its system tests.

mod arguments;
mod closed_loop;
mod dial;
pub mod echo;
mod keys;
mod lane;
mod load;
mod machine;
mod names;
mod output;
mod progress;
mod protection;
pub mod report;
mod roofline;
mod round;
mod script;
mod seen_versions;
mod setup;
mod spawned_echo;
mod stop;
mod suite;
mod sweep;
mod tally;
mod target;
mod template;
mod threads;
mod values;
mod wire;
mod workload;

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Result, ensure};

pub use arguments::Arguments;
pub use keys::Distribution;
pub use machine::this_machine;
pub use progress::Progress;
pub use stop::Stop;
pub use suite::measure;
pub use target::TargetSpec;
pub use workload::Workload;

use arguments::{Command, Output};
use output::Printed;
use report::Report;
use stop::EXIT_CODE_INTERRUPTED;

/// Runs `herdsman bench` with the process's standard streams.
#[must_use]
pub fn run(arguments: &Arguments) -> ExitCode {
    let stop = match &arguments.command {
        // The echo server has nothing to clean up, so signals end the process.
        Some(Command::EchoServer(_)) => Ok(Stop::never()),
        _ => Stop::on_signals(),
    };
    let stop = match stop {
        Ok(stop) => stop,
        Err(error) => return report_error(&error, EXIT_CODE_IMPOSSIBLE),
    };
    match execute(arguments, &stop) {
        Ok(code) => code,
        Err(error) if stop.is_requested() => report_error(&error, EXIT_CODE_INTERRUPTED),
        Err(error) => report_error(&error, EXIT_CODE_IMPOSSIBLE),
    }
}

/// Nothing could be measured.
const EXIT_CODE_IMPOSSIBLE: u8 = 2;
const EXIT_CODE_OUTPUT_CLOSED: u8 = 141;

fn report_error(error: &anyhow::Error, code: u8) -> ExitCode {
    // Fails if standard error is closed.
    let _ = writeln!(io::stderr(), "herdsman: {error:#}");
    ExitCode::from(code)
}

fn execute(arguments: &Arguments, stop: &Stop) -> Result<ExitCode> {
    let progress = Progress::on_stderr();
    match &arguments.command {
        Some(Command::EchoServer(arguments)) => {
            echo::run_echo(arguments)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Fill(arguments)) => {
            suite::fill(arguments, progress, stop)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Roofline(arguments)) => {
            output::check_paths(&arguments.output)?;
            let report = roofline::run_roofline(arguments, progress, stop)?;
            finish(&report, &arguments.output, stop)
        }
        None => {
            output::check_paths(&arguments.output)?;
            let report = measure(arguments, progress, stop)?;
            ensure!(!report.rows.is_empty(), "interrupted before anything was measured");
            finish(&report, &arguments.output, stop)
        }
    }
}

fn finish(report: &Report, output: &Output, stop: &Stop) -> Result<ExitCode> {
    match output::deliver(report, output)? {
        Printed::Whole => Ok(exit_code(report, stop)),
        Printed::OutputClosed => Ok(ExitCode::from(EXIT_CODE_OUTPUT_CLOSED)),
    }
}

fn exit_code(report: &Report, stop: &Stop) -> ExitCode {
    let has_errors = report.rows.iter().flat_map(|row| &row.rounds).any(|round| round.errors > 0);
    match (stop.is_requested(), has_errors) {
        (true, _) => ExitCode::from(EXIT_CODE_INTERRUPTED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}

//! `herdsman bench`: load for ZooKeeper servers, several of them in one run, with the limits of the machine
//! beside every result.
//!
//! In: the names of servers, and the shape of a load. Out: a [`report::Report`], as a table, as JSON or as a
//! picture. Raw connections, no client library: what is measured should be the server.
//!
//! How a run goes: [`measure`] (`suite.rs`) prepares the znodes (`stage.rs`) and lets the targets take turns;
//! a round (`round.rs`) opens connections (`dial.rs`), and the closed loop (`closed_loop.rs`) keeps requests
//! in flight on them (`lane.rs`) that a workload (`workload/`, behind the trait in `load.rs`) makes and whose
//! replies it judges. What was counted (`tally.rs`) becomes a row of the report.
//!
//! Deliberately not here: an open loop with a given rate, logins, reconnecting.
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
mod parts;
mod progress;
mod protection;
pub mod report;
mod roofline;
mod round;
mod script;
mod sight;
mod spawned_echo;
mod stage;
mod stop;
mod suite;
mod sweep;
mod tally;
mod target;
mod template;
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

/// Runs `herdsman bench` on the process's own streams.
#[must_use]
pub fn run(arguments: &Arguments) -> ExitCode {
    let stop = match &arguments.command {
        // It has nothing to clean up, so signals end it as they end any process.
        Some(Command::EchoServer(_)) => Ok(Stop::never()),
        _ => Stop::on_signals(),
    };
    let stop = match stop {
        Ok(stop) => stop,
        Err(error) => return complain(&error, EXIT_CODE_IMPOSSIBLE),
    };
    match execute(arguments, &stop) {
        Ok(code) => code,
        Err(error) if stop.is_asked() => complain(&error, EXIT_CODE_INTERRUPTED),
        Err(error) => complain(&error, EXIT_CODE_IMPOSSIBLE),
    }
}

/// It could not be done at all.
const EXIT_CODE_IMPOSSIBLE: u8 = 2;
const EXIT_CODE_READER_GONE: u8 = 141;

fn complain(error: &anyhow::Error, code: u8) -> ExitCode {
    // Whoever closed standard error does not want to know.
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
            output::check_places(&arguments.output)?;
            let report = roofline::run_roofline(arguments, progress, stop)?;
            finish(&report, &arguments.output, stop)
        }
        None => {
            output::check_places(&arguments.output)?;
            let report = measure(arguments, progress, stop)?;
            ensure!(!report.rows.is_empty(), "interrupted before anything was measured");
            finish(&report, &arguments.output, stop)
        }
    }
}

fn finish(report: &Report, output: &Output, stop: &Stop) -> Result<ExitCode> {
    match output::deliver(report, output)? {
        Printed::Whole => Ok(exit_code(report, stop)),
        Printed::ReaderGone => Ok(ExitCode::from(EXIT_CODE_READER_GONE)),
    }
}

fn exit_code(report: &Report, stop: &Stop) -> ExitCode {
    let has_errors = report.rows.iter().flat_map(|row| &row.rounds).any(|round| round.errors > 0);
    match (stop.is_asked(), has_errors) {
        (true, _) => ExitCode::from(EXIT_CODE_INTERRUPTED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}

//! `herdsman recipe monitor`: publishes the status of a machine, or watches all machines.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use herdsman_client::Client;
use herdsman_recipes::monitor::{Machine, Monitor, MonitorEvent, Reporter};
use serde_json::Value;
use tokio::sync::mpsc;

use super::config::json;
use super::input::lines_of_stdin;
use super::outcome::{Interrupted, Outcome, help};
use super::output::print_line;
use super::positive_seconds;
use super::release;

pub(super) const EXAMPLES: &str = "\
  herdsman recipe monitor report /machines m1 '{\"load\": 0.5}'      # again every 10 s
  ./measure.sh | herdsman recipe monitor report /machines m1       # each line is a status
  herdsman recipe monitor watch /machines --stale-after 30";

/// Publish the status of a machine, or watch machines join, report, become stale and leave.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Publish a status until Ctrl-C; without a status, publish each line of standard input until its end.
    #[command(after_help = help(EXAMPLES))]
    Report {
        /// Path below which the machines are.
        path: String,
        /// The machine's name.
        machine: String,
        /// Its status, as JSON.
        #[arg(value_name = "JSON", value_parser = json)]
        status: Option<Value>,
        /// Publish the last status again after this time, to show that the machine is alive.
        #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = positive_seconds)]
        every: Duration,
    },
    /// Print machines that join (+), report (~), become stale (!) and leave (-), until Ctrl-C.
    #[command(after_help = help(EXAMPLES))]
    Watch {
        /// Path below which the machines are.
        path: String,
        /// Time after which a machine that has not reported is stale.
        #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = positive_seconds)]
        stale_after: Duration,
    },
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    match &arguments.action {
        Action::Report { path, machine, status: Some(status), every } => {
            let reporter = tokio::select! {
                started = Reporter::start(zk, path, machine, status) => started?,
                () = interrupted.wait() => return Ok(Outcome::Interrupted),
            };
            print_line(format_args!("{machine} reports to {path}; Ctrl-C stops it"))?;
            let reported = tokio::select! {
                reported = repeat(&reporter, *every) => reported,
                () = interrupted.wait() => Ok(()),
            };
            finish(reporter, reported, machine).await
        }
        Action::Report { path, machine, status: None, .. } => {
            report_lines(zk, path, machine, interrupted).await
        }
        Action::Watch { path, stale_after } => watch(zk, path, *stale_after, interrupted).await,
    }
}

/// Never ends without an error.
async fn repeat(reporter: &Reporter<Value>, every: Duration) -> Result<()> {
    loop {
        tokio::time::sleep(every).await;
        reporter.beat().await?;
    }
}

async fn report_lines(
    zk: &Client,
    path: &str,
    machine: &str,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let mut lines = lines_of_stdin();
    let reporter = tokio::select! {
        started = start_with_first(zk, path, machine, &mut lines) => started?,
        () = interrupted.wait() => return Ok(Outcome::Interrupted),
    };
    let Some(reporter) = reporter else { return Ok(Outcome::Done) };
    print_line(format_args!("{machine} reports to {path}; Ctrl-C stops it"))?;
    let reported = tokio::select! {
        reported = publish_each(&reporter, &mut lines) => reported,
        () = interrupted.wait() => Ok(()),
    };
    finish(reporter, reported, machine).await
}

type Lines = mpsc::Receiver<std::io::Result<Vec<u8>>>;

/// `None` if there is no first line.
async fn start_with_first(
    zk: &Client,
    path: &str,
    machine: &str,
    lines: &mut Lines,
) -> Result<Option<Reporter<Value>>> {
    let Some(first) = next_status(lines).await? else { return Ok(None) };
    Ok(Some(Reporter::start(zk, path, machine, &first).await?))
}

async fn publish_each(reporter: &Reporter<Value>, lines: &mut Lines) -> Result<()> {
    while let Some(status) = next_status(lines).await? {
        reporter.publish(&status).await?;
    }
    Ok(())
}

async fn next_status(lines: &mut Lines) -> Result<Option<Value>> {
    let Some(line) = lines.recv().await else { return Ok(None) };
    let line = line.context("reading standard input")?;
    let status = serde_json::from_slice(&line);
    status.context("a line of standard input is not JSON; each line must be one status").map(Some)
}

/// Removes the machine's node, also after an error.
async fn finish(reporter: Reporter<Value>, ended: Result<()>, machine: &str) -> Result<Outcome> {
    let closed = release(reporter.close()).await;
    ended?;
    if let Some(closed) = closed {
        closed?;
        print_line(format_args!("{machine} has stopped reporting"))?;
    }
    Ok(Outcome::Done)
}

async fn watch(
    zk: &Client,
    path: &str,
    stale_after: Duration,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let mut monitor: Monitor<Value> = Monitor::open(zk, path, stale_after).await?;
    loop {
        let event = tokio::select! {
            event = monitor.next() => event,
            () = interrupted.wait() => return Ok(Outcome::Done),
        };
        match event {
            Some(MonitorEvent::Joined(machine)) => {
                print_line(format_args!("+ {}", describe(&machine)))?;
            }
            Some(MonitorEvent::Updated(machine)) => {
                print_line(format_args!("~ {}", describe(&machine)))?;
            }
            Some(MonitorEvent::Stale(machine)) => {
                print_line(format_args!("! {}", describe(&machine)))?;
            }
            Some(MonitorEvent::Left(machine)) => {
                print_line(format_args!("- {}", describe(&machine)))?;
            }
            Some(other) => print_line(format_args!("{other:?}"))?,
            None => return Ok(Outcome::Lost),
        }
    }
}

fn describe(machine: &Machine<Value>) -> String {
    match &machine.report {
        Ok(report) => format!("{} {}", machine.id, report.status),
        Err(error) => format!("{} cannot be read: {error}", machine.id),
    }
}

//! `herdsman recipe barrier`: a simple barrier, and a double barrier around a command.

use std::ffi::OsString;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand, value_parser};
use herdsman_client::Client;
use herdsman_recipes::barrier::Inside;
use herdsman_recipes::{Barrier, DoubleBarrier, Error};

use super::command::run_while;
use super::outcome::{Interrupted, Outcome, help};
use super::output::print_line;
use super::{seconds, timed_out};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe barrier close /gate
  herdsman recipe barrier wait /gate --timeout 60
  herdsman recipe barrier open /gate
  herdsman recipe barrier together /start --count 2 -- ./run.sh";

/// Close, open or wait at a barrier; or start and end together with other processes.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Close the barrier.
    #[command(after_help = help(EXAMPLES))]
    Close {
        /// The barrier's path.
        path: String,
    },
    /// Open the barrier; all waiting clients continue.
    #[command(after_help = help(EXAMPLES))]
    Open {
        /// The barrier's path.
        path: String,
    },
    /// Wait until the barrier is open.
    #[command(after_help = help(EXAMPLES))]
    Wait {
        /// The barrier's path.
        path: String,
        /// Give up after this time.
        #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
        timeout: Option<Duration>,
    },
    /// Start together with other processes, run a command, and end together with them.
    #[command(after_help = help(EXAMPLES))]
    Together {
        /// The barrier's path.
        path: String,
        /// Number of participants.
        #[arg(long, short = 'c', value_name = "NUMBER")]
        #[arg(value_parser = value_parser!(u32).range(1..))]
        count: u32,
        /// Give up after waiting this long for the other participants.
        #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
        timeout: Option<Duration>,
        /// The command and its arguments; without one, only enters and leaves the barrier.
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    match &arguments.action {
        Action::Close { path } => interrupted.or(close(zk, path)).await,
        Action::Open { path } => interrupted.or(open(zk, path)).await,
        Action::Wait { path, timeout } => {
            let barrier = Barrier::new(zk, path);
            match in_time(*timeout, barrier.wait(), interrupted).await? {
                Continue(()) => print_line(format_args!("{path} is open")).map(|()| Outcome::Done),
                Break(outcome) => Ok(outcome),
            }
        }
        Action::Together { path, count, timeout, command } => {
            let barrier = DoubleBarrier::new(zk, path.as_str(), *count)?;
            print_line(format_args!("waiting for {count} participants at {path}"))?;
            let inside = match in_time(*timeout, barrier.enter(), interrupted).await? {
                Continue(inside) => inside,
                Break(outcome) => return Ok(outcome),
            };
            print_line("all have entered")?;
            together(inside, *timeout, command, interrupted).await
        }
    }
}

async fn close(zk: &Client, path: &str) -> Result<Outcome> {
    Barrier::new(zk, path).close().await?;
    print_line(format_args!("closed {path}"))?;
    Ok(Outcome::Done)
}

async fn open(zk: &Client, path: &str) -> Result<Outcome> {
    Barrier::new(zk, path).open().await?;
    print_line(format_args!("opened {path}"))?;
    Ok(Outcome::Done)
}

async fn together(
    inside: Inside,
    limit: Option<Duration>,
    command: &[OsString],
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let mut outcome = Outcome::Done;
    if !command.is_empty() {
        outcome = run_while(command, &[], inside.lost(), interrupted).await?;
        // The end of the session takes us out of the barrier; a user who interrupts does not want to wait.
        if outcome == Outcome::Lost || interrupted.happened() {
            return Ok(outcome);
        }
    }
    match in_time(limit, inside.leave(), interrupted).await? {
        Continue(()) => print_line("all have left").map(|()| outcome),
        Break(outcome) => Ok(outcome),
    }
}

/// Returns the result of `work`, or the outcome if it timed out or the user interrupted it.
async fn in_time<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, Error>>,
    interrupted: &mut Interrupted,
) -> Result<ControlFlow<Outcome, T>> {
    tokio::select! {
        done = work => Ok(Continue(done?)),
        () = timed_out(limit) => {
            eprintln!("herdsman: timed out waiting at the barrier");
            Ok(Break(Outcome::Negative))
        }
        () = interrupted.wait() => Ok(Break(Outcome::Interrupted)),
    }
}

//! `herdsman recipe locks`: shows the holders and waiters of locks, and deadlocks.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use herdsman_client::Client;
use herdsman_recipes::lock::{DeadlockWatchdog, Remedy, find_deadlocks, find_locks, read_queues};
use herdsman_recipes::wait_for::{Contender, ContenderState, LockKind};

use super::outcome::Outcome;
use super::output::print_line;

pub(super) const EXAMPLES: &str = "\
  herdsman recipe locks /locks
  herdsman recipe locks /locks --watch --interval 1
  herdsman recipe locks /locks --watch --revoke-youngest";

/// Show the holders and waiters of the locks below a path, and find deadlocks.
#[derive(Args)]
pub(super) struct Arguments {
    /// Path at or below which the locks are.
    #[arg(default_value = "/")]
    root: String,
    /// Keep looking for deadlocks until Ctrl-C, and print each one when it is found.
    #[arg(long)]
    watch: bool,
    /// With --watch: time between two searches.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = super::seconds, requires = "watch")]
    interval: Duration,
    /// With --watch: ask the youngest holder in each deadlock to release its lock (Curator's revocation; holders may
    /// ignore it).
    #[arg(long, requires = "watch")]
    revoke_youngest: bool,
}

pub(super) async fn run(zk: &Client, arguments: &Arguments) -> Result<Outcome> {
    if arguments.watch {
        return watch(zk, arguments).await;
    }
    let locks = find_locks(zk, &arguments.root).await?;
    if locks.is_empty() {
        print_line(format_args!("no locks at or below {}", arguments.root))?;
        return Ok(Outcome::Done);
    }
    for queue in read_queues(zk, &locks).await? {
        print_line(&queue.path)?;
        for contender in &queue.contenders {
            print_line(format_args!("  {}", describe(contender)))?;
        }
    }
    let deadlocks = find_deadlocks(zk, &locks).await?;
    for deadlock in &deadlocks {
        print_line(format_args!("deadlock: {deadlock}"))?;
    }
    Ok(if deadlocks.is_empty() { Outcome::Done } else { Outcome::Negative })
}

/// Never ends by itself.
async fn watch(zk: &Client, arguments: &Arguments) -> Result<Outcome> {
    let remedy = if arguments.revoke_youngest { Remedy::RevokeYoungest } else { Remedy::Report };
    let watchdog = DeadlockWatchdog::new(zk, &arguments.root)?;
    let mut watchdog = watchdog.interval(arguments.interval).remedy(remedy);
    loop {
        let found = watchdog.next().await?;
        print_line(format_args!("deadlock: {}", found.deadlock))?;
        if let Some((path, _)) = found.asked {
            print_line(format_args!("asked to release: {path}"))?;
        }
    }
}

fn describe(contender: &Contender) -> String {
    let state = match contender.state {
        ContenderState::Holds => "holds",
        ContenderState::Waits => "waits",
    };
    let kind = match contender.kind {
        LockKind::Read => " (to read)",
        LockKind::Write => "",
    };
    format!("{state} {}{kind}", contender.owner)
}

//! `herdsman recipe locks`: who holds which lock, who waits, and whether they wait in a circle.

use anyhow::Result;
use clap::Args;
use herdsman_client::Client;
use herdsman_recipes::lock::{find_deadlocks, find_locks, read_queues};
use herdsman_recipes::wait_for::{Contender, LockKind, Standing};

use super::outcome::Outcome;
use super::output::say;

/// Show who holds the locks below a path and who waits for them, and find deadlocks.
#[derive(Args)]
pub(super) struct Arguments {
    /// Where to look; all locks at this path and below it.
    #[arg(default_value = "/")]
    root: String,
}

pub(super) async fn run(zk: &Client, arguments: &Arguments) -> Result<Outcome> {
    let locks = find_locks(zk, &arguments.root).await?;
    if locks.is_empty() {
        say(format_args!("no locks at or below {}", arguments.root))?;
        return Ok(Outcome::Done);
    }
    for queue in read_queues(zk, &locks).await? {
        say(&queue.path)?;
        for contender in &queue.contenders {
            say(format_args!("  {}", describe(contender)))?;
        }
    }
    let deadlocks = find_deadlocks(zk, &locks).await?;
    for deadlock in &deadlocks {
        say(format_args!("deadlock: {deadlock}"))?;
    }
    Ok(if deadlocks.is_empty() { Outcome::Done } else { Outcome::Negative })
}

fn describe(contender: &Contender) -> String {
    let standing = match contender.standing {
        Standing::Holds => "holds",
        Standing::Waits => "waits",
    };
    let kind = match contender.kind {
        LockKind::Read => " (to read)",
        LockKind::Write => "",
    };
    format!("{standing} {}{kind}", contender.owner)
}

//! Something that is held by an ephemeral node, a lock or a permit: how long to wait for it, and what happens while
//! it is held.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use herdsman_recipes::{Guard, HoldOptions, LostWhen};

use super::command::run_while;
use super::outcome::{Interrupted, Outcome};
use super::output::say;
use super::seconds;

/// How long to wait for it.
#[derive(Args)]
pub(super) struct Waiting {
    /// Give up after waiting for this time.
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Do not wait: give up if it is not free.
    #[arg(long, short = 'n', conflicts_with = "timeout")]
    no_wait: bool,
}

/// No limit is a limit that nobody lives to see.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl Waiting {
    pub(super) fn limit(&self) -> Duration {
        if self.no_wait { Duration::ZERO } else { self.timeout.unwrap_or(FOREVER) }
    }
}

/// Options for commands: the guard survives a fail-over, and others read this text about the owner.
pub(super) fn options(owner: Option<&str>) -> HoldOptions {
    let options = HoldOptions::new().lost_when(LostWhen::SessionTimedOut);
    match owner {
        Some(owner) => options.owner(owner),
        None => options,
    }
}

/// Runs the command while it is held, or holds it until Ctrl-C. The command finds the node's path in the variable
/// `node_variable`.
pub(super) async fn hold<G: Guard>(
    held: &G,
    node_variable: &str,
    command: &[OsString],
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    if !command.is_empty() {
        let environment = [
            (node_variable, held.path().to_owned()),
            ("HERDSMAN_FENCING_TOKEN", held.token().to_string()),
        ];
        return run_while(command, &environment, held.lost(), interrupted).await;
    }
    say(format_args!("holding {} with token {}; Ctrl-C releases it", held.path(), held.token()))?;
    tokio::select! {
        () = held.lost() => {
            eprintln!("herdsman: lost {}", held.path());
            Ok(Outcome::Lost)
        }
        () = interrupted.wait() => {
            // The session ends with the process, and the node with the session.
            say("releasing it")?;
            Ok(Outcome::Done)
        }
    }
}

//! Locks and permits, which are held by an ephemeral node: the flags for how long to wait, and what runs while one is
//! held.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use herdsman_recipes::{Guard, HoldOptions, LostWhen};

use super::command::run_while;
use super::outcome::{Interrupted, Outcome};
use super::output::print_line;
use super::seconds;

/// How long to wait for a lock or a permit.
#[derive(Args)]
pub(super) struct WaitArguments {
    /// Give up after this time.
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Give up at once if it is not free.
    #[arg(long, short = 'n', conflicts_with = "timeout")]
    no_wait: bool,
}

/// The limit without a flag, which is as good as none.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl WaitArguments {
    pub(super) fn limit(&self) -> Duration {
        if self.no_wait { Duration::ZERO } else { self.timeout.unwrap_or(FOREVER) }
    }
}

/// Options for commands: the guard survives a fail-over, and the node contains this text about its owner.
pub(super) fn options(owner: Option<&str>) -> HoldOptions {
    let options = HoldOptions::new().lost_when(LostWhen::SessionTimedOut);
    match owner {
        Some(owner) => options.owner(owner),
        None => options,
    }
}

/// Holds a lock or a permit while the command runs, or until Ctrl-C. The command gets the node's path in the
/// environment variable `node_variable`.
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
    print_line(format_args!(
        "holding {} with token {}; press Ctrl-C to release it",
        held.path(),
        held.token()
    ))?;
    tokio::select! {
        () = held.lost() => {
            eprintln!("herdsman: lost {}", held.path());
            Ok(Outcome::Lost)
        }
        () = interrupted.wait() => {
            // Closing the session deletes the node.
            print_line("releasing it")?;
            Ok(Outcome::Done)
        }
    }
}

//! `herdsman recipe semaphore`: holds one of a limited number of permits, for a command or until Ctrl-C.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use anyhow::Result;
use clap::Args;
use herdsman_client::Client;
use herdsman_recipes::{Error, Semaphore};

use super::holding::{WaitArguments, hold, options};
use super::outcome::{Interrupted, Outcome};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe semaphore /limits/downloads --permits 3 -- ./download.sh
  herdsman recipe semaphore /limits/downloads --permits 3 --no-wait -- ./download.sh
  herdsman recipe semaphore /limits/downloads --permits 3      # until Ctrl-C";

/// Hold one of a limited number of permits while a command runs, or until Ctrl-C.
///
/// The command gets the path of the permit's node in HERDSMAN_PERMIT_NODE and the fencing token, a number that
/// increases from permit to permit, in HERDSMAN_FENCING_TOKEN. When the permit is lost while the command runs, the
/// command gets SIGTERM, and SIGKILL if it has not ended ten seconds later.
#[derive(Args)]
pub(super) struct Arguments {
    /// The semaphore's path.
    path: String,
    /// The number of permits. It is not stored: all clients must give the same number.
    #[arg(long, short, value_name = "NUMBER")]
    permits: NonZeroUsize,
    #[command(flatten)]
    waiting: WaitArguments,
    /// Description of the holder, shown to other clients; by default the host name and the process id.
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// The command and its arguments; without one, holds the permit until Ctrl-C.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let permits = arguments.permits.get();
    let options = options(arguments.owner.as_deref());
    let semaphore = Semaphore::new(zk, &arguments.path, permits)?.options(&options);
    let acquired = tokio::select! {
        acquired = semaphore.acquire_within(arguments.waiting.limit()) => acquired,
        () = interrupted.wait() => return Ok(Outcome::Interrupted),
    };
    match acquired {
        Ok(permit) => hold(&permit, "HERDSMAN_PERMIT_NODE", &arguments.command, interrupted).await,
        Err(Error::TimedOut) => {
            eprintln!("herdsman: all {permits} permits of {} are in use", arguments.path);
            Ok(Outcome::Negative)
        }
        Err(error) => Err(error.into()),
    }
}

//! `herdsman recipe lock`: holds a lock, for a command or until Ctrl-C.

use std::ffi::OsString;

use anyhow::Result;
use clap::{Args, ValueEnum};
use herdsman_client::Client;
use herdsman_recipes::{Error, Guard, Lock, RwLock};

use super::holding::{WaitArguments, hold, options};
use super::outcome::{Interrupted, Outcome};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe lock /locks/deploy -- ./deploy.sh
  herdsman recipe lock /locks/deploy --no-wait -- ./deploy.sh      # exits with 3 if it is held
  herdsman recipe lock /locks/index --mode read --timeout 5 -- ./search.sh
  herdsman recipe lock /locks/deploy                               # until Ctrl-C";

/// Hold a lock while a command runs, as flock does, or until Ctrl-C.
///
/// The command gets the path of the lock's node in HERDSMAN_LOCK_NODE and the fencing token, a number that increases
/// from holder to holder, in HERDSMAN_FENCING_TOKEN. When the lock is lost while the command runs, the command gets
/// SIGTERM, and SIGKILL if it has not ended ten seconds later.
#[derive(Args)]
pub(super) struct Arguments {
    /// The lock's path.
    path: String,
    #[command(flatten)]
    waiting: WaitArguments,
    /// Kind of lock.
    #[arg(long, value_enum, default_value = "exclusive")]
    mode: Mode,
    /// Description of the holder, shown to other clients; by default the host name and the process id.
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// The command and its arguments; without one, holds the lock until Ctrl-C.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// Lock with one holder. Does not exclude the other two modes: do not mix them at one path.
    Exclusive,
    /// Write lock of a read-write lock.
    Write,
    /// Read lock of a read-write lock, shared with other readers.
    Read,
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let limit = arguments.waiting.limit();
    let path = &arguments.path;
    let options = options(arguments.owner.as_deref());
    if let Mode::Exclusive = arguments.mode {
        let lock = Lock::new(zk, path)?.options(&options);
        return acquire_and_hold(lock.acquire_within(limit), arguments, interrupted).await;
    }
    let lock = RwLock::new(zk, path)?.options(&options);
    match arguments.mode {
        Mode::Read => acquire_and_hold(lock.read_within(limit), arguments, interrupted).await,
        Mode::Write | Mode::Exclusive => {
            acquire_and_hold(lock.write_within(limit), arguments, interrupted).await
        }
    }
}

async fn acquire_and_hold<G: Guard>(
    acquiring: impl Future<Output = Result<G, Error>>,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let acquired = tokio::select! {
        acquired = acquiring => acquired,
        () = interrupted.wait() => return Ok(Outcome::Interrupted),
    };
    match acquired {
        Ok(guard) => hold(&guard, "HERDSMAN_LOCK_NODE", &arguments.command, interrupted).await,
        Err(Error::TimedOut) => {
            eprintln!("herdsman: {} is held by another client", arguments.path);
            Ok(Outcome::Negative)
        }
        Err(error) => Err(error.into()),
    }
}

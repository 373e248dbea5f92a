//! `herdsman recipe lock`: holds a lock, for a command or until Ctrl-C.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use herdsman_client::Client;
use herdsman_recipes::{Distrust, Error, Hold, Lock, RwLock};

use super::command::run_while;
use super::outcome::{Interrupted, Outcome};
use super::output::say;
use super::seconds;

/// Hold a lock while a command runs, as flock does, or until Ctrl-C.
///
/// The command finds the lock's node in HERDSMAN_LOCK_NODE and its fencing token, a number that
/// only grows from holder to holder, in HERDSMAN_FENCING_TOKEN. When the lock is lost while the command
/// runs, the command gets SIGTERM, and SIGKILL if that does not end it in ten seconds.
#[derive(Args)]
pub(super) struct Arguments {
    /// The lock's path.
    path: String,
    /// Give up after waiting for this time.
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Do not wait: give up if somebody else holds it.
    #[arg(long, short = 'n', conflicts_with = "timeout")]
    no_wait: bool,
    /// Alone with the lock, or sharing it with other readers.
    #[arg(long, value_enum, default_value = "exclusive")]
    mode: Mode,
    /// What others read about who holds the lock; by default the host's name and the process's id.
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// The command and its arguments; without one, holds the lock until Ctrl-C.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// Nobody else holds it; do not mix it with the other two at one path.
    Exclusive,
    /// A read-write lock, for writing.
    Write,
    /// A read-write lock, for reading.
    Read,
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let limit = if arguments.no_wait { Some(Duration::ZERO) } else { arguments.timeout };
    let acquired = tokio::select! {
        acquired = acquire(zk, arguments, limit) => acquired,
        () = interrupted.wait() => return Ok(Outcome::Interrupted),
    };
    match acquired {
        Ok(guard) => hold(guard.as_ref(), arguments, interrupted).await,
        Err(Error::TimedOut) => {
            eprintln!("herdsman: {} is held by somebody else", arguments.path);
            Ok(Outcome::Negative)
        }
        Err(error) => Err(error.into()),
    }
}

/// A guard of any of the three kinds.
type Guard = Box<dyn AsHold>;

trait AsHold: std::ops::Deref<Target = Hold> {}
impl<T: std::ops::Deref<Target = Hold>> AsHold for T {}

/// No limit is a limit that nobody lives to see.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

async fn acquire(
    zk: &Client,
    arguments: &Arguments,
    limit: Option<Duration>,
) -> Result<Guard, Error> {
    let limit = limit.unwrap_or(FOREVER);
    let path = &arguments.path;
    let owner = arguments.owner.clone();
    if let Mode::Exclusive = arguments.mode {
        let mut lock = Lock::new(zk, path)?.distrust(Distrust::WhenLost);
        if let Some(owner) = owner {
            lock = lock.owner(owner);
        }
        return Ok(Box::new(lock.acquire_within(limit).await?));
    }
    let mut lock = RwLock::new(zk, path)?.distrust(Distrust::WhenLost);
    if let Some(owner) = owner {
        lock = lock.owner(owner);
    }
    Ok(match arguments.mode {
        Mode::Read => Box::new(lock.read_within(limit).await?),
        Mode::Write | Mode::Exclusive => Box::new(lock.write_within(limit).await?),
    })
}

async fn hold(
    held: &dyn AsHold,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    if !arguments.command.is_empty() {
        let environment = [
            ("HERDSMAN_LOCK_NODE", held.path().to_owned()),
            ("HERDSMAN_FENCING_TOKEN", held.token().to_string()),
        ];
        return run_while(&arguments.command, &environment, held.lost(), interrupted).await;
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

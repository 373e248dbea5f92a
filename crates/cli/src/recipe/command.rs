//! A command that runs while something is held, as `flock` runs one; and how commands are started and ended.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::outcome::{Interrupted, Outcome};

/// How long a command has to end after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// Runs `command` until it ends; when `lost` resolves first, or the user interrupts, asks it to end
/// and, after a while, ends it.
pub(super) async fn run_while(
    command: &[OsString],
    environment: &[(&str, String)],
    lost: impl Future<Output = ()>,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let mut child = match spawn(command, environment) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("herdsman: {error:#}");
            return Ok(Outcome::CommandNotRun);
        }
    };
    let status = tokio::select! {
        status = child.wait() => status.context("waiting for the command")?,
        () = lost => {
            eprintln!("herdsman: lost while the command was running; asking it to end");
            end(&mut child, Reach::Process).await?;
            return Ok(Outcome::Lost);
        }
        () = interrupted.wait() => end_interrupted(&mut child, interrupted).await?,
    };
    Ok(Outcome::of_command(status))
}

fn spawn(command: &[OsString], environment: &[(&str, String)]) -> Result<Child> {
    start(command, prepare(command, environment))
}

/// Starts it out of reach of the terminal's Ctrl-C and without input: it is ended by us alone.
pub(super) fn spawn_apart(command: &[OsString], environment: &[(&str, String)]) -> Result<Child> {
    let mut prepared = prepare(command, environment);
    if let Some(prepared) = &mut prepared {
        prepared.process_group(0).stdin(Stdio::null());
    }
    start(command, prepared)
}

/// `None` if there is no command.
pub(super) fn prepare(command: &[OsString], environment: &[(&str, String)]) -> Option<Command> {
    let (program, arguments) = command.split_first()?;
    let mut prepared = Command::new(program);
    prepared.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    prepared.kill_on_drop(true);
    Some(prepared)
}

fn start(command: &[OsString], prepared: Option<Command>) -> Result<Child> {
    let program = command.first().map(|program| program.display().to_string());
    let started = prepared.context("no command was given")?.spawn();
    started.with_context(|| format!("cannot run {}", program.unwrap_or_default()))
}

/// A terminal's Ctrl-C has reached the command as well, which may be about to put things in order;
/// a signal that was sent to us alone has not.
async fn end_interrupted(child: &mut Child, interrupted: &mut Interrupted) -> Result<ExitStatus> {
    if interrupted.reached_command() {
        tokio::select! {
            status = child.wait() => return status.context("waiting for the command"),
            () = sleep(GRACE) => {}
            () = interrupted.wait() => {}
        }
    }
    end(child, Reach::Process).await
}

/// Which processes are asked to end.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// The command's own process.
    Process,
    /// All of its process group, whose first process it is.
    Group,
}

/// Asks it to end and, after a while, ends it.
pub(super) async fn end(child: &mut Child, reach: Reach) -> Result<ExitStatus> {
    send(child, reach, Signal::TERM);
    match timeout(GRACE, child.wait()).await {
        Ok(status) => status.context("waiting for the command"),
        Err(_) => {
            send(child, reach, Signal::KILL);
            child.wait().await.context("waiting for the command")
        }
    }
}

/// It may have ended by itself just now, so that nobody gets the signal.
fn send(child: &Child, reach: Reach, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = match reach {
            Reach::Process => kill_process(pid, signal),
            Reach::Group => kill_process_group(pid, signal),
        };
    }
}

//! Runs a command while a lock or something else is held, as `flock` does; starts and stops commands.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::outcome::{Interrupted, Outcome};

/// How long a command has after SIGTERM before it gets SIGKILL.
const TERM_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs `command` until it ends. When `lost` resolves first, or the user interrupts, stops it with SIGTERM, and then
/// with SIGKILL.
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
            eprintln!("herdsman: lost while the command was running; stopping the command");
            end(&mut child, SignalTarget::Process).await?;
            return Ok(Outcome::Lost);
        }
        () = interrupted.wait() => end_interrupted(&mut child, interrupted).await?,
    };
    Ok(Outcome::of_command(status))
}

fn spawn(command: &[OsString], environment: &[(&str, String)]) -> Result<Child> {
    start(command, prepare(command, environment))
}

/// Starts a command in its own process group and without input, so that only this process stops it and not a Ctrl-C at
/// the terminal.
pub(super) fn spawn_apart(command: &[OsString], environment: &[(&str, String)]) -> Result<Child> {
    let mut prepared = prepare(command, environment);
    if let Some(prepared) = &mut prepared {
        prepared.process_group(0).stdin(Stdio::null());
    }
    start(command, prepared)
}

/// Prepares a command to be started; `None` if `command` is empty.
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

/// Waits for a command that got the terminal's Ctrl-C as well and may be cleaning up; stops it if only this process got
/// the signal.
async fn end_interrupted(child: &mut Child, interrupted: &mut Interrupted) -> Result<ExitStatus> {
    if interrupted.reached_command() {
        tokio::select! {
            status = child.wait() => return status.context("waiting for the command"),
            () = sleep(TERM_TIMEOUT) => {}
            () = interrupted.wait() => {}
        }
    }
    end(child, SignalTarget::Process).await
}

/// Which processes get a signal.
#[derive(Clone, Copy)]
pub(super) enum SignalTarget {
    /// The command's own process.
    Process,
    /// The process group that the command leads.
    Group,
}

/// Stops the command with SIGTERM, and with SIGKILL if that does not end it within [`TERM_TIMEOUT`].
pub(super) async fn end(child: &mut Child, target: SignalTarget) -> Result<ExitStatus> {
    send(child, target, Signal::TERM);
    match timeout(TERM_TIMEOUT, child.wait()).await {
        Ok(status) => status.context("waiting for the command"),
        Err(_) => {
            send(child, target, Signal::KILL);
            child.wait().await.context("waiting for the command")
        }
    }
}

/// Sends a signal; has no effect if the process has just ended by itself.
fn send(child: &Child, target: SignalTarget, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = match target {
            SignalTarget::Process => kill_process(pid, signal),
            SignalTarget::Group => kill_process_group(pid, signal),
        };
    }
}

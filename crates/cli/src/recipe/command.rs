//! A command that runs while something is held, as `flock` runs one.

use std::ffi::OsString;
use std::process::ExitStatus;
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
    let (program, arguments) = command.split_first().context("no command was given")?;
    Command::new(program)
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))
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

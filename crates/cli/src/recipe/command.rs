//! A command that runs while something is held, as `flock` runs one.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
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
            end(&mut child).await?;
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
    end(child).await
}

async fn end(child: &mut Child) -> Result<ExitStatus> {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself just now.
        let _ = kill_process(pid, Signal::TERM);
    }
    match timeout(GRACE, child.wait()).await {
        Ok(status) => status.context("waiting for the command"),
        Err(_) => {
            child.kill().await.context("ending the command")?;
            child.wait().await.context("waiting for the command")
        }
    }
}

//! How a recipe command ends, as an exit code, and how the user interrupts it.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context, Result};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How a recipe command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Success.
    Done,
    /// Timed out, nothing found, another value, a failed task, or a deadlock.
    Negative,
    /// What was held was lost: the session ended, or another client deleted the node.
    Lost,
    /// The command that ran while it was held ended with this code.
    Command(u8),
    /// There is no such command, or running it is not permitted.
    CommandNotRun,
    /// Ctrl-C or SIGTERM, before there was anything to hold or to show.
    Interrupted,
    /// Standard output was closed by its reader.
    OutputClosed,
}

/// The end of the help of all recipes.
const EXIT_CODES: &str = "\
Exit codes:
  0    success, also when Ctrl-C ends holding or watching
  1    failure; the error message says why
  2    wrong usage
  3    negative result: timed out, nothing found, another value, task failed, or deadlock found
  4    lost while held: the session ended or the node was deleted
  127  the command could not be run
  130  interrupted while waiting
  141  standard output was closed
A lock, permit, election or barrier with a command: the command's own code, or 128+N if signal N ended it; 4 if lost.";

/// Returns the end of a help text: the examples (each line but the first is indented) and the exit codes.
pub(super) fn help(examples: &str) -> String {
    format!("Examples:\n  {examples}\n\n{EXIT_CODES}")
}

/// Describes how a command ended.
pub(super) fn describe_end(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (None, Some(signal)) => format!("the command was ended by signal {signal}"),
        (code, _) => format!("the command exited with {}", code.unwrap_or_default()),
    }
}

impl Outcome {
    pub(super) fn of_command(status: ExitStatus) -> Self {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Outcome::Command(u8::try_from(code).unwrap_or(u8::MAX))
    }

    pub(super) fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Outcome::Done => 0,
            Outcome::Negative => 3,
            Outcome::Lost => 4,
            Outcome::Command(code) => code,
            Outcome::CommandNotRun => 127,
            Outcome::Interrupted => 130,
            Outcome::OutputClosed => 141,
        })
    }
}

/// Ctrl-C and SIGTERM, listened for from the start so that none is missed.
pub(super) struct Interrupted {
    interrupt: Signal,
    terminate: Signal,
    last: Option<SignalKind>,
}

impl Interrupted {
    pub(super) fn listen() -> Result<Self> {
        Ok(Interrupted {
            interrupt: signal(SignalKind::interrupt()).context("listening for Ctrl-C")?,
            terminate: signal(SignalKind::terminate()).context("listening for SIGTERM")?,
            last: None,
        })
    }

    /// Resolves at the first of them, and again at each further one. Cancel-safe.
    pub(super) async fn wait(&mut self) {
        self.last = Some(tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        });
    }

    /// Whether [`wait`](Self::wait) has returned at least once.
    pub(super) fn happened(&self) -> bool {
        self.last.is_some()
    }

    /// Whether a command started by this process got the last signal as well: a terminal sends Ctrl-C to all processes
    /// in its foreground.
    pub(super) fn reached_command(&self) -> bool {
        self.last == Some(SignalKind::interrupt()) && in_foreground()
    }

    /// Returns the outcome of `work`, unless the user interrupts it.
    pub(super) async fn or(
        &mut self,
        work: impl Future<Output = Result<Outcome>>,
    ) -> Result<Outcome> {
        tokio::select! {
            outcome = work => outcome,
            () = self.wait() => Ok(Outcome::Interrupted),
        }
    }
}

fn in_foreground() -> bool {
    let foreground = File::open("/dev/tty").and_then(|terminal| Ok(tcgetpgrp(terminal)?));
    foreground.is_ok_and(|group| group == getpgrp())
}

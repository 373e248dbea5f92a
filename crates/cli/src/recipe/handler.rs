//! Runs a command once for each message or task: the data is its input, its output is the result.
//!
//! In: data, from the handlers of the recipes. Out: the output of the command, or why it failed; and a line on standard
//! output each time. Each process has its own task that makes sure it ends: when the message is revoked, or the user
//! interrupts, the process gets SIGTERM, and SIGKILL if it has not ended ten seconds later.
//!
//! Invariant: after an interrupt no handler returns. So unfinished work is not reported as failed but passed to another
//! client, and only after the processes here have ended.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::pin::pin;
use std::process::Stdio;

use anyhow::Result;
use bytes::Bytes;
use clap::Args;
use herdsman_recipes::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};

use super::command::{SignalTarget, end, prepare};
use super::outcome::{Interrupted, Outcome, describe_end};
use super::output::print_line;

/// How much output is kept: one byte more than a recipe accepts as a result.
const OUTPUT_BYTES_MAX: u64 = 1_000_001;
/// How many lines may be queued before handlers wait.
const EVENTS_MAX: usize = 16;

#[derive(Args, Clone)]
pub(super) struct HandlerArguments {
    /// Pass the data to the command as its last argument instead of on its standard input.
    #[arg(long)]
    as_argument: bool,
    /// The command and its arguments. Its output is the result; if it fails, its exit code is reported.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Why there is no result.
#[derive(Debug)]
pub(super) enum Failed {
    /// The command has failed; another attempt may succeed.
    Command(String),
    /// The data cannot be passed to the command.
    Data(String),
}

/// Runs the command; the part that handlers use.
#[derive(Clone)]
pub(super) struct Handler {
    arguments: HandlerArguments,
    events: mpsc::Sender<Event>,
    stop: watch::Receiver<bool>,
    running: watch::Sender<usize>,
}

/// Prints the lines of handlers, and stops the processes they have started.
pub(super) struct HandlerSupervisor {
    events: mpsc::Receiver<Event>,
    stop: watch::Sender<bool>,
    running: watch::Receiver<usize>,
}

enum Event {
    Line(String),
    CannotRun(String),
}

impl HandlerArguments {
    pub(super) fn start(&self) -> (Handler, HandlerSupervisor) {
        let (event_sender, events) = mpsc::channel(EVENTS_MAX);
        let (stop_sender, stop) = watch::channel(false);
        let (running_sender, running) = watch::channel(0);
        let handler = Handler {
            arguments: self.clone(),
            events: event_sender,
            stop,
            running: running_sender,
        };
        (handler, HandlerSupervisor { events, stop: stop_sender, running })
    }
}

impl Handler {
    /// Runs the command with this data, and prints whether it succeeded.
    pub(super) async fn run(
        &self,
        name: String,
        data: Bytes,
        environment: &[(&str, String)],
    ) -> Result<Vec<u8>, Failed> {
        if *self.stop.borrow() {
            return std::future::pending().await;
        }
        let outcome = match self.spawn(&data, environment) {
            Ok(child) => self.result_of(child, data).await,
            Err(error) if is_permanent(&error) => {
                let program = self.arguments.command.first().map(OsString::as_os_str);
                let program = program.unwrap_or_default().display();
                self.send(Event::CannotRun(format!("cannot run {program}: {error}"))).await;
                return std::future::pending().await;
            }
            Err(error) if self.arguments.as_argument => {
                Err(Failed::Data(format!("the data cannot be an argument: {error}")))
            }
            Err(error) => Err(Failed::Command(format!("cannot run the command: {error}"))),
        };
        self.send(Event::Line(match &outcome {
            Ok(_) => format!("{name}: done"),
            Err(Failed::Command(reason) | Failed::Data(reason)) => {
                format!("{name}: failed: {reason}")
            }
        }))
        .await;
        outcome
    }

    fn spawn(&self, data: &[u8], environment: &[(&str, String)]) -> std::io::Result<Child> {
        let HandlerArguments { as_argument, command } = &self.arguments;
        let mut command = prepare(command, environment).ok_or(ErrorKind::InvalidInput)?;
        match as_argument {
            true => command.arg(OsStr::from_bytes(data)).stdin(Stdio::null()),
            false => command.stdin(Stdio::piped()),
        };
        // A terminal's Ctrl-C must not reach it: its end would look like a failure.
        command.process_group(0).stdout(Stdio::piped()).spawn()
    }

    async fn result_of(&self, child: Child, data: Bytes) -> Result<Vec<u8>, Failed> {
        let (done, finished) = oneshot::channel();
        self.running.send_modify(|running| *running += 1);
        let (stop, running) = (self.stop.clone(), self.running.clone());
        tokio::spawn(async move {
            supervise(child, data, stop, done).await;
            running.send_modify(|running| *running -= 1);
        });
        match finished.await {
            Ok(result) => result.map_err(Failed::Command),
            Err(_) => std::future::pending().await,
        }
    }

    /// Sends an event. The receiver is dropped only when the program ends.
    async fn send(&self, event: Event) {
        let _ = self.events.send(event).await;
    }
}

/// Whether this process can never run the command, whatever the data is.
fn is_permanent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

/// Waits until the process ends, or stops it when the user interrupts or the message is revoked.
async fn supervise(
    mut child: Child,
    data: Bytes,
    mut stop: watch::Receiver<bool>,
    mut done: oneshot::Sender<Result<Vec<u8>, String>>,
) {
    let result = tokio::select! {
        result = complete(&mut child, &data) => Some(result),
        _ = stop.wait_for(|stop| *stop) => None,
        () = done.closed() => None,
    };
    match result {
        // The receiver is dropped if the message was revoked just now.
        Some(result) => drop(done.send(result)),
        None => drop(end(&mut child, SignalTarget::Group).await),
    }
}

/// Writes the data to the process and reads its output.
async fn complete(child: &mut Child, data: &[u8]) -> Result<Vec<u8>, String> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command need not read its data.
            let _ = stdin.write_all(data).await;
        }
    };
    let read = async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            let mut limited = stdout.take(OUTPUT_BYTES_MAX);
            limited.read_to_end(&mut output).await?;
            tokio::io::copy(limited.get_mut(), &mut tokio::io::sink()).await?;
        }
        Ok::<_, std::io::Error>(output)
    };
    let ((), output) = tokio::join!(feed, read);
    let output = output.map_err(|error| format!("reading its output: {error}"))?;
    let status = child.wait().await.map_err(|error| format!("waiting for its end: {error}"))?;
    if status.success() { Ok(output) } else { Err(describe_end(status)) }
}

impl HandlerSupervisor {
    /// Lets `work` call handlers until it ends or the user interrupts it; then stops their processes.
    pub(super) async fn until_interrupted(
        mut self,
        work: impl Future<Output = Result<(), Error>>,
        interrupted: &mut Interrupted,
    ) -> Result<Outcome> {
        // Dropped only after the processes have ended: only then may other clients get the unfinished work.
        let mut work = pin!(work);
        let outcome = loop {
            tokio::select! {
                Some(event) = self.events.recv() => match event {
                    Event::Line(line) => {
                        if let Err(error) = print_line(line) {
                            break Err(error);
                        }
                    }
                    Event::CannotRun(reason) => {
                        eprintln!("herdsman: {reason}");
                        break Ok(Outcome::CommandNotRun);
                    }
                },
                ended = &mut work => break ended.map(|()| Outcome::Lost).map_err(Into::into),
                () = interrupted.wait() => break Ok(Outcome::Done),
            }
        };
        self.stop.send_replace(true);
        // Fails only if no handler is left, and with them no process.
        let _ = self.running.wait_for(|running| *running == 0).await;
        outcome
    }
}

//! Runs a shell: one command, commands from a pipe, or a prompt.

use std::io::{self, BufRead, Read as _};
use std::process::ExitCode;

use tokio::sync::mpsc;

use crate::arguments::{Arguments, ColorChoice};
use crate::ask::{Ask, AskOnTerminal};
use crate::commands::close_session;
use crate::failure::Failure;
use crate::interactive;
use crate::interrupts::Interrupts;
use crate::output::{Format, Output, Style};
use crate::shell::Shell;
use crate::streams::{Streams, Terminal};

/// Runs a shell on the streams of the process.
#[must_use]
pub fn run(arguments: &Arguments) -> ExitCode {
    ExitCode::from(run_with(arguments, Streams::standard()))
}

/// Runs a shell on these streams. Returns the exit code.
#[must_use]
pub fn run_with(arguments: &Arguments, streams: Streams) -> u8 {
    let Streams { input, output, errors, terminal } = streams;
    let mut output = Output::new(output, errors, terminal)
        .with_format(if arguments.json { Format::Json } else { Format::Text })
        .with_style(style(arguments.color, terminal));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::failed(format!("starting the runtime: {error}"));
            return report(&mut output, &failure);
        }
    };
    let code = runtime.block_on(async {
        let interrupts = match Interrupts::listen() {
            Ok(interrupts) => interrupts,
            Err(error) => {
                let failure = Failure::failed(format!("listening for Ctrl-C: {error}"));
                return report(&mut output, &failure);
            }
        };
        let mode = Mode::of(arguments, terminal);
        run_in(mode, arguments, input, output, interrupts).await
    });
    // A thread may still be waiting for input that never arrives.
    runtime.shutdown_background();
    code
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    OneShot,
    Pipe,
    Prompt,
}

impl Mode {
    fn of(arguments: &Arguments, terminal: Terminal) -> Self {
        match arguments.command.is_empty() {
            false => Mode::OneShot,
            true if terminal.input => Mode::Prompt,
            true => Mode::Pipe,
        }
    }
}

async fn run_in(
    mode: Mode,
    arguments: &Arguments,
    input: Box<dyn BufRead + Send>,
    output: Output,
    mut interrupts: Interrupts,
) -> u8 {
    let terminal = output.terminal();
    let asker: Option<Box<dyn Ask>> = match terminal.input && terminal.errors {
        true => Some(Box::new(AskOnTerminal)),
        false => None,
    };
    let mut shell = Shell::new(arguments, output, asker);
    shell.foreground = interrupts.foreground();
    let done = match mode {
        Mode::OneShot => {
            shell.give_input(input);
            one_shot(&mut shell, arguments, &mut interrupts).await
        }
        Mode::Pipe => pipe(&mut shell, arguments, input, &mut interrupts).await,
        Mode::Prompt => interactive::prompt(&mut shell, &mut interrupts).await,
    };
    if matches!(done, Err(Failure::Interrupted(_))) {
        shell.report_progress();
    }
    if let Some(connection) = shell.detach() {
        close_session(&mut shell, &connection).await;
    }
    match done {
        Ok(code) => code,
        Err(failure) => report(&mut shell.output, &failure),
    }
}

async fn one_shot(
    shell: &mut Shell,
    arguments: &Arguments,
    interrupts: &mut Interrupts,
) -> Result<u8, Failure> {
    // Report a mistake in the command before connecting.
    let needs_server = crate::commands::parse(&arguments.command)?.needs_server();
    interrupts
        .or(async {
            if needs_server {
                shell.open_connection().await?;
            }
            shell.transcript.push(&arguments.command.join(" "));
            shell.execute(&arguments.command).await?;
            shell.show_ready_events()
        })
        .await?;
    Ok(0)
}

async fn pipe(
    shell: &mut Shell,
    arguments: &Arguments,
    input: Box<dyn BufRead + Send>,
    interrupts: &mut Interrupts,
) -> Result<u8, Failure> {
    let mut lines = read_lines(input);
    interrupts.or(shell.open_connection()).await?;
    let mut code = 0;
    while !shell.is_quitting() {
        let line = tokio::select! {
            biased;
            line = lines.recv() => line,
            interrupt = interrupts.next() => return Err(Failure::Interrupted(interrupt)),
            failure = shell.show_events() => return Err(failure),
        };
        let Some(line) = line else {
            break;
        };
        let line = line.map_err(|error| Failure::failed(format!("reading commands: {error}")))?;
        let done = interrupts.or(shell.execute_line(&line)).await;
        shell.show_ready_events()?;
        match done {
            Ok(()) => {}
            Err(failure @ (Failure::Interrupted(_) | Failure::ReaderGone)) => return Err(failure),
            Err(failure) if arguments.keep_going => {
                let failed = report(&mut shell.output, &failure);
                code = if code == 0 { failed } else { code };
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(code)
}

/// The longest line that is accepted as a command: no server accepts larger requests.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Lines that are read ahead before the reader waits.
const LINES_AHEAD: usize = 16;

/// Reads lines from a blocking reader on a separate thread.
fn read_lines(mut input: Box<dyn BufRead + Send>) -> mpsc::Receiver<io::Result<String>> {
    let (send, receive) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || {
        loop {
            let mut line = Vec::new();
            let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => return,
                Ok(bytes) if bytes as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") => {
                    Err(io::Error::other(format!("a line has more than {LINE_BYTES_MAX} bytes")))
                }
                Ok(_) => String::from_utf8(line).map_err(|_| {
                    io::Error::other("a line is not UTF-8; `set -b` accepts binary data in base64")
                }),
                Err(error) => Err(error),
            };
            let is_last = line.is_err();
            if send.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    });
    receive
}

/// Prints a failure. Returns the exit code.
fn report(output: &mut Output, failure: &Failure) -> u8 {
    if !matches!(failure, Failure::Interrupted(_) | Failure::ReaderGone) {
        output.fail(failure);
    }
    failure.exit_code()
}

fn style(color: ColorChoice, terminal: Terminal) -> Style {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    match color {
        ColorChoice::Always => Style::Colored,
        ColorChoice::Auto if terminal.output && !is_unwanted => Style::Colored,
        ColorChoice::Auto | ColorChoice::Never => Style::Plain,
    }
}

//! The interactive prompt.
//!
//! The line editor blocks, so it has a thread of its own ([`editor`]). While it waits for keys, the
//! The line editor blocks, so it has its own thread ([`editor`]). While it waits for keys, the
//! shell's own thread keeps the session alive and prints events above the line. While a command
//! runs no line is being edited, and Ctrl-C ends the command instead of the shell.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::interrupts::{Interrupt, Interrupts};
use crate::shell::Shell;

mod assistant;
mod completion;
mod editor;
mod hint;
mod history_file;
mod paths;
mod terminal_mode;

use assistant::Assistant;
use editor::{LineEditor, Typed};
use paths::LivePaths;
use terminal_mode::TerminalMode;

/// Reads and runs commands until the user ends the shell.
pub(crate) async fn prompt(shell: &mut Shell, interrupts: &mut Interrupts) -> Result<u8, Failure> {
    if let Err(failure) = connect(shell, interrupts).await? {
        shell.output.fail(&failure);
        shell.output.note("retrying in the background; `connect SERVERS` tries other servers");
    }
    // Restores the terminal however the shell ends.
    let _mode = TerminalMode::save();
    let paths = LivePaths::default();
    let assistant = Assistant::new(paths.clone(), shell.output.style());
    let editor = LineEditor::start(assistant)
        .map_err(|error| Failure::failed(format!("starting the line editor: {error}")))?;
    if let Some(print) = editor.printer() {
        shell.output.print_events_with(print);
    }
    if shell.asks() {
        shell.ask_with(Box::new(editor.clone()));
    }
    shell.output.note("`help` lists the commands, Tab completes, Ctrl-D ends the shell.");
    while !shell.is_quitting() {
        paths.use_client(shell.client().ok().cloned());
        let typed = tokio::select! {
            typed = editor.read_line(prompt_text(shell)) => typed,
            failure = shell.show_events() => return Err(failure),
            interrupt = terminated(interrupts) => return Err(Failure::Interrupted(interrupt)),
        };
        match typed {
            Typed::Line(line) => run_line(shell, interrupts, &editor, &line).await?,
            Typed::Interrupted => {}
            Typed::End => break,
            Typed::Failed(text) => return Err(Failure::failed(text)),
        }
    }
    Ok(0)
}

/// Connects, or keeps trying in the background while the user is already at the prompt. The inner
/// error is for the user, the outer one ends the shell.
async fn connect(
    shell: &mut Shell,
    interrupts: &mut Interrupts,
) -> Result<Result<(), Failure>, Failure> {
    let arguments = shell.connection_arguments.clone();
    let failure = match interrupts.or(shell.open_connection()).await {
        Ok(()) => return Ok(Ok(())),
        Err(failure) if failure.exit_code() == 1 => failure,
        Err(failure) => return Err(failure),
    };
    shell.attach(Connection::open_later(&arguments)?);
    Ok(Err(failure))
}

/// Runs a line. It goes into the history even if it fails, so that it can be corrected.
async fn run_line(
    shell: &mut Shell,
    interrupts: &mut Interrupts,
    editor: &LineEditor,
    line: &str,
) -> Result<(), Failure> {
    editor.remember(line);
    let done = tokio::select! {
        done = shell.execute_line(line) => done,
        interrupt = interrupts.next() => Err(Failure::Interrupted(interrupt)),
    };
    match done {
        Ok(()) => {}
        Err(failure @ Failure::Interrupted(Interrupt::Terminate)) => return Err(failure),
        Err(Failure::ReaderGone) => return Err(Failure::ReaderGone),
        Err(Failure::Interrupted(_)) if shell.report_progress() => {}
        Err(failure) => shell.output.fail(&failure),
    }
    shell.show_ready_events()
}

/// Waits for SIGTERM. At the prompt Ctrl-C is a key, so only SIGTERM ends the shell there.
async fn terminated(interrupts: &mut Interrupts) -> Interrupt {
    while interrupts.next().await != Interrupt::Terminate {}
    Interrupt::Terminate
}

/// `[127.0.0.1:2181(CONNECTED) 3] `
fn prompt_text(shell: &Shell) -> String {
    let number = shell.transcript.count();
    match shell.connection() {
        Ok(connection) => {
            format!("[{}({}) {number}] ", connection.servers(), connection.state_name())
        }
        Err(_) => format!("[{}(CLOSED) {number}] ", shell.connection_arguments.servers),
    }
}

//! The state that commands run on: connection, watches, output, and the user to ask.

use std::io::BufRead;

use herdsman_client::Client;

use crate::arguments::{Arguments, ConnectionArguments};
use crate::ask::{Ask, is_yes};
use crate::commands::{self, Parsed};
use crate::connection::{Change, Connection};
use crate::failure::Failure;
use crate::interrupts::Foreground;
use crate::output::Output;
use crate::watches::{Notice, Watches};
use crate::words;

mod transcript;

pub(crate) use transcript::{Transcript, holds_secret};

/// The state of a shell.
pub(crate) struct Shell {
    pub(crate) output: Output,
    pub(crate) watches: Watches,
    pub(crate) transcript: Transcript,
    /// Whether events are printed: zkCli's `printwatches`.
    pub(crate) prints_watches: bool,
    pub(crate) connection_arguments: ConnectionArguments,
    /// Whether another program has the terminal.
    pub(crate) foreground: Foreground,
    connection: Option<Connection>,
    /// Standard input, unless commands are read from it.
    input: Option<Box<dyn BufRead + Send>>,
    asker: Option<Box<dyn Ask>>,
    /// Describes what the running command has done so far, for when it is interrupted.
    so_far: Option<Box<dyn Fn() -> Option<String> + Send>>,
    is_quitting: bool,
}

/// An event that arrived while the shell was waiting.
enum ShellEvent {
    Watch(Notice),
    Connection(Option<Change>),
}

impl Shell {
    /// Makes a shell without a connection. It asks `asker` before it deletes a subtree.
    pub(crate) fn new(arguments: &Arguments, output: Output, asker: Option<Box<dyn Ask>>) -> Self {
        Shell {
            output,
            watches: Watches::default(),
            transcript: Transcript::default(),
            prints_watches: true,
            connection_arguments: arguments.connection.clone(),
            foreground: Foreground::default(),
            connection: None,
            input: None,
            asker: asker.filter(|_| !arguments.yes),
            so_far: None,
            is_quitting: false,
        }
    }

    /// The client for commands: its root is the chroot.
    pub(crate) fn client(&self) -> Result<&Client, Failure> {
        self.connection().map(Connection::client)
    }

    /// The connection, or a failure that says how to open one.
    pub(crate) fn connection(&self) -> Result<&Connection, Failure> {
        let connection = self.connection.as_ref();
        connection.ok_or_else(|| Failure::failed("Not connected; `connect` opens a new session"))
    }

    /// Opens the connection that the flags specify.
    pub(crate) async fn open_connection(&mut self) -> Result<(), Failure> {
        let note = |line| self.output.note(line);
        let connection = Connection::open(&self.connection_arguments, note).await?;
        self.attach(connection);
        Ok(())
    }

    /// Replaces the connection.
    pub(crate) fn attach(&mut self, connection: Connection) {
        self.watches.clear();
        self.connection = Some(connection);
    }

    /// Takes the connection out: the shell is no longer connected.
    pub(crate) fn detach(&mut self) -> Option<Connection> {
        self.watches.clear();
        self.connection.take()
    }

    /// Lets a command read standard input. No commands are read from it.
    pub(crate) fn give_input(&mut self, input: Box<dyn BufRead + Send>) {
        self.input = Some(input);
    }

    /// Takes standard input, for the one command that may read it.
    pub(crate) fn take_input(&mut self) -> Option<Box<dyn BufRead + Send>> {
        self.input.take()
    }

    /// Runs no more commands after this one.
    pub(crate) fn quit(&mut self) {
        self.is_quitting = true;
    }

    pub(crate) fn is_quitting(&self) -> bool {
        self.is_quitting
    }

    /// Asks the user to confirm, and fails unless the answer is yes. Never asks without a terminal or with `--yes`.
    pub(crate) async fn confirm(&mut self, question: &str) -> Result<(), Failure> {
        let Some(asker) = &mut self.asker else {
            return Ok(());
        };
        match is_yes(&asker.ask(format!("{question} [y/N] ")).await?) {
            true => Ok(()),
            false => Err(Failure::failed("nothing was changed")),
        }
    }

    /// Replaces the way to ask the user.
    pub(crate) fn ask_with(&mut self, asker: Box<dyn Ask>) {
        self.asker = Some(asker);
    }

    /// Whether [`Shell::confirm`] asks at all; if not, the question need not be prepared.
    pub(crate) fn asks(&self) -> bool {
        self.asker.is_some()
    }

    /// Sets the function that describes what the running command has done when it is interrupted.
    pub(crate) fn on_interrupt(&mut self, so_far: impl Fn() -> Option<String> + Send + 'static) {
        self.so_far = Some(Box::new(so_far));
    }

    /// Prints what an interrupted command has done. Returns false if there is nothing to print.
    pub(crate) fn report_progress(&mut self) -> bool {
        let text = self.so_far.take().and_then(|so_far| so_far());
        text.inspect(|text| self.output.note(format!("interrupted; {text}"))).is_some()
    }

    /// Runs a line as it was typed. A blank line or a comment does nothing.
    pub(crate) async fn execute_line(&mut self, line: &str) -> Result<(), Failure> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        self.transcript.push(line);
        let words = words::split(line)?;
        self.execute(&words).await
    }

    /// Runs a command that was split into words.
    pub(crate) async fn execute(&mut self, words: &[String]) -> Result<(), Failure> {
        let done = self.execute_words(words).await;
        self.so_far = None;
        done
    }

    async fn execute_words(&mut self, words: &[String]) -> Result<(), Failure> {
        match commands::parse(words)? {
            Parsed::Help(text) if self.output.is_json() => {
                self.output.json(&serde_json::json!({"help": text}))
            }
            Parsed::Help(text) => self.output.say(text.trim_end()),
            Parsed::Command(command) => command.run(self).await,
        }
    }

    /// Prints the events that have arrived.
    pub(crate) fn show_ready_events(&mut self) -> Result<(), Failure> {
        while let Some(notice) = self.watches.next_ready() {
            self.show_notice(&notice)?;
        }
        Ok(())
    }

    /// Prints events as they arrive, until this is dropped or the output is closed.
    pub(crate) async fn show_events(&mut self) -> Failure {
        loop {
            let shown = match self.next_event().await {
                ShellEvent::Watch(notice) => self.show_notice(&notice),
                ShellEvent::Connection(Some(change)) => self.show_change(change),
                // No more connection events can follow, but watches may still have events.
                ShellEvent::Connection(None) => {
                    let notice = self.watches.next().await;
                    self.show_notice(&notice)
                }
            };
            if let Err(failure) = shown {
                return failure;
            }
        }
    }

    async fn next_event(&mut self) -> ShellEvent {
        let Shell { connection, watches, .. } = self;
        let change = async {
            match connection {
                Some(connection) => connection.next_change().await,
                None => None,
            }
        };
        tokio::select! {
            biased;
            notice = watches.next() => ShellEvent::Watch(notice),
            change = change => ShellEvent::Connection(change),
        }
    }

    fn show_notice(&mut self, notice: &Notice) -> Result<(), Failure> {
        if !self.prints_watches {
            return Ok(());
        }
        match self.output.is_json() {
            true => self.output.event(&notice.to_json().to_string()),
            false => self.output.event(&crate::format::printable_lines(&notice.text())),
        }
    }

    fn show_change(&mut self, change: Change) -> Result<(), Failure> {
        match self.output.is_at_prompt() {
            true => self.output.event(&format!("{}: {}", change.name(), change.text())),
            false => {
                self.output.note(change.text());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Commands to an ensemble, one per line on standard input.

use std::io::{self, BufRead, IsTerminal};

use tokio::sync::mpsc;

use super::Event;

/// The list of commands.
pub(super) const HELP: &str =
    "commands: status, stop N, kill N (like kill -9), start N, help, quit (or Ctrl-C)";
/// The longest line that is read as one command; a longer one is split.
const LINE_BYTES_MAX: u64 = 1024;

/// A command that the user typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Print the role of each server.
    Status,
    /// Start a server again.
    Start(u8),
    /// Stop a server cleanly.
    Stop(u8),
    /// End a server as `kill -9` would.
    Kill(u8),
    /// Print the list of commands.
    Help,
    /// Stop all servers and exit.
    Quit,
    /// Any other text.
    Unknown(String),
}

impl Command {
    /// Parses a line; `None` if it is empty.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let number = |text: &str| text.parse().ok();
        let command = match words.as_slice() {
            [] => return None,
            ["status"] => Some(Command::Status),
            ["start", id] => number(id).map(Command::Start),
            ["stop", id] => number(id).map(Command::Stop),
            ["kill", id] => number(id).map(Command::Kill),
            ["help" | "?"] => Some(Command::Help),
            ["quit" | "exit"] => Some(Command::Quit),
            _ => None,
        };
        Some(command.unwrap_or_else(|| Command::Unknown(line.trim().to_owned())))
    }
}

/// Reads commands in a separate thread until the end of the input. The ensemble keeps running after that.
pub(super) fn listen(events: mpsc::Sender<Event>) -> io::Result<()> {
    if is_in_background() {
        return Ok(());
    }
    let read = move || {
        let mut input = io::stdin().lock();
        while let Ok(Some(line)) = read_line(&mut input) {
            if let Some(command) = Command::parse(&line)
                && events.blocking_send(Event::Command(command)).is_err()
            {
                return;
            }
        }
    };
    std::thread::Builder::new().name("commands".to_owned()).spawn(read)?;
    Ok(())
}

fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let bytes = io::Read::take(input, LINE_BYTES_MAX).read_line(&mut line)?;
    Ok((bytes > 0).then_some(line))
}

/// Whether a shell runs this process in the background: reading from the terminal would stop it.
fn is_in_background() -> bool {
    let input = io::stdin();
    input.is_terminal()
        && rustix::termios::tcgetpgrp(&input)
            .is_ok_and(|foreground| foreground != rustix::process::getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed() {
        for (line, expected) in [
            ("status\n", Command::Status),
            ("  stop  2 \n", Command::Stop(2)),
            ("start 1", Command::Start(1)),
            ("kill 9", Command::Kill(9)),
            ("exit", Command::Quit),
            ("stop", Command::Unknown("stop".to_owned())),
            ("stop two\n", Command::Unknown("stop two".to_owned())),
            ("stop 300", Command::Unknown("stop 300".to_owned())),
        ] {
            assert_eq!(Command::parse(line), Some(expected), "{line}");
        }
        assert_eq!(Command::parse(" \n"), None);
    }

    #[test]
    fn a_long_line_is_split() {
        let text = "x".repeat(3000);
        let mut input = text.as_bytes();
        let mut pieces = Vec::new();
        while let Some(piece) = read_line(&mut input).expect("it is memory") {
            pieces.push(piece.len());
        }
        assert_eq!(pieces, [1024, 1024, 952]);
    }
}

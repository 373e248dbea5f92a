//! The input, output and exit code of a command.
//!
//! Commands get a [`Console`] instead of using the process's streams, so that tests can read what an
//! operator would see. A closed pipe (`herdsman inspect log … | head`) ends the command
//! quietly: `println!` would panic. A command that has begun to change something continues to its end, and prints the
//! rest on standard error.

use std::fmt::Display;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::location::Location;
use crate::show::json_line;

/// The end of the help texts of the commands that only read.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    no problems found, or no check requested
  1    problems or differences were found
  2    the command failed: wrong usage, missing files, files of another format
  141  standard output was closed";

/// The end of the help texts of the commands that change something.
pub(crate) const EXIT_CODES_OF_CHANGES: &str = "\
Exit codes:
  0    done, and the new files were verified
  1    problems were found or remain, or you answered no
  2    the command failed; the message says why, and whether anything was changed
  141  standard output was closed; nothing was changed
Once something has changed, lines that cannot be written to standard output go to standard error, and the code stays the same.";

/// The result of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Sound, equal or done.
    Sound,
    /// Problems were found or remain, or something differs.
    Problems,
}

/// The streams that a command prints to and reads answers from.
pub struct Console<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    answers: Option<&'a mut dyn BufRead>,
    draws_progress: bool,
    /// What was changed, for the message that `out` has failed.
    changed: Option<&'static str>,
    /// `out` has failed after that.
    out_failed: bool,
}

/// Standard output is closed.
#[derive(Debug)]
struct OutputClosed;

impl Display for OutputClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for OutputClosed {}

impl<'a> Console<'a> {
    /// Results go to `out`, notes to `err`; questions cannot be asked.
    pub fn new(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        let (answers, draws_progress, changed, out_failed) = (None, false, None, false);
        Console { out, err, answers, draws_progress, changed, out_failed }
    }

    /// Reads the answers to questions from `answers`.
    #[must_use]
    pub fn answered_by(mut self, answers: &'a mut dyn BufRead) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Prints a line of the result.
    pub(crate) fn print(&mut self, line: impl Display) -> Result<()> {
        if self.changed.is_none() {
            return writeln!(self.out, "{line}").map_err(write_failed);
        }
        if !self.out_failed {
            let printed = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
            self.note_failure(printed);
        }
        if self.out_failed {
            self.note(line);
        }
        Ok(())
    }

    /// From now on a failure of the output does not end the command, because something was changed: a line that was not
    /// printed goes to standard error, after a note that begins with this text.
    pub(crate) fn set_changed(&mut self, what: &'static str) {
        self.changed = Some(what);
    }

    /// Notes that the output has failed after something was changed.
    fn note_failure(&mut self, printed: io::Result<()>) {
        if let (Err(error), Some(changed)) = (printed, self.changed) {
            self.out_failed = true;
            self.note(format_args!("{changed}, but standard output cannot be written to: {error}"));
        }
    }

    /// Prints a value as one line of JSON.
    pub(crate) fn print_json(&mut self, value: &impl Serialize) -> Result<()> {
        self.print(json_line(value)?)
    }

    /// Prints a note on standard error.
    pub(crate) fn note(&mut self, line: impl Display) {
        // If standard error is closed, the note is lost.
        let _ = writeln!(self.err, "herdsman: {line}");
    }

    /// Notes that a log is missing, if it is: the output may show an old state.
    pub(crate) fn note_missing_log(&mut self, location: &Location) -> Result<()> {
        if let Some(reason) = location.missing_log()? {
            self.note(reason);
        }
        Ok(())
    }

    /// Flushes the output, so that it appears before a question or a long wait.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.changed.is_none() {
            return self.out.flush().map_err(write_failed);
        }
        if !self.out_failed {
            let flushed = self.out.flush();
            self.note_failure(flushed);
        }
        Ok(())
    }

    /// Whether questions can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.answers.is_some()
    }

    /// Asks a question; only `y` and `yes` mean yes.
    pub(crate) fn ask(&mut self, question: &str) -> Result<bool> {
        self.flush()?;
        let Some(answers) = self.answers.as_mut() else {
            return Ok(false);
        };
        write!(self.err, "{question} [y/N] ").and_then(|()| self.err.flush())?;
        let mut answer = String::new();
        answers.read_line(&mut answer).context("reading the answer")?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Whether progress bars are drawn.
    pub(crate) fn draws_progress(&self) -> bool {
        self.draws_progress
    }
}

fn write_failed(error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::new(error).context("writing to standard output"),
    }
}

/// Formats an error with its causes. A cause that an error names itself is printed once.
#[must_use]
pub fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Runs a command on the process's own streams.
pub(crate) fn run(command: impl FnOnce(&mut Console<'_>) -> Result<Outcome>) -> ExitCode {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let is_dialogue = stdin.is_terminal() && stderr.is_terminal();
    // Standard error is not locked: a progress bar writes there too.
    let (mut out, mut err) = (io::BufWriter::new(stdout.lock()), stderr);
    let mut answers = stdin.lock();
    let mut console = Console::new(&mut out, &mut err);
    console.draws_progress = io::stderr().is_terminal();
    if is_dialogue {
        console = console.answered_by(&mut answers);
    }
    let result = command(&mut console).and_then(|outcome| console.flush().map(|()| outcome));
    match result {
        Ok(Outcome::Sound) => ExitCode::SUCCESS,
        Ok(Outcome::Problems) => ExitCode::from(1),
        Err(error) if error.is::<OutputClosed>() => ExitCode::from(141),
        Err(error) => {
            // Print what was found before the failure, then its reason.
            let _ = console.flush();
            console.note(describe(&error));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_told_from_a_failure() {
        let (mut out, mut err) = (Closed, Vec::new());
        let mut console = Console::new(&mut out, &mut err);
        assert!(console.print("a line").unwrap_err().is::<OutputClosed>());
    }

    /// What is still in a buffer when the command ends.
    #[test]
    fn a_change_is_done_when_the_last_output_fails() {
        let (mut out, mut err) = (io::BufWriter::new(Closed), Vec::new());
        let mut console = Console::new(&mut out, &mut err);
        console.print("a line").unwrap();
        assert!(console.flush().unwrap_err().is::<OutputClosed>());
        console.set_changed("restored");
        console.flush().unwrap();
        let err = String::from_utf8(err).unwrap();
        assert!(err.starts_with("herdsman: restored, but standard output cannot"), "{err}");
    }

    #[test]
    fn only_yes_means_yes() {
        for (answer, expected) in
            [("y\n", true), ("YES\n", true), ("\n", false), ("", false), ("yep\n", false)]
        {
            let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), answer.as_bytes());
            let mut console = Console::new(&mut out, &mut err).answered_by(&mut input);
            assert_eq!(console.ask("Proceed?").unwrap(), expected, "{answer:?}");
        }
        let (mut out, mut err) = (Vec::new(), Vec::new());
        assert!(!Console::new(&mut out, &mut err).ask("Proceed?").unwrap());
    }
}

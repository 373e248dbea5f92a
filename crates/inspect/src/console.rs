//! Where a command prints, whom it asks, and how it ends.
//!
//! Commands get a [`Console`] instead of using the process's streams, so that tests can read what an
//! operator would see. A reader that has gone away (`herdsman inspect log … | head`) ends the command
//! quietly: `println!` would panic. A command that has begun to change something goes on to its end, and prints the
//! rest on standard error.

use std::fmt::Display;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::location::Location;
use crate::show::json_line;

/// Behind the help of the commands that look.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    sound, or nothing was asked to be checked
  1    problems were found, or a difference
  2    it could not be done: wrong usage, missing files, files of another format
  141  standard output was closed";

/// Behind the help of the commands that change something.
pub(crate) const EXIT_CODES_OF_CHANGES: &str = "\
Exit codes:
  0    done, and what was written is sound
  1    problems were found or remain, or the question was answered with no
  2    it could not be done; the text says why, and whether anything was changed
  141  standard output was closed; nothing was changed
Once something is changed, output that cannot be written goes to standard error, and the code is the same.";

/// How a command ended, when it could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Sound, equal or done.
    Sound,
    /// Problems were found or remain, or something differs.
    Problems,
}

/// What a command prints to and asks.
pub struct Console<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    answers: Option<&'a mut dyn BufRead>,
    draws_progress: bool,
    /// What was changed, for the remark that `out` has failed.
    changed: Option<&'static str>,
    /// `out` has failed since.
    out_failed: bool,
}

/// Nobody reads standard output any more.
#[derive(Debug)]
struct OutputClosed;

impl Display for OutputClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for OutputClosed {}

impl<'a> Console<'a> {
    /// Results go to `out`, remarks to `err`; there is nobody to ask.
    pub fn new(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        let (answers, draws_progress, changed, out_failed) = (None, false, None, false);
        Console { out, err, answers, draws_progress, changed, out_failed }
    }

    /// Somebody answers questions.
    #[must_use]
    pub fn answered_by(mut self, answers: &'a mut dyn BufRead) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Prints a line of the result.
    pub(crate) fn say(&mut self, line: impl Display) -> Result<()> {
        if self.changed.is_none() {
            return writeln!(self.out, "{line}").map_err(write_failed);
        }
        if !self.out_failed {
            let printed = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
            self.note_failure(printed);
        }
        if self.out_failed {
            self.remark(line);
        }
        Ok(())
    }

    /// From now on a failure of the output does not end the command, because something was changed: what cannot be
    /// printed becomes a remark, and before it one that begins with this text.
    pub(crate) fn set_changed(&mut self, what: &'static str) {
        self.changed = Some(what);
    }

    /// Remarks that the output has failed after something was changed.
    fn note_failure(&mut self, printed: io::Result<()>) {
        if let (Err(error), Some(changed)) = (printed, self.changed) {
            self.out_failed = true;
            self.remark(format_args!(
                "{changed}, but standard output cannot be written to: {error}"
            ));
        }
    }

    /// Prints a value as one line of JSON.
    pub(crate) fn say_json(&mut self, value: &impl Serialize) -> Result<()> {
        self.say(json_line(value)?)
    }

    /// Prints a remark beside the result.
    pub(crate) fn remark(&mut self, line: impl Display) {
        // Without a standard error there is nobody to tell.
        let _ = writeln!(self.err, "herdsman: {line}");
    }

    /// Remarks that a log is missing, if it is: what is shown may be an old state.
    pub(crate) fn remark_missing_log(&mut self, location: &Location) -> Result<()> {
        if let Some(reason) = location.missing_log()? {
            self.remark(reason);
        }
        Ok(())
    }

    /// Hands on what was printed, so that it stands before a question or a long silence.
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

    /// Whether somebody can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.answers.is_some()
    }

    /// Asks; only `y` and `yes` mean yes.
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

    /// Whether a progress bar would be seen and not be in the way.
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

/// An error with its causes. Some name their cause themselves; it is printed once.
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
            // What was found before the failure comes before its reason.
            let _ = console.flush();
            console.remark(describe(&error));
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
        assert!(console.say("a line").unwrap_err().is::<OutputClosed>());
    }

    /// What is still in a buffer when the command ends.
    #[test]
    fn a_change_is_done_when_the_last_output_fails() {
        let (mut out, mut err) = (io::BufWriter::new(Closed), Vec::new());
        let mut console = Console::new(&mut out, &mut err);
        console.say("a line").unwrap();
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

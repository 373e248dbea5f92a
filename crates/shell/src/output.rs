//! Output of commands: text or JSON on standard output, notes and errors on standard error.
//!
//! Events can arrive at any time, also while the user is typing. They have a separate function, so
//! that at a prompt the line editor can print them above the line.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::failure::Failure;
use crate::streams::Terminal;

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text, as zkCli prints it.
    Text,
    /// JSON, for scripts.
    Json,
}

/// Whether text has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Colored,
}

/// The colours in use, each with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tint {
    /// A name: of a znode that has children, or of a field.
    Name,
    /// Something that succeeded or was added.
    Good,
    /// Something that needs attention.
    Warning,
    /// Something that failed or was removed.
    Bad,
    /// Less important text.
    Faint,
}

impl Tint {
    fn code(self) -> &'static str {
        match self {
            Tint::Name => "36",
            Tint::Good => "32",
            Tint::Warning => "33",
            Tint::Bad => "31",
            Tint::Faint => "2",
        }
    }
}

impl Style {
    /// Returns the text in this colour, or unchanged if colours are off.
    pub(crate) fn paint(self, tint: Tint, text: impl Display) -> String {
        match self {
            Style::Plain => text.to_string(),
            Style::Colored => format!("\x1b[{}m{text}\x1b[0m", tint.code()),
        }
    }
}

/// Work that takes longer than this shows a progress bar.
const PROGRESS_DELAY: Duration = Duration::from_millis(400);

/// Prints a text above the line that is being typed.
type PrintAbove = Box<dyn FnMut(String) + Send>;

/// The output of a shell.
pub(crate) struct Output {
    out: Box<dyn Write + Send>,
    errors: Box<dyn Write + Send>,
    above_prompt: Option<PrintAbove>,
    format: Format,
    style: Style,
    terminal: Terminal,
}

impl Output {
    pub(crate) fn new(
        out: Box<dyn Write + Send>,
        errors: Box<dyn Write + Send>,
        terminal: Terminal,
    ) -> Self {
        Output {
            out,
            errors,
            above_prompt: None,
            format: Format::Text,
            style: Style::Plain,
            terminal,
        }
    }

    pub(crate) fn with_format(self, format: Format) -> Self {
        Output { format, ..self }
    }

    pub(crate) fn with_style(self, style: Style) -> Self {
        Output { style, ..self }
    }

    /// Prints events with this function from now on.
    pub(crate) fn print_events_with(&mut self, above_prompt: PrintAbove) {
        self.above_prompt = Some(above_prompt);
    }

    /// Whether events are printed above a prompt.
    pub(crate) fn is_at_prompt(&self) -> bool {
        self.above_prompt.is_some()
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// The style of text on standard output.
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    pub(crate) fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// The width of the terminal, in columns; `None` if standard output is not a terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        if !self.terminal.output {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    }

    /// Prints a line.
    pub(crate) fn say(&mut self, line: impl Display) -> Result<(), Failure> {
        self.say_bytes(line.to_string().as_bytes())
    }

    /// Prints bytes as they are, and a line end.
    pub(crate) fn say_bytes(&mut self, line: &[u8]) -> Result<(), Failure> {
        write_line(&mut self.out, line).map_err(|error| output_failed(&error))
    }

    /// Prints a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_vec(value)
            .map_err(|error| Failure::failed(format!("cannot be written as JSON: {error}")))?;
        self.say_bytes(&line)
    }

    /// Prints a note that is not part of the result, on standard error.
    pub(crate) fn note(&mut self, line: impl Display) {
        let line = match self.format {
            Format::Text => line.to_string(),
            Format::Json => json!({"note": line.to_string()}).to_string(),
        };
        self.write_error(&line);
    }

    /// Prints a failure as one line on standard error.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        if let Failure::Answer(_) = failure {
            return;
        }
        let line = match self.format {
            Format::Text if self.terminal.errors => {
                self.style.paint(Tint::Bad, crate::format::printable(&failure.to_string()))
            }
            Format::Text => crate::format::printable(&failure.to_string()).into_owned(),
            Format::Json => failure.to_json().to_string(),
        };
        self.write_error(&line);
    }

    /// Prints an event, at a prompt above the line that is being typed.
    pub(crate) fn event(&mut self, text: &str) -> Result<(), Failure> {
        match &mut self.above_prompt {
            Some(print) => {
                let text = self.style.paint(Tint::Warning, text);
                print(format!("{text}\n"));
                Ok(())
            }
            None => self.say(text),
        }
    }

    /// A progress bar for long work: on standard error, only if that is a terminal, and only if the
    /// work takes longer than [`PROGRESS_DELAY`]. It disappears when the work ends.
    pub(crate) fn progress(&self, what: &'static str, total: u64) -> ProgressBar {
        if !self.terminal.errors || self.is_json() {
            return ProgressBar::hidden();
        }
        // The template is a constant; an invalid one would only affect the appearance.
        let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
            .with_style(style)
            .with_message(what)
            .with_finish(ProgressFinish::AndClear);
        let Ok(runtime) = Handle::try_current() else {
            return bar;
        };
        let weak = bar.downgrade();
        runtime.spawn(async move {
            tokio::time::sleep(PROGRESS_DELAY).await;
            if let Some(bar) = weak.upgrade().filter(|bar| !bar.is_finished()) {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        });
        bar
    }

    /// Prints a line on standard error. It may be closed, which is not a reason to fail.
    fn write_error(&mut self, line: &str) {
        let _ = write_line(&mut self.errors, line.as_bytes());
    }
}

fn write_line(to: &mut dyn Write, line: &[u8]) -> io::Result<()> {
    to.write_all(line)?;
    to.write_all(b"\n")?;
    to.flush()
}

fn output_failed(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::failed(format!("writing to standard output: {error}")),
    }
}

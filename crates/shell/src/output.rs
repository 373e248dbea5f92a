//! What a command prints: text or JSON on standard output, notes and errors on standard error.
//!
//! Events come while nobody has asked for anything, also while somebody is typing. They go through
//! a door of their own, so that at a prompt the line editor can print them above the line.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::failure::Failure;
use crate::streams::Terminal;

/// How answers look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// As zkCli prints them.
    Text,
    /// For scripts.
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
    /// Names of znodes that have children, and of fields.
    Name,
    /// What went well, what was added.
    Good,
    /// What wants attention.
    Warning,
    /// What failed, what was removed.
    Bad,
    /// What is less important than the rest.
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
    /// The text in this colour, or as it is.
    pub(crate) fn paint(self, tint: Tint, text: impl Display) -> String {
        match self {
            Style::Plain => text.to_string(),
            Style::Colored => format!("\x1b[{}m{text}\x1b[0m", tint.code()),
        }
    }
}

/// Work that takes longer than this shows how far it is.
const WORTH_A_BAR: Duration = Duration::from_millis(400);

/// Prints a text above the line that somebody is typing.
type PrintAbove = Box<dyn FnMut(String) + Send>;

/// Where a shell prints to.
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

    /// From now on, events are printed by this.
    pub(crate) fn print_events_with(&mut self, above_prompt: PrintAbove) {
        self.above_prompt = Some(above_prompt);
    }

    /// Somebody is typing while events are printed.
    pub(crate) fn is_at_prompt(&self) -> bool {
        self.above_prompt.is_some()
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// For text on standard output.
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    pub(crate) fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// The columns of the terminal that is standard output; `None` if it is none.
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

    /// Something worth knowing that is not the answer: on standard error.
    pub(crate) fn note(&mut self, line: impl Display) {
        let line = match self.format {
            Format::Text => line.to_string(),
            Format::Json => json!({"note": line.to_string()}).to_string(),
        };
        self.complain(&line);
    }

    /// A failure, in one line on standard error.
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
        self.complain(&line);
    }

    /// An event. At a prompt it is printed above the line that is being typed.
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

    /// A bar for long work: on standard error, only if that is a terminal, and only once the work
    /// has taken long enough to be worth it. It goes when the work is done or given up.
    pub(crate) fn progress(&self, what: &'static str, total: u64) -> ProgressBar {
        if !self.terminal.errors || self.is_json() {
            return ProgressBar::hidden();
        }
        // The template is a constant; a wrong one would only cost the looks.
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
            tokio::time::sleep(WORTH_A_BAR).await;
            if let Some(bar) = weak.upgrade().filter(|bar| !bar.is_finished()) {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        });
        bar
    }

    /// Nobody may be listening there, which is no reason to fail.
    fn complain(&mut self, line: &str) {
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

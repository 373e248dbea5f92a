//! Shows progress on standard error: bars on a terminal, otherwise a line for each step.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const REDRAW: Duration = Duration::from_millis(200);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Progress bars.
    Bars,
    /// A line when a step is done.
    Lines,
    /// No output.
    Silent,
}

impl Progress {
    /// Returns bars if standard error is a terminal, else lines.
    #[must_use]
    pub fn on_stderr() -> Self {
        if io::stderr().is_terminal() { Progress::Bars } else { Progress::Lines }
    }

    /// Shows work on this many things; 0 if the number is not known.
    pub(crate) fn counting(self, what: &str, total: u64) -> Meter {
        let template = match total {
            0 => "{spinner} {msg} {human_pos} {per_sec}",
            _ => "{spinner} {msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
        };
        self.meter(template, what, (total > 0).then_some(total))
    }

    /// Shows the elapsed time of some work.
    pub(crate) fn waiting(self, what: &str) -> Meter {
        self.meter("{spinner} {msg} {elapsed}", what, None)
    }

    /// Prints a line about a step that begins, unless a bar shows it.
    pub(crate) fn announce(self, line: &str) {
        if self == Progress::Lines {
            print(line);
        }
    }

    /// Prints a line about a step that is done.
    pub(crate) fn print(self, line: &str) {
        if self != Progress::Silent {
            print(line);
        }
    }

    fn meter(self, template: &str, what: &str, total: Option<u64>) -> Meter {
        if self != Progress::Bars {
            return Meter(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(REDRAW);
        Meter(bar)
    }
}

/// Prints a line; ignores a closed standard error.
fn print(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The progress of some work. Its bar is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Meter(ProgressBar);

impl Meter {
    pub(crate) fn add(&self, things: u64) {
        self.0.inc(things);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

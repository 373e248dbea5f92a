//! What a person sees on standard error while it runs: bars on a terminal, a line for each step elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const REDRAW: Duration = Duration::from_millis(200);

/// Where progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Bars that move.
    Bars,
    /// A line when something is done.
    Lines,
    /// Nothing.
    Silent,
}

impl Progress {
    /// Bars if standard error is a terminal, else lines.
    #[must_use]
    pub fn on_stderr() -> Self {
        if io::stderr().is_terminal() { Progress::Bars } else { Progress::Lines }
    }

    /// Work on so many things; 0 if that is not known.
    pub(crate) fn counting(self, what: &str, total: u64) -> Meter {
        let template = match total {
            0 => "{spinner} {msg} {human_pos} {per_sec}",
            _ => "{spinner} {msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
        };
        self.meter(template, what, (total > 0).then_some(total))
    }

    /// Work of which only the time is known.
    pub(crate) fn waiting(self, what: &str) -> Meter {
        self.meter("{spinner} {msg} {elapsed}", what, None)
    }

    /// A line about something that begins, where no bar tells of it.
    pub(crate) fn announce(self, line: &str) {
        if self == Progress::Lines {
            say(line);
        }
    }

    /// A line about something that is done.
    pub(crate) fn say(self, line: &str) {
        if self != Progress::Silent {
            say(line);
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

/// Nobody who reads standard error any more is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// How far some work is. Its bar goes when this is dropped.
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

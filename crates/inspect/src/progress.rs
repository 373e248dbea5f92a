//! A progress bar on standard error, for work that takes long.
//!
//! In: how much work is done. Out: nothing for the first second, and nothing at all when standard error is
//! not a terminal: scripts and logs see no bar.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::Console;

/// Work that takes less time shows no bar.
const QUIET: Duration = Duration::from_secs(1);

/// The progress of some work.
pub(crate) struct Meter {
    bar: ProgressBar,
    /// When to show the bar; `None` if never, or if it is shown.
    shows_at: Option<Instant>,
}

impl Meter {
    /// Starts a meter for this many bytes; 0 if their number is not known.
    pub(crate) fn of_bytes(console: &Console<'_>, what: &str, bytes_total: u64) -> Self {
        let template = match bytes_total {
            0 => "{msg} {bytes} {bytes_per_sec} {spinner}",
            _ => "{msg} {wide_bar} {bytes}/{total_bytes} {eta}",
        };
        let total = (bytes_total > 0).then_some(bytes_total);
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        let shows_at = console.draws_progress().then(|| Instant::now() + QUIET);
        Meter { bar, shows_at }
    }

    /// Sets how many bytes are done.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.bar.set_position(bytes);
        self.appear();
    }

    /// Adds to the bytes that are done.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        self.appear();
    }

    fn appear(&mut self) {
        if self.shows_at.is_some_and(|at| Instant::now() >= at) {
            self.shows_at = None;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

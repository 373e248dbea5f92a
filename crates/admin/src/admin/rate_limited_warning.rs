//! Warnings that other hosts can cause at will: at most one line per second is logged.

use std::fmt::Display;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

/// The shortest time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Warnings of one kind.
#[derive(Debug, Default)]
pub(crate) struct RateLimitedWarning(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl RateLimitedWarning {
    /// Logs the line, or counts it for the next one.
    pub(crate) fn warn(&self, line: impl Display) {
        match self.admit() {
            None => {}
            Some(0) => warn!("{line}"),
            Some(left_out) => warn!("{line} ({left_out} similar messages suppressed)"),
        }
    }

    /// The number of lines that were suppressed before this one; `None` if this one is suppressed, too.
    fn admit(&self) -> Option<u64> {
        let mut state = self.0.lock();
        let now = Instant::now();
        if state.last.is_some_and(|last| now < last + INTERVAL) {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_warnings_is_one_line_in_a_second() {
        let warning = RateLimitedWarning::default();
        assert_eq!((0..5).map(|_| warning.admit()).filter(Option::is_some).count(), 1);
        tokio::time::advance(INTERVAL).await;
        assert_eq!(warning.admit(), Some(4));
    }
}

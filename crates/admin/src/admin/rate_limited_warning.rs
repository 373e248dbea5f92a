//! Warnings that other hosts can cause as often as they like: at most one line in a second goes to the log.

use std::fmt::Display;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

/// Between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Warnings of one kind.
#[derive(Debug, Default)]
pub(crate) struct RateLimitedWarning(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    left_out: u64,
}

impl RateLimitedWarning {
    /// Writes the line, or counts it for the next one.
    pub(crate) fn warn(&self, line: impl Display) {
        match self.admit() {
            None => {}
            Some(0) => warn!("{line}"),
            Some(left_out) => warn!("{line}; {left_out} more since the last such line"),
        }
    }

    /// How many lines were left out before this one; `None` if it is left out, too.
    fn admit(&self) -> Option<u64> {
        let mut told = self.0.lock();
        let now = Instant::now();
        if told.last.is_some_and(|last| now < last + INTERVAL) {
            told.left_out += 1;
            return None;
        }
        told.last = Some(now);
        Some(std::mem::take(&mut told.left_out))
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

//! Limits how often one kind of line is logged: a client that can trigger log lines, by connecting
//! again and again for example, must not fill the disk with them.
//!
//! Time is an argument, from any monotonic clock. Times from several threads may be out of order by
//! a little, which counts as no time passed.

use std::time::Duration;

/// Admits up to N lines per window and counts the others.
#[derive(Clone, Debug)]
pub struct LineLimit {
    lines_max: u32,
    window: Duration,
    /// The start of the window, and the number of lines since then.
    began: Option<Duration>,
    lines: u32,
    left_out: u64,
}

impl LineLimit {
    /// Admits up to `lines_max` lines in each window.
    #[must_use]
    pub const fn new(lines_max: u32, window: Duration) -> Self {
        LineLimit { lines_max, window, began: None, lines: 0, left_out: 0 }
    }

    /// Admits up to this many lines per minute.
    #[must_use]
    pub const fn per_minute(lines_max: u32) -> Self {
        Self::new(lines_max, Duration::from_secs(60))
    }

    /// Returns the number of suppressed lines before this one; `None` if this one is suppressed.
    pub fn admit(&mut self, now: Duration) -> Option<u64> {
        if self.is_over(now) {
            self.began = Some(now);
            self.lines = 0;
        }
        if self.lines >= self.lines_max {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }

    /// Whether the next line is admitted, for callers to whom it costs something to compose it.
    #[must_use]
    pub fn has_room(&self, now: Duration) -> bool {
        self.lines < self.lines_max || self.is_over(now)
    }

    /// Whether the window has ended, so that the next line is admitted.
    #[must_use]
    pub fn is_over(&self, now: Duration) -> bool {
        self.began.is_none_or(|began| now.saturating_sub(began) >= self.window)
    }

    /// Resets the window and the count, after the problem is solved.
    pub fn reset(&mut self) {
        *self = Self::new(self.lines_max, self.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_flood_is_counted_and_told_later() {
        let mut limit = LineLimit::per_minute(10);
        let said = (0..100).filter(|i| limit.admit(seconds(100 + i / 10)).is_some()).count();
        assert_eq!(said, 10);
        assert_eq!(limit.admit(seconds(99)), None, "a clock that went back");
        assert_eq!([159, 160].map(|at| limit.has_room(seconds(at))), [false, true]);
        assert_eq!([limit.admit(seconds(160)), limit.admit(seconds(160))], [Some(91), Some(0)]);
    }

    #[test]
    fn success_makes_the_next_failure_worth_a_line() {
        let mut limit = LineLimit::new(1, seconds(10));
        assert!(limit.has_room(seconds(0)));
        assert_eq!([limit.admit(seconds(0)), limit.admit(seconds(9))], [Some(0), None]);
        limit.reset();
        assert_eq!(limit.admit(seconds(9)), Some(0));
    }
}

//! Reports about what others do, so few that a flood of it does not fill the disk with a log.

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{debug, info, warn};

/// What is said in a minute about mistakes; the rest is counted.
const WARNINGS_MAX: u32 = 10;
/// What is said in a minute about what is in order.
const NEWS_MAX: u32 = 100;
const WINDOW: Duration = Duration::from_secs(60);

/// One kind of reports.
#[derive(Debug)]
pub(crate) struct Reports {
    reports_max: u32,
    window: Mutex<Option<Window>>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    said: u32,
    swallowed: u64,
}

impl Default for Reports {
    fn default() -> Self {
        Reports { reports_max: WARNINGS_MAX, window: Mutex::default() }
    }
}

impl Reports {
    /// Says one thing a minute: for what goes on being wrong until it is repaired.
    pub fn once_a_minute() -> Self {
        Reports { reports_max: 1, window: Mutex::default() }
    }

    /// What happens when servers come and go; but anybody can pretend to be one.
    pub fn news() -> Self {
        Reports { reports_max: NEWS_MAX, window: Mutex::default() }
    }

    /// Warns, or counts if enough was said.
    pub fn warn(&self, report: fmt::Arguments<'_>) {
        match self.count(Instant::now()) {
            Some(0) => warn!("{report}"),
            Some(swallowed) => warn!("{report} (and {swallowed} more such reports before)"),
            None => debug!("{report}"),
        }
    }

    /// The same for what is in order.
    pub fn info(&self, report: fmt::Arguments<'_>) {
        match self.count(Instant::now()) {
            Some(0) => info!("{report}"),
            Some(swallowed) => info!("{report} (and {swallowed} more such reports before)"),
            None => debug!("{report}"),
        }
    }

    /// What went well once may be reported again when it fails.
    pub fn reset(&self) {
        *self.window.lock() = None;
    }

    /// How many reports were swallowed before this one; `None` if it has to be swallowed too.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock();
        let fresh = Window { began: now, said: 0, swallowed: 0 };
        let current = window.get_or_insert(fresh);
        let mut swallowed = 0;
        if now.duration_since(current.began) >= WINDOW {
            swallowed = current.swallowed;
            *current = Window { began: now, said: 0, swallowed: 0 };
        }
        if current.said >= self.reports_max {
            current.swallowed += 1;
            return None;
        }
        current.said += 1;
        Some(swallowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_told_later() {
        let warnings = Reports::default();
        let start = Instant::now();
        let said = (0..100).filter(|_| warnings.count(start).is_some()).count();
        assert_eq!(said, 10);
        assert_eq!(warnings.count(start + WINDOW), Some(90));
        assert_eq!(warnings.count(start + WINDOW), Some(0));
    }

    #[test]
    fn success_makes_the_next_failure_worth_a_report() {
        let warnings = Reports::once_a_minute();
        let start = Instant::now();
        assert_eq!([warnings.count(start), warnings.count(start)], [Some(0), None]);
        warnings.reset();
        assert_eq!(warnings.count(start), Some(0));
    }
}

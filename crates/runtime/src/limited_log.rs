//! A rate-limited logger for events that other hosts can trigger.

use std::fmt;
use std::time::Instant;

use parking_lot::Mutex;
use tracing::{debug, info, warn};

use crate::LineLimit;

/// Warnings logged per minute; the rest are counted.
const WARNINGS_MAX: u32 = 10;
/// Informational lines logged per minute.
const NEWS_MAX: u32 = 100;

/// A rate limiter for one kind of log line.
#[derive(Debug)]
pub struct LimitedLog {
    start: Instant,
    limit: Mutex<LineLimit>,
}

impl Default for LimitedLog {
    fn default() -> Self {
        Self::at_most(WARNINGS_MAX)
    }
}

impl LimitedLog {
    fn at_most(lines_max: u32) -> Self {
        LimitedLog { start: Instant::now(), limit: Mutex::new(LineLimit::per_minute(lines_max)) }
    }

    /// Logs at most one line per minute, for conditions that persist until repaired.
    pub fn once_a_minute() -> Self {
        Self::at_most(1)
    }

    /// For connects and disconnects, which any host can cause.
    pub fn news() -> Self {
        Self::at_most(NEWS_MAX)
    }

    /// Logs a warning, or counts it if the limit is reached.
    pub fn warn(&self, report: fmt::Arguments<'_>) {
        match self.admit() {
            Some(0) => warn!("{report}"),
            Some(left_out) => warn!("{report} ({left_out} similar messages suppressed)"),
            None => debug!("{report}"),
        }
    }

    /// Like [`LimitedLog::warn`], at level info.
    pub fn info(&self, report: fmt::Arguments<'_>) {
        match self.admit() {
            Some(0) => info!("{report}"),
            Some(left_out) => info!("{report} ({left_out} similar messages suppressed)"),
            None => debug!("{report}"),
        }
    }

    /// Whether the next line would be logged, for callers to whom it costs something to compose it.
    pub fn has_room(&self) -> bool {
        self.limit.lock().has_room(self.start.elapsed())
    }

    fn admit(&self) -> Option<u64> {
        self.limit.lock().admit(self.start.elapsed())
    }

    /// Resets the limit after a success, so that the next failure is logged.
    pub fn reset(&self) {
        self.limit.lock().reset();
    }
}

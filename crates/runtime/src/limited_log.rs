//! LimitedLog about what others do, so few that a flood of it does not fill the disk with a log.

use std::fmt;
use std::time::Instant;

use parking_lot::Mutex;
use tracing::{debug, info, warn};

use crate::LineLimit;

/// What is said in a minute about mistakes; the rest is counted.
const WARNINGS_MAX: u32 = 10;
/// What is said in a minute about what is in order.
const NEWS_MAX: u32 = 100;

/// One kind of reports.
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

    /// Says one thing a minute: for what goes on being wrong until it is repaired.
    pub fn once_a_minute() -> Self {
        Self::at_most(1)
    }

    /// What happens when servers and clients come and go; but anybody can pretend to be one.
    pub fn news() -> Self {
        Self::at_most(NEWS_MAX)
    }

    /// Warns, or counts if enough was said.
    pub fn warn(&self, report: fmt::Arguments<'_>) {
        match self.admit() {
            Some(0) => warn!("{report}"),
            Some(left_out) => warn!("{report} (and {left_out} more such reports before)"),
            None => debug!("{report}"),
        }
    }

    /// The same for what is in order.
    pub fn info(&self, report: fmt::Arguments<'_>) {
        match self.admit() {
            Some(0) => info!("{report}"),
            Some(left_out) => info!("{report} (and {left_out} more such reports before)"),
            None => debug!("{report}"),
        }
    }

    fn admit(&self) -> Option<u64> {
        self.limit.lock().admit(self.start.elapsed())
    }

    /// What went well once may be reported again when it fails.
    pub fn reset(&self) {
        self.limit.lock().reset();
    }
}

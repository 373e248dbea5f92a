//! The server's clocks. No other module reads them.

use std::time::Instant;

use herdsman_node::Now;
use herdsman_runtime::millis;
pub use herdsman_runtime::wall_ms;

/// Reads the time for the core.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts the clock.
    #[must_use]
    pub fn start() -> Self {
        Clock { start: Instant::now() }
    }

    /// Starts a clock that shows this time already.
    #[cfg(test)]
    pub fn started_at(elapsed: std::time::Duration) -> Self {
        let start = Instant::now().checked_sub(elapsed);
        Clock { start: start.expect("the machine has been running for longer") }
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Now {
        Now { monotonic_ms: self.monotonic_ms(), wall_ms: wall_ms() }
    }

    /// Microseconds since the start.
    #[must_use]
    pub fn monotonic_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Milliseconds since the start.
    #[must_use]
    pub fn monotonic_ms(&self) -> u64 {
        millis(self.start.elapsed())
    }
}

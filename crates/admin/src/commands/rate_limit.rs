//! One call in an interval. Apache: `RateLimiter`. How we differ: Apache takes the setting for microseconds
//! when it limits snapshots; we take it for what its name says, milliseconds, for both commands.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lets one caller through in an interval.
pub(super) struct RateLimit {
    interval: Duration,
    last: Mutex<Option<Instant>>,
}

impl RateLimit {
    pub(super) fn new(interval: Duration) -> Self {
        RateLimit { interval, last: Mutex::new(None) }
    }

    /// Whether the caller may go on; if not, how long to wait.
    pub(super) fn admit(&self) -> Result<(), Duration> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Result<(), Duration> {
        let mut last = self.last.lock();
        let next = last.map(|last| last + self.interval);
        match next.and_then(|next| next.checked_duration_since(now)) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *last = Some(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_an_interval() {
        let limit = RateLimit::new(Duration::from_secs(300));
        let start = Instant::now();
        let at = |seconds| limit.admit_at(start + Duration::from_secs(seconds));
        assert_eq!(at(0), Ok(()));
        assert_eq!(at(10), Err(Duration::from_secs(290)));
        assert_eq!(at(300), Ok(()));
        assert!(at(301).is_err());
        let none = RateLimit::new(Duration::ZERO);
        assert!(none.admit().is_ok() && none.admit().is_ok());
    }
}

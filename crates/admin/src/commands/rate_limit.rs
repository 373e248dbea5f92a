//! Allows one call per interval. Apache: `RateLimiter`. How we differ: Apache treats the setting as microseconds
//! when it limits snapshots; we treat it as milliseconds, as its name says, for both commands.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Admits one call per interval.
pub(super) struct RateLimit {
    /// The name of the limited operation, for messages.
    what: &'static str,
    interval: Duration,
    last: Mutex<Option<Instant>>,
}

impl RateLimit {
    pub(super) fn new(what: &'static str, interval: Duration) -> Self {
        RateLimit { what, interval, last: Mutex::new(None) }
    }

    /// Admits a call, or returns how long to wait.
    pub(super) fn admit(&self) -> Result<(), TooSoon> {
        let RateLimit { what, interval, .. } = *self;
        self.admit_at(Instant::now()).map_err(|wait| TooSoon { what, interval, wait })
    }

    /// Undoes the last admission, because the call was rejected for another reason.
    pub(super) fn refund(&self) {
        *self.last.lock() = None;
    }

    /// Admits a call at this time, or returns how long to wait.
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

/// The error for a call that came too soon.
#[derive(Debug, thiserror::Error)]
#[error(
    "at most one {what} every {} s (admin.rateLimiterIntervalInMS); try again in {} s",
    .interval.as_secs_f64(),
    seconds(.wait)
)]
pub(super) struct TooSoon {
    what: &'static str,
    interval: Duration,
    wait: Duration,
}

impl TooSoon {
    /// Seconds until the next call is admitted.
    pub(super) fn seconds(&self) -> u64 {
        seconds(&self.wait)
    }
}

fn seconds(wait: &Duration) -> u64 {
    wait.as_secs().saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_an_interval() {
        let limit = RateLimit::new("snapshot", Duration::from_secs(300));
        let start = Instant::now();
        let at = |seconds| limit.admit_at(start + Duration::from_secs(seconds));
        assert_eq!(at(0), Ok(()));
        assert_eq!(at(10), Err(Duration::from_secs(290)));
        assert_eq!(at(300), Ok(()));
        assert!(at(301).is_err());
        limit.refund();
        assert_eq!(at(302), Ok(()));
        let why = limit.admit().unwrap_err().to_string();
        assert!(why.starts_with("at most one snapshot every 300 s"), "{why}");
        let none = RateLimit::new("snapshot", Duration::ZERO);
        assert!(none.admit().is_ok() && none.admit().is_ok());
    }
}

//! Limits how often a node is put back.
//!
//! The first attempt after a quiet period is made at once. Attempts in a row, because the server rejects the node or
//! because it is deleted repeatedly, are made at growing intervals.

use std::time::Duration;

use tokio::time::Instant;

/// A node that was left alone for this long is put back at once again.
const QUIET: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The attempts so far.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last: Option<Instant>,
    pause: Duration,
}

impl Pace {
    /// Returns how long to wait before the attempt that is due now.
    pub(crate) fn pause_before_attempt(&mut self, now: Instant) -> Duration {
        let is_quiet =
            self.last.is_none_or(|last| now.saturating_duration_since(last) > QUIET + self.pause);
        self.pause = match self.pause {
            _ if is_quiet => Duration::ZERO,
            Duration::ZERO => PAUSE_MIN,
            pause => (pause * 2).min(PAUSE_MAX),
        };
        self.last = Some(now);
        self.pause
    }

    /// Returns whether there was no attempt at all.
    pub(crate) fn is_unused(&self) -> bool {
        self.last.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_made_at_once_and_others_ever_more_slowly() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let pauses: Vec<_> = (0..12).map(|_| pace.pause_before_attempt(now).as_millis()).collect();
        assert_eq!(pauses, [0, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000, 5000]);
    }

    #[test]
    fn after_a_quiet_time_the_pauses_start_again() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for _ in 0..10 {
            pace.pause_before_attempt(now);
        }
        let later = now + QUIET + PAUSE_MAX + PAUSE_MAX;
        assert_eq!(pace.pause_before_attempt(later), Duration::ZERO);
        assert_eq!(pace.pause_before_attempt(later), PAUSE_MIN);
    }
}

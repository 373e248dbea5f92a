//! Exponential backoff between rounds of connection attempts.
//!
//! In: a base, a cap, a source of randomness. Out: pauses whose upper bound doubles from the base
//! to the cap, each drawn uniformly below that bound ("full jitter"), so that clients that lost the
//! same server at the same moment do not reconnect at the same moment. Nothing sleeps here.
//!
//! Apache's Java client draws a pause uniformly from 0 to 1 s between rounds and never doubles it. The
//! cap is also 1 s here: the session timeout elapses while the client waits, and the shortest usual
//! session timeout is 4 s.

use std::time::Duration;

use fastrand::Rng;

/// The upper bound of the first pause.
pub(crate) const BASE: Duration = Duration::from_millis(50);
/// The upper bound of every pause.
pub(crate) const CAP: Duration = Duration::from_secs(1);
/// The shortest pause, so that a series of short draws does not become a busy loop.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Exponential backoff with jitter.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    /// The number of pauses since the start or the last reset.
    count: u32,
    rng: Rng,
}

impl Backoff {
    /// Creates a backoff. A base above the cap counts as the cap, and both are at least [`PAUSE_MIN`].
    pub(crate) fn new(base: Duration, cap: Duration, rng: Rng) -> Self {
        let cap = cap.max(PAUSE_MIN);
        Self { base: base.clamp(PAUSE_MIN, cap), cap, count: 0, rng }
    }

    /// Returns the next pause, from [`PAUSE_MIN`] to the cap.
    pub(crate) fn next(&mut self) -> Duration {
        let ceiling = doubled(self.base, self.count, self.cap);
        self.count = self.count.saturating_add(1);
        full_jitter(ceiling, &mut self.rng)
    }

    /// Starts again at the base. To be called when a connection has lasted for a while, not when a
    /// socket opens: a server that accepts connections and then closes them would otherwise be tried in
    /// a tight loop.
    pub(crate) fn reset(&mut self) {
        self.count = 0;
    }
}

/// `base` doubled `times` times, but no more than `cap`.
pub(crate) fn doubled(base: Duration, times: u32, cap: Duration) -> Duration {
    // One nanosecond doubled 95 times is longer than any `Duration`. The limit avoids a useless loop for
    // a base of zero.
    let mut bound = base;
    for _ in 0..times.min(95) {
        if bound >= cap {
            break;
        }
        bound = bound.saturating_mul(2);
    }
    bound.min(cap)
}

/// Draws a pause uniformly from [`PAUSE_MIN`] to `ceiling`; returns the ceiling itself if that is shorter.
pub(crate) fn full_jitter(ceiling: Duration, rng: &mut Rng) -> Duration {
    let nanos_max = u64::try_from(ceiling.as_nanos()).unwrap_or(u64::MAX);
    let nanos_min = u64::try_from(PAUSE_MIN.as_nanos()).unwrap_or(u64::MAX).min(nanos_max);
    Duration::from_nanos(rng.u64(nanos_min..=nanos_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn backoff(seed: u64) -> Backoff {
        Backoff::new(BASE, CAP, Rng::with_seed(seed))
    }

    fn pauses(backoff: &mut Backoff, count: usize) -> Vec<Duration> {
        std::iter::repeat_with(|| backoff.next()).take(count).collect()
    }

    #[test]
    fn the_bound_doubles_up_to_the_cap() {
        let table = [(0, 50), (1, 100), (2, 200), (4, 800), (5, 1000), (6, 1000), (u32::MAX, 1000)];
        for (times, expected_ms) in table {
            assert_eq!(doubled(BASE, times, CAP), expected_ms * MS, "doubled {times} times");
        }
        assert_eq!(doubled(Duration::ZERO, u32::MAX, CAP), Duration::ZERO);
        assert_eq!(doubled(Duration::from_nanos(1), u32::MAX, Duration::MAX), Duration::MAX);
        assert_eq!(doubled(2 * CAP, 0, CAP), CAP);
    }

    #[test]
    fn every_pause_lies_between_the_minimum_and_its_bound() {
        for seed in 0..500 {
            let mut backoff = backoff(seed);
            for times in 0..12 {
                let pause = backoff.next();
                assert!(pause >= PAUSE_MIN && pause <= doubled(BASE, times, CAP), "{pause:?}");
            }
        }
    }

    #[test]
    fn draws_fill_the_whole_range_evenly() {
        let mut rng = Rng::with_seed(7);
        let mut tenths = [0_u32; 10];
        for _ in 0..10_000 {
            let pause = full_jitter(CAP, &mut rng);
            tenths[usize::try_from(pause.as_millis() / 100).unwrap().min(9)] += 1;
        }
        assert!(tenths.iter().all(|count| (850..1150).contains(count)), "{tenths:?}");
    }

    #[test]
    fn the_seed_decides_and_a_reset_starts_again() {
        assert_eq!(pauses(&mut backoff(1), 20), pauses(&mut backoff(1), 20));
        assert_ne!(pauses(&mut backoff(1), 20), pauses(&mut backoff(2), 20));
        for seed in 0..200 {
            let mut backoff = backoff(seed);
            let _ = pauses(&mut backoff, 10);
            backoff.reset();
            assert!(backoff.next() <= BASE);
            assert!(backoff.next() <= 2 * BASE);
        }
    }

    #[test]
    fn odd_parameters_neither_panic_nor_spin() {
        let zero = Duration::ZERO;
        for (base, cap) in [(zero, zero), (zero, CAP), (CAP, MS), (Duration::MAX, Duration::MAX)] {
            let mut backoff = Backoff::new(base, cap, Rng::with_seed(3));
            for pause in pauses(&mut backoff, 200) {
                assert!(pause >= PAUSE_MIN && pause <= cap.max(PAUSE_MIN), "{base:?} {cap:?}");
            }
        }
    }
}

//! Whether and when a failed operation is tried again.
//!
//! In: a policy chosen by the user, the number of failed attempts, the time since the first. Out:
//! a pause, or no further attempt. Time is passed in and nothing sleeps here.
//!
//! Deliberately not here: *which* errors are retried. That is the client's decision. It repeats an
//! operation only if the error says that the operation was not applied, or if the operation is safe
//! to repeat (such as a read). With every policy, a write that may or may not have been applied is
//! reported to the caller.
//!
//! Curator has the same policies (`RetryNTimes`, `ExponentialBackoffRetry`, `RetryUntilElapsed`,
//! `RetryForever`). Its exponential pauses keep a minimum of one base; ours have full jitter.

use std::time::Duration;

use fastrand::Rng;

use crate::backoff::{PAUSE_MIN, doubled, full_jitter};

/// How often and with what pauses a failed operation is retried.
///
/// A policy is a plain value without state and can be shared by any number of operations. It does not
/// decide which errors are retried: those that say that the operation was not applied, and those of
/// operations that are safe to repeat.
///
/// ```
/// use std::time::Duration;
/// use herdsman_client::retry::RetryPolicy;
///
/// // No retries.
/// let never = RetryPolicy::never();
/// // At most three retries, a second apart.
/// let steady = RetryPolicy::n_times(3, Duration::from_secs(1));
/// // At most ten retries after up to 100 ms, 200 ms, 400 ms, then at most 500 ms.
/// let patient = RetryPolicy::exponential(Duration::from_millis(100), 10)
///     .pause_max(Duration::from_millis(500));
/// // As many retries as fit into 30 s.
/// let limited = RetryPolicy::until_elapsed(Duration::from_secs(30), Duration::from_secs(1));
/// // Until it succeeds or the caller drops the operation.
/// let stubborn = RetryPolicy::forever(Duration::from_secs(1));
/// # let _ = (never, steady, patient, limited, stubborn);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    limit: Limit,
    pause: Pause,
    pause_max: Duration,
}

/// When there are no further attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Limit {
    Retries(u32),
    Elapsed(Duration),
    Never,
}

/// The pause between two attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pause {
    Fixed(Duration),
    /// The upper bound starts here and doubles.
    Jittered(Duration),
}

impl RetryPolicy {
    /// The upper bound of [`exponential`](Self::exponential) pauses, unless
    /// [`pause_max`](Self::pause_max) says otherwise.
    pub const EXPONENTIAL_PAUSE_MAX: Duration = Duration::from_secs(10);

    /// Never retries.
    #[must_use]
    pub const fn never() -> Self {
        Self::n_times(0, Duration::ZERO)
    }

    /// Retries at most `retries` times, with the same pause before each retry. The pause may be zero.
    #[must_use]
    pub const fn n_times(retries: u32, pause: Duration) -> Self {
        let limit = Limit::Retries(retries);
        Self { limit, pause: Pause::Fixed(pause), pause_max: Duration::MAX }
    }

    /// Retries at most `retries` times, with growing random pauses: the first is drawn uniformly
    /// from 0 (in fact 1 ms) to `base`, the next from 0 to twice that, and so on, up to
    /// [`EXPONENTIAL_PAUSE_MAX`](Self::EXPONENTIAL_PAUSE_MAX). So many clients that fail together do
    /// not retry together. With a `base` of zero every pause is zero.
    #[must_use]
    pub const fn exponential(base: Duration, retries: u32) -> Self {
        let limit = Limit::Retries(retries);
        Self { limit, pause: Pause::Jittered(base), pause_max: Self::EXPONENTIAL_PAUSE_MAX }
    }

    /// Retries until `total` has elapsed since the first attempt began, with the same pause before each
    /// retry (at least 1 ms, to avoid a busy loop). The last pause is shortened so that there is a last
    /// attempt when `total` has elapsed. An attempt in progress is not cancelled.
    #[must_use]
    pub const fn until_elapsed(total: Duration, pause: Duration) -> Self {
        let limit = Limit::Elapsed(total);
        Self { limit, pause: Pause::Fixed(pause), pause_max: Duration::MAX }
    }

    /// Retries without a limit, with the same pause before each retry (at least 1 ms, to avoid a busy
    /// loop). Ends only with success, with an error that is not retried, or when the caller drops
    /// the operation. Also retries writes that a read-only server refuses, until a quorum is back: with
    /// other policies they fail at once.
    #[must_use]
    pub const fn forever(pause: Duration) -> Self {
        Self { limit: Limit::Never, pause: Pause::Fixed(pause), pause_max: Duration::MAX }
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.limit == Limit::Never
    }

    /// Limits the length of pauses. Meant for [`exponential`](Self::exponential), where it limits the
    /// doubling, but effective for every policy.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use herdsman_client::retry::RetryPolicy;
    /// let policy =
    ///     RetryPolicy::exponential(Duration::from_millis(50), 20).pause_max(Duration::from_secs(2));
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub const fn pause_max(mut self, pause_max: Duration) -> Self {
        self.pause_max = pause_max;
        self
    }
}

/// [`exponential`](RetryPolicy::exponential) with a base of 100 ms and 5 retries: the pauses add up
/// to 3.1 s at most, which is longer than a typical leader election.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential(Duration::from_millis(100), 5)
    }
}

/// The retries of one operation: a policy and the randomness of its pauses.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    policy: RetryPolicy,
    rng: Rng,
}

impl Attempts {
    pub(crate) fn new(policy: RetryPolicy, rng: Rng) -> Self {
        Self { policy, rng }
    }

    /// Returns how long to wait before the next attempt, or `None` if there is to be none. All
    /// `failed_attempts` so far have failed (1 after the first failure), and the first began `elapsed` ago.
    pub(crate) fn pause_after(
        &mut self,
        failed_attempts: u32,
        elapsed: Duration,
    ) -> Option<Duration> {
        match self.policy.limit {
            Limit::Retries(retries) if failed_attempts > retries => None,
            Limit::Retries(_) => Some(self.pause(failed_attempts)),
            Limit::Elapsed(total) if elapsed >= total => None,
            // Shortened after the minimum is applied: the pause then ends with the total, and there is
            // no further one.
            Limit::Elapsed(total) => {
                Some(self.pause(failed_attempts).max(PAUSE_MIN).min(total - elapsed))
            }
            Limit::Never => Some(self.pause(failed_attempts).max(PAUSE_MIN)),
        }
    }

    fn pause(&mut self, failed_attempts: u32) -> Duration {
        let pause_max = self.policy.pause_max;
        match self.policy.pause {
            Pause::Fixed(pause) => pause.min(pause_max),
            Pause::Jittered(base) => {
                let ceiling = doubled(base, failed_attempts.saturating_sub(1), pause_max);
                full_jitter(ceiling, &mut self.rng)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(1 << 40);

    fn attempts(policy: RetryPolicy) -> Attempts {
        Attempts::new(policy, Rng::with_seed(1))
    }

    /// Checks the pause in ms for each (failed attempts, elapsed ms).
    fn check(policy: &RetryPolicy, rows: &[(u32, u32, Option<u32>)]) {
        let mut attempts = attempts(policy.clone());
        for &(failed, elapsed_ms, expected_ms) in rows {
            let pause = attempts.pause_after(failed, elapsed_ms * MS);
            let expected = expected_ms.map(|ms| ms * MS);
            assert_eq!(pause, expected, "{policy:?} after {failed} in {elapsed_ms} ms");
        }
    }

    #[test]
    fn fixed_pauses_end_where_the_policy_says() {
        check(&RetryPolicy::never(), &[(1, 0, None), (2, 0, None)]);
        check(&RetryPolicy::n_times(0, MS), &[(1, 0, None)]);
        check(
            &RetryPolicy::n_times(2, 5 * MS),
            &[(1, 0, Some(5)), (2, 1_000_000, Some(5)), (3, 0, None), (u32::MAX, 0, None)],
        );
        check(&RetryPolicy::n_times(1, Duration::ZERO), &[(1, 0, Some(0)), (2, 0, None)]);
        check(&RetryPolicy::n_times(1, 5 * MS).pause_max(3 * MS), &[(1, 0, Some(3))]);
        check(
            &RetryPolicy::until_elapsed(100 * MS, 30 * MS),
            &[(1, 0, Some(30)), (9, 70, Some(30)), (2, 90, Some(10)), (2, 100, None)],
        );
        check(&RetryPolicy::until_elapsed(Duration::ZERO, 30 * MS), &[(1, 0, None)]);
        check(
            &RetryPolicy::forever(30 * MS),
            &[(1, 0, Some(30)), (u32::MAX, u32::MAX, Some(30)), (0, 0, Some(30))],
        );
    }

    #[test]
    fn policies_without_a_count_never_spin() {
        let zero = Duration::ZERO;
        check(&RetryPolicy::forever(zero), &[(1, 0, Some(1)), (u32::MAX, 0, Some(1))]);
        check(&RetryPolicy::forever(MS).pause_max(zero), &[(1, 0, Some(1))]);
        check(&RetryPolicy::until_elapsed(9 * MS, zero), &[(1, 0, Some(1)), (1, 9, None)]);
        let nanosecond = Duration::from_nanos(1);
        let mut ending = attempts(RetryPolicy::until_elapsed(MS, zero));
        assert_eq!(ending.pause_after(1, MS - nanosecond), Some(nanosecond));
    }

    #[test]
    fn exponential_pauses_are_drawn_below_a_doubling_bound() {
        let policy = RetryPolicy::exponential(100 * MS, 8).pause_max(500 * MS);
        let bounds_ms = [100, 200, 400, 500, 500, 500, 500, 500];
        let mut longest = [Duration::ZERO; 8];
        for seed in 0..500 {
            let mut attempts = Attempts::new(policy.clone(), Rng::with_seed(seed));
            for (index, bound_ms) in bounds_ms.into_iter().enumerate() {
                let failed = u32::try_from(index).unwrap() + 1;
                let pause = attempts.pause_after(failed, LONG).unwrap();
                assert!(pause >= PAUSE_MIN && pause <= bound_ms * MS, "{failed}: {pause:?}");
                longest[index] = longest[index].max(pause);
            }
            assert_eq!(attempts.pause_after(9, Duration::ZERO), None);
        }
        for (longest, bound_ms) in longest.into_iter().zip(bounds_ms) {
            assert!(longest > bound_ms * MS * 9 / 10, "{longest:?} of {bound_ms} ms");
        }
    }

    #[test]
    fn exponential_pauses_have_a_bound_even_if_none_was_given() {
        let mut attempts = attempts(RetryPolicy::exponential(MS, u32::MAX));
        for failed in [1, 30, 64, 1_000, u32::MAX] {
            let pause = attempts.pause_after(failed, LONG).unwrap();
            assert!(pause <= RetryPolicy::EXPONENTIAL_PAUSE_MAX, "{pause:?}");
        }
        check(
            &RetryPolicy::exponential(Duration::ZERO, 2),
            &[(1, 0, Some(0)), (2, 0, Some(0)), (3, 0, None)],
        );
        check(&RetryPolicy::exponential(LONG, 1).pause_max(Duration::ZERO), &[(1, 0, Some(0))]);
    }

    #[test]
    fn the_default_ends_after_at_most_the_documented_time() {
        for seed in 0..200 {
            let mut attempts = Attempts::new(RetryPolicy::default(), Rng::with_seed(seed));
            let pauses: Duration = (1..=5).filter_map(|n| attempts.pause_after(n, LONG)).sum();
            assert!(pauses > Duration::ZERO && pauses <= 3100 * MS, "{pauses:?}");
            assert_eq!(attempts.pause_after(6, LONG), None);
        }
    }

    #[test]
    fn the_seed_decides_the_pauses() {
        let pauses = |seed| {
            let policy = RetryPolicy::exponential(100 * MS, 8);
            let mut attempts = Attempts::new(policy, Rng::with_seed(seed));
            (1..=8).map(|failed| attempts.pause_after(failed, LONG)).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
    }

    #[test]
    fn a_policy_can_be_shared() {
        fn shared<T: Clone + Send + Sync + 'static>() {}
        shared::<RetryPolicy>();
    }
}

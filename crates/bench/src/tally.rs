//! The counts of one thread while it drives its lanes, and their conversion to a [`Round`].
//!
//! Only replies inside the [`Window`] count as operations. A wrong reply always counts as an error, even during the
//! warm-up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::report::{Latency, Round};

/// Latencies above this are recorded as this.
const LATENCY_MAX_NS: u64 = 120_000_000_000;

/// The time in which operations are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) opens: Instant,
    pub(crate) closes: Instant,
}

impl Window {
    /// Creates a window that opens after the warm-up and closes after this duration.
    pub(crate) fn after(warmup: Duration, duration: Duration) -> Self {
        let opens = Instant::now() + warmup;
        Window { opens, closes: opens + duration }
    }

    pub(crate) fn is_open(&self, now: Instant) -> bool {
        now >= self.opens && now < self.closes
    }
}

/// When the last reply arrived on any thread: a gap is a time without a reply on all threads.
#[derive(Debug)]
pub(crate) struct LastReply {
    origin: Instant,
    since_origin_ns: AtomicU64,
}

impl LastReply {
    /// The first gap begins where the window opens.
    pub(crate) fn at(origin: Instant) -> Self {
        LastReply { origin, since_origin_ns: AtomicU64::new(0) }
    }

    /// Records replies, and returns the time since the last one.
    fn gap_until(&self, now: Instant) -> Duration {
        let now_ns = nanoseconds(now.saturating_duration_since(self.origin));
        let last_ns = self.since_origin_ns.fetch_max(now_ns, Ordering::Relaxed);
        Duration::from_nanos(now_ns.saturating_sub(last_ns))
    }
}

/// Counts of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    latencies: Histogram<u64>,
    /// Consecutive equal latencies, which are common in a batch, are recorded together.
    run_ns: u64,
    run_length: u64,
    errors: u64,
    first_error: Option<String>,
    longest_gap: Duration,
    measured: Duration,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Tally {
            latencies: Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
                .expect("bounds and precision are constants that fit"),
            run_ns: 0,
            run_length: 0,
            errors: 0,
            first_error: None,
            longest_gap: Duration::ZERO,
            measured: Duration::ZERO,
        }
    }

    /// Counts an operation.
    pub(crate) fn record(&mut self, latency: Duration) {
        let latency_ns = nanoseconds(latency);
        if latency_ns != self.run_ns {
            self.end_run();
            self.run_ns = latency_ns;
        }
        self.run_length += 1;
    }

    fn end_run(&mut self) {
        if self.run_length > 0 {
            self.latencies.saturating_record_n(self.run_ns, self.run_length);
            self.run_length = 0;
        }
    }

    /// Records replies inside the window, or the end of the window.
    pub(crate) fn note_reply(&mut self, last: &LastReply, now: Instant) {
        self.longest_gap = self.longest_gap.max(last.gap_until(now));
    }

    /// Counts operations that failed or got a wrong reply.
    pub(crate) fn fail(&mut self, operations: u64, message: impl FnOnce() -> String) {
        self.errors += operations;
        if operations > 0 && self.first_error.is_none() {
            self.first_error = Some(message());
        }
    }

    /// Sets the duration of the measurement.
    pub(crate) fn close(&mut self, measured: Duration) {
        self.end_run();
        self.measured = measured;
    }

    /// Drops the measurement of a preparation, but keeps its errors.
    pub(crate) fn keep_errors_only(&mut self) {
        let (errors, first_error) = (self.errors, self.first_error.take());
        *self = Tally { errors, first_error, ..Tally::new() };
    }

    /// Adds the counts of another thread in the same window.
    pub(crate) fn merge(&mut self, other: Tally) {
        self.latencies.add(&other.latencies).expect("all tallies have the same bounds");
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        self.measured = self.measured.max(other.measured);
    }

    pub(crate) fn first_error(&self) -> Option<&str> {
        self.first_error.as_deref()
    }

    /// Converts the counts to a round of the report.
    pub(crate) fn into_round(mut self) -> Round {
        self.end_run();
        let quantile = |q| microseconds(self.latencies.value_at_quantile(q));
        Round {
            ops: self.latencies.len(),
            errors: self.errors,
            seconds: self.measured.as_secs_f64(),
            latency: Latency {
                p50_us: quantile(0.5),
                p99_us: quantile(0.99),
                p999_us: quantile(0.999),
                max_us: quantile(1.0),
            },
            longest_gap_us: u64::try_from(self.longest_gap.as_micros()).unwrap_or(u64::MAX),
            first_error: self.first_error,
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_the_sum_of_its_threads() {
        let mut tallies = [Tally::new(), Tally::new()];
        for latency_us in [10, 10, 10, 2000] {
            tallies[0].record(Duration::from_micros(latency_us));
        }
        tallies[1].record(Duration::from_micros(10));
        tallies[1].fail(3, || "the first".to_owned());
        tallies[1].fail(1, || "the second".to_owned());
        let [mut sum, other] = tallies;
        sum.close(Duration::from_secs(2));
        let mut other = other;
        other.close(Duration::from_secs(2));
        sum.merge(other);
        let round = sum.into_round();
        assert_eq!((round.ops, round.errors), (5, 4));
        assert_eq!(round.first_error.as_deref(), Some("the first"));
        assert_eq!(round.rate(), 2.5);
        assert!((9.9..10.1).contains(&round.latency.p50_us), "{:?}", round.latency);
        assert!((1990.0..2010.0).contains(&round.latency.max_us), "{:?}", round.latency);
    }

    #[test]
    fn a_gap_ends_with_a_reply_on_any_thread() {
        let start = Instant::now();
        let last = LastReply::at(start);
        let (mut one, mut other) = (Tally::new(), Tally::new());
        one.note_reply(&last, start + Duration::from_millis(5));
        other.note_reply(&last, start + Duration::from_millis(12));
        one.note_reply(&last, start + Duration::from_millis(15));
        one.merge(other);
        assert_eq!(one.into_round().longest_gap_us, 7000);
    }
}

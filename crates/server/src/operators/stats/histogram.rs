//! How long things take, in microseconds, counted without a lock.
//!
//! The buckets end at 2, 3, 4, 6, 8, 12 … microseconds, the last but one at 25 seconds: two for each
//! doubling, so a quantile that is computed from them is right within half of its value at worst. Adding
//! is two relaxed additions. There is one set of buckets for all threads: a thread of connections adds
//! once for a whole run of reads, next to counters that it shares with the others anyway.
//!
//! A reader sees each bucket at the moment it reads it; concurrent additions may appear only in the next read.
//! Histograms are never reset, because rates are computed from monotonic counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Doublings that have buckets: the last bound is 1.5 × 2^24 microseconds.
const DOUBLINGS: usize = 24;
/// Bounded buckets, and one for all that is larger.
const BUCKETS: usize = 2 * DOUBLINGS + 1;

/// Counts of durations, by size.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum_us: AtomicU64::new(0) }
    }
}

/// The contents of a histogram at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramReading {
    /// Upper bounds in microseconds, and the number of values up to each; both increase.
    pub cumulative: Vec<(u64, u64)>,
    /// The number of values.
    pub count: u64,
    /// Their sum in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// Adds one duration.
    pub fn add(&self, duration: Duration) {
        self.add_us(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), 1);
    }

    /// Adds a value in microseconds `times` times.
    pub fn add_us(&self, us: u64, times: u64) {
        self.buckets[bucket(us)].fetch_add(times, Ordering::Relaxed);
        self.sum_us.fetch_add(us.saturating_mul(times), Ordering::Relaxed);
    }

    /// Reads the current counts.
    #[must_use]
    pub fn read(&self) -> HistogramReading {
        let mut count = 0;
        let mut cumulative = Vec::with_capacity(BUCKETS - 1);
        for (i, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            cumulative.extend(bound_us(i).map(|bound_us| (bound_us, count)));
        }
        HistogramReading { cumulative, count, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// The first bucket whose bound is not below the value.
fn bucket(us: u64) -> usize {
    if us <= 2 {
        return 0;
    }
    // A bound belongs to the bucket that ends with it, so the bucket of the previous microsecond counts.
    let before = us - 1;
    let doubling = before.ilog2() as usize;
    let upper_half = (before >> (doubling - 1)) & 1;
    (2 * doubling - 1 + upper_half as usize).min(BUCKETS - 1)
}

/// The largest value in a bucket; the last one has no bound.
fn bound_us(bucket: usize) -> Option<u64> {
    let power = 2 << (bucket / 2);
    let bound = if bucket.is_multiple_of(2) { power } else { power + power / 2 };
    (bucket < BUCKETS - 1).then_some(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let values = (0..5000).chain([1 << 20, (1 << 20) + 1, 25_165_824, 25_165_825, u64::MAX]);
        for us in values {
            let expected = (0..BUCKETS).find(|&i| bound_us(i).is_none_or(|bound| us <= bound));
            assert_eq!(Some(bucket(us)), expected, "{us}");
        }
    }

    #[test]
    fn bounds_go_up_to_some_seconds() {
        let bounds: Vec<_> = (0..BUCKETS).filter_map(bound_us).collect();
        assert_eq!(bounds[..8], [2, 3, 4, 6, 8, 12, 16, 24]);
        assert!(bounds.is_sorted_by(|one, other| one < other));
        assert_eq!(bounds.last(), Some(&25_165_824));
    }

    #[test]
    fn a_reading_adds_up() {
        let histogram = Histogram::default();
        histogram.add_us(3, 2);
        histogram.add(Duration::from_millis(1));
        histogram.add(Duration::from_secs(3600));
        let reading = histogram.read();
        assert_eq!((reading.count, reading.sum_us), (4, 6 + 1000 + 3_600_000_000));
        let up_to = |us| reading.cumulative.iter().find(|(bound, _)| *bound == us).unwrap().1;
        assert_eq!([up_to(2), up_to(3), up_to(768), up_to(1024)], [0, 2, 2, 3]);
        assert_eq!(reading.cumulative.last().unwrap().1, 3);
    }
}

//! A histogram of a series: exact up to 63, within 3 % above.
//!
//! Apache keeps a random sample of 4096 values (`AvgMinMaxPercentileCounter`); we count them all.

use parking_lot::Mutex;

use super::Series;

/// Values below this have a bucket each.
const EXACT: u64 = 64;
/// Buckets for each doubling above.
const PER_DOUBLING: usize = 32;
const BUCKETS: usize = EXACT as usize + PER_DOUBLING * (u64::BITS as usize - 6);

/// Percentiles of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 95th percentile.
    pub p95: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
}

#[derive(Debug, Default)]
struct Spread {
    series: Series,
    /// Allocated with the first value: many series never get one on a given server.
    buckets: Box<[u64]>,
}

/// A series with percentiles, to which several threads add.
#[derive(Debug, Default)]
pub struct SharedDistribution(Mutex<Spread>);

impl SharedDistribution {
    /// Adds one value.
    pub fn add(&self, value: u64) {
        self.add_many(value, 1);
    }

    /// Adds the same value several times.
    pub fn add_many(&self, value: u64, times: u64) {
        let mut spread = self.0.lock();
        spread.series.add_many(value, times);
        if spread.buckets.is_empty() {
            spread.buckets = vec![0; BUCKETS].into_boxed_slice();
        }
        spread.buckets[bucket(value)] += times;
    }

    /// Count, sum and extremes.
    #[must_use]
    pub fn get(&self) -> Series {
        self.0.lock().series
    }

    /// Percentiles; 0 without any value.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let spread = self.0.lock();
        let at = |per_mille| spread.percentile(per_mille);
        Percentiles { p50: at(500), p90: at(900), p95: at(950), p99: at(990), p999: at(999) }
    }

    /// Back to nothing.
    pub fn reset(&self) {
        let mut spread = self.0.lock();
        spread.series = Series::default();
        spread.buckets.fill(0);
    }
}

impl Spread {
    fn percentile(&self, per_mille: u64) -> u64 {
        let wanted = (self.series.count * per_mille).div_ceil(1000);
        let mut seen = 0;
        for (i, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return smallest_in(i).clamp(self.series.min, self.series.max);
            }
        }
        0
    }
}

fn bucket(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let doubling = value.ilog2() as usize;
    let within = (value >> (doubling - 5)) as usize % PER_DOUBLING;
    EXACT as usize + (doubling - 6) * PER_DOUBLING + within
}

fn smallest_in(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(EXACT as usize) else {
        return bucket as u64;
    };
    let (doubling, within) = (above / PER_DOUBLING + 6, above % PER_DOUBLING);
    ((PER_DOUBLING + within) as u64) << (doubling - 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for i in 0..BUCKETS {
            assert_eq!(bucket(smallest_in(i)), i);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for value in [64, 65, 66, 1000, 123_456] {
            let floor = smallest_in(bucket(value));
            assert!(floor <= value && value - floor <= value / 32, "{value} is in {floor}");
        }
    }

    #[test]
    fn percentiles_are_those_of_all_values() {
        let spread = SharedDistribution::default();
        assert_eq!(spread.percentiles(), Percentiles::default());
        for value in 1..=1000 {
            spread.add(value);
        }
        let Percentiles { p50, p90, p95, p99, p999 } = spread.percentiles();
        for (found, exact) in [(p50, 500), (p90, 900), (p95, 950), (p99, 990), (p999, 999)] {
            assert!(found <= exact && exact - found <= exact / 32, "{found} for {exact}");
        }
        spread.reset();
        spread.add_many(7, 3);
        assert_eq!(spread.percentiles(), Percentiles { p50: 7, p90: 7, p95: 7, p99: 7, p999: 7 });
    }
}

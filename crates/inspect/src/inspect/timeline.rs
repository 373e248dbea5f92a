//! Txn types over time, in buckets of a round length.

use std::collections::BTreeMap;

use herdsman_proto::OpCode;
use serde::Serialize;

use crate::show::time_text;

/// The maximum number of buckets, one line each.
const BUCKETS_MAX: i64 = 24;
/// Round bucket lengths in seconds; longer ones are whole weeks.
const LENGTHS: [i64; 15] =
    [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172_800, 604_800];

/// Counts of txns by type and time.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// By second.
    seconds: BTreeMap<i64, BTreeMap<&'static str, u64>>,
    totals: BTreeMap<&'static str, u64>,
}

/// A period and its txns.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Bucket {
    pub(super) from: String,
    pub(super) seconds: i64,
    pub(super) txns: u64,
    pub(super) types: BTreeMap<&'static str, u64>,
}

impl Timeline {
    /// Counts a txn.
    pub(super) fn count(&mut self, time_ms: i64, op: OpCode) {
        let second = time_ms.div_euclid(1000);
        *self.seconds.entry(second).or_default().entry(op.name()).or_default() += 1;
        *self.totals.entry(op.name()).or_default() += 1;
    }

    /// The number of txns of each type, most frequent first.
    pub(super) fn totals(&self) -> Vec<(&'static str, u64)> {
        let mut totals: Vec<_> = self.totals.iter().map(|(name, count)| (*name, *count)).collect();
        totals.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        totals
    }

    /// The buckets from the first txn to the last, empty ones included.
    pub(super) fn buckets(&self) -> Vec<Bucket> {
        let (Some((&first, _)), Some((&last, _))) =
            (self.seconds.first_key_value(), self.seconds.last_key_value())
        else {
            return Vec::new();
        };
        let length = bucket_length(last.saturating_sub(first));
        let mut buckets = Vec::new();
        let mut start = first.div_euclid(length).saturating_mul(length);
        while start <= last {
            let end = start.saturating_add(length);
            buckets.push(self.bucket(start, length, end));
            if end == i64::MAX {
                break;
            }
            start = end;
        }
        buckets
    }

    fn bucket(&self, start: i64, seconds: i64, end: i64) -> Bucket {
        let mut types: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (name, count) in self.seconds.range(start..end).flat_map(|(_, types)| types) {
            *types.entry(*name).or_default() += count;
        }
        let txns = types.values().sum();
        Bucket { from: time_text(start.saturating_mul(1000)), seconds, txns, types }
    }
}

/// The shortest round length that does not give too many buckets.
fn bucket_length(span: i64) -> i64 {
    let fits = |length: &i64| span / length + 1 < BUCKETS_MAX;
    const WEEK: i64 = 604_800;
    let weeks = || (span / (BUCKETS_MAX - 2) / WEEK).saturating_add(1).saturating_mul(WEEK);
    LENGTHS.into_iter().find(fits).unwrap_or_else(weeks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_few_and_round() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.buckets(), []);
        for second in [0, 59, 60, 3600] {
            timeline.count(second * 1000, OpCode::Create);
        }
        timeline.count(61_000, OpCode::Delete);
        let buckets = timeline.buckets();
        assert_eq!(buckets.len(), 13);
        assert_eq!((buckets[0].seconds, buckets[0].txns, buckets[12].txns), (300, 4, 1));
        assert_eq!(buckets[0].types, BTreeMap::from([("create", 3), ("delete", 1)]));
        assert_eq!(timeline.totals(), [("create", 4), ("delete", 1)]);
    }

    #[test]
    fn absurd_times_give_few_buckets_too() {
        let mut timeline = Timeline::default();
        timeline.count(i64::MIN, OpCode::Create);
        timeline.count(i64::MAX, OpCode::Create);
        assert!(timeline.buckets().len() <= 26, "{}", timeline.buckets().len());
        let txns: u64 = timeline.buckets().iter().map(|bucket| bucket.txns).sum();
        assert_eq!(txns, 2);
    }
}

//! Limits and use of all quotas below each child of the root, which Apache calls a namespace.
//! Apache: `DataTree`'s gauge sets, `QuotaMetricsUtils`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::family::{Family, Kind, Number, Reading, Sample};
use crate::clients::io_threads::ServerContext;

/// The label that Apache uses for the values of a set.
const LABEL: &str = "key";

const NAMES: [(&str, &str); 4] = [
    ("quota_count_limit_per_namespace", "Znodes that quotas allow below a child of the root."),
    ("quota_bytes_limit_per_namespace", "Bytes that quotas allow there."),
    ("quota_count_usage_per_namespace", "Znodes there that count for quotas."),
    ("quota_bytes_usage_per_namespace", "Bytes there that count for quotas."),
];

/// Adds one family for each kind of limit and use; none if there are no quotas.
pub(super) fn add(families: &mut Vec<Family>, shared: &ServerContext) {
    let sums = by_namespace(shared);
    if sums.is_empty() {
        return;
    }
    for (i, (name, help)) in NAMES.into_iter().enumerate() {
        let sample = |(namespace, sums): (&String, &[i64; 4])| Sample {
            labels: vec![(LABEL, Cow::Owned(namespace.clone()))],
            reading: Reading::Number(Number::Whole(sums[i])),
        };
        let samples = sums.iter().map(sample).collect();
        families.push(Family { name, help, kind: Kind::Gauge, samples });
    }
}

fn by_namespace(shared: &ServerContext) -> BTreeMap<String, [i64; 4]> {
    let quotas: Vec<_> = {
        let tree = shared.core.tree();
        let quota = |path: &str| Some((path.to_owned(), tree.quota(path)?));
        tree.limited_paths().filter_map(quota).collect()
    };
    let mut sums: BTreeMap<String, [i64; 4]> = BTreeMap::new();
    for (path, (limits, used)) in quotas {
        let Some(namespace) = path.split('/').nth(1).filter(|name| !name.is_empty()) else {
            continue;
        };
        let limit = |hard: i64, soft: i64| if hard > -1 { hard } else { soft };
        let values = [
            limit(limits.count_hard, limits.count),
            limit(limits.bytes_hard, limits.bytes),
            used.count,
            used.bytes,
        ];
        let sums = sums.entry(namespace.to_owned()).or_default();
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
    sums
}

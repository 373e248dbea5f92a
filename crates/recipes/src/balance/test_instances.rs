//! Instances for the tests of this folder, and helpers that count picks.

use std::collections::BTreeMap;

use super::Instance;

/// An instance that has only a name and a weight.
#[derive(Clone, Debug)]
pub(super) struct Named {
    id: String,
    weight: u32,
}

impl Instance for Named {
    fn id(&self) -> &str {
        &self.id
    }

    fn weight(&self) -> u32 {
        self.weight
    }
}

pub(super) fn instances(list: &[(&str, u32)]) -> Vec<Named> {
    list.iter().map(|(id, weight)| Named { id: (*id).to_owned(), weight: *weight }).collect()
}

/// `count` instances of weight 1: `node-0`, `node-1` and so on.
pub(super) fn nodes(count: usize) -> Vec<Named> {
    (0..count).map(|n| Named { id: format!("node-{n}"), weight: 1 }).collect()
}

/// How often each instance is picked.
pub(super) fn tally<'i>(
    picks: usize,
    mut pick: impl FnMut() -> Option<&'i Named>,
) -> BTreeMap<&'i str, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..picks {
        *counts.entry(pick().unwrap().id()).or_default() += 1;
    }
    counts
}

/// Pearson's chi-square: how far counts are from what the weights require.
pub(super) fn chi_square(counts: &BTreeMap<&str, usize>, list: &[Named]) -> f64 {
    let picks: usize = counts.values().sum();
    let total: f64 = list.iter().map(|instance| f64::from(instance.weight)).sum();
    list.iter()
        .filter(|instance| instance.weight > 0)
        .map(|instance| {
            let expected = picks as f64 * f64::from(instance.weight) / total;
            let counted = counts.get(instance.id()).copied().unwrap_or(0) as f64;
            (counted - expected).powi(2) / expected
        })
        .sum()
}

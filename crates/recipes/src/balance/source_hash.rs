//! The same instance for the same source, by consistent hashing.
//!
//! Each instance has many points on a ring of 64-bit numbers (virtual nodes); a source belongs to
//! the first point at or after its own hash. With n instances:
//! - if one leaves, its sources move, 1/n of all on average, and no others;
//! - if one joins, 1/(n+1) of all move on average, all of them to the new one;
//! - shares differ: with 160 points each their standard deviation is about 8 % of the mean.
//!
//! The ring follows from the ids alone, so all processes agree on it. Weights above 0 are ignored: otherwise a change
//! of weight would move sources, which this strategy is meant to avoid.

use std::num::NonZeroU16;

use super::{Instance, in_service};
use crate::stable_hash::stable_hash;

/// Picks the same instance for the same source as long as that instance is in the list.
///
/// ```
/// # use herdsman_recipes::balance::{Instance, SourceHash};
/// # struct Id(&'static str);
/// # impl Instance for Id { fn id(&self) -> &str { self.0 } }
/// let mut by_source = SourceHash::new();
/// let list = [Id("a"), Id("b"), Id("c")];
/// let first = by_source.pick(&list, "192.0.2.7").unwrap().id();
/// assert_eq!(by_source.pick(&list, "192.0.2.7").unwrap().id(), first);
/// ```
#[derive(Debug)]
pub struct SourceHash {
    points_each: NonZeroU16,
    /// The ids from which the ring was made, in the order of the list.
    ids: Vec<String>,
    /// Hash and index into `ids`, in order.
    ring: Vec<(u64, usize)>,
}

impl SourceHash {
    /// The number of points of an instance by default. They take 2.5 KB of memory.
    pub const POINTS_EACH: NonZeroU16 = NonZeroU16::new(160).expect("160 is not zero");

    /// Creates a ring with [`POINTS_EACH`](Self::POINTS_EACH) points for each instance.
    #[must_use]
    pub fn new() -> Self {
        Self::with_points(Self::POINTS_EACH)
    }

    /// Creates a ring with this many points for each instance: four times as many halve the differences between
    /// shares. All processes that should agree must use the same number.
    #[must_use]
    pub fn with_points(points_each: NonZeroU16) -> Self {
        Self { points_each, ids: Vec::new(), ring: Vec::new() }
    }

    /// Returns the instance for a source. Cheap as long as the list is the same, in the same order, as the last time;
    /// otherwise the ring is computed again.
    pub fn pick<'i, I: Instance>(
        &mut self,
        instances: &'i [I],
        source: impl AsRef<[u8]>,
    ) -> Option<&'i I> {
        if !in_service(instances).map(Instance::id).eq(&self.ids) {
            self.ids = in_service(instances).map(|instance| instance.id().to_owned()).collect();
            self.ring = plan_ring(&self.ids, self.points_each);
        }
        let hash = stable_hash(&[source.as_ref()]);
        let after = self.ring.partition_point(|(point, _)| *point < hash);
        let (_, index) = self.ring.get(after).or(self.ring.first())?;
        in_service(instances).nth(*index)
    }
}

impl Default for SourceHash {
    fn default() -> Self {
        Self::new()
    }
}

fn plan_ring(ids: &[String], points_each: NonZeroU16) -> Vec<(u64, usize)> {
    let points = |id: &str| {
        let id = id.to_owned();
        (0..points_each.get()).map(move |point| stable_hash(&[id.as_bytes(), &point.to_be_bytes()]))
    };
    let mut ring: Vec<_> = ids
        .iter()
        .enumerate()
        .flat_map(|(index, id)| points(id).map(move |point| (point, index)))
        .collect();
    // If two points coincide, the first id gets the point, whatever the order of the list.
    ring.sort_unstable_by_key(|(point, index)| (*point, &ids[*index]));
    ring.dedup_by_key(|(point, _)| *point);
    ring
}

#[cfg(test)]
mod tests {
    use super::super::test_instances::{Named, instances, nodes};
    use super::*;
    use std::collections::BTreeMap;

    const SOURCES: usize = 20_000;

    /// The instance that each source is sent to.
    fn placement(by_source: &mut SourceHash, list: &[Named]) -> Vec<String> {
        let pick = |n| by_source.pick(list, format!("10.0.{}.{}", n / 256, n % 256));
        (0..SOURCES).map(pick).map(|picked| picked.unwrap().id().to_owned()).collect()
    }

    #[test]
    fn only_the_sources_of_an_instance_that_leaves_move() {
        let mut by_source = SourceHash::new();
        let all = nodes(10);
        let before = placement(&mut by_source, &all);
        for removed in 0..10 {
            let mut rest = all.clone();
            let removed = rest.remove(removed);
            let after = placement(&mut by_source, &rest);
            for (before, after) in before.iter().zip(&after) {
                assert!(before == after || before == removed.id());
                assert_ne!(after, removed.id());
            }
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
            assert!((SOURCES / 14..SOURCES / 7).contains(&moved), "{moved}");
        }
    }

    #[test]
    fn a_new_instance_takes_a_share_from_the_others() {
        let mut by_source = SourceHash::new();
        let before = placement(&mut by_source, &nodes(10));
        let after = placement(&mut by_source, &nodes(11));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(old, new)| old != new).collect();
        assert!(moved.iter().all(|(_, new)| *new == "node-10"));
        assert!((SOURCES / 16..SOURCES / 8).contains(&moved.len()), "{}", moved.len());
    }

    #[test]
    fn shares_are_even() {
        let mut shares: BTreeMap<String, usize> = BTreeMap::new();
        for id in placement(&mut SourceHash::new(), &nodes(10)) {
            *shares.entry(id).or_default() += 1;
        }
        assert_eq!(shares.len(), 10);
        let mean = SOURCES / 10;
        assert!(shares.values().all(|n| n.abs_diff(mean) < mean * 3 / 10), "{shares:?}");
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let mut list = nodes(10);
        let before = placement(&mut SourceHash::new(), &list);
        list.reverse();
        assert_eq!(placement(&mut SourceHash::new(), &list), before);
    }

    #[test]
    fn placement_never_changes_between_versions() {
        let list = instances(&[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]);
        let mut by_source = SourceHash::new();
        let placed: String =
            (0..20).map(|n| by_source.pick(&list, n.to_string()).unwrap().id()).collect();
        assert_eq!(placed, "adddbbcbddecbeeecceb");
    }

    #[test]
    fn weights_move_nothing_but_zero_drains() {
        let mut by_source = SourceHash::new();
        let before = placement(&mut by_source, &instances(&[("a", 1), ("b", 1), ("c", 1)]));
        let heavy = placement(&mut by_source, &instances(&[("a", 1), ("b", 9), ("c", 1)]));
        assert_eq!(before, heavy);
        let drained = placement(&mut by_source, &instances(&[("a", 1), ("b", 0), ("c", 1)]));
        assert!(drained.iter().all(|id| id != "b"));
        let moved = before.iter().zip(&drained).filter(|(old, new)| old != new);
        assert!(moved.clone().count() > 0 && moved.clone().all(|(old, _)| old == "b"));
    }

    #[test]
    fn an_empty_list_yields_no_instance() {
        let mut by_source = SourceHash::new();
        assert!(by_source.pick(&instances(&[("a", 0)]), "x").is_none());
        assert!(by_source.pick(&instances(&[("a", 1)]), "x").is_some());
        assert!(by_source.pick(&instances(&[]), "x").is_none());
    }
}

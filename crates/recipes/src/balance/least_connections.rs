//! The instance with the least load.
//!
//! In: the loads that instances report ([`Loads`]), and the requests that this process has in flight. Reported loads
//! are always late, so this process's own requests are added as they begin. An instance that has already counted them
//! has them counted twice; that is harmless, because it only makes each process spread its own requests more evenly.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::round_robin::Turn;
use super::{Instance, in_service};

/// The load of each instance, as far as it is known.
pub trait Loads: Send {
    /// Returns the number of connections or requests of an instance; 0 if nothing is known about it.
    fn load(&self, id: &str) -> u64;

    /// Returns the same, or `None` if the load should be known, but is not, or is no longer. If this is so for one of
    /// the instances to pick from, the loads of the others are not used in this pick: for all instances, only this
    /// process's own requests count. A busy instance whose load is unknown would otherwise look idle and get every
    /// request.
    fn known_load(&self, id: &str) -> Option<u64> {
        Some(self.load(id))
    }
}

/// No loads are known: only this process's own requests count.
impl Loads for () {
    fn load(&self, _: &str) -> u64 {
        0
    }
}

impl Loads for HashMap<String, u64> {
    fn load(&self, id: &str) -> u64 {
        self.get(id).copied().unwrap_or(0)
    }
}

impl Loads for BTreeMap<String, u64> {
    fn load(&self, id: &str) -> u64 {
        self.get(id).copied().unwrap_or(0)
    }
}

impl<L: Loads + Sync + ?Sized> Loads for Arc<L> {
    fn load(&self, id: &str) -> u64 {
        (**self).load(id)
    }

    fn known_load(&self, id: &str) -> Option<u64> {
        (**self).known_load(id)
    }
}

/// Picks the instance whose load, with one request more, is the least for its weight. Equal instances take turns, so
/// that requests to an idle service are spread as well.
///
/// ```
/// # use herdsman_recipes::balance::{Instance, LeastConnections};
/// # struct Id(&'static str);
/// # impl Instance for Id { fn id(&self) -> &str { self.0 } }
/// let mut least = LeastConnections::new(());
/// let list = [Id("a"), Id("b")];
///
/// let picked = least.pick(&list).unwrap();
/// let long_request = least.begin(picked.id());
/// for _ in 0..3 {
///     let other = least.pick(&list).unwrap();
///     assert_ne!(other.id(), picked.id());
///     let _short_request = least.begin(other.id());
/// }
/// drop(long_request);
/// assert_eq!(least.in_flight("a"), 0);
/// ```
pub struct LeastConnections {
    loads: Box<dyn Loads>,
    counts: Arc<Mutex<Counts>>,
    turn: Turn,
}

/// Requests in flight by id. An id has an entry only while it has requests, so the map is no larger than the number
/// of guards.
type Counts = BTreeMap<Arc<str>, u64>;

impl LeastConnections {
    /// Creates the strategy. It reads `loads` at each pick; pass `()` if no loads are known.
    #[must_use]
    pub fn new(loads: impl Loads + 'static) -> Self {
        Self { loads: Box::new(loads), counts: Arc::default(), turn: Turn::default() }
    }

    /// Returns the instance with the least load. A pick alone does not count as a request in flight; call
    /// [`begin`](Self::begin) for that.
    pub fn pick<'i, I: Instance>(&mut self, instances: &'i [I]) -> Option<&'i I> {
        // Loads may change at any time, so each is read once.
        let loads: Option<Vec<u64>> =
            in_service(instances).map(|instance| self.loads.known_load(instance.id())).collect();
        let loads = loads.unwrap_or_default().into_iter().chain(std::iter::repeat(0));
        let costs: Vec<(&I, Cost)> = in_service(instances)
            .zip(loads)
            .map(|(instance, load)| (instance, self.cost(instance, load)))
            .collect();
        let least = costs.iter().map(|(_, cost)| cost).min()?;
        let equals = costs.iter().filter(|(_, cost)| cost == least).map(|(instance, _)| *instance);
        let picked = self.turn.next(equals)?;
        self.turn.was(picked.id());
        Some(picked)
    }

    /// Counts a request to an instance as in flight until the guard is dropped.
    pub fn begin(&self, id: &str) -> InFlight {
        let mut counts = self.counts.lock();
        let id = counts.get_key_value(id).map_or_else(|| Arc::from(id), |(id, _)| Arc::clone(id));
        *counts.entry(Arc::clone(&id)).or_default() += 1;
        InFlight { counted: Some((Arc::clone(&self.counts), id)) }
    }

    /// Returns how many requests to an instance this process has in flight.
    #[must_use]
    pub fn in_flight(&self, id: &str) -> u64 {
        self.counts.lock().get(id).copied().unwrap_or(0)
    }

    fn cost(&self, instance: &impl Instance, load: u64) -> Cost {
        let load = load.saturating_add(self.in_flight(instance.id())).saturating_add(1);
        Cost { load, weight: instance.weight() }
    }
}

impl fmt::Debug for LeastConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeastConnections")
            .field("in_flight", &*self.counts.lock())
            .finish_non_exhaustive()
    }
}

/// The load that an instance would have with one request more, compared by weight: 4 for a weight
/// of 2 equals 2 for a weight of 1. The weight is not 0.
struct Cost {
    load: u64,
    weight: u32,
}

impl Ord for Cost {
    fn cmp(&self, other: &Self) -> Ordering {
        let scaled = |cost: &Self, by: u32| u128::from(cost.load) * u128::from(by);
        scaled(self, other.weight).cmp(&scaled(other, self.weight))
    }
}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Cost {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Cost {}

/// A request in flight. Dropping it ends the count; it can be dropped on any thread.
#[must_use = "the request counts as in flight until this is dropped"]
pub struct InFlight {
    counted: Option<(Arc<Mutex<Counts>>, Arc<str>)>,
}

impl InFlight {
    /// Creates a request that is not counted.
    pub(super) fn uncounted() -> Self {
        Self { counted: None }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some((counts, id)) = self.counted.take() else {
            return;
        };
        let mut counts = counts.lock();
        match counts.get_mut(&id) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                counts.remove(&id);
            }
        }
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlight").field(&self.counted.as_ref().map(|(_, id)| id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_instances::{Named, instances, nodes, tally};
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    fn loads(list: &[(&str, u64)]) -> BTreeMap<String, u64> {
        list.iter().map(|(id, load)| ((*id).to_owned(), *load)).collect()
    }

    fn id_of(picked: Option<&Named>) -> &str {
        picked.map_or("-", Instance::id)
    }

    #[test]
    fn the_one_with_the_least_load_is_picked() {
        let list = instances(&[("a", 1), ("b", 1), ("c", 1)]);
        let mut least = LeastConnections::new(loads(&[("a", 3), ("b", 1), ("c", 2)]));
        assert_eq!(tally(10, || least.pick(&list)).into_iter().collect::<Vec<_>>(), [("b", 10)]);
        let mut least = LeastConnections::new(loads(&[("a", 3), ("b", 1)]));
        assert_eq!(id_of(least.pick(&list)), "c", "whose load is not known");
    }

    #[test]
    fn equals_take_turns() {
        let list = nodes(5);
        let mut least = LeastConnections::new(());
        let counts = tally(50, || least.pick(&list));
        assert!(counts.len() == 5 && counts.values().all(|count| *count == 10), "{counts:?}");
    }

    #[test]
    fn requests_that_do_not_end_are_spread_by_weight() {
        let list = instances(&[("a", 1), ("b", 0), ("c", 3), ("d", 6)]);
        let mut least = LeastConnections::new(());
        let mut under_way = Vec::new();
        for _ in 0..1000 {
            let picked = least.pick(&list).unwrap();
            under_way.push(least.begin(picked.id()));
        }
        let counts = ["a", "b", "c", "d"].map(|id| least.in_flight(id));
        assert_eq!(counts, [100, 0, 300, 600]);
        drop(under_way);
        assert!(least.counts.lock().is_empty());
    }

    #[test]
    fn of_the_idle_the_heaviest_is_first() {
        let list = instances(&[("a", 1), ("b", 3)]);
        let mut least = LeastConnections::new(());
        let mut under_way = Vec::new();
        let order: String = (0..4)
            .map(|_| {
                let picked = least.pick(&list).unwrap();
                under_way.push(least.begin(picked.id()));
                picked.id()
            })
            .collect();
        assert_eq!(order, "bbab");
    }

    #[test]
    fn random_ends_keep_the_loads_level() {
        let list = nodes(4);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut least = LeastConnections::new(());
        let mut under_way = Vec::new();
        for _ in 0..10_000 {
            let picked = least.pick(&list).unwrap();
            under_way.push(least.begin(picked.id()));
            if under_way.len() > 100 {
                drop(under_way.swap_remove(rng.usize(..under_way.len())));
            }
        }
        let counts: Vec<_> = list.iter().map(|node| least.in_flight(node.id())).collect();
        assert_eq!(counts.iter().sum::<u64>(), 100);
        assert!(counts.iter().all(|count| (23..=27).contains(count)), "{counts:?}");
    }

    #[test]
    fn published_and_own_requests_add_up() {
        let list = instances(&[("a", 1), ("b", 1)]);
        let mut least = LeastConnections::new(loads(&[("a", 2)]));
        let _one = least.begin("b");
        let two = least.begin("b");
        let _three = least.begin("b");
        assert_eq!(id_of(least.pick(&list)), "a");
        drop(two);
        assert_eq!(least.in_flight("b"), 2);
        assert_eq!(id_of(least.pick(&list)), "b", "equal, and it was a's turn before");
    }

    #[test]
    fn loads_are_asked_for_at_each_pick() {
        struct Live(AtomicU64);
        impl Loads for Live {
            fn load(&self, id: &str) -> u64 {
                if id == "a" { self.0.load(Relaxed) } else { 5 }
            }
        }
        let live = Arc::new(Live(AtomicU64::new(0)));
        let mut least = LeastConnections::new(Arc::clone(&live));
        let list = instances(&[("a", 1), ("b", 1)]);
        assert_eq!(id_of(least.pick(&list)), "a");
        live.0.store(u64::MAX, Relaxed);
        assert_eq!(id_of(least.pick(&list)), "b");
    }

    #[test]
    fn a_load_that_is_not_known_leaves_only_own_requests() {
        struct Known(BTreeMap<String, u64>);
        impl Loads for Known {
            fn load(&self, id: &str) -> u64 {
                self.0.load(id)
            }
            fn known_load(&self, id: &str) -> Option<u64> {
                self.0.get(id).copied()
            }
        }
        let mut least = LeastConnections::new(Arc::new(Known(loads(&[("a", 9), ("b", 1)]))));
        let list = instances(&[("a", 1), ("b", 1)]);
        assert_eq!(tally(4, || least.pick(&list)).into_iter().collect::<Vec<_>>(), [("b", 4)]);
        let list = instances(&[("a", 1), ("b", 1), ("silent", 1)]);
        assert_eq!(tally(9, || least.pick(&list)).values().collect::<Vec<_>>(), [&3, &3, &3]);
        let _own = [least.begin("silent"), least.begin("b")];
        assert_eq!(tally(4, || least.pick(&list)).into_iter().collect::<Vec<_>>(), [("a", 4)]);
        let list = instances(&[("a", 1), ("b", 1), ("silent", 0)]);
        assert_eq!(
            id_of(least.pick(&list)),
            "b",
            "an instance that takes no traffic does not matter"
        );
    }

    #[test]
    fn counts_of_remaining_instances_survive_a_change_of_the_list() {
        let mut least = LeastConnections::new(());
        let _busy = least.begin("a");
        let left = least.begin("left");
        let list = instances(&[("a", 1), ("c", 1)]);
        assert_eq!(tally(4, || least.pick(&list)).into_iter().collect::<Vec<_>>(), [("c", 4)]);
        drop(left);
        assert_eq!(least.counts.lock().len(), 1);
    }

    #[test]
    fn an_empty_list_yields_no_instance() {
        let mut least = LeastConnections::new(());
        assert_eq!(id_of(least.pick(&instances(&[]))), "-");
        assert_eq!(id_of(least.pick(&instances(&[("a", 0), ("b", 0)]))), "-");
    }
}

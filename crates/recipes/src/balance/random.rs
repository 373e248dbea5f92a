//! Any instance, with equal probability or by weight.
//!
//! No state is kept between picks, so the list may change at any time. The generator is passed in, so that a test can
//! seed it.

use super::{Instance, in_service};

/// Picks any instance, all with the same probability.
#[derive(Debug)]
pub struct Random {
    rng: fastrand::Rng,
}

impl Random {
    /// Creates the strategy. `fastrand::Rng::new()` is a good generator here.
    #[must_use]
    pub fn new(rng: fastrand::Rng) -> Self {
        Self { rng }
    }

    /// Returns any instance.
    pub fn pick<'i, I: Instance>(&mut self, instances: &'i [I]) -> Option<&'i I> {
        match in_service(instances).count() {
            0 => None,
            count => in_service(instances).nth(self.rng.usize(..count)),
        }
    }
}

/// Picks any instance, one of weight 2 twice as often as one of weight 1.
///
/// ```
/// # use herdsman_recipes::balance::{Instance, WeightedRandom};
/// # struct Weighted(&'static str, u32);
/// # impl Instance for Weighted {
/// #     fn id(&self) -> &str { self.0 }
/// #     fn weight(&self) -> u32 { self.1 }
/// # }
/// let mut random = WeightedRandom::new(fastrand::Rng::new());
/// let drained = [Weighted("a", 0), Weighted("b", 3)];
/// assert_eq!(random.pick(&drained).unwrap().id(), "b");
/// ```
#[derive(Debug)]
pub struct WeightedRandom {
    rng: fastrand::Rng,
}

impl WeightedRandom {
    /// Creates the strategy. `fastrand::Rng::new()` is a good generator here.
    #[must_use]
    pub fn new(rng: fastrand::Rng) -> Self {
        Self { rng }
    }

    /// Returns any instance, by weight.
    pub fn pick<'i, I: Instance>(&mut self, instances: &'i [I]) -> Option<&'i I> {
        let total: u64 = instances.iter().map(|instance| u64::from(instance.weight())).sum();
        if total == 0 {
            return None;
        }
        let mut left = self.rng.u64(..total);
        instances.iter().find(|instance| match left.checked_sub(instance.weight().into()) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_instances::{chi_square, instances, nodes, tally};
    use super::*;

    /// With 9 degrees of freedom a fair generator goes above this once in a thousand seeds.
    const CHI_SQUARE_9_MAX: f64 = 27.9;
    /// The same with 3.
    const CHI_SQUARE_3_MAX: f64 = 16.3;

    #[test]
    fn random_is_fair() {
        let list = nodes(10);
        let mut random = Random::new(fastrand::Rng::with_seed(42));
        let distance = chi_square(&tally(100_000, || random.pick(&list)), &list);
        assert!(distance < CHI_SQUARE_9_MAX, "{distance}");
    }

    #[test]
    fn weighted_random_follows_the_weights() {
        let list = instances(&[("a", 1), ("none", 0), ("b", 2), ("c", 3), ("d", 10)]);
        let mut random = WeightedRandom::new(fastrand::Rng::with_seed(42));
        let counts = tally(100_000, || random.pick(&list));
        let distance = chi_square(&counts, &list);
        assert!(distance < CHI_SQUARE_3_MAX, "{distance}");
        assert!(!counts.contains_key("none"));
    }

    #[test]
    fn random_ignores_all_weights_but_zero() {
        let list = instances(&[("a", 1), ("none", 0), ("b", 1000)]);
        let mut random = Random::new(fastrand::Rng::with_seed(42));
        let counts = tally(10_000, || random.pick(&list));
        assert!((4800..5200).contains(&counts["a"]), "{counts:?}");
        assert!(!counts.contains_key("none"));
    }

    #[test]
    fn the_largest_weights_do_not_overflow() {
        let list = instances(&[("a", u32::MAX), ("b", u32::MAX), ("c", u32::MAX)]);
        let mut random = WeightedRandom::new(fastrand::Rng::with_seed(42));
        assert_eq!(tally(100, || random.pick(&list)).len(), 3);
    }

    #[test]
    fn an_empty_list_yields_no_instance() {
        for list in [instances(&[]), instances(&[("a", 0), ("b", 0)])] {
            assert!(Random::new(fastrand::Rng::with_seed(1)).pick(&list).is_none());
            assert!(WeightedRandom::new(fastrand::Rng::with_seed(1)).pick(&list).is_none());
        }
    }

    #[test]
    fn an_instance_that_left_is_not_picked_and_a_new_one_is() {
        let before = instances(&[("a", 1), ("b", 5)]);
        let after = instances(&[("b", 5), ("c", 5)]);
        let mut random = Random::new(fastrand::Rng::with_seed(3));
        let mut weighted = WeightedRandom::new(fastrand::Rng::with_seed(3));
        assert!(tally(100, || random.pick(&before)).contains_key("a"));
        assert!(tally(100, || weighted.pick(&before)).contains_key("a"));
        let expected = ["b", "c"];
        assert!(tally(100, || random.pick(&after)).keys().eq(&expected));
        assert!(tally(100, || weighted.pick(&after)).keys().eq(&expected));
    }
}

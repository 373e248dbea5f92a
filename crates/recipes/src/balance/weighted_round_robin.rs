//! Each instance in turn, as often as its weight says.
//!
//! nginx's smooth algorithm: each instance has a credit; at each pick all credits grow by the
//! weights, the largest is picked, and pays the sum of all weights. So weights 5, 1, 1 give
//! `a a b a c a a` and not five of `a` in a row.
//!
//! Invariant: no credit is ever further from zero than twice the sum of the present weights.
//! Without it an instance that owed much under former, greater weights would get nothing for a long
//! time.

use std::collections::BTreeMap;

use super::{Instance, in_service};

/// Picks in turn, one of weight 2 exactly twice as often as one of weight 1, evenly spaced.
///
/// ```
/// # use herdsman_recipes::balance::{Instance, WeightedRoundRobin};
/// # struct Weighted(&'static str, u32);
/// # impl Instance for Weighted {
/// #     fn id(&self) -> &str { self.0 }
/// #     fn weight(&self) -> u32 { self.1 }
/// # }
/// let list = [Weighted("a", 5), Weighted("b", 1), Weighted("c", 1)];
/// let mut round_robin = WeightedRoundRobin::new();
/// let turns: String = (0..7).map(|_| round_robin.pick(&list).unwrap().id()).collect();
/// assert_eq!(turns, "aabacaa");
/// ```
#[derive(Debug, Default)]
pub struct WeightedRoundRobin {
    credits: BTreeMap<String, Credit>,
    round: u64,
}

#[derive(Debug)]
struct Credit {
    amount: i64,
    /// The last round in which the instance was in the list.
    round: u64,
}

impl WeightedRoundRobin {
    /// All begin without credit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The instance whose turn it is.
    pub fn pick<'i, I: Instance>(&mut self, instances: &'i [I]) -> Option<&'i I> {
        let total: i64 = instances.iter().map(|instance| i64::from(instance.weight())).sum();
        self.round += 1;
        let mut richest: Option<(&I, i64)> = None;
        for instance in in_service(instances) {
            let amount = self.pay_in(instance, total);
            let is_richer = richest.is_none_or(|(other, most)| {
                amount > most || (amount == most && instance.id() < other.id())
            });
            if is_richer {
                richest = Some((instance, amount));
            }
        }
        let round = self.round;
        self.credits.retain(|_, credit| credit.round == round);
        let (picked, _) = richest?;
        if let Some(credit) = self.credits.get_mut(picked.id()) {
            credit.amount -= total;
        }
        Some(picked)
    }

    /// Adds the weight to an instance's credit; a newcomer begins with nothing.
    fn pay_in(&mut self, instance: &impl Instance, total: i64) -> i64 {
        let id = instance.id();
        let before = self.credits.get(id).map_or(0, |credit| credit.amount);
        // Constant weights leave credits a little above their sum at times, such as 1.05 times with 5, 15, 17, 1, 1, 15.
        let amount = before.clamp(-total, 2 * total) + i64::from(instance.weight());
        let credit = Credit { amount, round: self.round };
        match self.credits.get_mut(id) {
            Some(known) => *known = credit,
            None => {
                self.credits.insert(id.to_owned(), credit);
            }
        }
        amount
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_instances::{instances, tally};
    use super::*;
    use proptest::prelude::*;

    fn turns(round_robin: &mut WeightedRoundRobin, list: &[(&str, u32)], picks: usize) -> String {
        let list = instances(list);
        (0..picks).map(|_| round_robin.pick(&list).map_or("-", |picked| picked.id())).collect()
    }

    #[test]
    fn turns_are_spread_as_nginx_spreads_them() {
        let mut round_robin = WeightedRoundRobin::new();
        let list = [("a", 5), ("b", 1), ("c", 1)];
        assert_eq!(turns(&mut round_robin, &list, 14), "aabacaaaabacaa");
        assert_eq!(turns(&mut WeightedRoundRobin::new(), &[("a", 1), ("b", 1)], 4), "abab");
        let list = [("c", 2), ("b", 3), ("a", 4)];
        assert_eq!(turns(&mut WeightedRoundRobin::new(), &list, 9), "abcabacba");
    }

    #[test]
    fn nobody_from_nothing() {
        assert_eq!(turns(&mut WeightedRoundRobin::new(), &[], 2), "--");
        assert_eq!(turns(&mut WeightedRoundRobin::new(), &[("a", 0), ("b", 0)], 2), "--");
    }

    /// A limit on credits at the sum of weights made one turn of 54 go to another instance.
    #[test]
    fn a_credit_above_the_sum_of_weights_is_kept() {
        let list = [("a", 5), ("b", 15), ("c", 17), ("d", 1), ("e", 1), ("f", 15)];
        let mut round_robin = WeightedRoundRobin::new();
        for _ in 0..3 {
            let turns = turns(&mut round_robin, &list, 54);
            let count = |name| turns.chars().filter(|turn| *turn == name).count();
            assert_eq!(['a', 'b', 'c', 'd', 'e', 'f'].map(count), [5, 15, 17, 1, 1, 15]);
        }
        assert!(round_robin.credits.values().all(|credit| credit.amount == 0));
    }

    #[test]
    fn zero_weights_get_no_turn() {
        let list = [("a", 2), ("b", 0), ("c", 1)];
        assert_eq!(turns(&mut WeightedRoundRobin::new(), &list, 6), "acaaca");
    }

    #[test]
    fn those_who_stay_keep_their_credit() {
        let mut round_robin = WeightedRoundRobin::new();
        assert_eq!(turns(&mut round_robin, &[("a", 1), ("b", 1), ("c", 1)], 1), "a");
        // It is still the turn of b and c, before a has another.
        assert_eq!(turns(&mut round_robin, &[("c", 1), ("b", 1), ("a", 1)], 1), "b");
        assert_eq!(turns(&mut round_robin, &[("a", 1), ("c", 1)], 1), "c");
        assert_eq!(round_robin.credits.len(), 2, "b is forgotten");
    }

    #[test]
    fn smaller_weights_do_not_leave_anyone_in_debt_for_long() {
        let mut round_robin = WeightedRoundRobin::new();
        turns(&mut round_robin, &[("a", 100_000), ("b", 1)], 50_001);
        let after = turns(&mut round_robin, &[("a", 1), ("b", 1)], 20);
        assert!(after[..6].contains('a') && after[..6].contains('b'), "{after}");
        assert!(after.ends_with("abab") || after.ends_with("baba"), "{after}");
    }

    proptest! {
        #[test]
        fn a_full_round_gives_everyone_exactly_its_weight(
            weights in prop::collection::vec(0..20_u32, 1..8),
        ) {
            let names: Vec<_> = (0..weights.len()).map(|n| n.to_string()).collect();
            let list: Vec<_> =
                names.iter().map(String::as_str).zip(weights.iter().copied()).collect();
            let list = instances(&list);
            let mut round_robin = WeightedRoundRobin::new();
            let round = weights.iter().sum::<u32>() as usize;
            for _ in 0..3 {
                let counts = tally(round, || round_robin.pick(&list));
                for instance in &list {
                    let count = counts.get(instance.id()).copied().unwrap_or(0);
                    prop_assert_eq!(count, instance.weight() as usize);
                }
                prop_assert!(round_robin.credits.values().all(|credit| credit.amount == 0));
            }
        }

        #[test]
        fn no_credit_exceeds_three_times_the_sum_of_weights(
            lists in prop::collection::vec(
                prop::collection::vec((0..6_usize, any::<u32>()), 0..6), 1..40),
        ) {
            let names = ["a", "b", "c", "d", "e", "f"];
            let mut round_robin = WeightedRoundRobin::new();
            for list in lists {
                let list: BTreeMap<_, _> =
                    list.into_iter().map(|(name, weight)| (names[name], weight)).collect();
                let total: i64 = list.values().map(|weight| i64::from(*weight)).sum();
                let list = instances(&list.into_iter().collect::<Vec<_>>());
                let picked = round_robin.pick(&list);
                prop_assert_eq!(picked.is_some(), total > 0);
                for credit in round_robin.credits.values() {
                    prop_assert!(credit.amount.abs() <= 3 * total, "{credit:?} {total}");
                }
            }
        }
    }
}

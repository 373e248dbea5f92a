//! Each instance in turn.
//!
//! Turns follow the order of ids and not positions in the list: the id of the last pick is remembered, and the next
//! pick is the first id after it. So an instance that joins or leaves neither skips nor repeats another one, and the
//! order of the list does not matter.

use super::{Instance, in_service};

/// Picks each instance in turn, in the order of ids.
///
/// ```
/// # use herdsman_recipes::balance::{Instance, RoundRobin};
/// # struct Id(&'static str);
/// # impl Instance for Id { fn id(&self) -> &str { self.0 } }
/// let mut round_robin = RoundRobin::new();
/// let list = [Id("b"), Id("a"), Id("c")];
/// let turns: Vec<&str> = (0..4).map(|_| round_robin.pick(&list).unwrap().id()).collect();
/// assert_eq!(turns, ["a", "b", "c", "a"]);
/// ```
#[derive(Debug, Default)]
pub struct RoundRobin {
    turn: Turn,
    start: Option<fastrand::Rng>,
}

impl RoundRobin {
    /// Starts with the first instance.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts with a random instance, so that many clients that start at the same time do not all send their first
    /// request to the same one.
    #[must_use]
    pub fn starting_anywhere(rng: fastrand::Rng) -> Self {
        Self { start: Some(rng), ..Self::default() }
    }

    /// Returns the instance whose turn it is.
    pub fn pick<'i, I: Instance>(&mut self, instances: &'i [I]) -> Option<&'i I> {
        let count = in_service(instances).count();
        if count == 0 {
            return None;
        }
        let picked = match self.start.take() {
            Some(mut rng) => in_service(instances).nth(rng.usize(..count)),
            None => self.turn.next(in_service(instances)),
        };
        picked.inspect(|picked| self.turn.was(picked.id()))
    }
}

/// The id of the last pick.
#[derive(Debug, Default)]
pub(super) struct Turn {
    last: Option<String>,
}

impl Turn {
    /// Returns the first id after the last one, or the first of all if there is none.
    pub(super) fn next<'i, I: Instance>(
        &self,
        instances: impl Iterator<Item = &'i I>,
    ) -> Option<&'i I> {
        instances.min_by_key(|&instance| {
            let had_its_turn = self.last.as_deref().is_some_and(|last| instance.id() <= last);
            (had_its_turn, instance.id())
        })
    }

    pub(super) fn was(&mut self, id: &str) {
        let last = self.last.get_or_insert_default();
        last.clear();
        last.push_str(id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_instances::{instances, nodes, tally};
    use super::*;

    fn turns(round_robin: &mut RoundRobin, list: &[(&str, u32)], picks: usize) -> String {
        let list = instances(list);
        (0..picks).map(|_| round_robin.pick(&list).map_or("-", |picked| picked.id())).collect()
    }

    #[test]
    fn each_gets_exactly_the_same() {
        let list = nodes(7);
        let mut round_robin = RoundRobin::new();
        let counts = tally(7 * 100, || round_robin.pick(&list));
        assert!(counts.len() == 7 && counts.values().all(|count| *count == 100));
    }

    #[test]
    fn an_empty_list_yields_no_instance() {
        assert_eq!(turns(&mut RoundRobin::new(), &[], 2), "--");
        assert_eq!(turns(&mut RoundRobin::new(), &[("a", 0), ("b", 0)], 2), "--");
        let mut anywhere = RoundRobin::starting_anywhere(fastrand::Rng::with_seed(1));
        assert_eq!(turns(&mut anywhere, &[], 2), "--");
    }

    #[test]
    fn weights_above_zero_do_not_matter() {
        assert_eq!(turns(&mut RoundRobin::new(), &[("a", 9), ("b", 0), ("c", 1)], 4), "acac");
    }

    #[test]
    fn a_change_of_the_list_neither_skips_nor_repeats() {
        let mut round_robin = RoundRobin::new();
        assert_eq!(turns(&mut round_robin, &[("a", 1), ("b", 1), ("d", 1)], 2), "ab");
        // The instance of the last pick leaves, another one joins, and the order changes.
        assert_eq!(turns(&mut round_robin, &[("d", 1), ("c", 1), ("a", 1)], 4), "cdac");
        assert_eq!(turns(&mut round_robin, &[], 1), "-");
        assert_eq!(turns(&mut round_robin, &[("a", 1), ("d", 1)], 3), "dad");
    }

    #[test]
    fn many_clients_do_not_all_start_with_the_same() {
        let list = nodes(4);
        let mut seed = 0;
        let counts = tally(4000, || {
            seed += 1;
            let rng = fastrand::Rng::with_seed(seed);
            RoundRobin::starting_anywhere(rng).pick(&list)
        });
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
        let mut round_robin = RoundRobin::starting_anywhere(fastrand::Rng::with_seed(9));
        let counts = tally(40, || round_robin.pick(&list));
        assert!(counts.len() == 4 && counts.values().all(|count| *count == 10));
    }
}

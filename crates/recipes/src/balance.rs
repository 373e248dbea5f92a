//! Load balancing over any list of instances.
//!
//! In: the current instances, at each pick. Out: one of them. Deliberately not here: where the list comes from
//! (discovery), a clock (time is passed in), and any request to an instance.
//!
//! | strategy | picks | uses weights |
//! |---|---|---|
//! | [`RoundRobin`] | each in turn | 0 only |
//! | [`Random`] | any | 0 only |
//! | [`SourceHash`] | always the same one for a source, by consistent hashing | 0 only |
//! | [`WeightedRoundRobin`] | each in turn, as often as its weight says, well mixed | yes |
//! | [`WeightedRandom`] | any, as likely as its weight says | yes |
//! | [`LeastConnections`] | the one with the least load for its weight | yes |
//!
//! A weight of 0 means "no traffic" with every strategy; use it to drain an instance. A list that is empty or has
//! only zero weights yields no instance.
//!
//! The list may change between any two picks and may be in any order. A strategy keeps its state by [`Instance::id`]:
//! instances that stay keep their turn, instances that leave are forgotten. Ids should be unique within a list.
//!
//! Use a strategy by itself, or a [`Balancer`], which also stops using instances with errors for a while:
//!
//! ```
//! use herdsman_recipes::balance::{Balancer, Instance, RoundRobin};
//! use std::time::Instant;
//!
//! struct Server {
//!     address: &'static str,
//! }
//!
//! impl Instance for Server {
//!     fn id(&self) -> &str {
//!         self.address
//!     }
//! }
//!
//! let servers = [Server { address: "10.0.0.1:80" }, Server { address: "10.0.0.2:80" }];
//! let mut balancer = Balancer::new(RoundRobin::new());
//! let now = Instant::now();
//! let client = "192.0.2.7"; // only SourceHash uses it
//! for expected in ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.1:80"] {
//!     assert_eq!(balancer.pick(&servers, client, now).unwrap().address, expected);
//! }
//!
//! balancer.note_error("10.0.0.2:80", now);
//! balancer.note_error("10.0.0.2:80", now);
//! assert_eq!(balancer.pick(&servers, client, now).unwrap().address, "10.0.0.1:80");
//! ```

mod least_connections;
mod outliers;
mod random;
mod round_robin;
mod source_hash;
mod strategy;
mod weighted_round_robin;

#[cfg(test)]
mod test_instances;

use std::sync::Arc;
use std::time::Instant;

pub use least_connections::{InFlight, LeastConnections, Loads};
pub use outliers::{OutlierPolicy, Outliers};
pub use random::{Random, WeightedRandom};
pub use round_robin::RoundRobin;
pub use source_hash::SourceHash;
pub use strategy::{Algorithm, Strategy, UnknownAlgorithm};
pub use weighted_round_robin::WeightedRoundRobin;

/// Something that can be picked.
pub trait Instance {
    /// An id that stays the same as long as the instance lives, and that no other instance has.
    fn id(&self) -> &str;

    /// How much traffic the instance should get in comparison with others; 0 for none.
    fn weight(&self) -> u32 {
        1
    }
}

impl<I: Instance + ?Sized> Instance for &I {
    fn id(&self) -> &str {
        (**self).id()
    }

    fn weight(&self) -> u32 {
        (**self).weight()
    }
}

impl<I: Instance + ?Sized> Instance for Arc<I> {
    fn id(&self) -> &str {
        (**self).id()
    }

    fn weight(&self) -> u32 {
        (**self).weight()
    }
}

/// The instances that take traffic.
fn in_service<I: Instance>(instances: &[I]) -> impl Iterator<Item = &I> {
    instances.iter().filter(|instance| instance.weight() > 0)
}

/// A strategy together with [`Outliers`]: instances with errors are not picked for a while.
#[derive(Debug)]
pub struct Balancer {
    strategy: Strategy,
    outliers: Outliers,
}

impl Balancer {
    /// Creates a balancer with the default [`OutlierPolicy`].
    #[must_use]
    pub fn new(strategy: impl Into<Strategy>) -> Self {
        Self::with_policy(strategy, OutlierPolicy::default())
    }

    /// Creates a balancer with its own policy for instances with errors.
    #[must_use]
    pub fn with_policy(strategy: impl Into<Strategy>, policy: OutlierPolicy) -> Self {
        Self { strategy: strategy.into(), outliers: Outliers::new(policy) }
    }

    /// Picks an instance for a request from `source`: an address, a user, a key, or whatever else should go to the
    /// same instance each time. Only [`SourceHash`] uses it.
    pub fn pick<'i, I: Instance>(
        &mut self,
        instances: &'i [I],
        source: impl AsRef<[u8]>,
        now: Instant,
    ) -> Option<&'i I> {
        let usable = self.outliers.usable(instances, now);
        self.strategy.pick(&usable, source).copied()
    }

    /// Counts a request to an instance as in flight until the guard is dropped. Only [`LeastConnections`] needs this;
    /// with other strategies the guard does nothing.
    pub fn begin(&self, id: &str) -> InFlight {
        self.strategy.begin(id)
    }

    /// Records that a request to an instance failed and that the instance is at fault.
    pub fn note_error(&mut self, id: &str, now: Instant) {
        self.outliers.note_error(id, now);
    }

    /// Records that a request succeeded, so that earlier errors do not add to later ones. Optional; without these
    /// calls, errors are only forgotten with time.
    pub fn note_success(&mut self, id: &str) {
        self.outliers.note_success(id);
    }
}

#[cfg(test)]
mod tests {
    use super::test_instances::{Named, instances};
    use super::*;

    fn pick<'i>(balancer: &mut Balancer, instances: &'i [Named], now: Instant) -> Option<&'i str> {
        balancer.pick(instances, "source", now).map(|instance| instance.id())
    }

    #[test]
    fn an_instance_with_errors_gets_nothing_for_a_while() {
        let policy = OutlierPolicy::default();
        let now = Instant::now();
        let list = instances(&[("a", 1), ("b", 1), ("c", 1)]);
        for algorithm in Algorithm::ALL {
            let mut balancer = Balancer::new(algorithm.strategy(fastrand::Rng::with_seed(1), ()));
            let favourite = pick(&mut balancer, &list, now).unwrap().to_owned();
            balancer.note_error(&favourite, now);
            balancer.note_error(&favourite, now);
            let others: Vec<_> = (0..20).filter_map(|_| pick(&mut balancer, &list, now)).collect();
            assert_eq!(others.len(), 20);
            assert!(!others.contains(&&*favourite), "{algorithm}");
            let later = now + policy.set_aside_for;
            let back = (0..200).any(|_| pick(&mut balancer, &list, later) == Some(&favourite));
            assert!(back, "{algorithm}");
        }
    }

    #[test]
    fn a_success_between_two_errors_keeps_an_instance_in_use() {
        let now = Instant::now();
        let list = instances(&[("a", 1), ("b", 1)]);
        let mut balancer = Balancer::new(RoundRobin::new());
        balancer.note_error("a", now);
        balancer.note_success("a");
        balancer.note_error("a", now);
        assert_eq!(pick(&mut balancer, &list, now), Some("a"));
    }

    #[test]
    fn a_balancer_can_be_moved_to_another_thread() {
        fn assert_send<T: Send + 'static>(_: &T) {}
        assert_send(&Balancer::new(RoundRobin::new()));
    }

    #[test]
    fn shared_instances_are_instances() {
        let list: Vec<Arc<Named>> =
            instances(&[("a", 0), ("b", 2)]).into_iter().map(Arc::new).collect();
        let mut balancer = Balancer::new(WeightedRoundRobin::new());
        assert_eq!(balancer.pick(&list, "", Instant::now()).map(|i| i.id()), Some("b"));
    }
}

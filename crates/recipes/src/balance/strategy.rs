//! The six algorithms behind one type, chosen in the program or by name in a configuration.

use std::fmt;
use std::str::FromStr;

use super::{
    InFlight, Instance, LeastConnections, Loads, Random, RoundRobin, SourceHash, WeightedRandom,
    WeightedRoundRobin,
};

/// One of the six algorithms, with its state. Each algorithm's type converts into it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Strategy {
    /// See [`RoundRobin`].
    RoundRobin(RoundRobin),
    /// See [`Random`].
    Random(Random),
    /// See [`SourceHash`].
    SourceHash(SourceHash),
    /// See [`WeightedRoundRobin`].
    WeightedRoundRobin(WeightedRoundRobin),
    /// See [`WeightedRandom`].
    WeightedRandom(WeightedRandom),
    /// See [`LeastConnections`].
    LeastConnections(LeastConnections),
}

impl Strategy {
    /// Picks an instance for a request from `source`, which only [`SourceHash`] uses.
    pub fn pick<'i, I: Instance>(
        &mut self,
        instances: &'i [I],
        source: impl AsRef<[u8]>,
    ) -> Option<&'i I> {
        match self {
            Self::RoundRobin(strategy) => strategy.pick(instances),
            Self::Random(strategy) => strategy.pick(instances),
            Self::SourceHash(strategy) => strategy.pick(instances, source),
            Self::WeightedRoundRobin(strategy) => strategy.pick(instances),
            Self::WeightedRandom(strategy) => strategy.pick(instances),
            Self::LeastConnections(strategy) => strategy.pick(instances),
        }
    }

    /// Counts a request to an instance as in flight until the guard is dropped, if the algorithm uses such counts.
    pub fn begin(&self, id: &str) -> InFlight {
        match self {
            Self::LeastConnections(strategy) => strategy.begin(id),
            _ => InFlight::uncounted(),
        }
    }
}

macro_rules! from_algorithm {
    ($($algorithm:ident)*) => {$(
        impl From<$algorithm> for Strategy {
            fn from(strategy: $algorithm) -> Self {
                Self::$algorithm(strategy)
            }
        }
    )*};
}

from_algorithm! { RoundRobin Random SourceHash WeightedRoundRobin WeightedRandom LeastConnections }

/// The name of an algorithm, as in a configuration or on a command line.
///
/// ```
/// use herdsman_recipes::balance::{Algorithm, Balancer};
///
/// let algorithm: Algorithm = "weighted-round-robin".parse()?;
/// let balancer = Balancer::new(algorithm.strategy(fastrand::Rng::new(), ()));
/// # Ok::<(), herdsman_recipes::balance::UnknownAlgorithm>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// `round-robin`: [`RoundRobin`], starting with a random instance.
    RoundRobin,
    /// `random`: [`Random`].
    Random,
    /// `source-hash`: [`SourceHash`].
    SourceHash,
    /// `weighted-round-robin`: [`WeightedRoundRobin`].
    WeightedRoundRobin,
    /// `weighted-random`: [`WeightedRandom`].
    WeightedRandom,
    /// `least-connections`: [`LeastConnections`].
    LeastConnections,
}

/// No [`Algorithm`] has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown balancing algorithm {name:?}; known are round-robin, random, source-hash, \
     weighted-round-robin, weighted-random and least-connections"
)]
pub struct UnknownAlgorithm {
    name: String,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 6] = [
        Self::RoundRobin,
        Self::Random,
        Self::SourceHash,
        Self::WeightedRoundRobin,
        Self::WeightedRandom,
        Self::LeastConnections,
    ];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::SourceHash => "source-hash",
            Self::WeightedRoundRobin => "weighted-round-robin",
            Self::WeightedRandom => "weighted-random",
            Self::LeastConnections => "least-connections",
        }
    }

    /// Returns its strategy. The random strategies, and the start of `round-robin`, use `rng`; `least-connections`
    /// uses `loads`, which is `()` if no loads are known.
    #[must_use]
    pub fn strategy(self, rng: fastrand::Rng, loads: impl Loads + 'static) -> Strategy {
        match self {
            Self::RoundRobin => RoundRobin::starting_anywhere(rng).into(),
            Self::Random => Random::new(rng).into(),
            Self::SourceHash => SourceHash::new().into(),
            Self::WeightedRoundRobin => WeightedRoundRobin::new().into(),
            Self::WeightedRandom => WeightedRandom::new(rng).into(),
            Self::LeastConnections => LeastConnections::new(loads).into(),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        let known = Self::ALL.into_iter().find(|algorithm| algorithm.name() == name);
        known.ok_or_else(|| UnknownAlgorithm { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_instances::instances;
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        let error = "fastest".parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.starts_with("unknown balancing algorithm \"fastest\""), "{error}");
        assert!(Algorithm::ALL.iter().all(|algorithm| error.contains(algorithm.name())));
    }

    #[test]
    fn a_name_makes_its_own_strategy() {
        for algorithm in Algorithm::ALL {
            let strategy = algorithm.strategy(fastrand::Rng::with_seed(1), ());
            let made = match strategy {
                Strategy::RoundRobin(_) => Algorithm::RoundRobin,
                Strategy::Random(_) => Algorithm::Random,
                Strategy::SourceHash(_) => Algorithm::SourceHash,
                Strategy::WeightedRoundRobin(_) => Algorithm::WeightedRoundRobin,
                Strategy::WeightedRandom(_) => Algorithm::WeightedRandom,
                Strategy::LeastConnections(_) => Algorithm::LeastConnections,
            };
            assert_eq!(made, algorithm);
        }
    }

    #[test]
    fn every_algorithm_ignores_zero_weights_and_empty_lists() {
        for algorithm in Algorithm::ALL {
            let mut strategy = algorithm.strategy(fastrand::Rng::with_seed(1), ());
            assert!(strategy.pick(&instances(&[]), "x").is_none(), "{algorithm}");
            assert!(strategy.pick(&instances(&[("a", 0)]), "x").is_none(), "{algorithm}");
            let list = instances(&[("a", 0), ("b", 3), ("c", 0)]);
            for source in ["x", "y", "z"] {
                let picked = strategy.pick(&list, source).map(Instance::id);
                assert_eq!(picked, Some("b"), "{algorithm}");
            }
        }
    }

    #[test]
    fn only_least_connections_counts() {
        let mut strategy = Strategy::from(LeastConnections::new(()));
        let list = instances(&[("a", 1), ("b", 1)]);
        let _a = strategy.begin("a");
        for _ in 0..3 {
            assert_eq!(strategy.pick(&list, "").map(Instance::id), Some("b"));
        }
        let mut strategy = Strategy::from(RoundRobin::new());
        let _a = strategy.begin("a");
        assert_eq!(strategy.pick(&list, "").map(Instance::id), Some("a"));
    }
}

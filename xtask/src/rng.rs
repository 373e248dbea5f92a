//! A small seeded generator (SplitMix64), so that a seed gives the same choices on every machine.

use std::time::Duration;

/// The generator's state.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator for this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// Returns one of the choices, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns a duration between the two.
    pub fn between(&mut self, min_ms: u64, max_ms: u64) -> Duration {
        Duration::from_millis(min_ms + self.bits() % (max_ms - min_ms + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        // The first output of the reference implementation for seed 0.
        assert_eq!(Rng::new(0).bits(), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn times_stay_within_their_bounds() {
        let mut rng = Rng::new(3);
        let all: Vec<_> = (0..100).map(|_| rng.between(5, 7).as_millis()).collect();
        assert!(all.iter().all(|ms| (5..=7).contains(ms)));
        assert!(all.contains(&5) && all.contains(&7));
    }
}

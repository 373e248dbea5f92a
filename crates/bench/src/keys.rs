//! Picks keys: all equally often, or some much more often than others.

use clap::ValueEnum;

/// How often each key is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// All keys equally often.
    #[default]
    Uniform,
    /// A few keys very often, most of them rarely (Zipf's law with exponent 0.99).
    Zipf,
}

/// Picks keys. Two pickers with different seeds pick differently.
#[derive(Clone, Debug)]
pub(crate) struct KeyPicker {
    random: fastrand::Rng,
    keys: u32,
    zipf: Option<Zipf>,
}

impl KeyPicker {
    pub(crate) fn new(keys: u32, distribution: Distribution, seed: u64) -> Self {
        let keys = keys.max(1);
        let zipf = (distribution == Distribution::Zipf).then(|| Zipf::new(keys));
        KeyPicker { random: fastrand::Rng::with_seed(seed), keys, zipf }
    }

    pub(crate) fn next(&mut self) -> u32 {
        match &self.zipf {
            None => self.random.u32(..self.keys),
            Some(zipf) => spread(zipf.rank(self.random.f64()), self.keys),
        }
    }

    /// Returns true with this probability in percent.
    pub(crate) fn in_percent(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }
}

/// Spreads popular ranks over the keys: neighbours in a tree would share caches more than real popular keys do.
fn spread(rank: u32, keys: u32) -> u32 {
    const PRIME: u64 = 2_654_435_761;
    ((u64::from(rank) * PRIME) % u64::from(keys)) as u32
}

/// Ranks with frequencies by Zipf's law, without a table: Gray et al., "Quickly generating billion-record
/// synthetic databases" (1994).
#[derive(Clone, Debug)]
struct Zipf {
    keys: u32,
    zeta: f64,
    eta: f64,
}

/// The usual exponent: 1.0 has no closed form here.
const EXPONENT: f64 = 0.99;

impl Zipf {
    fn new(keys: u32) -> Self {
        let zeta: f64 = (1..=keys).map(|rank| f64::from(rank).powf(-EXPONENT)).sum();
        let zeta_of_two = 1.0 + 0.5f64.powf(EXPONENT);
        let eta = (1.0 - (2.0 / f64::from(keys)).powf(1.0 - EXPONENT)) / (1.0 - zeta_of_two / zeta);
        Zipf { keys, zeta, eta }
    }

    /// Returns the rank for a number from 0 to 1; 0 is the most popular.
    fn rank(&self, uniform: f64) -> u32 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(EXPONENT) {
            return 1.min(self.keys - 1);
        }
        let share = (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - EXPONENT));
        ((f64::from(self.keys) * share) as u32).min(self.keys - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: u32, distribution: Distribution) -> Vec<u32> {
        let mut picker = KeyPicker::new(keys, distribution, 7);
        let mut counts = vec![0; keys as usize];
        for _ in 0..100_000 {
            counts[picker.next() as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn every_key_is_used_and_popularity_differs() {
        let uniform = counts(100, Distribution::Uniform);
        assert!(uniform[99] > 800 && uniform[0] < 1200, "{uniform:?}");
        let zipf = counts(100, Distribution::Zipf);
        assert!(zipf[0] > 10_000, "the first of 100 has about a fifth: {zipf:?}");
        assert!(zipf[99] > 0 && zipf[99] < 500, "{zipf:?}");
    }

    #[test]
    fn few_keys_are_enough() {
        for keys in [1, 2, 3] {
            for distribution in [Distribution::Uniform, Distribution::Zipf] {
                assert_eq!(counts(keys, distribution).iter().sum::<u32>(), 100_000, "{keys}");
            }
        }
    }
}

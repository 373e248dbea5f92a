//! The combinations of damaged entries, and which of them are tried.

use anyhow::Result;

use super::Options;
use crate::rng::Rng;

/// Servers of the experiment.
pub const SERVERS: usize = 3;
/// The entries that can be damaged on each.
pub const ENTRIES: usize = 4;
const ALL: u16 = 1 << (SERVERS * ENTRIES);

/// A combination: bit `server * ENTRIES + entry` says that this entry is damaged there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination(pub u16);

impl Combination {
    /// Whether this entry is damaged on this server; both count from 0.
    pub fn damages(self, server: usize, entry: usize) -> bool {
        self.0 >> (server * ENTRIES + entry) & 1 == 1
    }

    /// How many entries are damaged on this server.
    pub fn damaged_on(self, server: usize) -> usize {
        (0..ENTRIES).filter(|entry| self.damages(server, *entry)).count()
    }

    /// The entries that are damaged on all servers.
    pub fn lost(self) -> impl Iterator<Item = usize> {
        (0..ENTRIES).filter(move |entry| (0..SERVERS).all(|server| self.damages(server, *entry)))
    }

    /// Whether each entry is intact somewhere.
    pub fn is_recoverable(self) -> bool {
        self.lost().next().is_none()
    }
}

/// A combination, and the seed that decides what of each damaged record is overwritten.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Which entries are damaged.
    pub combination: Combination,
    /// How.
    pub seed: u64,
}

impl Case {
    /// The command that runs it alone.
    pub fn again(self) -> String {
        let Case { combination: Combination(bits), seed } = self;
        format!("cargo xtask damage --case {bits:03x} --seed {seed}")
    }
}

/// The cases to run. A part of them is drawn with each of the seeds.
pub fn chosen(options: &Options, seeds: &[u64]) -> Vec<Case> {
    let seed = seeds[0];
    if let Some(bits) = options.case {
        return vec![Case { combination: Combination(bits), seed }];
    }
    if options.all {
        let (k, n) = options.part.unwrap_or((0, 1));
        let all = (k..ALL).step_by(n.into()).map(Combination);
        let all = all.filter(|it| it.0 >= options.from);
        let wanted = all.filter(|it| !options.recoverable || it.is_recoverable());
        return wanted.map(|combination| Case { combination, seed }).collect();
    }
    let (healing, waiting): (Vec<_>, Vec<_>) =
        (0..ALL).map(Combination).partition(|it| it.is_recoverable());
    let waits = if options.recoverable { 0 } else { options.waiting };
    let mut cases = draw(healing, options.cases.unwrap_or(super::CASES), seeds);
    cases.extend(draw(waiting, waits, seeds));
    cases
}

/// Draws this many different combinations, a part with each seed.
fn draw(mut from: Vec<Combination>, count: usize, seeds: &[u64]) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random: Vec<_> = seeds.iter().map(|seed| Rng::new(*seed)).collect();
    for number in 0..count.min(from.len()) {
        let with = number % seeds.len();
        let combination = from.swap_remove(random[with].below(from.len()));
        cases.push(Case { combination, seed: seeds[with] });
    }
    cases
}

/// Parses the number of a combination.
pub fn combination_number(text: &str) -> Result<u16, String> {
    let number = u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    number.filter(|bits| *bits < ALL).ok_or_else(|| "not a number below 0x1000".to_owned())
}

/// Parses K/N.
pub fn part(text: &str) -> Result<(u16, u16), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    parts.filter(|(k, n)| k < n).ok_or_else(|| "not K/N with K below N".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_of_eight_states_of_each_entry_can_be_healed() {
        assert_eq!((0..ALL).filter(|bits| Combination(*bits).is_recoverable()).count(), 2401);
        assert_eq!(Combination(0x111).lost().collect::<Vec<_>>(), [0]);
        assert!(Combination(0x011).is_recoverable());
        assert_eq!(Combination(0x0f1).damaged_on(1), 4);
    }

    #[test]
    fn different_combinations_are_drawn_half_of_them_with_each_seed() {
        let all: Vec<_> = (0..40).map(Combination).collect();
        let cases = draw(all.clone(), 40, &[1, 2]);
        assert!(all.iter().all(|it| cases.iter().any(|case| case.combination == *it)));
        assert_eq!(cases.iter().filter(|case| case.seed == 1).count(), 20);
        assert_eq!(draw(all, 7, &[1]).len(), 7);
    }

    #[test]
    fn parts_are_read() {
        assert_eq!(part("1/3"), Ok((1, 3)));
        assert!(part("3/3").is_err() && part("x").is_err());
        assert_eq!(combination_number("0x7ff"), Ok(0x7ff));
        assert!(combination_number("1000").is_err());
    }
}

//! What the simulator found, parsed from its output.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};

/// The result of a run over some seeds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many seeds were run.
    pub of_all: u64,
    /// The first seed that failed.
    first: Option<u64>,
    /// The number of seeds in which each property failed.
    by_property: BTreeMap<String, u64>,
}

impl Findings {
    /// Parses the output of a run: a line `seed N: …` for each seed; after one that ends with `FAILED`, and
    /// an empty line in place of the trace, `PROPERTY: WHY`. A reason may span several lines.
    pub fn parse(text: &str) -> Result<Findings> {
        let mut found = Findings::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(rest) = line.strip_prefix("seed ") else { continue };
            let Some((seed, summary)) = rest.split_once(": hash ") else { continue };
            found.of_all += 1;
            if !summary.ends_with("FAILED") {
                continue;
            }
            let seed = seed.parse().with_context(|| format!("reading `{line}`"))?;
            found.first = Some(found.first.map_or(seed, |first: u64| first.min(seed)));
            let why = lines.by_ref().find(|line| !line.is_empty());
            let property = why.and_then(|why| why.split_once(": ")).map(|(property, _)| property);
            let property = property.with_context(|| format!("no property after `{line}`"))?;
            *found.by_property.entry(property.to_owned()).or_default() += 1;
        }
        Ok(found)
    }

    /// The number of seeds that failed.
    pub fn seeds(&self) -> u64 {
        self.by_property.values().sum()
    }

    /// The number of seeds in which a property failed.
    pub fn of(&self, property: &str) -> u64 {
        self.by_property.get(property).copied().unwrap_or(0)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {}", self.seeds(), self.of_all)?;
        let Some(first) = self.first else { return Ok(()) };
        let mut by_count: Vec<_> = self.by_property.iter().collect();
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let list: Vec<_> =
            by_count.iter().map(|(property, count)| format!("{property} {count}")).collect();
        write!(out, ", first seed {first}: {}", list.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_property() {
        let text = "seed 2: hash 00ff, 3 txns: ok\n\
                    seed 7: hash 01, 9 txns: FAILED\n\nagreement: a: b\nreplay: cargo run\n\
                    seed 5: hash 02, 9 txns: FAILED\n\nno panic: one\ntwo: three\nreplay: cargo run\n\
                    seed 8: hash 03, 9 txns: FAILED\n\nagreement: c\nreplay: cargo run\n";
        let found = Findings::parse(text).unwrap();
        assert_eq!((found.of_all, found.seeds(), found.first), (4, 3, Some(5)));
        assert_eq!((found.of("agreement"), found.of("liveness")), (2, 0));
        assert_eq!(found.to_string(), "3 of 4, first seed 5: agreement 2, no panic 1");
    }

    #[test]
    fn a_run_may_find_nothing() {
        let found = Findings::parse("seed 1: hash 00ff, 3 txns: ok\n").unwrap();
        assert_eq!(found.to_string(), "0 of 1");
    }
}

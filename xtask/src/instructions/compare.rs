//! Compares counts with the baseline, case by case.

use std::fmt;

use super::baseline::Counts;

/// The allowed deviation from the baseline. The same source gives the same count on the same machine to
/// within a few instructions in a million. But other compiler releases inline differently, and the memory
/// allocator and the copying of memory belong to the C library, which differs between systems and selects
/// its routines by processor.
pub const TOLERANCE_PERCENT: u64 = 10;

/// One case, before and now.
#[derive(Debug)]
pub struct Comparison<'a> {
    name: &'a str,
    before: Option<u64>,
    now: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    AsBefore,
    Faster,
    Slower,
    NotInBaseline,
    NotCounted,
}

/// All cases of either side, in order of their names.
pub fn compare<'a>(before: &'a Counts, now: &'a Counts) -> Vec<Comparison<'a>> {
    let mut names: Vec<&str> = before.keys().chain(now.keys()).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let row =
        |name| Comparison { name, before: before.get(name).copied(), now: now.get(name).copied() };
    names.into_iter().map(row).collect()
}

impl Comparison<'_> {
    /// Whether this is a failure.
    pub fn is_failure(&self) -> bool {
        !matches!(self.verdict(), Verdict::AsBefore | Verdict::Faster)
    }

    /// Describes the difference and what to do about it; nothing if there is none.
    pub fn note(&self) -> Option<String> {
        let name = self.name;
        let accept = format!("`cargo xtask instructions --update {name}`");
        Some(match (self.verdict(), self.before, self.now) {
            (Verdict::Slower, Some(before), Some(now)) => format!(
                "FAILED {name}: {before} instructions before, {now} now ({}), and {TOLERANCE_PERCENT} % are \
                 allowed; `callgrind_annotate target/callgrind/{name}.twice` shows where they are, {accept} \
                 accepts them",
                percent(before, now),
            ),
            (Verdict::Faster, Some(before), Some(now)) => format!(
                "{name}: {before} instructions before, only {now} now ({}); keep it that way with {accept}",
                percent(before, now),
            ),
            (Verdict::NotInBaseline, ..) => {
                format!("FAILED {name}: not in the baseline; {accept} adds it")
            }
            (Verdict::NotCounted, ..) => format!(
                "FAILED {name}: in the baseline, but there is no such case; if it was removed on purpose, `cargo xtask \
                 instructions --update` writes the baseline without it"
            ),
            _ => return None,
        })
    }

    fn verdict(&self) -> Verdict {
        let (before, now) = match (self.before, self.now) {
            (Some(before), Some(now)) => (u128::from(before), u128::from(now)),
            (Some(_), None) => return Verdict::NotCounted,
            (None, _) => return Verdict::NotInBaseline,
        };
        let tolerance = u128::from(TOLERANCE_PERCENT);
        if now * 100 > before * (100 + tolerance) {
            Verdict::Slower
        } else if now * 100 < before * (100 - tolerance) {
            Verdict::Faster
        } else {
            Verdict::AsBefore
        }
    }
}

/// A line of the table.
impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |count: Option<u64>| count.map_or("-".to_string(), |count| count.to_string());
        write!(f, "{:20} {:>8} {:>8}", self.name, shown(self.before), shown(self.now))?;
        match (self.before, self.now) {
            (Some(before), Some(now)) => write!(f, " {:>9}", percent(before, now)),
            _ => Ok(()),
        }
    }
}

fn percent(before: u64, now: u64) -> String {
    format!("{:+.1} %", (now as f64 / before as f64 - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counts_within_the_tolerance_pass() {
        for (before, now, verdict) in [
            (Some(1000), Some(1000), Verdict::AsBefore),
            (Some(1000), Some(1100), Verdict::AsBefore),
            (Some(1000), Some(1101), Verdict::Slower),
            (Some(1000), Some(900), Verdict::AsBefore),
            (Some(1000), Some(899), Verdict::Faster),
            (Some(0), Some(1), Verdict::Slower),
            (Some(u64::MAX), Some(u64::MAX), Verdict::AsBefore),
            (Some(1000), None, Verdict::NotCounted),
            (None, Some(1000), Verdict::NotInBaseline),
        ] {
            let row = Comparison { name: "case", before, now };
            assert_eq!(row.verdict(), verdict, "{row}");
            assert_eq!(row.is_failure(), !matches!(verdict, Verdict::AsBefore | Verdict::Faster));
            assert_eq!(row.note().is_none(), verdict == Verdict::AsBefore);
        }
    }

    #[test]
    fn a_failure_says_how_much_and_what_to_do() {
        let note = |before, now| Comparison { name: "case", before, now }.note().unwrap();
        let slower = note(Some(1000), Some(1234));
        for part in ["FAILED case: 1000", "1234 now (+23.4 %)", "instructions --update case`"] {
            assert!(slower.contains(part), "{slower}");
        }
        let faster = note(Some(1000), Some(500));
        assert!(faster.contains("500 now (-50.0 %)") && !faster.contains("FAILED"), "{faster}");
        assert!(note(None, Some(1)).contains("--update case` adds it"));
        assert!(note(Some(1), None).contains("there is no such case"));
    }

    #[test]
    fn cases_of_either_side_are_compared() {
        let counts = |cases: &[(&str, u64)]| -> Counts {
            cases.iter().map(|&(name, count)| (name.to_string(), count)).collect()
        };
        let (before, now) = (counts(&[("b", 1), ("a", 2)]), counts(&[("c", 3), ("b", 1)]));
        let rows: Vec<_> = compare(&before, &now).iter().map(ToString::to_string).collect();
        let squeezed = |row: &String| row.split_whitespace().collect::<Vec<_>>().join(" ");
        let rows: Vec<_> = rows.iter().map(squeezed).collect();
        assert_eq!(rows, ["a 2 -", "b 1 1 +0.0 %", "c - 3"]);
    }
}

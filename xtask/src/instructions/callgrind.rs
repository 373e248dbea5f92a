//! Runs one case under callgrind twice and returns the difference in instructions.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run;

/// A case, as the program lists it.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// N.
    pub iterations: u64,
}

/// Reads `NAME ITERATIONS ABOUT…` lines.
pub fn parse_list(text: &str) -> Result<Vec<Case>> {
    let cases = text.lines().map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?.to_string();
        let iterations = words.next()?.parse().ok().filter(|&iterations| iterations > 0)?;
        Some(Case { name, iterations })
    });
    cases.collect::<Option<_>>().with_context(|| format!("not a list of cases:\n{text}"))
}

/// Counts the instructions of one operation. The profile of the longer run stays in the directory, for
/// `callgrind_annotate`.
pub fn count(binary: &Path, case: &Case, dir: &Path) -> Result<u64> {
    let once = count_run(binary, case, case.iterations, &dir.join(format!("{}.once", case.name)))?;
    let twice =
        count_run(binary, case, 2 * case.iterations, &dir.join(format!("{}.twice", case.name)))?;
    per_operation(once, twice, case.iterations)
        .with_context(|| format!("{}: {once} instructions once, {twice} twice", case.name))
}

fn count_run(binary: &Path, case: &Case, iterations: u64, profile: &Path) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    // A clean environment: settings of valgrind and of the allocator may be in it.
    valgrind.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    valgrind.arg("--tool=callgrind");
    valgrind.arg(format!("--callgrind-out-file={}", profile.display()));
    valgrind.arg(binary).args([&case.name, &iterations.to_string()]);
    run::output(&mut valgrind)?;
    let text = std::fs::read_to_string(profile)
        .with_context(|| format!("reading {}", profile.display()))?;
    instructions_in(&text).with_context(|| format!("in {}", profile.display()))
}

/// Rounds to the nearest.
fn per_operation(once: u64, twice: u64, iterations: u64) -> Result<u64> {
    let difference = twice.checked_sub(once).filter(|&difference| difference > 0);
    let difference = difference.context("the longer run must need more instructions")?;
    Ok((difference + iterations / 2) / iterations)
}

/// Returns the total of a profile.
fn instructions_in(profile: &str) -> Result<u64> {
    let after = |prefix: &str| profile.lines().find_map(|line| line.strip_prefix(prefix));
    let events = after("events:").context("no line `events:`")?;
    let first = events.split_whitespace().next();
    ensure!(first == Some("Ir"), "the first of the events is not Ir, but there are:{events}");
    let summary = after("summary:").context("no line `summary:`")?;
    let instructions = summary.split_whitespace().next().and_then(|sum| sum.parse().ok());
    instructions.with_context(|| format!("no number in `summary:{summary}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of a profile written by callgrind 3.19.
    const PROFILE: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 19383
cmd:  herdsman-instructions read-exists 100
part: 1


desc: I1 cache: 
desc: Timerange: Basic block 0 - 1631470
desc: Trigger: Program termination

positions: line
events: Ir
summary: 9882305


ob=(3) /lib/x86_64-linux-gnu/libc.so.6
totals: 9882305
";

    #[test]
    fn the_summary_of_a_profile_is_found() {
        assert_eq!(instructions_in(PROFILE).unwrap(), 9_882_305);
        let with_caches = PROFILE.replace("events: Ir", "events: Ir Dr Dw");
        let with_caches = with_caches.replace("summary: 9882305", "summary: 9882305 12 13");
        assert_eq!(instructions_in(&with_caches).unwrap(), 9_882_305);
    }

    #[test]
    fn a_profile_of_other_events_is_rejected() {
        for (line, other) in [
            ("events: Ir", "events: Dr Ir"),
            ("events: Ir\n", ""),
            ("summary: 9882305", "summary: many"),
            ("summary: 9882305\n", ""),
        ] {
            assert!(instructions_in(&PROFILE.replace(line, other)).is_err(), "{other:?}");
        }
    }

    #[test]
    fn the_difference_of_the_runs_is_divided() {
        assert_eq!(per_operation(1000, 1300, 100).unwrap(), 3);
        assert_eq!(per_operation(1000, 1349, 100).unwrap(), 3);
        assert_eq!(per_operation(1000, 1350, 100).unwrap(), 4);
        assert!(per_operation(1000, 1000, 100).is_err());
        assert!(per_operation(1000, 999, 100).is_err());
    }

    #[test]
    fn a_list_is_read_line_by_line() {
        let case = |name: &str, iterations| Case { name: name.into(), iterations };
        let list = "one 10 first words\ntwo 20 more\n";
        assert_eq!(parse_list(list).unwrap(), [case("one", 10), case("two", 20)]);
        for broken in ["one\n", "one ten\n", "one 0 never\n"] {
            assert!(parse_list(broken).is_err(), "{broken}");
        }
    }
}

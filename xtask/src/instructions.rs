//! Counts the instructions of single operations of the server, and compares with a committed baseline.
//!
//! In: `benches/instructions`, a program that executes one operation N times, and its `baseline.txt`. Out:
//! a table, and a failure for every case that needs noticeably more instructions than before. A count does
//! not depend on the load of the machine, so CI can check it, unlike a duration.
//!
//! Each case runs under callgrind with N and with 2 N iterations; the difference divided by N is the cost
//! of one operation without start-up and set-up. Deliberately not here: anything that takes time without
//! instructions (system calls, cache misses, waiting), which `herdsman bench` measures.

mod baseline;
mod callgrind;
mod compare;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::paths;
use crate::peers::Peer;
use crate::run;
use baseline::{Baseline, Compiler};
use callgrind::Case;
use compare::Comparison;

const PACKAGE: &str = "herdsman-instructions";
const PROFILE: &str = "instructions";
const BASELINE: &str = "benches/instructions/baseline.txt";

/// Which cases, and what to do with their counts.
#[derive(Args)]
pub struct Options {
    /// Accept the counts: write them into the baseline instead of comparing.
    #[arg(long)]
    update: bool,
    /// Only these cases; all when none is named.
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
}

/// Counts and compares; fails if a case needs more than allowed.
pub fn run(options: &Options) -> Result<()> {
    Peer::Valgrind.ensure()?;
    let path = paths::root().join(BASELINE);
    let compiler = Compiler::parse(&run::output(Command::new("rustc").arg("-vV"))?)?;
    let before = baseline_before(options, &path, &compiler)?;
    let binary = build()?;
    let known = callgrind::parse_list(&run::output(Command::new(&binary).arg("--list"))?)?;
    let chosen = chosen(&known, &options.cases)?;
    println!("{} of {} cases under callgrind\n", chosen.len(), known.len());
    let now = Baseline { compiler, counts: count_all(&binary, &chosen)? };
    if options.update {
        return update(&path, before, now);
    }
    let before = if options.cases.is_empty() { before } else { before.restricted_to(&now.counts) };
    judge(&before, &now)
}

/// Returns the baseline to compare with or to update; fails early, before anything is counted.
fn baseline_before(options: &Options, path: &Path, compiler: &Compiler) -> Result<Baseline> {
    if !options.update {
        let before = Baseline::read(path)?;
        before.check_same_host(compiler)?;
        return Ok(before);
    }
    if options.cases.is_empty() {
        return Ok(Baseline::empty(compiler));
    }
    let before = Baseline::read(path)?;
    before.check_same_compiler(compiler)?;
    Ok(before)
}

fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--profile", PROFILE, "--package", PACKAGE]);
    run::inherit(build.current_dir(paths::root()))?;
    Ok(paths::target().join(PROFILE).join(PACKAGE))
}

fn chosen<'a>(known: &'a [Case], names: &[String]) -> Result<Vec<&'a Case>> {
    for name in names {
        let all = || known.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(" ");
        let is_known = known.iter().any(|case| case.name == *name);
        ensure!(is_known, "there is no case `{name}`; the cases are: {}", all());
    }
    let wanted = |case: &&Case| names.is_empty() || names.contains(&case.name);
    Ok(known.iter().filter(wanted).collect())
}

/// Counts the cases, one for each processor at a time: they do not affect each other's counts.
fn count_all(binary: &Path, cases: &[&Case]) -> Result<baseline::Counts> {
    let dir = paths::target().join("callgrind");
    std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(String, u64)>> {
        let mut counted = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            counted.push((case.name.clone(), callgrind::count(binary, case, &dir)?));
        }
        Ok(counted)
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut counts = baseline::Counts::new();
        for worker in workers {
            counts.extend(worker.join().expect("counting does not panic")?);
        }
        Ok(counts)
    })
}

/// Replaces the counts of these cases in the baseline.
fn update(path: &Path, mut before: Baseline, now: Baseline) -> Result<()> {
    before.counts.extend(now.counts);
    std::fs::write(path, before.to_string())
        .with_context(|| format!("writing {}", path.display()))?;
    println!("written: {}", path.display());
    Ok(())
}

fn judge(before: &Baseline, now: &Baseline) -> Result<()> {
    let rows = compare::compare(&before.counts, &now.counts);
    for row in &rows {
        println!("{row}");
    }
    let notes: Vec<_> = rows.iter().filter_map(Comparison::note).collect();
    if !notes.is_empty() {
        println!("\n{}", notes.join("\n"));
    }
    if before.compiler != now.compiler {
        println!(
            "\nThe baseline was counted with {}, this is {}: differences may be caused by the compiler.",
            before.compiler, now.compiler,
        );
    }
    let failed = rows.iter().filter(|row| row.is_failure()).count();
    if failed > 0 {
        bail!("{failed} of {} cases differ from the baseline", rows.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(version: &str, counts: &[(&str, u64)]) -> Baseline {
        let compiler =
            Compiler { version: version.into(), host: "x86_64-unknown-linux-gnu".into() };
        let counts = counts.iter().map(|&(name, count)| (name.to_string(), count)).collect();
        Baseline { compiler, counts }
    }

    #[test]
    fn cases_are_chosen_by_name_and_an_unknown_one_is_rejected() {
        let known = callgrind::parse_list("one 10 first\ntwo 20 second\n").unwrap();
        let names = |names: &[&str]| -> Result<Vec<String>> {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            Ok(chosen(&known, &names)?.iter().map(|case| case.name.clone()).collect())
        };
        assert_eq!(names(&[]).unwrap(), ["one", "two"]);
        assert_eq!(names(&["two"]).unwrap(), ["two"]);
        let error = names(&["three"]).unwrap_err().to_string();
        assert_eq!(error, "there is no case `three`; the cases are: one two");
    }

    #[test]
    fn an_update_leaves_the_other_cases_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("baseline.txt");
        let before = baseline("1.95.0", &[("one", 1), ("two", 2)]);
        update(&path, before, baseline("1.95.0", &[("two", 3), ("three", 4)])).unwrap();
        let expected = baseline("1.95.0", &[("one", 1), ("two", 3), ("three", 4)]);
        assert_eq!(Baseline::read(&path).unwrap(), expected);
    }

    #[test]
    fn baselines_that_do_not_match_are_rejected_before_counting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("baseline.txt");
        let old = baseline("1.95.0", &[("one", 1)]);
        let begin = |update, cases: &[&str], compiler: &Compiler| {
            let cases = cases.iter().map(ToString::to_string).collect();
            baseline_before(&Options { update, cases }, &path, compiler)
        };
        assert!(begin(false, &[], &old.compiler).is_err(), "there is no file yet");
        std::fs::write(&path, old.to_string()).unwrap();
        let later = Compiler { version: "1.96.0".into(), ..old.compiler.clone() };
        let elsewhere = Compiler { host: "aarch64-unknown-linux-gnu".into(), ..later.clone() };
        assert_eq!(begin(false, &[], &later).unwrap(), old);
        assert!(begin(false, &[], &elsewhere).is_err());
        assert_eq!(begin(true, &["one"], &old.compiler).unwrap(), old);
        assert!(begin(true, &["one"], &later).is_err());
        assert_eq!(begin(true, &[], &elsewhere).unwrap(), Baseline::empty(&elsewhere));
    }

    #[test]
    fn a_case_that_grew_fails_with_any_compiler() {
        let before = baseline("1.95.0", &[("one", 100)]);
        for version in ["1.95.0", "1.96.0"] {
            assert!(judge(&before, &baseline(version, &[("one", 110)])).is_ok());
            assert!(judge(&before, &baseline(version, &[("one", 111)])).is_err());
            assert!(judge(&before, &baseline(version, &[])).is_err());
        }
    }

    #[test]
    fn the_committed_baseline_can_be_read() {
        let committed = Baseline::read(&paths::root().join(BASELINE)).unwrap();
        assert!(!committed.counts.is_empty());
    }
}

//! Looks for inputs that break a decoder: coverage-guided with libFuzzer where a nightly toolchain and cargo-fuzz are
//! installed, else with random mutations of the seeds on the stable toolchain.
//!
//! In: how long. Out: how many inputs were tried for each target; a failure says where the input is. New inputs that
//! libFuzzer finds interesting go to `fuzz/corpus`, which is not committed.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::paths;
use crate::run;

/// The number that libFuzzer prints with `-print_final_stats=1`.
const TRIED: &str = "stat::number_of_executed_units:";

/// How long, and what.
#[derive(Args)]
pub struct Options {
    /// How long to fuzz, in all.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Fuzz only this target (may be given several times); by default all share the time.
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// Use random mutations even if libFuzzer is available.
    #[arg(long)]
    mutations: bool,
    /// Seed of the random mutations [default: the time].
    #[arg(long)]
    seed: Option<u64>,
}

/// Fuzzes for the time given.
pub fn run(options: &Options) -> Result<()> {
    let known = targets()?;
    for name in &options.target {
        ensure!(
            known.contains(name),
            "unknown target `{name}`; the targets are {}",
            known.join(", ")
        );
    }
    let seconds = options.minutes * 60;
    if !options.mutations && has_libfuzzer() {
        let wanted = if options.target.is_empty() { &known } else { &options.target };
        return with_libfuzzer(wanted, seconds);
    }
    println!("cargo +nightly fuzz is not available or not wanted: using random mutations");
    with_mutations(options, seconds)
}

/// The names of all targets: each has a folder of seeds.
fn targets() -> Result<Vec<String>> {
    let folder = paths::root().join("fuzz/seeds");
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// cargo of the nightly toolchain. The variable with which rustup passes the toolchain on would overrule `+nightly`.
fn nightly() -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").current_dir(paths::root()).env_remove("RUSTUP_TOOLCHAIN");
    command
}

fn has_libfuzzer() -> bool {
    run::output(nightly().args(["fuzz", "--version"])).is_ok()
}

fn with_libfuzzer(targets: &[String], seconds: u64) -> Result<()> {
    let (mut tried, mut failed) = (0, Vec::new());
    let share = (seconds / targets.len() as u64).max(1);
    for target in targets {
        let folders = ["corpus", "seeds"].map(|kind| format!("fuzz/{kind}/{target}"));
        std::fs::create_dir_all(paths::root().join(&folders[0]))?;
        let mut command = nightly();
        command.args(["fuzz", "run", target]).args(folders);
        command.args(["--", &format!("-max_total_time={share}"), "-print_final_stats=1"]);
        let ran = run::all_output(&mut command, "")?;
        let inputs = inputs_in(&ran.printed);
        tried += inputs;
        println!("{target:14} {inputs} inputs{}", if ran.success { "" } else { ", FAILED" });
        if !ran.success {
            println!("{}", ran.printed);
            failed.push(target.as_str());
        }
    }
    println!("{tried} inputs tried with libFuzzer, {} targets failed", failed.len());
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// How many inputs libFuzzer says that it has tried.
fn inputs_in(printed: &str) -> u64 {
    let number = printed.lines().find_map(|line| line.trim().strip_prefix(TRIED));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

fn with_mutations(options: &Options, seconds: u64) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let seed = options.seed.unwrap_or(now);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(paths::root());
    command.args(["run", "--quiet", "--package", "herdsman-fuzz", "--bin", "mutations", "--"]);
    command.arg(seconds.to_string()).arg(seed.to_string()).args(&options.target);
    run::inherit(&mut command).context("a target failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_inputs_is_found() {
        assert_eq!(inputs_in("x\nstat::number_of_executed_units: 41237\nstat::y: 1\n"), 41237);
        assert_eq!(inputs_in("error: nothing ran"), 0);
    }

    #[test]
    fn there_are_targets() {
        assert!(targets().unwrap().contains(&"quorum_packet".to_owned()));
    }
}

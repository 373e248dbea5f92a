//! Runs `herdsman bench`, the load generator, as a separate process, and reads its report.
//!
//! The release build generates the load, not this program, which is built for quick compilation.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use herdsman_bench::report::{DiskLimit, Report};

use super::scale::Scale;
use crate::ensemble::dies_with_us;
use crate::paths;
use crate::run;

/// A target of the load: a name, and the addresses over which connections are spread.
pub struct Target {
    /// [`super::raw::HERDSMAN`] or [`super::raw::APACHE`].
    pub name: &'static str,
    /// `host:port` of each server.
    pub addresses: Vec<String>,
}

impl Target {
    fn flag(&self) -> [String; 2] {
        ["--target".into(), format!("{}={}", self.name, self.addresses.join(","))]
    }
}

/// Whether the echo server is measured as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Its rounds are interleaved with those of the targets.
    Beside,
    /// Only the targets.
    None,
}

/// Who creates the znodes of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Znodes {
    /// The workload creates them and deletes them afterwards.
    Own,
    /// They were created by [`fill`], and are kept.
    Filled,
}

/// One call of the load generator.
#[derive(Clone, Debug)]
pub struct Load {
    /// The workload's name on the command line.
    pub workload: &'static str,
    /// Connections over all servers of a target.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
    /// Number of znodes.
    pub keys: usize,
    /// The path of the znodes.
    pub root: String,
    /// Who creates the znodes.
    pub znodes: Znodes,
    /// Whether the echo server is measured too.
    pub echo: Echo,
    /// Number of rounds for each target.
    pub rounds: usize,
    /// The length of a round.
    pub duration_s: u64,
    /// The duration of the warm-up.
    pub warmup_s: u64,
}

impl Load {
    /// A workload with this shape, and defaults for everything else.
    pub fn new(workload: &'static str, connections: usize, depth: usize, scale: &Scale) -> Load {
        Load {
            workload,
            connections,
            depth,
            keys: 1000,
            root: "/bench".into(),
            znodes: Znodes::Own,
            echo: Echo::None,
            rounds: scale.rounds,
            duration_s: scale.duration_s,
            warmup_s: scale.warmup_s,
        }
    }

    /// Runs it; fails if any operation failed, since numbers with failures mean nothing.
    pub fn run(&self, targets: &[Target], work: &Path) -> Result<Report> {
        let mut arguments = vec![self.workload.to_string()];
        arguments.extend(targets.iter().flat_map(Target::flag));
        let mut flag = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        flag("connections", self.connections.to_string());
        flag("depth", self.depth.to_string());
        flag("value-bytes", super::VALUE_BYTES.to_string());
        flag("keys", self.keys.to_string());
        flag("root", self.root.clone());
        flag("rounds", self.rounds.to_string());
        flag("duration", self.duration_s.to_string());
        flag("warmup", self.warmup_s.to_string());
        if self.echo == Echo::Beside {
            arguments.push("--echo".into());
        }
        if self.znodes == Znodes::Filled {
            arguments.push("--filled".into());
        }
        let report = generate(&arguments, work)?;
        ensure_sound(&report)?;
        Ok(report)
    }
}

/// Creates znodes that are kept; a [`Load`] with the same root and number of keys can use them.
pub fn fill(target: &Target, root: &str, keys: usize) -> Result<()> {
    let mut arguments = vec!["fill".to_string()];
    arguments.extend(target.flag());
    arguments.extend(["--root".into(), root.into(), "--keys".into(), keys.to_string()]);
    arguments.extend(["--value-bytes".into(), super::VALUE_BYTES.to_string()]);
    run::inherit(&mut command(&arguments)?).context("`herdsman bench fill` failed")
}

/// Measures the limits of the disk under a directory.
pub fn disk_limit(work: &Path, scale: &Scale) -> Result<DiskLimit> {
    let (data, seconds) = (work.display().to_string(), scale.duration_s.to_string());
    // The echo server is measured with each load; here its measurement is as short as possible.
    let no_load = ["--connections", "1", "--depth", "1"];
    let wanted = ["roofline", "--data-dir", &data, "--duration", &seconds];
    let arguments: Vec<String> = wanted.iter().chain(&no_load).map(ToString::to_string).collect();
    generate(&arguments, work)?.disk.context("`herdsman bench roofline` did not measure the disk")
}

fn generate(arguments: &[String], work: &Path) -> Result<Report> {
    fs::create_dir_all(work)?;
    let output = work.join("report.json");
    if output.exists() {
        fs::remove_file(&output)?;
    }
    let mut command = command(arguments)?;
    command.args(["--format", "json", "--output"]).arg(&output);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.context("running `herdsman bench`")?;
    // 1 means that an operation failed; the report says which one, and why.
    ensure!(matches!(status.code(), Some(0 | 1)), "`herdsman bench` ended with {status}");
    let bytes = fs::read(&output).with_context(|| format!("reading {}", output.display()))?;
    fs::remove_file(&output)?;
    serde_json::from_slice(&bytes).context("reading the load generator's report")
}

/// The command `herdsman bench`, killed when this process ends.
fn command(arguments: &[String]) -> Result<Command> {
    let mut words = dies_with_us();
    words.push(paths::herdsman().display().to_string());
    words.push("bench".into());
    words.extend_from_slice(arguments);
    let (program, arguments) = words.split_first().context("there is a program to run")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

fn ensure_sound(report: &Report) -> Result<()> {
    for row in &report.rows {
        let errors: u64 = row.rounds.iter().map(|round| round.errors).sum();
        let first = row.rounds.iter().find_map(|round| round.first_error.as_deref());
        let first = first.unwrap_or("unknown reason");
        let (workload, target) = (&row.workload, &row.target);
        ensure!(errors == 0, "{workload} against {target}: {errors} operations failed: {first}");
        let ops: u64 = row.rounds.iter().map(|round| round.ops).sum();
        ensure!(ops > 0, "{workload} against {target}: no replies");
    }
    ensure!(!report.rows.is_empty(), "the load generator measured nothing");
    Ok(())
}

#[cfg(test)]
mod tests {
    use herdsman_bench::report::{Round, Row};

    use super::*;

    fn report(ops: u64, errors: u64) -> Report {
        let round = Round { ops, errors, first_error: Some("NoNode".into()), ..Round::default() };
        Report { rows: vec![Row { rounds: vec![round], ..Row::default() }], ..Report::default() }
    }

    #[test]
    fn a_report_with_failures_is_an_error() {
        assert!(ensure_sound(&report(10, 0)).is_ok());
        let error = ensure_sound(&report(10, 2)).unwrap_err().to_string();
        assert!(error.contains("2 operations failed: NoNode"), "{error}");
        assert!(ensure_sound(&report(0, 0)).is_err());
        assert!(ensure_sound(&Report::default()).is_err());
    }
}

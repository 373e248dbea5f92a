//! `cargo xtask bench`: compares Herdsman, Apache 3.9.5 and the limits of the machine itself.
//!
//! In: which parts, how large, how long. Out: a file of raw numbers for each part
//! (`target/bench/PART.json`), and the document with tables and plots that is generated from all such
//! files. Both programs get the same settings and sync every write to the same disk; the load comes from
//! `herdsman bench`. A part that fails is named, and the others continue.
//! Not here: measuring requests (`crates/bench`), and starting servers (`server`, `ensemble`).

pub mod document;
pub mod fill;
pub mod generator;
mod idle;
pub mod lab;
pub mod machine;
pub mod million;
mod outage;
mod parts;
pub mod raw;
mod scale;
mod scaling;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::paths;
use crate::run;
use lab::{Lab, PROGRAMS};
use machine::Machine;
use parts::{DOCUMENT, PARTS, Part};
use raw::Raw;
use scale::Scale;

/// The size of every value that is written.
const VALUE_BYTES: usize = 100;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Measure only these parts, with commas between them; `document` only writes the document.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Run small and short, to check that it works. The results go to target/bench/quick.
    #[arg(long)]
    quick: bool,
    /// How many rounds each server is measured.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// The length of a round.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    duration: Option<u64>,
    /// Directory for benchmarks.md and its plots [default: docs; target/bench/quick with --quick].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show the parts and what each measures, and run nothing.
    #[arg(long)]
    list: bool,
}

impl Options {
    fn scale(&self) -> Scale {
        let mut scale = if self.quick { Scale::QUICK } else { Scale::FULL };
        if let Some(rounds) = self.rounds {
            scale.rounds = rounds as usize;
        }
        scale.duration_s = self.duration.unwrap_or(scale.duration_s);
        scale
    }

    fn raw_dir(&self) -> PathBuf {
        let dir = paths::target().join("bench");
        if self.quick { dir.join("quick") } else { dir }
    }

    fn out_dir(&self) -> PathBuf {
        match &self.out {
            Some(dir) => dir.clone(),
            None if self.quick => self.raw_dir(),
            None => paths::root().join("docs"),
        }
    }
}

/// Measures the chosen parts and writes the document; fails if any part failed.
pub fn run(options: &Options) -> Result<()> {
    let chosen = parts::chosen(&options.only)?;
    if options.list {
        for part in PARTS {
            println!("{:18} {}", part.name, part.about);
        }
        println!("{DOCUMENT:18} the document only, from earlier measurements");
        return Ok(());
    }
    let failed = if chosen.is_empty() { Vec::new() } else { measure_all(&chosen, options)? };
    document::write(&options.raw_dir(), &options.out_dir())?;
    println!("wrote {}", options.out_dir().join("benchmarks.md").display());
    ensure!(failed.is_empty(), "{} of {} parts failed: {failed:?}", failed.len(), chosen.len());
    Ok(())
}

/// Measures one part after another; returns the names of those that failed.
fn measure_all(parts: &[&Part], options: &Options) -> Result<Vec<&'static str>> {
    build()?;
    PROGRAMS.iter().try_for_each(|program| program.ensure_here())?;
    let raw_dir = options.raw_dir();
    let mut lab = Lab::open(&paths::target().join("bench/data"), options.scale())?;
    let machine = Machine::look(lab.work())?;
    let mut failed = Vec::new();
    for part in parts {
        println!("\n== {}: {}", part.name, part.about);
        let begun = Instant::now();
        if let Err(error) = measure(part, &mut lab, &machine, options.quick, &raw_dir) {
            println!("{} FAILED: {error:#}", part.name);
            failed.push(part.name);
            // The servers' state may have caused the failure; the next part gets new ones.
            lab.stop();
        }
        println!("== {}: {:.0} s", part.name, begun.elapsed().as_secs_f64());
    }
    Ok(failed)
}

fn measure(
    part: &Part,
    lab: &mut Lab,
    machine: &Machine,
    quick: bool,
    raw_dir: &Path,
) -> Result<()> {
    let measured = part.measure(lab)?;
    let raw = Raw { part: part.name.into(), quick, machine: machine.clone(), measured };
    raw.save(raw_dir)
}

/// Builds the release build of this source, unless `HERDSMAN` names another binary.
pub fn build() -> Result<()> {
    if std::env::var_os("HERDSMAN").is_some() {
        return Ok(());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--package", "herdsman"]).current_dir(paths::root());
    run::inherit(&mut build).context("building the server and the load generator")
}

//! `cargo xtask scale`: how costs grow with the number of sessions, watchers, children and znodes.
//!
//! In: which parts, how large. Out: a file of raw numbers for each part (`target/scale/PART.json`), a table
//! of the goals and whether they are met, and the document that is generated from all such files. A part
//! that fails is named, its earlier measurements are kept, and the others continue. The servers are killed
//! when this process ends for any reason.
//! Not here: rates and times of single operations (`bench`, whose files and tables are used here).

mod busy;
mod children;
mod crowd;
mod document;
mod expiry;
mod join;
mod lab;
mod link;
mod parts;
mod sessions;
mod sizes;
mod watchers;
mod watches;
mod znodes;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;

use crate::bench::lab::target_name;
use crate::bench::machine::Machine;
use crate::bench::raw::{self, Measured, Raw};
use crate::paths;
use crate::server::Program;
use lab::Lab;
use parts::{DOCUMENT, PARTS, Part};
use sizes::Sizes;

/// What to measure.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask scale --quick                           see that it works, within minutes
  cargo xtask scale --only sessions,expiry            two parts
  cargo xtask scale --only znodes --largest 5000000   up to 5 million znodes
  cargo xtask scale --only watchers --data /dev/shm   without the disk
  cargo xtask scale --only document                   write docs/scale.md again")]
pub struct Options {
    /// Measure only these parts, with commas between them; `document` only writes the document.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// Use small sizes, to check that it works. The results go to target/scale/quick.
    #[arg(long)]
    quick: bool,
    /// Skip sizes above this.
    #[arg(long, value_name = "N")]
    largest: Option<usize>,
    /// Measure Apache 3.9.5 instead (`cargo xtask peers zookeeper` installs it). The document shows both.
    #[arg(long)]
    apache: bool,
    /// Where the servers keep their data. In memory (/dev/shm), a busy disk does not affect the numbers.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Directory for scale.md and its plots [default: docs; target/scale/quick with --quick].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show the parts and what each measures, and run nothing.
    #[arg(long)]
    list: bool,
}

impl Options {
    fn sizes(&self) -> Sizes {
        if self.quick { Sizes::QUICK } else { Sizes::FULL }
    }

    fn program(&self) -> Program {
        if self.apache { Program::Apache } else { Program::Herdsman }
    }

    fn raw_dir(&self) -> PathBuf {
        let dir = paths::target().join("scale");
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

/// Measures the chosen parts, evaluates them and writes the document; fails if any part failed.
pub fn run(options: &Options) -> Result<()> {
    let chosen = parts::chosen(&options.only)?;
    if options.list {
        for part in PARTS {
            println!("{:10} {}", part.name, part.about);
        }
        println!("{DOCUMENT:10} the document only, from earlier measurements");
        return Ok(());
    }
    let failed = if chosen.is_empty() { Vec::new() } else { measure_all(&chosen, options)? };
    let names: Vec<&str> = chosen.iter().map(|part| part.name).collect();
    println!("\n{}\n", document::verdicts(&document::load(&options.raw_dir())?, &names));
    document::write(&options.raw_dir(), &options.out_dir())?;
    println!("wrote {}", options.out_dir().join("scale.md").display());
    ensure!(failed.is_empty(), "{} of {} parts failed: {failed:?}", failed.len(), chosen.len());
    Ok(())
}

/// Measures one part after another; returns the names of those that failed.
fn measure_all(parts: &[&Part], options: &Options) -> Result<Vec<&'static str>> {
    crate::bench::build()?;
    let program = options.program();
    program.ensure_here()?;
    let data = options.data.clone().unwrap_or_else(|| paths::target().join("scale"));
    let lab = Lab::open(&data.join("herdsman-scale"), options.sizes(), options.largest)?;
    let machine = Machine::look(lab.work())?;
    let mut failed = Vec::new();
    for part in parts {
        println!("\n== {}: {}", part.name, part.about);
        let begun = Instant::now();
        let mut measured = Measured::default();
        if let Err(error) = (part.measure)(&lab, program, &mut measured) {
            println!("{} of {} FAILED: {error:#}", part.name, program.name());
            failed.push(part.name);
        }
        keep_other(part, options, &mut measured)?;
        let (name, machine) = (part.name.to_string(), machine.clone());
        Raw { part: name, quick: options.quick, machine, measured }.save(&options.raw_dir())?;
        println!("== {}: {:.0} s", part.name, begun.elapsed().as_secs_f64());
    }
    Ok(failed)
}

/// Numbers of the other program are kept in the part's file.
fn keep_other(part: &Part, options: &Options, measured: &mut Measured) -> Result<()> {
    let Some(before) = raw::load(&options.raw_dir(), part.name)? else { return Ok(()) };
    let target = target_name(options.program());
    let other = before.measured.curves.into_iter().filter(|curve| curve.target != target);
    measured.curves.extend(other);
    Ok(())
}

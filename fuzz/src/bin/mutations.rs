//! Runs targets over random mutations of their inputs for some time, on a stable compiler.
//!
//! `mutations SECONDS SEED [TARGET…]`. Each input that makes a target panic is written to `fuzz/artifacts/TARGET/`, and
//! the next target follows. The last line says how many inputs were tried. Exits with 1 if a target failed.

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use herdsman_fuzz::inputs;
use herdsman_fuzz::mutate::Mutator;
use herdsman_fuzz::targets::{self, Target};

/// Inputs between two looks at the clock.
const INPUTS_PER_LOOK: u64 = 100;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().and_then(|text| text.parse().ok());
    let (Some(seconds), Some(seed)) = (number(), number()) else {
        eprintln!("usage: mutations SECONDS SEED [TARGET…]");
        return ExitCode::from(2);
    };
    let names: Vec<String> = arguments.collect();
    let is_wanted = |target: &&Target| names.is_empty() || names.iter().any(|n| n == target.name);
    let wanted: Vec<&Target> = targets::ALL.iter().filter(is_wanted).collect();
    if wanted.is_empty() || wanted.len() < names.len() {
        let known: Vec<_> = targets::ALL.iter().map(|target| target.name).collect();
        eprintln!("unknown target; the targets are {}", known.join(", "));
        return ExitCode::from(2);
    }
    let time = Duration::from_secs(seconds) / u32::try_from(wanted.len()).expect("a few targets");
    let (mut tried, mut failed) = (0, 0);
    for target in &wanted {
        match try_for(target, time, seed) {
            Ok(inputs) => {
                println!("{:14} {inputs} inputs", target.name);
                tried += inputs;
            }
            Err(message) => {
                println!("{:14} FAILED: {message}", target.name);
                failed += 1;
            }
        }
    }
    println!("{tried} inputs tried with seed {seed}, {failed} targets failed");
    ExitCode::from(u8::from(failed > 0))
}

/// Runs one target for this time. Returns how many inputs it passed.
fn try_for(target: &Target, time: Duration, seed: u64) -> Result<u64, String> {
    let start = Instant::now();
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for kind in ["seeds", "corpus"] {
        seeds.extend(inputs::files(kind, target.name).into_iter().map(|(_, bytes)| bytes));
    }
    if seeds.is_empty() {
        return Err("it has no seeds".to_owned());
    }
    let mut mutator = Mutator::new(seed);
    let mut passed = 0;
    while start.elapsed() < time {
        for _ in 0..INPUTS_PER_LOOK {
            let input = mutator.mutate(&seeds);
            if std::panic::catch_unwind(|| (target.run)(&input)).is_err() {
                return Err(keep(target, &input));
            }
            passed += 1;
        }
    }
    Ok(passed)
}

/// Writes a failing input where it can be found. Returns a message.
fn keep(target: &Target, input: &[u8]) -> String {
    let folder = inputs::folder("artifacts", target.name);
    let path = folder.join(format!("mutation-{:08x}", simd_adler32::adler32(&input)));
    match fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)) {
        Ok(()) => format!("the input is in {}", path.display()),
        Err(error) => format!("the input could not be written to {}: {error}", path.display()),
    }
}

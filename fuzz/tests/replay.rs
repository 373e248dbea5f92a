//! Runs every target over its seeds, over the inputs that a fuzzer left in `corpus/`, and over a fixed number of
//! deterministic mutations, on a stable compiler.

use std::fs;
use std::path::Path;

use herdsman_fuzz::mutate::Mutator;
use herdsman_fuzz::{seeds, targets};

/// Mutations of each target's seeds, unless `FUZZ_MUTATIONS` says otherwise.
const MUTATIONS: u64 = 20_000;

fn folder(kind: &str, target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target);
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .map(|entry| {
            let entry = entry.expect("a folder can be listed");
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("a file can be read"))
        })
        .collect();
    files.sort();
    files
}

/// Prints the input before the panic continues.
fn run(target: &targets::Target, bytes: &[u8], which: &str) {
    let result = std::panic::catch_unwind(|| (target.run)(bytes));
    if let Err(panic) = result {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("target {}, {which}: {hex}", target.name);
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn every_target_has_its_seeds_and_they_fit_the_code() {
    let made = seeds::all();
    for target in targets::ALL {
        let kept = folder("seeds", target.name);
        let made = &made.iter().find(|(name, _)| *name == target.name).unwrap().1;
        assert!(!made.is_empty(), "{}", target.name);
        for (name, bytes) in made {
            let found = kept.iter().find(|(kept, _)| kept == name);
            assert_eq!(
                found.map(|(_, kept)| kept),
                Some(bytes),
                "seed {}/{name}: run `cargo run -p herdsman-fuzz --bin seeds`",
                target.name
            );
        }
    }
}

#[test]
fn seeds_and_mutations_of_them_break_nothing() {
    let mutations = std::env::var("FUZZ_MUTATIONS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(MUTATIONS);
    for target in targets::ALL {
        let mut inputs = folder("seeds", target.name);
        inputs.extend(folder("corpus", target.name));
        for (name, bytes) in &inputs {
            run(target, bytes, name);
        }
        let seeds: Vec<Vec<u8>> = inputs.into_iter().map(|(_, bytes)| bytes).collect();
        let mut mutator = Mutator::new(1);
        for number in 0..mutations {
            run(target, &mutator.mutate(&seeds), &format!("mutation {number}"));
        }
    }
}

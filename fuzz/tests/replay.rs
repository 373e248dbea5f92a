//! Runs every target over its seeds, over the inputs that a fuzzer left in `corpus/`, and over a fixed number of
//! deterministic mutations, on a stable compiler.

use herdsman_fuzz::inputs::{files, run};
use herdsman_fuzz::mutate::Mutator;
use herdsman_fuzz::{seeds, targets};

/// Mutations of each target's seeds.
const MUTATIONS: u64 = 20_000;

#[test]
fn every_target_has_its_seeds_and_they_fit_the_code() {
    let made = seeds::all();
    for target in targets::ALL {
        let kept = files("seeds", target.name);
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
    for target in targets::ALL {
        let mut inputs = files("seeds", target.name);
        inputs.extend(files("corpus", target.name));
        for (name, bytes) in &inputs {
            run(target, bytes, name);
        }
        let seeds: Vec<Vec<u8>> = inputs.into_iter().map(|(_, bytes)| bytes).collect();
        let mut mutator = Mutator::new(1);
        for number in 0..MUTATIONS {
            run(target, &mutator.mutate(&seeds), &format!("mutation {number}"));
        }
    }
}

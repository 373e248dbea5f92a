//! A sample of the experiment with damaged entries; `herdsman-sim --matrix` runs all of it.

use herdsman_sim::matrix::{COMBINATIONS, Outcome, Variant, check};

/// Some combinations of each variant, spread over all of them.
const SAMPLES: u64 = 40;
/// Fewer where each combination is run again and again.
const INTERRUPTED_SAMPLES: u64 = 8;

fn outcomes(variant: Variant, samples: u64) -> [usize; 2] {
    let numbers = (0..samples).map(|index| index * (COMBINATIONS / samples) + index % 7);
    let outcomes: Vec<_> = numbers
        .map(|number| check(variant, number).unwrap_or_else(|why| panic!("{why}")))
        .collect();
    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    [count(Outcome::Recovered), count(Outcome::Waits)]
}

#[test]
fn an_ensemble_with_damaged_entries_recovers_or_waits() {
    for (variant, name) in Variant::ALL {
        if *variant == Variant::Interrupted {
            continue;
        }
        let [recovered, waiting] = outcomes(*variant, SAMPLES);
        assert!(recovered > 4 && waiting > 4, "{name}: {recovered} recover, {waiting} wait");
    }
}

#[test]
fn a_power_failure_at_any_step_of_a_repair_changes_nothing() {
    let [recovered, _] = outcomes(Variant::Interrupted, INTERRUPTED_SAMPLES);
    assert!(recovered > 2, "only {recovered} recover");
}

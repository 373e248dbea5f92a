//! Seeds, and what they must show.

use herdsman_sim::mistakes::{AGREEMENT, MISTAKES};
use herdsman_sim::{Plan, Verdict, run_plan, run_seed};

/// Fails with what is needed to see it again.
fn check(verdict: &Verdict) {
    if let Some(failure) = &verdict.failure {
        let trace = verdict.trace[verdict.trace.len().saturating_sub(60)..].join("\n");
        panic!(
            "{trace}\n{}: {}\nreplay: cargo run --release -p herdsman-sim -- --seed {}",
            failure.property, failure.why, verdict.seed
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..6 {
        let (one, other) = (run_seed(seed), run_seed(seed));
        assert_eq!(one.hash, other.hash, "seed {seed}");
        assert_eq!(one.counts.events, other.counts.events, "seed {seed}");
    }
    assert_ne!(run_seed(1).hash, run_seed(2).hash);
}

#[test]
fn fixed_seeds() {
    for seed in 1..31 {
        check(&run_seed(seed));
    }
}

#[test]
fn fixed_seeds_in_a_rough_world() {
    for seed in 1..31 {
        check(&run_plan(Plan::rough(seed)));
    }
}

#[test]
fn fixed_seeds_with_changing_memberships() {
    let mut quorum_only = 0;
    for seed in 1..31 {
        let verdict = run_plan(Plan::changing(seed));
        check(&verdict);
        quorum_only += verdict.counts.quorum_only;
    }
    assert!(quorum_only > 15, "just a quorum had to do in only {quorum_only} of 30 seeds");
}

/// Records, files and epochs of several servers are damaged at once: otherwise the step `rotting` shows nothing.
#[test]
fn fixed_seeds_that_rot() {
    let verdicts: Vec<_> = (1..21).map(|seed| run_plan(Plan::rotting(seed))).collect();
    verdicts.iter().for_each(check);
    let sum = |count: fn(&Verdict) -> u64| verdicts.iter().map(count).sum::<u64>();
    for (what, count) in [
        ("repairs", sum(|verdict| verdict.counts.repairs)),
        ("interrupted repairs", sum(|verdict| verdict.counts.interrupted_repairs)),
        ("damaged files", sum(|verdict| verdict.counts.rotten_files)),
    ] {
        assert!(count > 20, "{what}: only {count}");
    }
}

/// Learners catch up in all three ways, servers crash and leaders change, and clients use what there is:
/// otherwise the seeds show nothing.
#[test]
fn the_seeds_are_eventful() {
    let verdicts: Vec<_> = (1..81).map(run_seed).collect();
    let sum = |count: fn(&Verdict) -> u64| verdicts.iter().map(count).sum::<u64>();
    assert!(sum(|verdict| verdict.counts.crashes) > 40);
    assert!(sum(|verdict| verdict.counts.leaders) > 80);
    for plan in 0..3 {
        let all: u64 = verdicts.iter().map(|verdict| verdict.counts.plans[plan]).sum();
        assert!(all > 5, "of DIFF, TRUNC and SNAP, number {plan} happens only {all} times");
    }
    for (what, count) in [
        ("answers of read-only servers", sum(|verdict| verdict.counts.read_only_answers)),
        ("requests that were not allowed", sum(|verdict| verdict.counts.not_allowed)),
        ("watches set again", sum(|verdict| verdict.counts.watches_set_again)),
        ("events", sum(|verdict| verdict.counts.notifications)),
        ("znodes swept", sum(|verdict| verdict.counts.swept)),
        ("epochs that ran out", sum(|verdict| verdict.counts.epochs_exhausted)),
        ("memberships", sum(|verdict| verdict.counts.memberships)),
        ("logs sent", sum(|verdict| verdict.counts.logs_sent)),
    ] {
        assert!(count > 20, "{what}: only {count}");
    }
}

/// The checkers can fail: each known mistake is found out by one of the seeds that stand beside it.
#[test]
fn mistakes_are_found_out() {
    for (mistake, name, seeds) in MISTAKES {
        let found = seeds.clone().find(|seed| {
            let verdict = run_plan(Plan { mistake: Some(*mistake), ..Plan::rough(*seed) });
            verdict.failure.is_some_and(|failure| AGREEMENT.contains(&failure.property.as_str()))
        });
        assert!(found.is_some(), "{name} was not found out by the seeds {seeds:?}");
    }
}

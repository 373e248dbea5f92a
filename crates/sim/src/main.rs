//! `herdsman-sim`: runs seeds and says what came of them.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use herdsman_sim::checkers::Checkers;
use herdsman_sim::matrix::{self, COMBINATIONS, Outcome, Variant};
use herdsman_sim::{Plan, Verdict, mistakes, run_plan};

/// Runs whole ensembles in a simulated world.
#[derive(Debug, Parser)]
#[command(name = "herdsman-sim", version)]
struct Arguments {
    /// The seed to run, or the first of several.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds to run.
    #[arg(long)]
    seeds: Option<u64>,
    /// How many seeds to run besides that nobody has chosen.
    #[arg(long, default_value_t = 0)]
    fresh: u64,
    /// Three voters in a world where mistakes are found out soon, instead of what the seed says.
    #[arg(long)]
    rough: bool,
    /// A rough world in which the membership changes all the time.
    #[arg(long, conflicts_with = "rough")]
    changing: bool,
    /// A rough world in which records of several servers are damaged again and again.
    #[arg(long, conflicts_with_all = ["rough", "changing"])]
    rotting: bool,
    /// Four log entries on each server, and every combination of damaged copies, numbered by --seed and --seeds (all
    /// without them). NAME is a variant of the experiment; without it, all variants.
    #[arg(long, value_name = "NAME", num_args = 0..=1, conflicts_with_all = ["rough", "changing", "rotting"])]
    matrix: Option<Option<String>>,
    /// Let every server make a known mistake, to see it found out.
    #[arg(long)]
    mistake: Option<String>,
    /// A property that is not checked, to see whether another one finds the same.
    #[arg(long, value_name = "PROPERTY")]
    without: Option<String>,
    /// Threads that run seeds; 0 for one for each core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Lines of the trace to print when something is wrong.
    #[arg(long, default_value_t = 80)]
    lines: usize,
}

impl Arguments {
    fn plan(&self, seed: u64) -> Plan {
        match self {
            Arguments { rough: true, .. } => Plan::rough(seed),
            Arguments { changing: true, .. } => Plan::changing(seed),
            Arguments { rotting: true, .. } => Plan::rotting(seed),
            _ => Plan::of(seed),
        }
    }

    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if self.threads == 0 { cores } else { self.threads }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(variant) = &arguments.matrix {
        return run_matrix(&arguments, variant.as_deref());
    }
    let first = arguments.seed.unwrap_or(1);
    let count = arguments.seeds.unwrap_or(1);
    let threads = arguments.threads();
    let mistake = match arguments.mistake.as_deref().map(mistakes::by_name) {
        Some(None) => {
            eprintln!("there is no such mistake; known are:");
            mistakes::MISTAKES.iter().for_each(|(_, name, _)| eprintln!("  {name}"));
            return ExitCode::FAILURE;
        }
        known => known.flatten(),
    };
    if let Some(name) = &arguments.without
        && !Checkers::names().contains(&name.as_str())
    {
        eprintln!("there is no such property; known are:");
        Checkers::names().iter().for_each(|name| eprintln!("  {name}"));
        return ExitCode::FAILURE;
    }
    let fresh_first = fresh_seed();
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    let seed = match turn.checked_sub(count) {
                        None => first.saturating_add(turn),
                        Some(fresh) if fresh < arguments.fresh => fresh_first + fresh,
                        Some(_) => return,
                    };
                    let plan = arguments.plan(seed);
                    let verdict =
                        run_plan(Plan { mistake, unchecked: arguments.without.clone(), ..plan });
                    failed.fetch_or(verdict.failure.is_some(), Ordering::Relaxed);
                    report(&verdict, &arguments);
                }
            });
        }
    });
    if failed.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs the experiment with damaged entries, and prints a line for each variant.
fn run_matrix(arguments: &Arguments, name: Option<&str>) -> ExitCode {
    let first = arguments.seed.unwrap_or(0);
    let count = arguments.seeds.unwrap_or(if arguments.seed.is_some() { 1 } else { COMBINATIONS });
    let chosen = Variant::ALL.iter().filter(|(_, it)| name.is_none_or(|name| name == *it));
    let mut failed = false;
    let mut found = false;
    for (variant, name) in chosen {
        found = true;
        let next = AtomicU64::new(first);
        let [recovered, waiting, wrong] = [const { AtomicU64::new(0) }; 3];
        std::thread::scope(|scope| {
            for _ in 0..arguments.threads() {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= first + count {
                            return;
                        }
                        let result = matrix::check(*variant, number);
                        let counter = match &result {
                            Ok(Outcome::Recovered) => &recovered,
                            Ok(Outcome::Waits) => &waiting,
                            Err(_) => &wrong,
                        };
                        counter.fetch_add(1, Ordering::Relaxed);
                        if let Err(why) = result {
                            report_combination(&why, (name, number), arguments.lines);
                        }
                    }
                });
            }
        });
        let [recovered, waiting, wrong] = [recovered, waiting, wrong].map(AtomicU64::into_inner);
        println!("matrix {name}: {recovered} recovered, {waiting} wait, {wrong} FAILED");
        failed |= wrong > 0;
    }
    if !found {
        eprintln!("there is no such variant; known are:");
        Variant::ALL.iter().for_each(|(_, name)| eprintln!("  {name}"));
    }
    if failed || !found { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn report_combination(why: &str, (name, number): (&str, u64), lines_max: usize) {
    let lines: Vec<_> = why.lines().collect();
    println!(
        "{}\nreplay: cargo run --release -p herdsman-sim -- --matrix {name} --seed {number}",
        lines[lines.len().saturating_sub(lines_max)..].join("\n")
    );
}

/// A seed that differs from run to run: the time, in milliseconds.
fn fresh_seed() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_millis() as u64
}

fn report(verdict: &Verdict, arguments: &Arguments) {
    let Verdict { seed, hash, counts, txns, simulated_ms, failure, trace } = verdict;
    let [diff, trunc, snap] = counts.plans;
    let summary = format!(
        "seed {seed}: hash {hash:016x}, {txns} txns, {} events in {simulated_ms} ms, {} leaders, {} crashes, sync {diff} diff ({} from log files) {trunc} trunc {snap} snap, {} fuzzy, {} refused, {} repaired, {} rotten files, {} emptied, {} memberships",
        counts.events,
        counts.leaders,
        counts.crashes,
        counts.logs_sent,
        counts.fuzzy_installs,
        counts.refusals,
        counts.repairs,
        counts.rotten_files,
        counts.emptied,
        counts.memberships
    );
    let Some(failure) = failure else {
        return println!("{summary}: ok");
    };
    let trace = trace[trace.len().saturating_sub(arguments.lines)..].join("\n");
    let world = match arguments {
        Arguments { rough: true, .. } => " --rough",
        Arguments { changing: true, .. } => " --changing",
        Arguments { rotting: true, .. } => " --rotting",
        _ => "",
    };
    println!(
        "{summary}: FAILED\n{trace}\n{}: {}\nreplay: cargo run --release -p herdsman-sim -- --seed {seed}{world}",
        failure.property, failure.why
    );
}

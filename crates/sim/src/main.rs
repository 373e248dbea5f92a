//! `herdsman-sim`: runs seeds and says what came of them.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use herdsman_sim::checkers::Checkers;
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let first = arguments.seed.unwrap_or(1);
    let count = arguments.seeds.unwrap_or(1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if arguments.threads == 0 { cores } else { arguments.threads };
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

/// A seed that differs from run to run: the time, in milliseconds.
fn fresh_seed() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_millis() as u64
}

fn report(verdict: &Verdict, arguments: &Arguments) {
    let Verdict { seed, hash, counts, txns, simulated_ms, failure, trace } = verdict;
    let [diff, trunc, snap] = counts.plans;
    let summary = format!(
        "seed {seed}: hash {hash:016x}, {txns} txns, {} events in {simulated_ms} ms, {} leaders, {} crashes, sync {diff} diff ({} from log files) {trunc} trunc {snap} snap, {} fuzzy, {} refused, {} repaired, {} memberships",
        counts.events,
        counts.leaders,
        counts.crashes,
        counts.logs_sent,
        counts.fuzzy_installs,
        counts.refusals,
        counts.repairs,
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

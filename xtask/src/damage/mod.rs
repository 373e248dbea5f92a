//! Damages the logs of three real servers in every combination, and checks that the ensemble heals itself.
//!
//! The experiment is that of "Protocol-Aware Recovery for Consensus-Based Storage" (FAST'18): four log entries on each of
//! three servers, each of them intact or damaged, so 4,096 combinations. In 2,401 of them every entry is intact
//! somewhere: then the ensemble must come up by itself, with all entries on all servers, and leave clean files. In the
//! others it must wait, serve nothing, change nothing, and say for which txns.
//!
//! In: which combinations, and a seed that decides what of each damaged record is overwritten. A failed case prints the
//! command that runs it alone. Another experiment damages single bytes of one server ([`bytes`]). Cases mostly wait, so
//! several run side by side, each in an ensemble of its own.

mod bytes;
mod combinations;
mod records;
pub mod repair_log;
mod site;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::server::Program;
use bytes::{ByteCase, Outcome};
use combinations::Case;
use site::{Repairs, Site};

pub use records::{damage_newest_log, newest, record_with};
pub use site::ensure_clean;

/// How many combinations that must heal are drawn.
const CASES: usize = 30;
/// How many bytes are drawn.
const BYTES: usize = 12;
/// With this seed and with a fresh one, unless one is given.
const SEED: u64 = 1;
const WAITS_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// After this many cases their number is printed.
const REPORT_EVERY: usize = 100;

/// Which combinations to try.
#[derive(Args)]
pub struct Options {
    /// How many combinations to draw in which every entry is intact somewhere, or how many bytes [default: 30, or 12].
    #[arg(long)]
    cases: Option<usize>,
    /// How many combinations to draw in which an entry is damaged everywhere.
    #[arg(long, default_value_t = 6)]
    waiting: usize,
    /// Try all of them.
    #[arg(long)]
    all: bool,
    /// Only combinations in which every entry is intact somewhere.
    #[arg(long)]
    recoverable: bool,
    /// Try this combination alone: a bit for each entry of each server, server 1 first.
    #[arg(long, value_parser = combinations::combination_number)]
    case: Option<u16>,
    /// With --all, leave out the combinations before this one: to continue a run that was interrupted.
    #[arg(long, value_name = "CASE", value_parser = combinations::combination_number, default_value = "0")]
    from: u16,
    /// Damage single bytes of one server instead: of a record, its slot, the file's header, the table's footer.
    #[arg(long)]
    bytes: bool,
    /// Damage this byte alone, as SERVER:PART:OFFSET:CHANGE.
    #[arg(long, value_name = "BYTE")]
    byte: Option<ByteCase>,
    /// With --all, every N-th combination from the K-th on, as K/N: for runs on several machines. With an odd N all
    /// parts are alike.
    #[arg(long, value_parser = combinations::part)]
    part: Option<(u16, u16)>,
    /// Decides which combinations are drawn, and what is damaged in each record [default: 1 for one half, and a fresh
    /// one for the other half].
    #[arg(long)]
    seed: Option<u64>,
    /// How many cases run side by side, each with three servers [default: twice the number of processors].
    #[arg(long)]
    jobs: Option<usize>,
}

impl Options {
    /// The seeds with which cases are drawn.
    fn seeds(&self) -> Vec<u64> {
        if let Some(seed) = self.seed {
            return vec![seed];
        }
        if self.all || self.case.is_some() || self.byte.is_some() {
            return vec![SEED];
        }
        let fresh = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        println!(
            "one half of the cases is drawn with seed {SEED}, the other half with seed {fresh}"
        );
        vec![SEED, fresh]
    }

    fn jobs(&self) -> usize {
        let usual = || thread::available_parallelism().map_or(1, |count| 2 * count.get());
        self.jobs.unwrap_or_else(usual).max(1)
    }
}

/// Runs an experiment; fails with the first case that goes wrong.
pub fn run(options: &Options) -> Result<()> {
    Program::Herdsman.ensure_here()?;
    match options.bytes || options.byte.is_some() {
        true => run_bytes(options),
        false => run_combinations(options),
    }
}

fn run_bytes(options: &Options) -> Result<()> {
    bytes::build_library()?;
    let count = options.cases.unwrap_or(BYTES);
    let cases = match options.byte {
        Some(byte) => vec![byte],
        None if options.all => bytes::every_byte(),
        None => bytes::draw(count, &options.seeds()),
    };
    let start = Instant::now();
    let again = |case: &ByteCase| format!("cargo xtask damage --byte {case}");
    let done = side_by_side(&cases, options.jobs(), |site, case| site.run_byte(*case), again)?;
    let count = |outcome| done.iter().filter(|it| **it == outcome).count();
    println!(
        "{} damaged bytes: {} repaired, {} not needed, {} zero before; {}",
        cases.len(),
        count(Outcome::Repaired),
        count(Outcome::Unnoticed),
        count(Outcome::Unchanged),
        times(start.elapsed(), cases.len())
    );
    Ok(())
}

/// How long it took.
fn times(all: Duration, cases: usize) -> String {
    let seconds = all.as_secs_f64();
    format!("{seconds:.0} s, {:.2} s for each case", seconds / cases as f64)
}

fn run_combinations(options: &Options) -> Result<()> {
    let cases = combinations::chosen(options, &options.seeds());
    let start = Instant::now();
    let again = |case: &Case| case.again();
    let done = side_by_side(&cases, options.jobs(), |site, case| site.run(*case), again)?;
    let healed = cases.iter().filter(|case| case.combination.is_recoverable()).count();
    let sum = |count: fn(&Repairs) -> usize| done.iter().map(count).sum::<usize>();
    println!(
        "{healed} combinations healed, {} waited for what is damaged everywhere; {} servers got records, {} joined a \
         leader without a vote; {}",
        cases.len() - healed,
        sum(|it| it.spliced),
        sum(|it| it.joined),
        times(start.elapsed(), cases.len())
    );
    Ok(())
}

/// Runs all cases in this many threads, each with an ensemble of its own, and returns what they returned. After a
/// failure no further case begins.
fn side_by_side<C: Sync, T: Send>(
    cases: &[C],
    jobs: usize,
    run: impl Fn(&mut Site, &C) -> Result<T> + Sync,
    again: impl Fn(&C) -> String + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let start = Instant::now();
    let job = |number: usize| -> Result<()> {
        // Servers are tied to the thread that starts them, which therefore keeps them.
        let prepared = Site::prepare(&format!("damage-{}-{number}", std::process::id()));
        let mut site = prepared.inspect_err(|_| next.store(cases.len(), Ordering::Relaxed))?;
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = run(&mut site, case);
            if outcome.is_err() {
                next.store(cases.len(), Ordering::Relaxed);
            }
            let outcome = outcome.with_context(|| {
                format!("again: {}; files: {}", again(case), site.dir().display())
            })?;
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push(outcome);
            if done.len().is_multiple_of(REPORT_EVERY) {
                let seconds = start.elapsed().as_secs_f64();
                println!("{} of {} cases, {seconds:.0} s", done.len(), cases.len());
            }
        }
        site.remove()
    };
    thread::scope(|scope| {
        let job = &job;
        let jobs: Vec<_> =
            (1..=jobs.min(cases.len())).map(|number| scope.spawn(move || job(number))).collect();
        // All of them end before the first failure is returned.
        let ends: Vec<_> = jobs.into_iter().map(|it| it.join()).collect();
        ends.into_iter().try_for_each(|end| end.map_err(|_| anyhow!("a job panicked"))?)
    })?;
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

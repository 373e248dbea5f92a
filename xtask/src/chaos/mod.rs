//! Chaos: real server processes under load while they are killed, paused and cut off.
//!
//! In: how many servers, how long, which workloads, a seed. Out: a line for each fault, and a table with
//! the violations of each workload (see `workloads`). In addition, all servers must be equal at the end, no
//! ephemeral node may be left (see `verdict`), and the ensemble must serve again each time all faults are
//! repaired. With `--damage` files of one server at a time are damaged, too, and it must be found and healed.
//! Links are cut if the machine allows network namespaces; otherwise that is skipped with a message. The
//! seed determines faults and requests, but not their timing.

mod fault;
mod repairs;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::ensemble::{self, Ensemble, Namespaces, Network, Role, Settings};
use crate::paths;
use crate::peers::{self, Peer};
use crate::server::Program;
use crate::verdict::{self, Severity};
use crate::workloads::{self, Absent, Report, Servers, Suite, Workload};
use fault::{FaultSequence, Struck, mend};
use repairs::Repairs;

/// Short ticks, so that followers give up a silent leader within two seconds.
const TICK_MS: u32 = 500;
const SYNC_LIMIT: u32 = 4;
/// Small enough that servers take snapshots and learners need them.
const SNAP_COUNT: &str = "700";
/// How many further requests of each workload prove that an ensemble serves again.
const PROGRESS: u64 = 5;
/// A repaired ensemble must accept writes again within this time.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

/// Options of a chaos run.
#[derive(Args)]
pub struct Options {
    /// Number of servers; may be given several times to run several ensembles [default: 3 and
    /// 5].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(3..=9))]
    servers: Vec<u8>,
    /// How many seconds faults are injected into each ensemble.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of faults and requests; by default a different one every time.
    #[arg(long)]
    seed: Option<u64>,
    /// Which server programs.
    #[arg(long, value_enum, default_value_t = Kind::Herdsman)]
    kind: Kind,
    /// Run only this workload (may be given several times) [default: all; with Apache's servers, all
    /// except membership].
    #[arg(long, value_enum, value_name = "NAME")]
    workload: Vec<Workload>,
    /// Also damage the files of one of our servers at a time, or remove them: it must heal itself. Without the workload
    /// that changes the membership.
    #[arg(long)]
    damage: bool,
    /// Do not cut links, even if that is possible.
    #[arg(long)]
    no_partitions: bool,
}

/// Which programs an ensemble runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Herdsman only.
    Herdsman,
    /// Apache 3.9.5 only, which shows that the test itself is correct.
    Apache,
    /// Both, in turn.
    Mixed,
}

impl Kind {
    fn programs(self) -> &'static [Program] {
        match self {
            Kind::Herdsman => &[Program::Herdsman],
            Kind::Apache => &[Program::Apache],
            Kind::Mixed => &[Program::Herdsman, Program::Apache],
        }
    }
}

/// Runs the faults against one ensemble after the other.
pub fn run(options: &Options) -> Result<()> {
    options.kind.programs().iter().try_for_each(|program| program.ensure_here())?;
    ensure!(
        !options.damage || options.kind != Kind::Apache,
        "--damage needs servers that heal themselves"
    );
    if !options.no_partitions && !ensemble::inside() {
        match Peer::Iproute.ensure().err().or_else(ensemble::why_not) {
            None => {
                // There is no network inside to install it from. A failure is reported there.
                if options.kind == Kind::Herdsman {
                    _ = Peer::Faketime.ensure();
                }
                return Err(ensemble::enter());
            }
            Some(error) => {
                println!("partitions are skipped, there are no network namespaces: {error:#}");
            }
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let seed = options.seed.unwrap_or(now);
    let counts = if options.servers.is_empty() { &[3, 5] } else { options.servers.as_slice() };
    let mut faults = FaultSequence::new(seed, options.damage);
    for servers in counts {
        println!("{servers} servers ({:?}), seed {seed}", options.kind);
        run_faults(options, usize::from(*servers), seed, &mut faults)
            .with_context(|| format!("{servers} servers, seed {seed}"))?;
    }
    Ok(())
}

fn run_faults(
    options: &Options,
    servers: usize,
    seed: u64,
    faults: &mut FaultSequence,
) -> Result<()> {
    let chosen = chosen(options);
    let mut ensemble = lay_out(options, servers, chosen.contains(&Workload::Membership))?;
    ensemble.start_all()?;
    let known = Servers {
        addresses: ensemble.addresses(),
        lines: ensemble.lines().to_vec(),
        absent: Absent::default(),
    };
    let suite = Suite::start(&known, &chosen, seed)?;
    let mut repairs = Repairs::default();
    let injected =
        inject(&mut ensemble, &suite, &known.absent, faults, &mut repairs, options.seconds);
    let histories = suite.finish()?;
    let mut reports = Vec::new();
    let judged = injected.and_then(|()| {
        verdict::judge(&mut ensemble, Severity::Faults, |nodes| {
            reports = histories.judge(nodes);
            Ok(())
        })
    });
    println!("{}", workloads::table(&reports));
    judged?;
    let is_clean = |report: &Report| report.findings.is_empty();
    ensure!(reports.iter().all(is_clean), "something is wrong, lost or stale; see the table");
    if options.damage {
        repairs.read(&ensemble)?;
        println!("{repairs}");
        repairs.ensure_found()?;
    }
    println!(
        "ok      {servers} servers: nothing wrong, lost or stale; all servers equal, no ephemeral left"
    );
    Ok(())
}

/// Returns the requested workloads, or all that the programs support. An Apache leader that is cut off with
/// a proposed membership never follows again: it waits for the quorum of that membership.
fn chosen(options: &Options) -> Vec<Workload> {
    if !options.workload.is_empty() {
        return options.workload.clone();
    }
    let mut all = Workload::all().to_vec();
    if options.damage {
        println!("membership is skipped: it is needed to know who must have all data");
        all.retain(|workload| *workload != Workload::Membership);
    } else if options.kind != Kind::Herdsman {
        println!("membership is skipped: Apache's servers do not always survive it");
        all.retain(|workload| *workload != Workload::Membership);
    }
    all
}

fn lay_out(options: &Options, servers: usize, reconfig: bool) -> Result<Ensemble> {
    let kind = options.kind;
    let damage = if options.damage { "-damage" } else { "" };
    let name = format!("chaos-{kind:?}-{servers}{damage}").to_lowercase();
    let work = paths::fresh_dir(&name)?;
    let programs = kind.programs().iter().cycle().take(servers);
    let servers: Vec<_> = programs.map(|program| (*program, Role::Participant)).collect();
    let mut settings =
        Settings::new(TICK_MS, SYNC_LIMIT).property("zookeeper.snapCount", SNAP_COUNT);
    settings.reconfig = reconfig;
    settings.faketime = clocks(kind);
    let network = if ensemble::inside() {
        Network::Namespaces(Namespaces::build(servers.len())?)
    } else {
        Network::Loopback
    };
    Ensemble::new(&work, &servers, &settings, network)
}

/// The library that changes the clocks of servers. With it Java is so slow that Apache's ensembles do not
/// settle.
fn clocks(kind: Kind) -> Option<PathBuf> {
    if kind != Kind::Herdsman {
        println!("clocks are not changed: Java does not work with libfaketime");
        return None;
    }
    match Peer::Faketime.ensure() {
        Ok(()) => peers::faketime(),
        Err(error) => {
            println!("clocks are not changed: {error:#}");
            None
        }
    }
}

/// Injects one fault after the other; at the end the ensemble is repaired and accepts writes.
fn inject(
    ensemble: &mut Ensemble,
    suite: &Suite,
    absent: &Absent,
    faults: &mut FaultSequence,
    repairs: &mut Repairs,
    seconds: u64,
) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        let fault = faults.draw(ensemble);
        if fault.takes_data() {
            recover(ensemble, suite)?;
        }
        let rng = &mut faults.rng;
        let at = start.elapsed().as_secs_f64();
        let Struck { what, damages_log } = fault.strike(ensemble, rng)?;
        repairs.note(fault, damages_log);
        let held = fault.hold(rng);
        std::thread::sleep(held);
        mend(ensemble, absent)?;
        println!(
            "{at:6.1} s  {what}, for {:.1} s; {} requests acknowledged",
            held.as_secs_f64(),
            suite.acknowledged()
        );
        // Every third fault affects an ensemble that has not recovered from the previous one.
        if rng.below(3) == 0 && !fault.takes_data() {
            std::thread::sleep(rng.between(0, 500));
        } else {
            recover(ensemble, suite)?;
        }
    }
    recover(ensemble, suite)
}

fn recover(ensemble: &mut Ensemble, suite: &Suite) -> Result<()> {
    let start = Instant::now();
    ensemble.await_serving()?;
    suite.await_progress(PROGRESS, RECOVERY_MAX)?;
    ensure!(start.elapsed() < RECOVERY_MAX, "recovery took {:?}", start.elapsed());
    Ok(())
}

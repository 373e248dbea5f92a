//! A rolling replacement under load: Apache's servers are replaced by ours one by one on the same data
//! directories, and then ours by Apache's.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{SESSION_TIMEOUT_MS, SYNC_LIMIT, TICK_MS, settings};
use crate::ensemble::{Ensemble, Network, Role};
use crate::load::{self, Load};
use crate::paths;
use crate::server::Program;
use crate::verdict::{self, Severity};

const SERVERS: usize = 3;
const LOAD: load::Options =
    load::Options { clients: 4, seed: 2, timeout_ms: SESSION_TIMEOUT_MS, rest_max_ms: 20 };
/// More than is ever written here, so that hardly any server gets a snapshot while clients write.
const REMEMBERED: usize = 100_000;
const PROGRESS: u64 = 100;
const PROGRESS_MAX: Duration = Duration::from_secs(30);

/// Replaces all servers, and then back.
pub fn run(program: Program) -> Result<()> {
    let work = paths::fresh_dir(&format!("mixed-rolling-{}", program.name()))?;
    let servers = [(Program::Apache, Role::Participant); SERVERS];
    let mut ensemble = Ensemble::new(&work, &servers, &settings(REMEMBERED), Network::Loopback)?;
    println!("        rolling replacement, tickTime {TICK_MS}, syncLimit {SYNC_LIMIT}");
    ensemble.start_all()?;
    let load = Load::start(&ensemble.addresses(), LOAD)?;
    let replaced = [program, Program::Apache]
        .iter()
        .try_for_each(|next| replace_all(&mut ensemble, &load, *next));
    let history = load.finish()?;
    replaced?;
    verdict::judge(&mut ensemble, Severity::UnderLoad, |nodes| history.check(nodes))?;
    println!("ok      rolling replacement: {}", history.counts());
    Ok(())
}

/// Replaces the followers first, the leader last.
fn replace_all(ensemble: &mut Ensemble, load: &Load, program: Program) -> Result<()> {
    let leader = ensemble.await_serving()?;
    let followers = ensemble.ids().filter(|id| *id != leader);
    for id in followers.chain([leader]) {
        let start = Instant::now();
        let member = ensemble.member_mut(id);
        let before = member.to_string();
        member.stop()?;
        member.swap(program)?;
        ensemble.start(id).with_context(|| format!("{before} becomes {}", program.name()))?;
        load.await_progress(PROGRESS, PROGRESS_MAX)?;
        println!(
            "        {before} became {} in {:.1} s; {} writes acknowledged",
            program.name(),
            start.elapsed().as_secs_f64(),
            load.acknowledged()
        );
    }
    Ok(())
}

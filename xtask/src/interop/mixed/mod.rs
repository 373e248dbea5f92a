//! Ensembles of Apache's servers and ours, in every combination, and a rolling replacement.
//!
//! A combination says which program leads (server 3) and which follows (1 and 2); there is always an observer
//! of each kind (4 and 5). Each goes through the same steps: clients on all servers
//! (`exchange`), servers that stop and rejoin (`comeback`), and the checks of `verdict`. `--server
//! apache` runs the same with Apache's servers only, which shows that the test itself is correct.

mod comeback;
mod damaged;
pub(super) mod exchange;
mod rolling;

use std::time::Instant;

use anyhow::{Context, Result};

use crate::ensemble::{Ensemble, Network, Role, Settings};
use crate::paths;
use crate::server::Program;
use crate::verdict::{self, Severity};

const TICK_MS: u32 = 2000;
const SYNC_LIMIT: u32 = 5;
const FOLLOWERS: [usize; 2] = [1, 2];
const LEADER: usize = 3;
const OBSERVERS: [usize; 2] = [4, 5];
/// More than the load writes while a server starts, even on a slow machine.
const REMEMBERED: usize = 5000;
const SESSION_TIMEOUT_MS: i32 = 30_000;

/// The programs of the leader and of the followers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Combination {
    leader: Program,
    followers: [Program; 2],
}

/// All combinations, then the rolling replacement.
pub fn run(program: Program) -> Result<()> {
    Program::Apache.ensure_here()?;
    for combination in combinations(program) {
        let name = combination.name();
        let start = Instant::now();
        live(&combination, program, &name).with_context(|| name.clone())?;
        println!("ok      {name} ({:.1} s)", start.elapsed().as_secs_f64());
    }
    rolling::run(program).context("rolling replacement")
}

fn combinations(program: Program) -> Vec<Combination> {
    let mut all = Vec::new();
    for leader in [program, Program::Apache] {
        for first in [program, Program::Apache] {
            for second in [program, Program::Apache] {
                all.push(Combination { leader, followers: [first, second] });
            }
        }
    }
    // The order of the two followers makes no difference; and there may be only Apache.
    let mut distinct: Vec<Combination> = Vec::new();
    for one in all {
        let [first, second] = one.followers;
        let swapped = Combination { followers: [second, first], ..one };
        if !distinct.contains(&one) && !distinct.contains(&swapped) {
            distinct.push(one);
        }
    }
    distinct
}

impl Combination {
    fn name(&self) -> String {
        let [first, second] = self.followers.map(Program::name);
        format!("led by {}, followed by {first} and {second}", self.leader.name())
    }
}

fn live(combination: &Combination, program: Program, name: &str) -> Result<()> {
    let work = paths::fresh_dir(&format!("mixed-{}", name.replace(", ", "-").replace(' ', "-")))?;
    let [first, second] = combination.followers;
    let servers = [
        (first, Role::Participant),
        (second, Role::Participant),
        (combination.leader, Role::Participant),
        (Program::Apache, Role::Observer),
        (program, Role::Observer),
    ];
    let mut ensemble = Ensemble::new(&work, &servers, &settings(REMEMBERED), Network::Loopback)?;
    ensemble.start_all_led_by(LEADER)?;
    println!("        {name}: clients at all servers");
    exchange::everything(&ensemble)?;
    println!("        {name}: servers stop and rejoin");
    let history = comeback::everything(&mut ensemble)?;
    verdict::judge(&mut ensemble, Severity::OneAtATime, |nodes| history.check(nodes))?;
    damaged::ensure_clean(&ensemble)
}

/// Leaders remember this many transactions and look for no more in their files: a server that lacks fewer
/// gets those, a server that lacks more gets a snapshot.
fn settings(remembered: usize) -> Settings {
    Settings::new(TICK_MS, SYNC_LIMIT)
        .property("zookeeper.commitLogCount", &remembered.to_string())
        .property("zookeeper.snapshotSizeFactor", "-1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_six_combinations() {
        let all = combinations(Program::Herdsman);
        assert_eq!(all.len(), 6);
        assert_eq!(all.iter().filter(|one| one.leader == Program::Apache).count(), 3);
        assert_eq!(combinations(Program::Apache).len(), 1);
    }
}

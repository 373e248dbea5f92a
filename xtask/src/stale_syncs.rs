//! Checks that a leader that was paused and replaced does not answer a sync with old data.
//!
//! In each round the leader's process is stopped, the others elect another leader, and a write is acknowledged there.
//! Then clients of the stopped process send a sync and a read after it, and the process is resumed. A client that gets
//! a reply to the sync must read that write; closing the connection instead is also correct.
//!
//! `--leader apache` shows that the test finds stale answers (ZOOKEEPER-1675).

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::ensemble::{Ensemble, Network, Role, Settings};
use crate::paths;
use crate::server::Program;
use crate::wire::{self, Op, Session};

const TICK_MS: u32 = 200;
const SYNC_LIMIT: u32 = 5;
const SESSION_TIMEOUT_MS: i32 = 4000;
/// Several, because a resumed process may notice first that its followers have left.
const CLIENTS: usize = 3;
const NODE: &str = "/written-elsewhere";
const LEADER: usize = 3;
const LEAD_TRIES_MAX: usize = 5;

/// Options.
#[derive(Args)]
pub struct Options {
    /// How many leaders to pause.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// The program of the server that leads when it is paused.
    #[arg(long, value_enum, default_value_t = Program::Herdsman)]
    leader: Program,
    /// The program of the other two servers.
    #[arg(long, value_enum, default_value_t = Program::Herdsman)]
    others: Program,
}

/// The replies that clients of the paused leader got.
#[derive(Default)]
struct Answers {
    /// The read after the sync returned the write.
    fresh: usize,
    /// It did not.
    stale: usize,
    /// The connection was closed, or the sync rejected.
    none: usize,
}

/// Fails if any answer was stale.
pub fn run(options: &Options) -> Result<()> {
    let Options { rounds, leader, others } = *options;
    leader.ensure_here()?;
    others.ensure_here()?;
    let name = format!("{} beside {}", leader.name(), others.name());
    let work = paths::fresh_dir(&format!("stale-syncs-{}", name.replace(' ', "-")))?;
    let servers = [others, others, leader].map(|program| (program, Role::Participant));
    let settings = Settings::new(TICK_MS, SYNC_LIMIT);
    let mut ensemble = Ensemble::new(&work, &servers, &settings, Network::Loopback)?;
    ensemble.start_all_led_by(LEADER)?;
    Session::connect(ensemble.member(LEADER).address(), SESSION_TIMEOUT_MS)?.ok(&Op::create(
        NODE,
        Some(b"0"),
        0,
    ))?;

    let mut answers = Answers::default();
    let mut stale_rounds = 0;
    for round in 1..=rounds {
        let stale_before = answers.stale;
        stop_a_leader(&mut ensemble, leader, round, &mut answers)?;
        stale_rounds += usize::from(answers.stale > stale_before);
    }
    ensemble.stop_all()?;
    let Answers { fresh, stale, none } = answers;
    println!("{name}: {stale_rounds} of {rounds} rounds with stale answers");
    println!("        syncs: {fresh} up to date, {stale} stale, {none} not answered");
    ensure!(stale == 0, "a sync was answered by a leader that had been replaced");
    Ok(())
}

fn stop_a_leader(
    ensemble: &mut Ensemble,
    program: Program,
    round: usize,
    answers: &mut Answers,
) -> Result<()> {
    let old = make_lead(ensemble, program)?;
    let address = ensemble.member(old).address().to_owned();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Session::connect(&address, SESSION_TIMEOUT_MS)?);
    }
    ensemble.member_mut(old).pause()?;
    let new = ensemble.await_serving()?;
    let written = round.to_string();
    Session::connect(ensemble.member(new).address(), SESSION_TIMEOUT_MS)?.ok(&Op::set_data(
        NODE,
        Some(written.as_bytes()),
        -1,
    ))?;
    for client in &mut clients {
        client.send(&Op::sync(NODE))?;
        client.send(&Op::get_data(NODE))?;
    }
    ensemble.member_mut(old).resume()?;
    for client in &mut clients {
        match read_after_sync(client) {
            None => answers.none += 1,
            Some(data) if data == written.as_bytes() => answers.fresh += 1,
            Some(_) => answers.stale += 1,
        }
    }
    Ok(())
}

/// `None` if the sync was not answered.
fn read_after_sync(client: &mut Session) -> Option<Vec<u8>> {
    client.receive().ok().filter(|reply| reply.err == 0)?;
    let (data, _) = wire::decode_data(&client.receive().ok()?).ok()?;
    data
}

/// Makes a server of this program lead.
fn make_lead(ensemble: &mut Ensemble, program: Program) -> Result<usize> {
    for _ in 0..LEAD_TRIES_MAX {
        let leader = ensemble.await_serving()?;
        if ensemble.member(leader).program() == program {
            return Ok(leader);
        }
        std::thread::sleep(Duration::from_millis(u64::from(TICK_MS)));
        ensemble.member_mut(leader).stop()?;
        ensemble.await_serving()?;
        ensemble.start(leader)?;
    }
    anyhow::bail!("no server of {} became the leader", program.name())
}

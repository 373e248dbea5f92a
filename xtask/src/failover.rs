//! Measures the write outage when a leader is killed: a measurement, not a test.
//!
//! Three servers, and a client at each of the two that do not lead. Both write without pause; the leader
//! gets `kill -9`; both reconnect to their server every few milliseconds and continue to write. The time of
//! a round is from the kill to the first write acknowledged in the new leader's epoch, by either server;
//! the time until both survivors accept writes is printed as well. Then the killed server is restarted, and
//! the next round starts.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use crate::ensemble::{Ensemble, Network, Role, Settings};
use crate::paths;
use crate::server::Program;
use crate::wire::{Op, Session, Ticket};

const SERVERS: usize = 3;
const SESSION_TIMEOUT_MS: i32 = 20_000;
const SYNC_LIMIT: u32 = 5;
const ROUND_MAX: Duration = Duration::from_secs(60);
/// Pause between two reconnect attempts.
const RETRY: Duration = Duration::from_millis(5);
/// Pause between two writes, so that the clients do not use up the machine that they measure.
const WRITE_PAUSE: Duration = Duration::from_millis(1);

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// How many leaders to kill.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Which server program.
    #[arg(long, value_enum, default_value_t = Program::Herdsman)]
    server: Program,
    /// tickTime in milliseconds.
    #[arg(long, default_value_t = 2000)]
    tick_ms: u32,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    let program = options.server;
    program.ensure_here()?;
    let work = paths::fresh_dir(&format!("failover-{}", program.name()))?;
    let settings = Settings::new(options.tick_ms, SYNC_LIMIT);
    println!("{}: {SERVERS} servers, tickTime {}", program.name(), options.tick_ms);
    let rounds = measure(program, options.rounds, &settings, &work)?;
    let mut first: Vec<_> = rounds.iter().map(|round| round.first).collect();
    let mut both: Vec<_> = rounds.iter().map(|round| round.both).collect();
    println!("first write:    {}", distribution(&mut first));
    println!("both survivors: {}", distribution(&mut both));
    Ok(())
}

/// Starts an ensemble in a directory and kills this many leaders, one after another.
pub fn measure(
    program: Program,
    count: usize,
    settings: &Settings,
    work: &Path,
) -> Result<Vec<Round>> {
    let servers = [(program, Role::Participant); SERVERS];
    let mut ensemble = Ensemble::new(work, &servers, settings, Network::Loopback)?;
    let leader = ensemble.start_all()?;
    make_nodes(ensemble.member(leader).address())?;
    let mut rounds = Vec::new();
    for number in 1..=count {
        let round = round(&mut ensemble).with_context(|| format!("round {number}"))?;
        println!(
            "round {number:2}: leader {} killed; first write after {} ms, both survivors after {} ms",
            round.killed,
            round.first.as_millis(),
            round.both.as_millis()
        );
        rounds.push(round);
    }
    ensemble.stop_all()?;
    Ok(rounds)
}

/// The outage after a leader was killed.
pub struct Round {
    killed: usize,
    /// From the kill to the first write that is acknowledged anywhere.
    pub first: Duration,
    /// From the kill until both survivors accept writes.
    pub both: Duration,
}

fn round(ensemble: &mut Ensemble) -> Result<Round> {
    let leader = ensemble.await_serving()?;
    let survivors: Vec<usize> = ensemble.ids().filter(|id| *id != leader).collect();
    let (ready_in, ready) = channel();
    let (done_in, done) = channel();
    for id in survivors {
        let address = ensemble.member(id).address().to_string();
        let (ready_in, done_in) = (ready_in.clone(), done_in.clone());
        std::thread::spawn(move || write_across(&address, id, &ready_in, &done_in));
    }
    drop((ready_in, done_in));
    for _ in 1..SERVERS {
        ready.recv_timeout(ROUND_MAX).context("a client cannot write before the kill")?;
    }
    let killed_at = Instant::now();
    ensemble.member_mut(leader).kill()?;
    let first = await_write(&done)? - killed_at;
    let both = await_write(&done)? - killed_at;
    ensemble.start(leader)?;
    Ok(Round { killed: leader, first, both })
}

fn await_write(done: &Receiver<Instant>) -> Result<Instant> {
    done.recv_timeout(ROUND_MAX).context("no write is acknowledged after the kill")
}

/// Writes at one server until a write is acknowledged in a later epoch than the first one's; reports the
/// first and that one. Ends silently when the receiver is dropped.
fn write_across(address: &str, id: usize, ready: &Sender<()>, done: &Sender<Instant>) {
    let started = Instant::now();
    let mut ticket = Ticket::new(SESSION_TIMEOUT_MS);
    let mut first_epoch = None;
    while started.elapsed() < 2 * ROUND_MAX {
        let Ok(Some(mut session)) = Session::open(address, &ticket, ROUND_MAX) else {
            std::thread::sleep(RETRY);
            continue;
        };
        while let Ok(zxid) = write(&mut session, id) {
            let now = Instant::now();
            let epoch = zxid >> 32;
            match first_epoch {
                None => {
                    first_epoch = Some(epoch);
                    let _ = ready.send(());
                }
                Some(first) if epoch > first => {
                    let _ = done.send(now);
                    let _ = session.close();
                    return;
                }
                Some(_) => std::thread::sleep(WRITE_PAUSE),
            }
        }
        ticket = session.ticket().clone();
    }
}

fn write(session: &mut Session, id: usize) -> Result<i64> {
    let reply = session.ok(&Op::set_data(&node(id), Some(b"x"), -1))?;
    Ok(reply.zxid)
}

fn node(id: usize) -> String {
    format!("/failover-{id}")
}

fn make_nodes(address: &str) -> Result<()> {
    let mut session = Session::connect(address, SESSION_TIMEOUT_MS)?;
    for id in 1..=SERVERS {
        session.ok(&Op::create(&node(id), None, 0))?;
    }
    session.close()
}

fn distribution(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent).div_ceil(100).max(1) - 1;
        times.get(index).map_or(0, Duration::as_millis)
    };
    format!(
        "min {} ms, median {} ms, p90 {} ms, max {} ms over {}",
        at(0),
        at(50),
        at(90),
        at(100),
        times.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_names_ranks() {
        let mut times: Vec<_> = (1..=20).rev().map(Duration::from_millis).collect();
        let expected = "min 1 ms, median 10 ms, p90 18 ms, max 20 ms over 20";
        assert_eq!(distribution(&mut times), expected);
        assert!(distribution(&mut []).ends_with("over 0"));
    }
}

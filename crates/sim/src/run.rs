//! One run: faults and safety first; then liveness with just a quorum of the servers, while the others are
//! down or cut off; then all of them, calm and rest.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use herdsman_node::ServesAs;
use herdsman_proto::{Membership, ServerState};
use herdsman_zab::Zab;

use crate::checkers::Fact;
use crate::checkers::liveness::{
    IN_FLIGHT_TICKS, INTRUDER_TICKS, PROGRESS_TICKS, REST_TICKS, SETTLE_TICKS,
};
use crate::plan::Plan;
use crate::world::{Counts, Event, Failure, Server, Tracing, World};

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Of which seed.
    pub seed: u64,
    /// Everything that happened, as one number.
    pub hash: u64,
    /// What was seen.
    pub counts: Counts,
    /// Txns that were agreed on.
    pub txns: usize,
    /// Simulated time.
    pub simulated_ms: u64,
    /// What went wrong, if anything.
    pub failure: Option<Failure>,
    /// The last that happened, and the servers, in words; only of a run that was traced.
    pub trace: Vec<String>,
}

/// Runs a seed.
#[must_use]
pub fn run_seed(seed: u64) -> Verdict {
    run_plan(Plan::of(seed))
}

/// Runs a plan. If something is wrong it is run again with words.
#[must_use]
pub fn run_plan(plan: Plan) -> Verdict {
    let verdict = run_once(plan.clone(), Tracing::Off);
    if verdict.failure.is_none() { verdict } else { run_once(plan, Tracing::On) }
}

fn run_once(plan: Plan, tracing: Tracing) -> Verdict {
    let seed = plan.seed;
    let mut world = World::new(plan, tracing);
    let played = catch_unwind(AssertUnwindSafe(|| play(&mut world)));
    if let Err(panic) = played {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        world.fail("no panic", text.unwrap_or_else(|| "a server panicked".to_owned()));
    }
    Verdict {
        seed,
        hash: world.hash(),
        counts: world.counts,
        txns: world.chronicle.len(),
        simulated_ms: world.now_ms,
        trace: trace(&world),
        failure: world.failure,
    }
}

fn trace(world: &World) -> Vec<String> {
    let mut trace: Vec<_> = world.trace().map(str::to_owned).collect();
    trace.extend(describe(world));
    trace
}

/// The servers' states, a line each.
#[must_use]
pub fn describe(world: &World) -> Vec<String> {
    let line = |(place, server): (usize, &Server)| match &server.process {
        None => format!("server {place}: down {:?} {:?}", server.refusal, server.repair),
        Some(process) => {
            let zab = process.node.zab();
            format!(
                "server {place}: {:?} leader={:?} serves={} tree={} log={} committed={:?} epochs={:?} storage={:?} last_step_down={:?} members={} pending={}",
                zab.map(Zab::state),
                zab.and_then(Zab::leader),
                process.node.serves_clients(),
                process.tree.last_zxid(),
                server.mirror.last(),
                zab.map(|zab| zab.log().committed()),
                zab.map(Zab::epochs),
                process.node.storage(),
                zab.and_then(Zab::last_step_down),
                members(zab.map(Zab::membership)),
                members(zab.and_then(Zab::pending_membership)),
            )
        }
    };
    world.servers.iter().enumerate().map(line).collect()
}

/// The version of a membership and its voters.
fn members(membership: Option<&Arc<Membership>>) -> String {
    let Some(membership) = membership else { return "none".to_owned() };
    let voters: Vec<_> = membership.voters().map(|voter| voter.0.to_string()).collect();
    format!("{:x}:{}", membership.version, voters.join("+"))
}

fn play(world: &mut World) {
    for place in 0..world.servers.len() {
        let delay_ms = world.random.below(world.plan.tick_ms);
        world.later(delay_ms, Event::Start { place });
    }
    world.start_clients();
    world.start_faults();
    world.start_intruders();
    world.run_until(world.plan.fault_phase_ms);
    if world.failure.is_some() {
        return;
    }
    world.end_faults();
    if world.plan.reconfig {
        // A change of membership that is under way needs the servers that it was proposed with.
        world.restart_all();
        world.run_until(world.now_ms + IN_FLIGHT_TICKS * world.plan.tick_ms);
    }
    // What is damaged on one server may be intact on any other.
    world.restart_all();
    if !repair(world) {
        return;
    }
    if let Some(absent) = world.all_but_a_quorum() {
        world.leave_out(&absent);
        world.restart_all();
        if !settle(world) || !progress(world) || !endure_intruder(world) {
            return;
        }
        world.bring_back();
    }
    world.restart_all();
    if !settle(world) {
        return;
    }
    if world.servers.iter().any(|server| server.refusal.is_some()) {
        world.replace_rotten();
        if !settle(world) {
            return;
        }
    }
    // A server that may vote again takes another role, and its clients have to reconnect.
    if !wait(world, settle_ticks(world), "letting all servers vote", World::is_intact) {
        return;
    }
    world.begin_calm();
    if progress(world) {
        rest(world);
    }
}

/// Waits until `done`, or fails. True when it is done.
pub(crate) fn wait(
    world: &mut World,
    ticks: u64,
    what: &str,
    done: impl Fn(&World) -> bool,
) -> bool {
    let tick_ms = world.plan.tick_ms;
    for _ in 0..ticks {
        world.run_until(world.now_ms + tick_ms);
        if world.failure.is_some() {
            return false;
        }
        if done(world) {
            return true;
        }
    }
    world.fail("liveness", format!("{what} took more than {ticks} ticks of {tick_ms} ms"));
    false
}

fn repair(world: &mut World) -> bool {
    world.is_repaired()
        || wait(world, settle_ticks(world), "repairing servers", |world| world.is_repaired())
}

pub(crate) fn settle_ticks(world: &World) -> u64 {
    let ticks = SETTLE_TICKS + 3 * world.plan.init_limit_ticks;
    ticks.max(30_000 / world.plan.tick_ms)
}

pub(crate) fn settle(world: &mut World) -> bool {
    wait(world, settle_ticks(world), "finding a leader", |world| {
        let takes_part = |server: &&Server| server.refusal.is_none() && !server.left_out;
        let state = |server: &Server| {
            let zab = server.process.as_ref().and_then(|process| process.node.zab());
            zab.map(Zab::state)
        };
        let serves = |server: &Server| {
            let node = server.process.as_ref().map(|process| &process.node);
            let role = node.and_then(herdsman_node::Node::serves_as);
            role.is_some_and(|role| role != ServesAs::ReadOnly)
        };
        let leads = |server: &&Server| state(server) == Some(ServerState::Leading);
        let mut present = world.servers.iter().filter(takes_part);
        let leaders = world.servers.iter().filter(takes_part).filter(leads).count();
        present.all(serves) && leaders == 1
    })
}

fn progress(world: &mut World) -> bool {
    let before: Vec<_> = world.clients.iter().map(|client| client.writes_done).collect();
    wait(world, PROGRESS_TICKS, "a write for every client", |world| {
        world.clients.iter().zip(&before).all(|(client, before)| client.writes_done > *before)
    })
}

/// An intruder alone ends no leader's term, but for one that it can end in the name of a voter that is down.
fn endure_intruder(world: &mut World) -> bool {
    if !world.plan.intruders || world.plan.epoch_txns_max != u32::MAX {
        return true;
    }
    let before = world.counts.leaders;
    world.run_until(world.now_ms + INTRUDER_TICKS * world.plan.tick_ms);
    let ended = world.counts.leaders - before;
    if ended > 1 && world.failure.is_none() {
        world.fail("liveness", format!("an intruder has ended the terms of {ended} leaders"));
    }
    world.failure.is_none()
}

/// Clients fall silent, and all servers must come to the same end.
fn rest(world: &mut World) {
    for client in &mut world.clients {
        client.quiet = true;
    }
    // Long enough for the sessions of clients that left to end.
    let sweep_ticks = 3 * world.plan.sweep_ms / world.plan.tick_ms;
    let rest_ticks = REST_TICKS + 25 + sweep_ticks;
    let done = wait(world, rest_ticks, "coming to rest", |world| {
        let last = world.chronicle.last();
        let at_end = |server: &Server| {
            let process = server.process.as_ref();
            process.is_some_and(|process| {
                process.tree.last_zxid() == last && server.mirror.last() == last
            })
        };
        let is_owned = |session| world.clients.iter().any(|client| client.session == session);
        let abandoned = world.chronicle.tree().sessions().any(|(open, _)| !is_owned(open));
        let idle = world.clients.iter().all(|client| client.pending.is_empty());
        let swept = !world.has_idle_znode();
        idle && swept && world.servers.iter().all(at_end) && !abandoned
    });
    if !done {
        return;
    }
    if let Some((client, session)) = world.expired_in_calm().first() {
        let why = format!("session {session} of client {client} ended though all was well");
        return world.fail("liveness", why);
    }
    let mut processes: Vec<_> =
        world.servers.iter_mut().map(|server| server.process.take()).collect();
    let trees: Vec<_> = processes
        .iter()
        .enumerate()
        .filter_map(|(place, process)| process.as_ref().map(|process| (place, &process.tree)))
        .collect();
    world.report(&Fact::AtRest { trees: &trees });
    for (server, process) in world.servers.iter_mut().zip(&mut processes) {
        server.process = process.take();
    }
}

//! Workloads: clients that use an ensemble as programs do, while faults are injected, and record
//! every reply.
//!
//! In: addresses, which workloads, a seed. Out: for each workload the counts of its requests, and the
//! violations. Each workload is a file: what its clients do next (`Worker::step`), and what must hold for
//! its history in addition to the rules for all histories (`check`). Every workload writes below its own
//! node, so that its history explains everything there.

mod check;
mod client;
mod counter;
mod ephemerals;
mod history;
mod ids;
mod linear_queue;
mod membership;
mod queue;
mod register;
mod report;
mod set;
mod watches;

pub use membership::Absent;
pub use report::{Report, table};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::listing::Nodes;
use crate::load::{self, History, Load};
use crate::wire::{self, Op};
use check::Findings;
use client::{Client, Shared};
use history::{Outcome, Record};
use queue::Take;

const PREPARE_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);
/// The longest pause between two steps of a client.
const REST_MAX_MS: u64 = 40;

/// A way to use an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Workload {
    /// Nodes of all kinds, each created, set and deleted by one client alone.
    Nodes,
    /// Registers: reads, writes, and writes on condition of a version (compare and set).
    Register,
    /// Sets: unique children are added and listed; none may be lost.
    Set,
    /// Unique ids: the numbers of sequential nodes, none assigned twice.
    Ids,
    /// A counter in two nodes that multis keep equal.
    Counter,
    /// A queue without an order: each item is taken once.
    Queue,
    /// A queue whose items are taken in their order.
    LinearQueue,
    /// Watches, one-shot and recursive: events before replies, none missed after a reconnect.
    Watches,
    /// Ephemeral nodes and a lock, of sessions that move between servers.
    Ephemerals,
    /// Servers that leave, join and change roles while all other workloads continue.
    Membership,
}

/// One client's part in a workload.
trait Worker: Send {
    /// Sends the next requests.
    fn step(&mut self, client: &mut Client);

    /// Restores everything at the end.
    fn finish(&mut self, _client: &mut Client) {}
}

/// The ensemble as clients know it.
pub struct Servers {
    /// The client addresses.
    pub addresses: Vec<String>,
    /// Each server's line in the membership.
    pub lines: Vec<String>,
    /// The server that may be out of the membership now.
    pub absent: Absent,
}

impl Workload {
    /// All workloads.
    pub fn all() -> &'static [Workload] {
        Workload::value_variants()
    }

    /// Its name on the command line and in the table.
    pub fn name(self) -> String {
        let value = self.to_possible_value().expect("no workload is hidden");
        value.get_name().to_string()
    }

    /// The node below which it writes everything.
    fn root(self) -> String {
        format!("/{}", self.name())
    }

    /// Creates what its clients need.
    fn prepare(self) -> Vec<Op> {
        match self {
            Workload::Register => register::prepare(&self.root()),
            Workload::Counter => counter::prepare(&self.root()),
            _ => Vec::new(),
        }
    }

    fn workers(self, servers: &Servers) -> Vec<Box<dyn Worker>> {
        let root = self.root();
        match self {
            // `load` has its own clients.
            Workload::Nodes => Vec::new(),
            Workload::Register => register::workers(&root),
            Workload::Set => set::workers(&root),
            Workload::Ids => ids::workers(&root),
            Workload::Counter => counter::workers(&root),
            Workload::Queue => queue::workers(&root, Take::Any),
            Workload::LinearQueue => queue::workers(&root, Take::Lowest),
            Workload::Watches => watches::workers(&root),
            Workload::Ephemerals => ephemerals::workers(&root),
            Workload::Membership => membership::workers(&servers.lines, &servers.absent),
        }
    }

    fn check(self, records: &[Record], end: &Nodes) -> Findings {
        match self {
            Workload::Nodes => Findings::default(),
            Workload::Register => register::check(records),
            Workload::Set => set::check(records, end),
            Workload::Ids => ids::check(records),
            Workload::Counter => counter::check(records, &self.root(), end),
            Workload::Queue => queue::check(records, end),
            Workload::LinearQueue => linear_queue::check(records, end),
            Workload::Watches => watches::check(records),
            Workload::Ephemerals => ephemerals::check(records, &self.root()),
            Workload::Membership => membership::check(records),
        }
    }
}

/// Running clients.
pub struct Suite {
    shared: Arc<Shared>,
    running: Vec<Running>,
    nodes: Option<Load>,
}

struct Running {
    workload: Workload,
    acknowledged: Arc<AtomicU64>,
    /// What was recorded before the clients started.
    prepared: Vec<Record>,
    threads: Vec<JoinHandle<Vec<Record>>>,
}

/// The records of all clients.
pub struct Histories {
    nodes: Option<Result<History>>,
    others: Vec<(Workload, Vec<Record>)>,
}

impl Suite {
    /// Creates the nodes that the workloads need, and starts their clients.
    pub fn start(servers: &Servers, workloads: &[Workload], seed: u64) -> Result<Suite> {
        let addresses = servers.addresses.clone();
        let stop = AtomicBool::new(false);
        let shared = Arc::new(Shared { addresses, began: Instant::now(), stop });
        let nodes = workloads.contains(&Workload::Nodes);
        let nodes =
            nodes.then(|| Load::start(&shared.addresses, load_options(seed))).transpose()?;
        let mut running = Vec::new();
        for workload in workloads.iter().filter(|workload| **workload != Workload::Nodes) {
            let started = Running::start(*workload, servers, seed, &shared);
            running.push(started.with_context(|| format!("preparing {}", workload.name()))?);
        }
        Ok(Suite { shared, running, nodes })
    }

    /// How many requests were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        let nodes = self.nodes.as_ref().map_or(0, Load::acknowledged);
        let count = |one: &Running| one.acknowledged.load(Ordering::Relaxed);
        nodes + self.running.iter().map(count).sum::<u64>()
    }

    /// Waits until every workload has this many further requests acknowledged.
    pub fn await_progress(&self, more: u64, max: Duration) -> Result<()> {
        if let Some(nodes) = &self.nodes {
            nodes.await_progress(more, max)?;
        }
        let deadline = Instant::now() + max;
        let count = |one: &Running| one.acknowledged.load(Ordering::Relaxed);
        let wanted: Vec<u64> = self.running.iter().map(|one| count(one) + more).collect();
        for (one, wanted) in self.running.iter().zip(wanted) {
            while count(one) < wanted {
                let name = one.workload.name();
                if one.threads.iter().any(JoinHandle::is_finished) {
                    bail!("a client of the workload {name} ended early");
                }
                ensure!(Instant::now() < deadline, "no progress of {name} within {max:?}");
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// Makes the clients close their sessions and returns their records.
    pub fn finish(self) -> Result<Histories> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for one in self.running {
            let mut records = one.prepared;
            for thread in one.threads {
                let own = thread.join();
                let name = one.workload.name();
                records.extend(own.map_err(|_| anyhow::anyhow!("a client of {name} panicked"))?);
            }
            all.push((one.workload, records));
        }
        Ok(Histories { nodes: self.nodes.map(Load::finish), others: all })
    }
}

impl Histories {
    /// Checks them, with the nodes at the end.
    pub fn judge(&self, end: &Nodes) -> Vec<Report> {
        let judge = |(workload, records): &(Workload, Vec<Record>)| {
            let mut findings = check::check(records, &workload.root(), end);
            findings.extend(workload.check(records, end));
            Report::new(&workload.name(), records, findings)
        };
        let nodes = self.nodes.iter().map(|history| judge_nodes(history, end));
        nodes.chain(self.others.iter().map(judge)).collect()
    }
}

fn judge_nodes(history: &Result<History>, end: &Nodes) -> Report {
    let checked = match history {
        Ok(history) => history.check(end).map_err(|error| format!("{error:#}")),
        Err(error) => Err(format!("{error:#}")),
    };
    let findings = Findings { wrong: checked.err().into_iter().collect(), ..Findings::default() };
    let counts = history.as_ref().map(History::counts).unwrap_or_default();
    Report {
        name: Workload::Nodes.name(),
        operations: counts.acknowledged + counts.refused + counts.unknown,
        acknowledged: counts.acknowledged,
        refused: counts.refused,
        unknown: counts.unknown,
        findings,
    }
}

fn load_options(seed: u64) -> load::Options {
    load::Options { clients: 3, seed, timeout_ms: client::TIMEOUT_MS, rest_max_ms: REST_MAX_MS }
}

impl Running {
    fn start(
        workload: Workload,
        servers: &Servers,
        seed: u64,
        shared: &Arc<Shared>,
    ) -> Result<Running> {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let seed = seed.wrapping_mul(100).wrapping_add(workload as u64);
        let workers = workload.workers(servers);
        let client =
            |number| Client::new(number, seed, Arc::clone(shared), Arc::clone(&acknowledged));
        let mut first = client(workers.len());
        prepare(&mut first, workload)?;
        let prepared = first.finish();
        let run = |(number, worker): (usize, Box<dyn Worker>)| {
            let client = client(number);
            std::thread::spawn(move || work(worker, client))
        };
        let threads = workers.into_iter().enumerate().map(run).collect();
        Ok(Running { workload, acknowledged, prepared, threads })
    }
}

fn prepare(client: &mut Client, workload: Workload) -> Result<()> {
    let deadline = Instant::now() + PREPARE_MAX;
    let ops = std::iter::once(Op::create(&workload.root(), None, 0)).chain(workload.prepare());
    for op in ops {
        loop {
            match client.call(op.clone()) {
                Some(Outcome::Done { .. } | Outcome::Refused { err: wire::NODE_EXISTS, .. }) => {
                    break;
                }
                outcome => ensure!(Instant::now() < deadline, "{op:?}: {outcome:?}"),
            }
        }
    }
    Ok(())
}

/// Runs steps until stopped; sometimes moves to another server, or starts another session.
fn work(mut worker: Box<dyn Worker>, mut client: Client) -> Vec<Record> {
    while !client.is_stopped() {
        worker.step(&mut client);
        match client.rng.below(200) {
            0..4 => client.disconnect(),
            4 => drop(client.close()),
            _ => {}
        }
        client.rest(REST_MAX_MS);
    }
    worker.finish(&mut client);
    client.finish()
}

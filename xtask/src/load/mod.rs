//! Clients that write to an ensemble while faults are injected, and record the replies.
//!
//! In: addresses, how many clients, a seed. Out: a [`History`] with the states that each node may have
//! afterwards; `History::check` compares it with a server's nodes. Each client runs in its own thread, on
//! one connection at a time to a random server, and continues its session elsewhere when the connection is
//! lost. Every path has one writer, so a history needs no clock. A client that sees an impossible result (a
//! lower zxid than before, a value that was never written, a wrong error code) ends with that as its error.

mod history;
mod writer;

pub use history::History;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::wire::{Op, Session};
use history::Record;
use writer::Writer;

/// The root of everything that a load writes.
pub const ROOT: &str = "/load";
const POLL: Duration = Duration::from_millis(5);

/// How to load an ensemble.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many clients.
    pub clients: usize,
    /// The seed of their choices.
    pub seed: u64,
    /// The session timeout that they request.
    pub timeout_ms: i32,
    /// The longest pause between two batches of requests.
    pub rest_max_ms: u64,
}

/// Running clients.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<Record>>>,
}

/// State shared by the clients and their owner.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    acknowledged: AtomicU64,
}

impl Load {
    /// Creates the nodes that every client needs, and starts the clients. An ensemble has only one load.
    pub fn start(addresses: &[String], options: Options) -> Result<Load> {
        let names: Vec<String> = (0..options.clients).map(|number| format!("c{number}")).collect();
        let first = addresses.first().context("no server to load")?;
        prepare(first, &names).context("making the nodes of the load")?;
        let shared = Arc::new(Shared::default());
        let writers = (0..options.clients)
            .map(|number| Writer::new(number, &names, addresses, options, Arc::clone(&shared)));
        let threads = writers.map(|writer| std::thread::spawn(move || writer.run())).collect();
        Ok(Load { shared, threads })
    }

    /// How many writes were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until this many further writes are acknowledged; fails if that takes longer than `max`.
    pub fn await_progress(&self, more: u64, max: Duration) -> Result<()> {
        let wanted = self.acknowledged() + more;
        let deadline = Instant::now() + max;
        while self.acknowledged() < wanted {
            // A client that has ended has found a violation; `finish` reports it.
            if self.threads.iter().any(JoinHandle::is_finished) {
                bail!("a client gave up");
            }
            ensure!(
                Instant::now() < deadline,
                "no progress: {} of {more} further writes acknowledged within {max:?}",
                self.acknowledged() + more - wanted
            );
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Makes the clients close their sessions and returns their records.
    pub fn finish(self) -> Result<History> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut history = History::default();
        for thread in self.threads {
            let record = thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
            history.add(record?);
        }
        Ok(history)
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn prepare(address: &str, names: &[String]) -> Result<()> {
    let mut session = Session::connect(address, 20_000)?;
    session.ok(&Op::create(ROOT, None, 0))?;
    session.ok(&Op::create(&numbered(), None, 0))?;
    for name in names {
        session.ok(&Op::create(&format!("{ROOT}/{name}"), None, 0))?;
        session.ok(&Op::create(&register(name), Some(b"0"), 0))?;
    }
    session.close()
}

/// The parent of all sequential nodes.
fn numbered() -> String {
    format!("{ROOT}/numbered")
}

/// The node that one client sets repeatedly.
fn register(name: &str) -> String {
    format!("{ROOT}/{name}/register")
}

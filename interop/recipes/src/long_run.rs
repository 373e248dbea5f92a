//! A long run with faults: Rust, Curator, ZooKeeper's own recipes and kazoo on the same paths, while connections are
//! cut, replies lost and servers killed.
//!
//! In: the servers of an ensemble (which the caller kills), the contenders' commands, and a duration. Out:
//! a line for each workload, and failure if a guarantee was violated or too little was done.
//!
//! Guarantees: a counter that only a lock, a semaphore or an election protects loses no addition, and does not change
//! under a reader (see [`counted`]); each leadership of ours has its own epoch; an item that we add to a queue is taken
//! once, and one that we add to a queue with locks is done once. What other libraries lose or repeat when a reply is
//! lost is not counted as a violation: see [`queues`].

mod counted;
mod faults;
mod holders;
mod party;
mod queues;
mod work_queue;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use herdsman_client::{Client, RetryPolicy};
use tokio::time::{Instant, timeout};

use faults::Faults;
use holders::Holders;
use party::{Parties, SESSION_TIMEOUT};
use queues::Queues;
use work_queue::WorkQueues;

/// After the faults all contenders get this long to finish.
const FINISH_MAX: Duration = Duration::from_secs(90);

/// The command-line settings.
pub struct Setting<'a> {
    pub servers: &'a str,
    pub java: &'a str,
    pub python: &'a str,
    pub seconds: u64,
    pub seed: u64,
}

/// Runs it; `false` if a guarantee was violated.
pub async fn run(setting: &Setting<'_>) -> Result<bool> {
    let servers: Vec<SocketAddr> =
        setting.servers.split(',').map(str::parse).collect::<Result<_, _>>().context("servers")?;
    println!("{} s with faults, seed {}", setting.seconds, setting.seed);
    let judge = judge(setting.servers).await?;
    let parties = Arc::new(Parties::start(&servers, setting.java, setting.python).await?);
    let end = Instant::now() + Duration::from_secs(setting.seconds);
    let faults = Faults::start(parties.proxies(), setting.seed, end);

    let holders = Holders::new(&judge, &parties, end).await?;
    let queues = Queues::new(&judge, &parties, end).await?;
    let work_queues = WorkQueues::new(&judge, &parties, end);
    let work = async { tokio::try_join!(holders.run(), queues.run(), work_queues.run()) };
    timeout(FINISH_MAX + Duration::from_secs(setting.seconds), work)
        .await
        .context("a contender still waits although all faults are over")??;
    println!("{}", faults.end().await);

    let mut is_good = true;
    for counted in holders.counted() {
        is_good &= judged(&counted.verdict(&judge).await?);
    }
    is_good &= judged(&holders.epochs_verdict());
    is_good &= judged(&queues.verdict().await?);
    is_good &= judged(&work_queues.verdict().await?);
    drop((holders, queues, work_queues));
    judge.close().await?;
    let parties = Arc::into_inner(parties).context("all work has ended")?;
    parties.end().await;
    Ok(is_good)
}

/// The result of one workload.
pub struct Verdict {
    name: String,
    text: String,
    problem: Option<String>,
}

fn judged(Verdict { name, text, problem }: &Verdict) -> bool {
    match problem {
        None => println!("ok      {name}: {text}"),
        Some(problem) => println!("FAILED  {name}: {problem} ({text})"),
    }
    problem.is_none()
}

/// A client whose connections are not cut, except when servers are killed.
async fn judge(servers: &str) -> Result<Client> {
    let options = Client::options().session_timeout(SESSION_TIMEOUT);
    let retry = RetryPolicy::forever(Duration::from_millis(50));
    Ok(options.retry(retry).connect(servers).await?)
}

//! A queue whose items are locked, in the layout of Curator's `DistributedQueue`: we and Curator add items, and our
//! consumers work on them. Some are given back or dropped, and many lose their connection.
//!
//! An item of ours whose `offer` succeeded is delivered until a `done` succeeds, and never again after that. (The
//! outcome of a `done` may be unknown.) Curator's items may exist twice: its `put` repeats a create.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use herdsman_client::{Client, Outcome};
use herdsman_recipes::queue::{WorkItem, WorkQueue};
use tokio::time::{Instant, sleep};

use super::Verdict;
use super::party::Parties;

const PATH: &str = "/long-run/work-queue";
const PAUSE: Duration = Duration::from_millis(20);
/// After the faults, locks of sessions that have ended are deleted within this time.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// The workload.
pub struct WorkQueues {
    judge: Client,
    parties: Arc<Parties>,
    end: Instant,
    offered: Mutex<Vec<String>>,
    items: Mutex<BTreeMap<String, Tally>>,
}

/// What has happened to an item.
#[derive(Clone, Copy, Default)]
struct Tally {
    delivered: u64,
    done: u64,
    /// Ended with an unknown outcome.
    in_doubt: u64,
}

impl WorkQueues {
    pub fn new(judge: &Client, parties: &Arc<Parties>, end: Instant) -> Self {
        WorkQueues {
            judge: judge.clone(),
            parties: parties.clone(),
            end,
            offered: Mutex::default(),
            items: Mutex::default(),
        }
    }

    pub async fn run(&self) -> Result<()> {
        let ours = &self.parties.ours;
        tokio::try_join!(
            try_join_all(ours.iter().enumerate().map(|(at, zk)| self.produce(at, zk))),
            try_join_all(ours.iter().map(|zk| self.consume(zk))),
            self.java_produces(),
        )?;
        Ok(())
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    async fn produce(&self, at: usize, zk: &Client) -> Result<()> {
        let queue = WorkQueue::new(zk, PATH)?;
        for number in 0.. {
            if self.is_over() {
                break;
            }
            let item = format!("rust-{at}-{number}");
            if queue.offer(item.clone()).await.is_ok() {
                self.offered.lock().unwrap_or_else(PoisonError::into_inner).push(item);
            }
            sleep(PAUSE * 2).await;
        }
        Ok(())
    }

    async fn java_produces(&self) -> Result<()> {
        for number in 0.. {
            if self.is_over() {
                break;
            }
            let _ = self.parties.java.ask(&format!("queue put {PATH} java-{number}")).await;
            sleep(PAUSE * 2).await;
        }
        Ok(())
    }

    async fn consume(&self, zk: &Client) -> Result<()> {
        let queue = WorkQueue::new(zk, PATH)?;
        while !self.is_over() {
            match queue.poll().await {
                Ok(Some(item)) => self.work_on(item).await,
                Ok(None) | Err(_) => sleep(PAUSE).await,
            }
        }
        Ok(())
    }

    async fn work_on(&self, item: WorkItem) {
        let payload = String::from_utf8_lossy(item.payload()).into_owned();
        self.note(&payload, |tally| tally.delivered += 1);
        match fastrand::u8(0..8) {
            0 => drop(item),
            1 => drop(item.give_back().await),
            _ => self.finish(&payload, item).await,
        }
    }

    async fn finish(&self, payload: &str, item: WorkItem) {
        match item.done().await {
            Ok(()) => self.note(payload, |tally| tally.done += 1),
            Err(error) if error.outcome() == Outcome::Unknown => {
                self.note(payload, |tally| tally.in_doubt += 1);
            }
            // It will be delivered again.
            Err(_) => {}
        }
    }

    fn note(&self, payload: &str, change: impl FnOnce(&mut Tally)) {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        change(items.entry(payload.to_owned()).or_default());
    }

    /// Works on what is left, and evaluates the result.
    pub async fn verdict(&self) -> Result<Verdict> {
        let queue = WorkQueue::new(&self.judge, PATH)?;
        let limit = Instant::now() + DRAIN_MAX;
        while Instant::now() < limit && !queue.is_empty().await? {
            match queue.poll().await? {
                Some(item) => {
                    let payload = String::from_utf8_lossy(item.payload()).into_owned();
                    self.note(&payload, |tally| tally.delivered += 1);
                    self.finish(&payload, item).await;
                }
                None => sleep(PAUSE).await,
            }
        }
        let left = queue.len().await?;
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = |item: &String| items.get(item).copied().unwrap_or_default();
        let is_lost = |item: &&String| tally(item).done + tally(item).in_doubt == 0;
        let lost: Vec<_> = offered.iter().filter(is_lost).collect();
        let is_repeated =
            |(item, tally): &(&String, &Tally)| item.starts_with("rust-") && tally.done > 1;
        let repeated: Vec<_> = items.iter().filter(is_repeated).map(|(item, _)| item).collect();
        let java = items.keys().filter(|item| item.starts_with("java-")).count();
        let problem = if left > 0 {
            Some(format!("{left} items stay in the queue, locked"))
        } else if !repeated.is_empty() {
            Some(format!("done twice: {repeated:?}"))
        } else if !lost.is_empty() {
            Some(format!("lost: {lost:?}"))
        } else if offered.is_empty() || java == 0 {
            Some("a producer has added nothing".to_owned())
        } else {
            None
        };
        let delivered: u64 = items.values().map(|tally| tally.delivered).sum();
        let in_doubt: u64 = items.values().map(|tally| tally.in_doubt).sum();
        let text = format!(
            "{} items of ours and {java} of Curator's, {delivered} times delivered; {in_doubt} ends had an unknown outcome",
            offered.len(),
        );
        Ok(Verdict { name: "work-queue".to_owned(), text, problem })
    }
}

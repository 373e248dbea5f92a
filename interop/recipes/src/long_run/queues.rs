//! A queue in Curator's layout: we and Curator's `SimpleDistributedQueue` add and take items.
//!
//! An item of ours whose `offer` succeeded exists once, and is taken once. Curator's `poll` deletes an item
//! and returns nothing if the reply is lost, and it may lose an item without failing, when its client
//! repeats the deletion; therefore its consumer runs only when the faults are over. Curator's `offer`
//! repeats a create, so its items may exist twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use herdsman_client::Client;
use herdsman_recipes::Queue;
use tokio::time::{Instant, sleep};

use super::Verdict;
use super::party::Parties;

const PATH: &str = "/long-run/queue";
const PAUSE: Duration = Duration::from_millis(20);

/// The workload.
pub struct Queues {
    judge: Client,
    parties: Arc<Parties>,
    end: Instant,
    /// Our items, by outcome.
    offered: Mutex<Vec<String>>,
    in_doubt: Mutex<Vec<String>>,
    taken: Mutex<BTreeMap<String, usize>>,
    takes_in_doubt: AtomicU64,
}

impl Queues {
    pub async fn new(judge: &Client, parties: &Arc<Parties>, end: Instant) -> Result<Self> {
        judge.create(PATH, "").await?;
        Ok(Queues {
            judge: judge.clone(),
            parties: parties.clone(),
            end,
            offered: Mutex::default(),
            in_doubt: Mutex::default(),
            taken: Mutex::default(),
            takes_in_doubt: AtomicU64::new(0),
        })
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
        let queue = Queue::new(zk, PATH)?;
        for number in 0.. {
            if self.is_over() {
                break;
            }
            let item = format!("rust-{at}-{number}");
            let offered = queue.offer(item.clone()).await;
            let list = if offered.is_ok() { &self.offered } else { &self.in_doubt };
            list.lock().unwrap_or_else(PoisonError::into_inner).push(item);
            sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn consume(&self, zk: &Client) -> Result<()> {
        let queue = Queue::new(zk, PATH)?;
        while !self.is_over() {
            match queue.poll().await {
                Ok(Some(item)) => self.note_taken(&item),
                Ok(None) => sleep(PAUSE).await,
                Err(error) => {
                    if error.outcome() == herdsman_client::Outcome::Unknown {
                        self.takes_in_doubt.fetch_add(1, Ordering::Relaxed);
                    }
                    sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    async fn java_produces(&self) -> Result<()> {
        for number in 0.. {
            if self.is_over() {
                break;
            }
            let _ =
                self.parties.java.ask(&format!("simple-queue offer {PATH} java-{number}")).await;
            sleep(PAUSE).await;
        }
        Ok(())
    }

    fn note_taken(&self, item: &[u8]) {
        let item = String::from_utf8_lossy(item).into_owned();
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner).entry(item).or_default() += 1;
    }

    /// Takes what is left, with the other library's consumer, and evaluates the result.
    pub async fn verdict(&self) -> Result<Verdict> {
        let queue = Queue::new(&self.judge, PATH)?;
        let mut is_java = true;
        loop {
            let item = match is_java {
                true => self.parties.java.ask(&format!("simple-queue poll {PATH}")).await?.pop(),
                false => {
                    queue.poll().await?.map(|item| String::from_utf8_lossy(&item).into_owned())
                }
            };
            let Some(item) = item else { break };
            self.note_taken(item.as_bytes());
            is_java = !is_java;
        }
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let in_doubt = self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner).len();
        let takes_in_doubt = self.takes_in_doubt.load(Ordering::Relaxed);
        let lost: Vec<_> = offered.iter().filter(|item| !taken.contains_key(*item)).collect();
        let doubled: Vec<_> = taken
            .iter()
            .filter(|(item, times)| item.starts_with("rust-") && **times > 1)
            .map(|(item, _)| item)
            .collect();
        let java = taken.keys().filter(|item| item.starts_with("java-")).count();
        let problem = if !doubled.is_empty() {
            Some(format!("taken twice: {doubled:?}"))
        } else if lost.len() as u64 > takes_in_doubt {
            Some(format!("lost: {lost:?}"))
        } else if offered.is_empty() || java == 0 {
            Some("a producer has added nothing".to_owned())
        } else {
            None
        };
        let text = format!(
            "{} items of ours and {java} of Curator's; {in_doubt} offers and {takes_in_doubt} takes had an unknown outcome, {} \
             items of ours were not taken",
            offered.len(),
            lost.len()
        );
        Ok(Verdict { name: "queue".to_owned(), text, problem })
    }
}

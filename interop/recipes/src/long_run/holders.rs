//! Locks and elections: whoever holds adds one to a counter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use herdsman_client::Client;
use herdsman_recipes::election::ElectionLayout;
use herdsman_recipes::{Election, Layout, Lock};
use tokio::time::{Instant, sleep};

use super::Verdict;
use super::counted::Counted;
use super::party::Parties;
use crate::contender::Contender;

/// After a failure, so that nobody turns in circles.
const PAUSE: Duration = Duration::from_millis(100);

/// The workloads with a counter.
pub struct Holders {
    judge: Client,
    parties: Arc<Parties>,
    end: Instant,
    curator_mutex: Counted,
    kazoo_lock: Counted,
    write_lock: Counted,
    curator_latch: Counted,
    election_support: Counted,
    /// Who led in which epoch.
    epochs: Mutex<BTreeMap<u64, usize>>,
    doubled_epochs: Mutex<Vec<u64>>,
}

impl Holders {
    pub async fn new(judge: &Client, parties: &Arc<Parties>, end: Instant) -> Result<Self> {
        let election_support = Counted::new(judge, "election-support").await?;
        // Java's candidates do not make it.
        judge.create(&election_support.protection(), "").await?;
        Ok(Holders {
            judge: judge.clone(),
            parties: parties.clone(),
            end,
            curator_mutex: Counted::new(judge, "curator-mutex").await?,
            kazoo_lock: Counted::new(judge, "kazoo-lock").await?,
            write_lock: Counted::new(judge, "write-lock").await?,
            curator_latch: Counted::new(judge, "curator-latch").await?,
            election_support,
            epochs: Mutex::default(),
            doubled_epochs: Mutex::default(),
        })
    }

    pub fn counted(&self) -> [&Counted; 5] {
        let Holders { curator_mutex, kazoo_lock, write_lock, .. } = self;
        [curator_mutex, kazoo_lock, write_lock, &self.curator_latch, &self.election_support]
    }

    pub async fn run(&self) -> Result<()> {
        let Parties { ours, java, python, .. } = &*self.parties;
        let lock = |counted, layout| ours.iter().map(move |zk| self.lock(zk, counted, layout));
        tokio::try_join!(
            try_join_all(lock(&self.curator_mutex, Layout::Curator)),
            try_join_all(lock(&self.kazoo_lock, Layout::Kazoo)),
            try_join_all(lock(&self.write_lock, Layout::Apache)),
            try_join_all(ours.iter().enumerate().map(|(at, zk)| self.lead(at, zk))),
            try_join_all(ours.iter().map(|zk| self.lead_as_apache(zk))),
            self.theirs(java, &self.curator_mutex, "curator", "lock acquire", "lock release"),
            self.theirs(python, &self.kazoo_lock, "kazoo", "lock acquire", "lock release"),
            self.write_locks(java),
            self.latches(java),
            self.offers(java),
        )?;
        Ok(())
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    async fn lock(&self, zk: &Client, counted: &Counted, layout: Layout) -> Result<()> {
        let lock = Lock::new(zk, &counted.protection())?.layout(layout).owner("rust");
        while !self.is_over() {
            match lock.acquire().await {
                Ok(guard) => {
                    counted.add("rust", &guard.fenced()).await;
                    let _ = guard.release().await;
                }
                Err(_) => {
                    counted.failed("rust");
                    sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    async fn lead(&self, at: usize, zk: &Client) -> Result<()> {
        let counted = &self.curator_latch;
        let path = counted.protection();
        let election = Election::new(zk, &path, &format!("rust-{at}"))?;
        let election =
            election.layout(ElectionLayout::Latch).with_epoch(&format!("{path}-epoch"))?;
        while !self.is_over() {
            match election.campaign().await {
                Ok(leadership) => {
                    self.note_epoch(leadership.epoch(), at);
                    counted.add("rust", &leadership.fenced()).await;
                    let _ = leadership.resign().await;
                }
                Err(_) => {
                    counted.failed("rust");
                    sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    fn note_epoch(&self, epoch: Option<u64>, leader: usize) {
        let Some(epoch) = epoch else { return };
        let before =
            self.epochs.lock().unwrap_or_else(PoisonError::into_inner).insert(epoch, leader);
        if before.is_some() {
            let mut doubled = self.doubled_epochs.lock().unwrap_or_else(PoisonError::into_inner);
            doubled.push(epoch);
        }
    }

    pub fn epochs_verdict(&self) -> Verdict {
        let count = self.epochs.lock().unwrap_or_else(PoisonError::into_inner).len();
        let doubled = self.doubled_epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let problem = match (count, doubled.as_slice()) {
            (0, _) => Some("nobody led".to_owned()),
            (_, []) => None,
            (_, doubled) => Some(format!("two leaders in the epochs {doubled:?}")),
        };
        Verdict { name: "epochs".to_owned(), text: format!("{count} leaderships"), problem }
    }

    async fn lead_as_apache(&self, zk: &Client) -> Result<()> {
        let counted = &self.election_support;
        let election = Election::new(zk, &counted.protection(), "rust")?;
        let election = election.layout(ElectionLayout::Apache);
        while !self.is_over() {
            match election.campaign().await {
                Ok(leadership) => {
                    counted.add("rust", &leadership.fenced()).await;
                    let _ = leadership.resign().await;
                }
                Err(_) => {
                    counted.failed("rust");
                    sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    /// A library whose handles share the session of their process. After a failure nobody knows what it has left
    /// behind in its session, so the session is ended.
    async fn theirs(
        &self,
        contender: &Contender,
        counted: &Counted,
        party: &'static str,
        acquire: &str,
        release: &str,
    ) -> Result<()> {
        let path = counted.protection();
        for round in 0.. {
            if self.is_over() {
                break;
            }
            let handle = format!("{path}#{round}");
            let held = async {
                contender.ask(&format!("{acquire} {handle}")).await?;
                let session = contender.word("session id").await?;
                self.add_for(counted, party, &path, |owner, _| owner == session).await?;
                contender.ask(&format!("{release} {handle}")).await
            };
            if held.await.is_err() {
                counted.failed(party);
                let _ = contender.ask("session kill").await;
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// ZooKeeper's `WriteLock`, each round in a session of its own.
    async fn write_locks(&self, java: &Contender) -> Result<()> {
        let counted = &self.write_lock;
        let path = counted.protection();
        for round in 0.. {
            if self.is_over() {
                break;
            }
            let handle = format!("{path}#{round}");
            let held = async {
                java.ask(&format!("write-lock acquire {handle}")).await?;
                // Ours have another data.
                self.add_for(counted, "write-lock", &path, |_, data| data != b"rust").await
            };
            if held.await.is_err() {
                counted.failed("write-lock");
                sleep(PAUSE).await;
            }
            let _ = java.ask(&format!("write-lock close {handle}")).await;
        }
        Ok(())
    }

    async fn latches(&self, java: &Contender) -> Result<()> {
        let counted = &self.curator_latch;
        let path = counted.protection();
        for round in 0.. {
            if self.is_over() {
                break;
            }
            let handle = format!("{path}#{round}");
            let held = async {
                java.ask(&format!("latch start {handle} java")).await?;
                java.ask(&format!("latch await {handle}")).await?;
                let session = java.word("session id").await?;
                self.add_for(counted, "latch", &path, |owner, _| owner == session).await
            };
            if held.await.is_err() {
                counted.failed("latch");
                sleep(PAUSE).await;
            }
            if java.ask(&format!("latch close {handle}")).await.is_err() {
                let _ = java.ask("session kill").await;
            }
        }
        Ok(())
    }

    async fn offers(&self, java: &Contender) -> Result<()> {
        let counted = &self.election_support;
        let path = counted.protection();
        for round in 0.. {
            if self.is_over() {
                break;
            }
            let handle = format!("{path}#{round}");
            let host = format!("java-{round}");
            let held = async {
                java.ask(&format!("election-support start {handle} {host}")).await?;
                let outcome = java.word(&format!("election-support await {handle}")).await?;
                anyhow::ensure!(outcome == "ELECTED_COMPLETE", "{outcome}");
                self.add_for(counted, "election-support", &path, |_, data| data == host.as_bytes())
                    .await
            };
            if held.await.is_err() {
                counted.failed("election-support");
                sleep(PAUSE).await;
            }
            let _ = java.ask(&format!("election-support close {handle}")).await;
        }
        Ok(())
    }

    /// Adds for another program, which believes that it holds: fenced by its node, if that is first in the line. If it
    /// is not, the program has lost what it held and does not know yet.
    async fn add_for(
        &self,
        counted: &Counted,
        party: &'static str,
        path: &str,
        is_theirs: impl Fn(&str, &[u8]) -> bool,
    ) -> Result<()> {
        self.judge.sync(path).await?;
        let mut names = self.judge.children(path).await?.names;
        names.sort_by(|one, other| sequence(one).cmp(sequence(other)));
        let Some(first) = names.first() else { return Ok(()) };
        let node = format!("{path}/{first}");
        let Ok(found) = self.judge.get(&node).await else { return Ok(()) };
        let owner = format!("0x{:x}", found.stat.ephemeral_owner);
        if is_theirs(&owner, &found.data) {
            counted.add(party, &self.judge.fenced_by(&node)).await;
        }
        Ok(())
    }
}

/// The number at the end of a name.
fn sequence(name: &str) -> &str {
    &name[name.len().saturating_sub(10)..]
}

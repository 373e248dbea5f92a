//! Locks and elections: each holder adds one to a counter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use herdsman_client::Client;
use herdsman_recipes::election::ElectionLayout;
use herdsman_recipes::{Election, Guard, HoldOptions, Layout, Lock, RwLock, Semaphore};
use tokio::time::{Instant, sleep};

use super::Verdict;
use super::counted::Counted;
use super::party::Parties;
use crate::contender::Contender;

/// Pause after a failure, to avoid a busy loop.
const PAUSE: Duration = Duration::from_millis(100);

/// The name of our own parties, and the data of their nodes where it distinguishes them from others.
const OURS: &str = "rust";
/// Those of them that only read.
const READERS: &str = "rust readers";

/// How the node of another program is distinguished from ours.
enum Owner {
    /// By its session.
    Session(String),
    /// Its data is not this.
    OtherData(String),
}

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
    read_write: Counted,
    semaphore: Counted,
    /// How often each epoch of each election was led.
    epochs: Mutex<BTreeMap<(String, u64), usize>>,
}

impl Holders {
    pub async fn new(judge: &Client, parties: &Arc<Parties>, end: Instant) -> Result<Self> {
        let election_support = Counted::new(judge, "election-support").await?;
        // Java's candidates do not create it.
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
            read_write: Counted::new(judge, "read-write-lock").await?,
            semaphore: Counted::new(judge, "semaphore")
                .await?
                .with_line("leases")
                .with_pause(PAUSE / 2),
            epochs: Mutex::default(),
        })
    }

    pub fn counted(&self) -> [&Counted; 7] {
        let Holders { curator_mutex, kazoo_lock, write_lock, read_write, semaphore, .. } = self;
        let (latch, support) = (&self.curator_latch, &self.election_support);
        [curator_mutex, kazoo_lock, write_lock, latch, support, read_write, semaphore]
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
            self.theirs(java, &self.curator_mutex, "curator"),
            self.theirs(python, &self.kazoo_lock, "kazoo"),
            self.write_locks(java),
            self.latches(java),
            self.offers(java),
            try_join_all(ours.iter().map(|zk| self.write(zk))),
            try_join_all(ours.iter().map(|zk| self.read(zk))),
            try_join_all(ours.iter().map(|zk| self.one_permit(zk))),
            self.curator_writes(java),
            self.curator_leases(java),
        )?;
        Ok(())
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    async fn lock(&self, zk: &Client, counted: &Counted, layout: Layout) -> Result<()> {
        let lock = Lock::new(zk, &counted.protection())?
            .layout(layout)
            .options(&HoldOptions::new().owner(OURS));
        self.hold_again_and_again(counted, async || lock.acquire().await).await
    }

    /// Adds one in each round.
    async fn hold_again_and_again<G: Guard>(
        &self,
        counted: &Counted,
        acquire: impl AsyncFn() -> herdsman_recipes::Result<G>,
    ) -> Result<()> {
        while !self.is_over() {
            match acquire().await {
                Ok(guard) => {
                    counted.add(OURS, &guard.fenced()).await;
                    let _ = guard.release().await;
                }
                Err(_) => {
                    counted.failed(OURS);
                    sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    async fn write(&self, zk: &Client) -> Result<()> {
        let lock = RwLock::new(zk, &self.read_write.protection())?;
        self.hold_again_and_again(&self.read_write, async || lock.write().await).await
    }

    async fn read(&self, zk: &Client) -> Result<()> {
        let lock = RwLock::new(zk, &self.read_write.protection())?;
        while !self.is_over() {
            match lock.read().await {
                Ok(guard) => {
                    self.read_write.read_twice(READERS, &guard).await;
                    let _ = guard.release().await;
                }
                Err(_) => self.read_write.failed(READERS),
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// A semaphore with one permit, so that its holder may add.
    async fn one_permit(&self, zk: &Client) -> Result<()> {
        let semaphore = Semaphore::new(zk, &self.semaphore.protection(), 1)?;
        self.hold_again_and_again(&self.semaphore, async || semaphore.acquire().await).await
    }

    async fn curator_writes(&self, java: &Contender) -> Result<()> {
        let hold = async |handle: &str| {
            java.ask(&format!("rwlock write-acquire {handle}")).await?;
            Ok(Owner::Session(java.word("session id").await?))
        };
        self.rounds(java, &self.read_write, "curator", hold, "rwlock write-release").await
    }

    async fn curator_leases(&self, java: &Contender) -> Result<()> {
        let hold = async |handle: &str| {
            java.ask(&format!("semaphore acquire {handle} 1")).await?;
            Ok(Owner::Session(java.word("session id").await?))
        };
        self.rounds(java, &self.semaphore, "curator", hold, "semaphore release").await
    }

    /// Like Curator's latch, with epochs.
    async fn lead(&self, at: usize, zk: &Client) -> Result<()> {
        let path = self.curator_latch.protection();
        let election = Election::new(zk, &path, &format!("rust-{at}"))?;
        let election = election.layout(ElectionLayout::Latch);
        let election = election.with_epoch(&format!("{path}-epoch"))?;
        self.lead_in(&election, &self.curator_latch).await
    }

    async fn lead_as_apache(&self, zk: &Client) -> Result<()> {
        let election = Election::new(zk, &self.election_support.protection(), OURS)?;
        let election = election.layout(ElectionLayout::Apache);
        self.lead_in(&election, &self.election_support).await
    }

    async fn lead_in(&self, election: &Election, counted: &Counted) -> Result<()> {
        while !self.is_over() {
            match election.campaign().await {
                Ok(leadership) => {
                    self.note_epoch(counted.protection(), leadership.epoch());
                    counted.add(OURS, &leadership.fenced()).await;
                    let _ = leadership.resign().await;
                }
                Err(_) => {
                    counted.failed(OURS);
                    sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    fn note_epoch(&self, election: String, epoch: Option<u64>) {
        if let Some(epoch) = epoch {
            let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
            *epochs.entry((election, epoch)).or_default() += 1;
        }
    }

    pub fn epochs_verdict(&self) -> Verdict {
        let epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let shared: Vec<_> = epochs.iter().filter(|(_, leaders)| **leaders > 1).collect();
        let problem = match (epochs.len(), shared.as_slice()) {
            (0, _) => Some("there was no leader".to_owned()),
            (_, []) => None,
            (_, shared) => Some(format!("epochs with more than one leader: {shared:?}")),
        };
        let text = format!("{} leaderships", epochs.len());
        Verdict { name: "epochs".to_owned(), text, problem }
    }

    /// Rounds of another program, each with its own handle, until the time is over: acquires what protects
    /// the counter, adds one, and releases it.
    async fn rounds(
        &self,
        contender: &Contender,
        counted: &Counted,
        party: &'static str,
        hold: impl AsyncFn(&str) -> Result<Owner>,
        give_up: &str,
    ) -> Result<()> {
        let path = counted.protection();
        for round in 0.. {
            if self.is_over() {
                break;
            }
            let handle = format!("{path}#{round}");
            let held = async {
                let owner = hold(&handle).await?;
                self.add_for(counted, party, &owner).await
            };
            let is_held = held.await.is_ok();
            let is_given_up = contender.ask(&format!("{give_up} {handle}")).await.is_ok();
            if !is_held {
                counted.failed(party);
                sleep(PAUSE).await;
            }
            // It is unknown what it has left in the session of its process.
            if !is_given_up {
                let _ = contender.ask("session kill").await;
            }
        }
        Ok(())
    }

    /// A lock of a library whose handles share the session of their process.
    async fn theirs(
        &self,
        contender: &Contender,
        counted: &Counted,
        party: &'static str,
    ) -> Result<()> {
        let hold = async |handle: &str| {
            contender.ask(&format!("lock acquire {handle}")).await?;
            Ok(Owner::Session(contender.word("session id").await?))
        };
        self.rounds(contender, counted, party, hold, "lock release").await
    }

    /// ZooKeeper's `WriteLock`, each round in its own session.
    async fn write_locks(&self, java: &Contender) -> Result<()> {
        let hold = async |handle: &str| {
            java.ask(&format!("write-lock acquire {handle}")).await?;
            Ok(Owner::OtherData(OURS.to_owned()))
        };
        self.rounds(java, &self.write_lock, "write-lock", hold, "write-lock close").await
    }

    async fn latches(&self, java: &Contender) -> Result<()> {
        let hold = async |handle: &str| {
            java.ask(&format!("latch start {handle} java")).await?;
            java.ask(&format!("latch await {handle}")).await?;
            Ok(Owner::Session(java.word("session id").await?))
        };
        self.rounds(java, &self.curator_latch, "latch", hold, "latch close").await
    }

    /// ZooKeeper's `LeaderElectionSupport`, each round in its own session.
    async fn offers(&self, java: &Contender) -> Result<()> {
        let hold = async |handle: &str| {
            java.ask(&format!("election-support start {handle} java")).await?;
            let outcome = java.word(&format!("election-support await {handle}")).await?;
            anyhow::ensure!(outcome == "ELECTED_COMPLETE", "{outcome}");
            Ok(Owner::OtherData(OURS.to_owned()))
        };
        let (counted, close) = (&self.election_support, "election-support close");
        self.rounds(java, counted, "election-support", hold, close).await
    }

    /// Adds for another program, which believes that it is the holder: fenced by its node, if that is first
    /// in the queue. If it is not, the program has lost the lock and does not know yet.
    async fn add_for(&self, counted: &Counted, party: &'static str, owner: &Owner) -> Result<()> {
        let path = counted.line();
        self.judge.sync(path).await?;
        let mut names = self.judge.children(path).await?.names;
        names.sort_by(|one, other| sequence(one).cmp(sequence(other)));
        let Some(first) = names.first() else { return Ok(()) };
        let node = format!("{path}/{first}");
        let Ok(found) = self.judge.get(&node).await else { return Ok(()) };
        let is_theirs = match owner {
            Owner::Session(id) => *id == format!("0x{:x}", found.stat.ephemeral_owner),
            Owner::OtherData(ours) => found.data != ours.as_bytes(),
        };
        if is_theirs {
            counted.add(party, &self.judge.fenced_by(&node)).await;
        }
        Ok(())
    }
}

/// The number at the end of a name.
fn sequence(name: &str) -> &str {
    &name[name.len().saturating_sub(10)..]
}

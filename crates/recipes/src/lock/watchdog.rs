//! Looks for deadlocks at intervals, reports them, and optionally breaks them.
//!
//! In: a root with locks below it. Out: each deadlock once, as soon as a scan finds it. A scan reads all locks twice
//! ([`super::find_deadlocks`]), so it costs as much as two listings of each lock and two reads of each of its nodes.
//!
//! Breaking a deadlock means asking one holder to release its lock, by revocation: no holder is forced. The youngest
//! holder in the cycle is asked, because as a rule it has done the least work. If the same deadlock still exists at
//! the next scan, the next one is asked, and so on. The request replaces the text that distinguishes the holder from
//! others of its session, so the texts of the last scan are kept.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use herdsman_client::Client;
use tokio::time::sleep;

use super::contender::Contender;
use super::deadlock::{find_locks, queues, read_confirmed};
use super::revocation;
use crate::error::{Error, Result};
use crate::path::{self, child};
use crate::retrying::{may_succeed_later, retrying};
use crate::wait_for::{ContenderState, Deadlock, LockQueue, Obstacle, Wait, WaitForGraph};

/// What to do about a deadlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Only report it.
    #[default]
    Report,
    /// Ask the youngest holder in the cycle to release its lock; see
    /// [`LockGuard::revocation_requested`](super::LockGuard::revocation_requested).
    RevokeYoungest,
}

/// A deadlock that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Which owners wait for which.
    pub deadlock: Deadlock,
    /// The holder that was asked to release its lock, with the path of its node.
    pub asked: Option<(String, Contender)>,
}

/// Looks for deadlocks among all locks at a path and below it.
///
/// ```no_run
/// # async fn watch(zk: herdsman_client::Client) -> herdsman_recipes::Result<()> {
/// use std::time::Duration;
/// use herdsman_recipes::lock::{DeadlockWatchdog, Remedy};
///
/// let watchdog = DeadlockWatchdog::new(&zk, "/locks")?;
/// let mut watchdog = watchdog.interval(Duration::from_secs(2)).remedy(Remedy::RevokeYoungest);
/// loop {
///     let found = watchdog.next().await?;
///     println!("{}", found.deadlock);
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct DeadlockWatchdog {
    client: Client,
    root: String,
    interval: Duration,
    remedy: Remedy,
    /// The deadlocks of the last scan.
    known: Vec<Vec<Wait>>,
    /// Nodes whose holders were asked, and that still existed at the last scan.
    asked: HashSet<String>,
    /// The owners' texts of the last scan, by path and token of the node.
    owners: HashMap<(String, u64), Bytes>,
    found: VecDeque<Found>,
    has_scanned: bool,
}

impl DeadlockWatchdog {
    /// Creates a watchdog that scans every five seconds and only reports.
    ///
    /// # Errors
    /// [`Error::Client`] if `root` is not a path.
    pub fn new(client: &Client, root: &str) -> Result<Self> {
        path::check(root)?;
        Ok(DeadlockWatchdog {
            client: retrying(client),
            root: root.to_owned(),
            interval: Duration::from_secs(5),
            remedy: Remedy::default(),
            known: Vec::new(),
            asked: HashSet::new(),
            owners: HashMap::new(),
            found: VecDeque::new(),
            has_scanned: false,
        })
    }

    /// Sets the time between two scans; at least 10 ms.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(10));
        self
    }

    /// Sets what to do about a deadlock.
    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = remedy;
        self
    }

    /// Returns the next deadlock: one that did not exist at the previous scan, or one in which another holder was
    /// asked to release its lock. Continues through lost connections, and with a managed client through lost
    /// sessions. Cancel-safe except for the time between two scans, which starts again.
    ///
    /// # Errors
    /// The client is closed or its session has ended, or the locks may not be read.
    pub async fn next(&mut self) -> Result<Found> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(found);
            }
            if self.has_scanned {
                sleep(self.interval).await;
            }
            self.has_scanned = true;
            match self.scan().await {
                Err(Error::Client(error)) if may_succeed_later(&self.client, &error) => {
                    tracing::debug!(%error, "the scan for deadlocks failed; trying again later");
                }
                scanned => scanned?,
            }
        }
    }

    async fn scan(&mut self) -> Result<()> {
        let locks = find_locks(&self.client, &self.root).await?;
        let mut lines = read_confirmed(&self.client, &locks).await?;
        self.restore_owners(&mut lines);
        let queues = queues(lines.clone());
        let paths = |(path, contenders): &(String, Vec<Contender>)| {
            contenders.iter().map(|one| child(path, &one.name)).collect::<Vec<_>>()
        };
        let present: HashSet<String> = lines.iter().flat_map(paths).collect();
        self.asked.retain(|path| present.contains(path));
        let deadlocks = WaitForGraph::new(&queues).deadlocks();
        for deadlock in &deadlocks {
            let asked = match self.remedy {
                Remedy::Report => None,
                Remedy::RevokeYoungest => self.ask(deadlock, &lines, &queues).await?,
            };
            if asked.is_some() || !self.known.contains(&deadlock.cycle) {
                self.found.push_back(Found { deadlock: deadlock.clone(), asked });
            }
        }
        self.known = deadlocks.into_iter().map(|deadlock| deadlock.cycle).collect();
        Ok(())
    }

    /// Restores the texts that were replaced by revocation requests since an earlier scan.
    fn restore_owners(&mut self, lines: &mut [(String, Vec<Contender>)]) {
        let mut owners = HashMap::new();
        for (path, contenders) in lines {
            for contender in contenders {
                let node = (child(path, &contender.name), contender.token);
                if contender.owner == revocation::REQUEST {
                    let Some(owner) = self.owners.get(&node) else {
                        continue;
                    };
                    contender.owner = owner.clone();
                }
                owners.insert(node, contender.owner.clone());
            }
        }
        self.owners = owners;
    }

    /// Asks the youngest holder of the cycle that was not asked yet.
    async fn ask(
        &mut self,
        deadlock: &Deadlock,
        lines: &[(String, Vec<Contender>)],
        queues: &[LockQueue],
    ) -> Result<Option<(String, Contender)>> {
        let holders = lines.iter().zip(queues).flat_map(|((path, contenders), queue)| {
            let named = contenders.iter().zip(&queue.contenders);
            let holders = named.filter(|(_, named)| {
                named.state == ContenderState::Holds
                    && deadlock.cycle.iter().any(|wait| {
                        let is_in_the_way =
                            wait.obstacle == Obstacle::Holder && wait.blocker == named.owner;
                        is_in_the_way && wait.path == *path
                    })
            });
            holders.map(|(contender, _)| (child(path, &contender.name), contender))
        });
        let unasked = holders.filter(|(path, _)| !self.asked.contains(path));
        let Some((path, youngest)) = unasked.max_by_key(|(_, contender)| contender.token) else {
            return Ok(None);
        };
        let youngest = youngest.clone();
        let was_there = revocation::request(&self.client, &path).await?;
        self.asked.insert(path.clone());
        Ok(was_there.then_some((path, youngest)))
    }
}

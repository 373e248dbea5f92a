//! Looks for deadlocks all the time, reports them, and breaks them if wanted.
//!
//! In: a root below which locks are. Out: each deadlock once, as soon as a look finds it. A look reads all locks twice
//! ([`super::find_deadlocks`]), so it costs as much as two listings of each lock and two reads of each of its nodes.
//!
//! Breaking a deadlock means asking one holder to let go, by revocation: nobody is forced. The youngest one in the
//! circle is asked, for it has done the least work as a rule. If the same deadlock is still there at the next
//! look, the next one is asked, and so on. The request replaces the text that tells the holder from others of its
//! session, so the texts of the last look are kept.

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
use crate::patient::patient;
use crate::wait_for::{Deadlock, LockQueue, Obstacle, Standing, Wait, WaitForGraph};

/// What is done about a deadlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Nothing.
    #[default]
    Report,
    /// The youngest holder in the circle is asked to let go; see
    /// [`LockGuard::revocation_requested`](super::LockGuard::revocation_requested).
    RevokeYoungest,
}

/// A deadlock that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Who waits for whom.
    pub deadlock: Deadlock,
    /// The holder that was asked to let go, with the path of its node.
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
    /// Those of the last look.
    known: Vec<Vec<Wait>>,
    /// Nodes whose holders were asked, and that were still there at the last look.
    asked: HashSet<String>,
    /// The owners' texts of the last look, by path and token of the node.
    owners: HashMap<(String, u64), Bytes>,
    found: VecDeque<Found>,
    has_looked: bool,
}

impl DeadlockWatchdog {
    /// Looks every five seconds, and does nothing but report.
    ///
    /// # Errors
    /// [`Error::Client`] if `root` is not a path.
    pub fn new(client: &Client, root: &str) -> Result<Self> {
        path::check(root)?;
        Ok(DeadlockWatchdog {
            client: patient(client),
            root: root.to_owned(),
            interval: Duration::from_secs(5),
            remedy: Remedy::default(),
            known: Vec::new(),
            asked: HashSet::new(),
            owners: HashMap::new(),
            found: VecDeque::new(),
            has_looked: false,
        })
    }

    /// The time between two looks; at least 10 ms.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(10));
        self
    }

    /// What is done about a deadlock.
    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = remedy;
        self
    }

    /// The next deadlock: one that was not there at the look before, or one in which another holder was asked to let
    /// go. Goes on through lost connections, and with a managed client through lost sessions. Cancel-safe but for the
    /// time between two looks, which starts again.
    ///
    /// # Errors
    /// The client is over, or the locks may not be read.
    pub async fn next(&mut self) -> Result<Found> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(found);
            }
            if self.has_looked {
                sleep(self.interval).await;
            }
            self.has_looked = true;
            match self.look().await {
                Err(error) if is_passing(&error) => tracing::debug!(%error, "looking again later"),
                looked => looked?,
            }
        }
    }

    async fn look(&mut self) -> Result<()> {
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
            if asked.is_some() || !self.known.contains(&deadlock.circle) {
                self.found.push_back(Found { deadlock: deadlock.clone(), asked });
            }
        }
        self.known = deadlocks.into_iter().map(|deadlock| deadlock.circle).collect();
        Ok(())
    }

    /// Puts back the texts that were replaced by requests to let go since an earlier look.
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

    /// Asks the youngest holder of the circle that was not asked yet.
    async fn ask(
        &mut self,
        deadlock: &Deadlock,
        lines: &[(String, Vec<Contender>)],
        queues: &[LockQueue],
    ) -> Result<Option<(String, Contender)>> {
        let holders = lines.iter().zip(queues).flat_map(|((path, contenders), queue)| {
            let named = contenders.iter().zip(&queue.contenders);
            let holders = named.filter(|(_, named)| {
                named.standing == Standing::Holds
                    && deadlock.circle.iter().any(|wait| {
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

/// The session has ended, and the client has another one.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Client(error) if error.is_retriable())
}

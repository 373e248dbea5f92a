//! Elections: one leader among candidates, distinguished from former leaders.
//!
//! In: a path and the id of a candidate. Out: a [`Leadership`], at most one of which is *effective* at any time:
//! writes through [`Leadership::fenced`] succeed only from the latest one.
//!
//! | type | for |
//! |---|---|
//! | [`Election`] | `campaign()` for a [`Leadership`]; fair, and one candidate wakes up for each change |
//! | [`Selector`] | run work while leading, again and again |
//! | [`LeaderLatch`] | be a candidate in the background, and ask whether it leads |
//! | [`Race`] | one node at a fixed path; all candidates wake up for each change |
//!
//! Layouts ([`ElectionLayout`]): Curator's `LeaderSelector` and `LeaderLatch`, kazoo's `Election`, and ZooKeeper's
//! own `LeaderElectionSupport`. All candidates of a path must use the same one. Deliberately not here: priorities. A
//! candidate with a higher priority could only overtake waiting candidates, and each would then have to watch all
//! others.

use herdsman_client::Client;

use crate::error::{Error, Result};
use crate::events::Events;
use crate::hold_options::{HoldOptions, Holder};
use crate::line::{Layout, Line, OFFER, Step};
use crate::owned_node::Incarnation;
use crate::path;
use crate::retrying::must_restart;

mod epoch;
mod events;
mod latch;
mod leadership;
mod observer;
mod race;
mod selector;

pub use epoch::{Ending, Predecessor};
pub use events::{ElectionEvent, ElectionState};
pub use latch::{CloseMode, LatchEvent, LeaderLatch};
pub use leadership::{Leadership, Term};
pub use observer::Candidate;
pub use race::Race;
pub use selector::{Requeue, Selector};

use epoch::EpochNode;
use events::{Lifecycle, Progress};

/// The layout of an election's nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionLayout {
    /// That of Curator's `LeaderSelector`, which is also that of its mutex.
    #[default]
    Selector,
    /// That of Curator's `LeaderLatch`.
    Latch,
    /// That of kazoo's `Election`, which is also that of its `Lock`.
    Kazoo,
    /// That of ZooKeeper's own `LeaderElectionSupport` (`zookeeper-recipes-election`): `n_N`, with the candidate's
    /// host name as its id. When the directory is deleted and created again, another candidate's node may get the
    /// name that a leader's node had. So each leader also writes to an epoch node (`<path>-epoch`, unless
    /// [`Election::with_epoch`] sets another), and its fence depends on that. Costs three requests for each election.
    Apache,
}

impl ElectionLayout {
    fn layout(self) -> Layout {
        match self {
            ElectionLayout::Selector | ElectionLayout::Latch => Layout::Curator,
            ElectionLayout::Kazoo => Layout::Kazoo,
            ElectionLayout::Apache => Layout::Apache,
        }
    }

    fn markers(self) -> &'static [&'static str; 1] {
        match self {
            ElectionLayout::Selector => &["lock-"],
            ElectionLayout::Latch => &["latch-"],
            ElectionLayout::Kazoo => &["__lock__"],
            ElectionLayout::Apache => &[OFFER],
        }
    }
}

/// A candidate in a fair election: the candidate that has waited longest leads next.
///
/// Waiting candidates cause no requests while there is a leader; when it leaves, only the next in line wakes up. One
/// `Election` may campaign several times, also concurrently: each campaign is a separate candidate.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let client = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::election::Election;
///
/// let election = Election::new(&client, "/app/leader", "host-1")?;
/// let leadership = election.campaign().await?;
/// assert_eq!(election.contenders().await?[0].id, "host-1");
/// // Fails and changes nothing if another candidate leads by now:
/// leadership.fenced().create("/app/state", "mine").await?;
/// leadership.resign().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    line: Line,
    marker: &'static str,
    epoch_node: Option<EpochNode>,
    lifecycle: Lifecycle,
}

impl Election {
    /// Creates a candidate with this id in the election at `path`, in the layout of Curator's `LeaderSelector`. The
    /// id is what other clients see; it need not be unique.
    pub fn new(client: &Client, path: &str, id: &str) -> Result<Self> {
        path::check_below_root("an election", path)?;
        let line = Line {
            holder: Holder::new(client, id.to_owned()),
            directory: path.to_owned(),
            layout: Layout::Curator,
            markers: &[],
        };
        let lifecycle = Lifecycle::new();
        let election = Election { line, marker: "", epoch_node: None, lifecycle };
        Ok(election.layout(ElectionLayout::default()))
    }

    /// Sets the layout of the nodes. All candidates of a path must agree on it.
    #[must_use]
    pub fn layout(mut self, layout: ElectionLayout) -> Self {
        self.line.layout = layout.layout();
        self.line.markers = layout.markers();
        self.marker = layout.markers()[0];
        self
    }

    /// Sets when a leadership counts as lost, the candidate's id (the options' owner), and the ACL of its nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.line.holder.set(options);
        self
    }

    /// Counts the leaders in a node at `path`, which also stores the last one: for stores that need a small number as
    /// a token, and for leaders that must fence off their predecessor. Costs two requests for each election. All
    /// candidates must agree on it.
    pub fn with_epoch(mut self, path: &str) -> Result<Self> {
        path::check_below_root("an election", path)?;
        self.epoch_node = Some(EpochNode { path: path.to_owned() });
        Ok(self)
    }

    /// Returns the events of this candidate from now on. A reader that falls more than 64 behind misses the oldest.
    pub fn events(&self) -> Events<ElectionEvent> {
        self.lifecycle.subscribe()
    }

    /// Returns the state of this candidate: that of the campaign that reported last, if there are several.
    #[must_use]
    pub fn state(&self) -> ElectionState {
        self.lifecycle.state()
    }

    /// Campaigns until it leads. Continues through lost connections, and with a managed client through lost sessions
    /// (from the end of the line). Dropping the future withdraws the candidate.
    pub async fn campaign(&self) -> Result<Leadership> {
        let progress = Progress::start(&self.lifecycle);
        loop {
            match self.campaign_once(&progress).await {
                Ok(leadership) => {
                    progress.leading(leadership.token());
                    return Ok(leadership);
                }
                Err(error) if must_restart(&self.line.holder.client, &error) => {}
                Err(error) => {
                    progress.failed(&error);
                    return Err(error);
                }
            }
        }
    }

    /// Campaigns once, runs `work` when it leads, and resigns. [`Error::Lost`] if the leadership was lost before the
    /// work was done; the work is then dropped at its current await point.
    pub async fn lead<T, F>(&self, work: impl FnOnce(Term) -> F) -> Result<T>
    where
        F: Future<Output = T>,
    {
        let leadership = self.campaign().await?;
        let done = leadership.run(work(leadership.term().clone())).await?;
        // The work is done. If the node could not be deleted yet, that does not undo the work, and the node is
        // deleted in the background.
        if let Err(error) = leadership.resign().await {
            tracing::debug!(%error, "the node could not be deleted on resigning; deleting it in the background");
        }
        Ok(done)
    }

    /// Returns a stream of the current leader: the present one first, then each change; `None` while there is no
    /// leader. A slow reader gets only the newest. While there is no connection the last known leader stays. Ends
    /// when the client is closed.
    ///
    /// ```
    /// # async fn example(client: herdsman_client::Client) -> herdsman_recipes::Result<()> {
    /// use herdsman_recipes::election::Election;
    ///
    /// let election = Election::new(&client, "/app/leader", "host-1")?;
    /// let mut leaders = election.observe();
    /// while let Some(leader) = leaders.next().await {
    ///     match leader {
    ///         Some(leader) => println!("{} leads with token {}", leader.id, leader.token),
    ///         None => println!("there is no leader"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn observe(&self) -> Events<Option<Candidate>> {
        observer::observe(self.line.clone())
    }

    /// Returns all candidates, the leader first.
    pub async fn contenders(&self) -> Result<Vec<Candidate>> {
        observer::candidates(&self.line).await
    }

    /// Returns the current leader, as the server knows it.
    pub async fn leader(&self) -> Result<Option<Candidate>> {
        observer::leader(&self.line).await
    }

    /// Returns the number of leaders so far; `None` if there was none yet, or without an epoch node.
    pub async fn epoch(&self) -> Result<Option<u64>> {
        let Some(epoch_node) = &self.epoch_node else {
            return Ok(None);
        };
        Ok(epoch_node.read(&self.line.holder.client).await?.map(|(record, _)| record.epoch))
    }

    async fn campaign_once(&self, progress: &Progress<'_>) -> Result<Leadership> {
        let rule = |places: &[_], ours| progress.determine(places, ours);
        let report = |step: Step<'_>| progress.step(step);
        let hold = self.line.wait_and_report(self.marker, rule, report).await?;
        let entry = match self.epoch_node() {
            Some(epoch_node) => Some(epoch_node.open_term(&hold, &self.id()).await?),
            None => None,
        };
        // A node that replaced this candidate's node before the term began was taken for this candidate's.
        if self.reuses_names() && !hold.is_there().await? {
            return Err(Error::Lost);
        }
        let hold = match &entry {
            Some(entry) => hold.with_incarnation(Incarnation {
                // Java's candidates do not write to the epoch node.
                may_be_bypassed: self.reuses_names(),
                ..entry.incarnation()
            }),
            None => hold,
        };
        let entry = entry.filter(|_| self.epoch_node.is_some());
        let (line, id) = (&self.line, self.id());
        Ok(Leadership::new(hold, id, entry.as_ref(), line.holder.lost_when, &self.lifecycle))
    }

    fn id(&self) -> String {
        String::from_utf8_lossy(&self.line.holder.owner).into_owned()
    }

    /// Returns where terms are counted. Where names are reused, only the epoch distinguishes a leader from a former
    /// one.
    fn epoch_node(&self) -> Option<EpochNode> {
        let beside = || EpochNode { path: format!("{}-epoch", self.line.directory) };
        self.epoch_node.clone().or_else(|| self.reuses_names().then(beside))
    }

    /// Returns whether another leader's node may get the name that this one's had.
    fn reuses_names(&self) -> bool {
        self.line.layout == Layout::Apache
    }
}

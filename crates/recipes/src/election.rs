//! Elections: one leader among candidates, told apart from former ones.
//!
//! In: a path and the id of a candidate. Out: a [`Leadership`], at most one of which is *effective*
//! at any time: what is written through [`Leadership::fenced`] succeeds only from the latest.
//!
//! | type | for |
//! |---|---|
//! | [`Election`] | `campaign()` for a [`Leadership`]; fair, and one candidate wakes up per change |
//! | [`Selector`] | run work while leading, again and again |
//! | [`LeaderLatch`] | be a candidate in the background, and ask whether one leads |
//! | [`Race`] | one node at a fixed path; all candidates wake up per change |
//!
//! Layouts ([`ElectionLayout`]): Curator's `LeaderSelector` and `LeaderLatch`, kazoo's `Election`, and
//! ZooKeeper's own `LeaderElectionSupport`. All candidates of a path must use the same one. Deliberately
//! not here: priorities. A candidate with a better claim could only overtake those who wait, and each
//! would then have to watch all others.

use herdsman_client::Client;

use crate::error::{Error, Result};
use crate::events::Events;
use crate::hold_options::{HoldOptions, Holder};
use crate::line::{Layout, Line, OFFER, Step};
use crate::owned_node::Incarnation;
use crate::path;
use crate::patient::begins_again;

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

use epoch::Ledger;
use events::{Lifecycle, Progress};

/// Whose nodes an election uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionLayout {
    /// Those of Curator's `LeaderSelector`, which are also those of its mutex.
    #[default]
    Selector,
    /// Those of Curator's `LeaderLatch`.
    Latch,
    /// Those of kazoo's `Election`, which are also those of its `Lock`.
    Kazoo,
    /// Those of ZooKeeper's own `LeaderElectionSupport` (`zookeeper-recipes-election`): `n_N`, with the
    /// candidate's host name as its id. When the directory is deleted and made again, another's node gets
    /// the name that a leader's had. So each leader also writes to an epoch node (`<path>-epoch`, unless
    /// [`Election::with_epoch`] names one), and its fence depends on that. Costs three requests per
    /// election.
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

/// A candidate in a fair election: whoever has waited longest leads next.
///
/// The leader costs nothing to those who wait; when it goes, only the next in line wakes up. One
/// `Election` may campaign several times, also at once: each campaign is a candidate of its own.
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
/// // Fails instead of doing harm if another leads by now:
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
    ledger: Option<Ledger>,
    lifecycle: Lifecycle,
}

impl Election {
    /// A candidate of this id in the election at `path`, in the layout of Curator's
    /// `LeaderSelector`. The id is what others see of it; it need not be unique.
    pub fn new(client: &Client, path: &str, id: &str) -> Result<Self> {
        path::check_below_root("an election", path)?;
        let line = Line {
            holder: Holder::new(client, id.to_owned()),
            directory: path.to_owned(),
            layout: Layout::Curator,
            markers: &[],
        };
        let lifecycle = Lifecycle::new();
        let election = Election { line, marker: "", ledger: None, lifecycle };
        Ok(election.layout(ElectionLayout::default()))
    }

    /// Whose nodes to use. All candidates of a path must agree on it.
    #[must_use]
    pub fn layout(mut self, layout: ElectionLayout) -> Self {
        self.line.layout = layout.layout();
        self.line.markers = layout.markers();
        self.marker = layout.markers()[0];
        self
    }

    /// When a leadership counts as lost, the candidate's id (the options' owner), and the ACL of its nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.line.holder.set(options);
        self
    }

    /// Counts the leaders in a node at `path`, which also remembers the last one: for stores that
    /// want a small number as a token, and for those who must fence off their predecessor. Costs two
    /// requests per election. All candidates must agree on it.
    pub fn with_epoch(mut self, path: &str) -> Result<Self> {
        path::check_below_root("an election", path)?;
        self.ledger = Some(Ledger { path: path.to_owned() });
        Ok(self)
    }

    /// The events of this candidate from now on. A reader that falls more than 64 behind misses the oldest.
    pub fn events(&self) -> Events<ElectionEvent> {
        self.lifecycle.subscribe()
    }

    /// The state of this candidate: of the campaign that has reported last, if there are several.
    #[must_use]
    pub fn state(&self) -> ElectionState {
        self.lifecycle.state()
    }

    /// Stands for election until it leads. Goes on through lost connections, and with a managed
    /// client through lost sessions (at the end of the line). Dropping the future withdraws the
    /// candidate.
    pub async fn campaign(&self) -> Result<Leadership> {
        let progress = Progress::start(&self.lifecycle);
        loop {
            match self.campaign_once(&progress).await {
                Ok(leadership) => {
                    progress.leading(leadership.token());
                    return Ok(leadership);
                }
                Err(error) if begins_again(&self.line.holder.client, &error) => {}
                Err(error) => {
                    progress.failed(&error);
                    return Err(error);
                }
            }
        }
    }

    /// Stands for election once, runs `work` when it leads, and resigns. [`Error::Lost`] if the
    /// leadership was lost before the work was done; the work is dropped where it stands then.
    pub async fn lead<T, F>(&self, work: impl FnOnce(Term) -> F) -> Result<T>
    where
        F: Future<Output = T>,
    {
        let leadership = self.campaign().await?;
        let done = leadership.run(work(leadership.term().clone())).await?;
        // The work is done; that the node could not be deleted yet does not undo it, and it is
        // deleted in the background.
        if let Err(error) = leadership.resign().await {
            tracing::debug!(%error, "resigned without an answer");
        }
        Ok(done)
    }

    /// A stream of the leader of the moment: the present one first, then each change; `None` when nobody
    /// leads. A slow reader gets the newest only. While there is no connection the last known leader
    /// stands. Ends when the client is closed.
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
    ///         None => println!("nobody leads"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn observe(&self) -> Events<Option<Candidate>> {
        observer::observe(self.line.clone())
    }

    /// All candidates, the leader first.
    pub async fn contenders(&self) -> Result<Vec<Candidate>> {
        observer::candidates(&self.line).await
    }

    /// Who leads at present, as the server knows it.
    pub async fn leader(&self) -> Result<Option<Candidate>> {
        observer::leader(&self.line).await
    }

    /// The number of leaders so far; `None` if there was none yet, or without an epoch node.
    pub async fn epoch(&self) -> Result<Option<u64>> {
        let Some(ledger) = &self.ledger else {
            return Ok(None);
        };
        Ok(ledger.read(&self.line.holder.client).await?.map(|(record, _)| record.epoch))
    }

    async fn campaign_once(&self, progress: &Progress<'_>) -> Result<Leadership> {
        let rule = |places: &[_], ours| progress.determine(places, ours);
        let report = |step: Step<'_>| progress.step(step);
        let hold = self.line.wait_and_report(self.marker, rule, report).await?;
        let entry = match self.ledger() {
            Some(ledger) => Some(ledger.open_term(&hold, &self.id()).await?),
            None => None,
        };
        // A node that took the place of ours before the term began has passed for ours.
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
        let entry = entry.filter(|_| self.ledger.is_some());
        let (line, id) = (&self.line, self.id());
        Ok(Leadership::new(hold, id, entry.as_ref(), line.holder.lost_when, &self.lifecycle))
    }

    fn id(&self) -> String {
        String::from_utf8_lossy(&self.line.holder.owner).into_owned()
    }

    /// Where terms are counted. Where names are reused, only the epoch tells a leader from a former one.
    fn ledger(&self) -> Option<Ledger> {
        let beside = || Ledger { path: format!("{}-epoch", self.line.directory) };
        self.ledger.clone().or_else(|| self.reuses_names().then(beside))
    }

    /// Whether the node of another leader may get the name that ours had.
    fn reuses_names(&self) -> bool {
        self.line.layout == Layout::Apache
    }
}

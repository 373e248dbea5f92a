//! A candidate in the background, which can be asked whether it leads.
//!
//! In: an election. Out: a flag, a future and a stream that report gains and losses of the leadership. A task
//! campaigns again whenever a term has ended, until it is closed. If only the connection was lost, and the node still
//! exists after the reconnect, the same term continues: no other candidate has led meanwhile.
//!
//! Invariants: it leads only with a node of its current session (a node left by an earlier session counts as another
//! candidate's); at most one of its nodes in the line is not about to be deleted.
//!
//! Curator: `LeaderLatch`, whose nodes are used unless the election sets another layout.

use herdsman_client::{Client, ErrorKind};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::events::EventSender;
use super::{Candidate, Election, ElectionLayout, Leadership, Term};
use crate::error::{Error, Result};
use crate::events::Events;

/// A change of a latch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LatchEvent {
    /// It leads. After a lost connection it may be the same term again.
    Gained(Term),
    /// It no longer leads, or cannot be sure that it does.
    Lost,
}

/// Whether the end of a latch counts as a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseMode {
    /// The streams end without an event.
    #[default]
    Silent,
    /// If it led, the streams report [`LatchEvent::Lost`] before they end.
    NotifyLost,
}

/// A candidate in the background. Dropping it withdraws the candidate, as [`LeaderLatch::close`]
/// does.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let client = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::election::{CloseMode, LeaderLatch};
///
/// let latch = LeaderLatch::start(&client, "/app/latch", "host-1")?;
/// let term = latch.wait_for_leadership().await?;
/// assert!(latch.has_leadership());
/// term.fenced().create("/app/state", "mine").await?;
/// latch.close(CloseMode::Silent).await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the candidate withdraws when this is dropped"]
pub struct LeaderLatch {
    election: Election,
    state: watch::Receiver<LatchState>,
    events: EventSender<LatchEvent>,
    closing: oneshot::Sender<CloseMode>,
    task: JoinHandle<Result<()>>,
}

/// The state of a latch.
#[derive(Clone, Debug)]
enum LatchState {
    Waiting,
    Leading(Term),
    Failed(Error),
}

impl LeaderLatch {
    /// Starts a candidate with this id at `path`, in Curator's layout.
    pub fn start(client: &Client, path: &str, id: &str) -> Result<Self> {
        let election = Election::new(client, path, id)?.layout(ElectionLayout::Latch);
        Ok(Self::of(election))
    }

    /// Starts a candidate in this election, with its layout and options.
    pub fn of(election: Election) -> Self {
        let (sender, state) = watch::channel(LatchState::Waiting);
        let (closing, closed) = oneshot::channel();
        let events = EventSender::new();
        let candidacy =
            Candidacy { election: election.clone(), state: sender, events: events.clone() };
        let task = election.line.holder.client.spawn(candidacy.run(closed));
        LeaderLatch { election, state, events, closing, task }
    }

    /// Returns whether, as far as this process can know, it leads. Does not ask the server.
    #[must_use]
    pub fn has_leadership(&self) -> bool {
        matches!(&*self.state.borrow(), LatchState::Leading(term) if term.is_trusted())
    }

    /// Returns the term in which it leads, if it does.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        match &*self.state.borrow() {
            LatchState::Leading(term) if term.is_trusted() => Some(term.clone()),
            _ => None,
        }
    }

    /// Waits until it leads. Fails if it never will: the client is closed, or an ACL forbids it. Cancel-safe.
    pub async fn wait_for_leadership(&self) -> Result<Term> {
        let mut state = self.state.clone();
        let reached = state.wait_for(|now| !matches!(now, LatchState::Waiting)).await;
        match reached.as_deref() {
            Ok(LatchState::Leading(term)) => Ok(term.clone()),
            Ok(LatchState::Failed(error)) => Err(error.clone()),
            Ok(LatchState::Waiting) | Err(_) => {
                Err(herdsman_client::Error::not_applied(ErrorKind::Closed).into())
            }
        }
    }

    /// Returns every gain and loss from now on. A reader that falls more than 64 behind misses the oldest.
    pub fn events(&self) -> Events<LatchEvent> {
        self.events.subscribe()
    }

    /// Returns the current leader, as the server knows it.
    pub async fn leader(&self) -> Result<Option<Candidate>> {
        self.election.leader().await
    }

    /// Returns all candidates, the leader first.
    pub async fn participants(&self) -> Result<Vec<Candidate>> {
        self.election.contenders().await
    }

    /// Withdraws, and waits until that has begun: a leader's node is deleted when this returns, a waiting candidate's
    /// is deleted in the background.
    pub async fn close(self, mode: CloseMode) -> Result<()> {
        // If the task has ended already, there is nothing to close.
        let _ = self.closing.send(mode);
        self.task.await.unwrap_or(Ok(()))
    }
}

/// The background task of a latch.
struct Candidacy {
    election: Election,
    state: watch::Sender<LatchState>,
    events: EventSender<LatchEvent>,
}

impl Candidacy {
    async fn run(self, mut closed: oneshot::Receiver<CloseMode>) -> Result<()> {
        loop {
            let campaign = tokio::select! {
                campaign = self.election.campaign() => campaign,
                _ = &mut closed => return Ok(()),
            };
            let leadership = match campaign {
                Ok(leadership) => leadership,
                Err(error) => {
                    self.state.send_replace(LatchState::Failed(error));
                    // Waiters get the reason; closing is not a failure.
                    return Ok(());
                }
            };
            let mode = tokio::select! {
                () = self.serve(&leadership) => continue,
                mode = &mut closed => mode.unwrap_or_default(),
            };
            return self.step_down(leadership, mode).await;
        }
    }

    /// Keeps the leadership until the term has ended for good.
    async fn serve(&self, leadership: &Leadership) {
        loop {
            let term = leadership.term().clone();
            self.state.send_replace(LatchState::Leading(term.clone()));
            self.events.publish(LatchEvent::Gained(term));
            leadership.lost().await;
            self.state.send_replace(LatchState::Waiting);
            self.events.publish(LatchEvent::Lost);
            if !leadership.regained().await {
                return;
            }
        }
    }

    async fn step_down(&self, leadership: Leadership, mode: CloseMode) -> Result<()> {
        let led = matches!(self.state.send_replace(LatchState::Waiting), LatchState::Leading(_));
        if led && mode == CloseMode::NotifyLost {
            self.events.publish(LatchEvent::Lost);
        }
        leadership.resign().await
    }
}

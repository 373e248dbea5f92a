//! Leadership: a guard for a term, and the facts of that term.
//!
//! In: a node that won. Out: whether the leadership can still be trusted, its token, a client whose writes fail when
//! it has ended, and its release. Deliberately not here: how it was won.

use std::ops::Deref;
use std::sync::Arc;

use herdsman_client::{ConnectionState, Fenced, Session};

use super::epoch::{Entry, Predecessor};
use super::events::{Lifecycle, TermEvents};
use crate::error::Result;
use crate::guard::{Guard, run_until};
use crate::hold::Hold;
use crate::hold_options::LostWhen;
use crate::retrying::retrying;

/// The facts of one term; cheap to clone. Keeping one does not keep the leadership.
#[derive(Clone, Debug)]
pub struct Term {
    facts: Arc<Facts>,
}

/// The content of a [`Term`].
#[derive(Debug)]
struct Facts {
    id: String,
    node: String,
    token: u64,
    epoch: Option<u64>,
    predecessor: Option<Predecessor>,
    fence: Fenced,
    session: Session,
    lost_when: LostWhen,
}

impl Term {
    fn new(facts: Facts) -> Self {
        Term { facts: Arc::new(facts) }
    }

    /// Returns the id of the leader.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.facts.id
    }

    /// Returns the path of the leader's node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.facts.node
    }

    /// Returns a number that only grows from leader to leader: the position of the node's creation in the order of
    /// all changes. A store that rejects tokens below the highest it has seen is safe from leaders that do not know
    /// yet that they have been deposed.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.facts.token
    }

    /// Returns how many leaders there were, including this one; `None` without an epoch node.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        self.facts.epoch
    }

    /// Returns the previous leader, as the epoch node has it; `None` for the first, or without an epoch node.
    #[must_use]
    pub fn predecessor(&self) -> Option<&Predecessor> {
        self.facts.predecessor.as_ref()
    }

    /// Returns a client whose writes fail with [`ErrorKind::Deposed`] once the term has ended.
    ///
    /// [`ErrorKind::Deposed`]: herdsman_client::ErrorKind::Deposed
    #[must_use]
    pub fn fenced(&self) -> Fenced {
        self.facts.fence.clone()
    }

    /// Returns the session that the term depends on.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.facts.session
    }

    /// Returns whether the state of the session allows trusting the term at this moment. Does not ask the server, and
    /// does not know whether the leader has resigned.
    pub(super) fn is_trusted(&self) -> bool {
        self.facts.lost_when.trusts(&self.facts.session)
    }
}

/// Leadership; see [`Hold`] for all that it can do. Dropping it resigns in the background; [`Leadership::resign`]
/// waits for that.
///
/// There is always a delay between the loss of a session and the moment the client learns of it. During it a leader
/// wrongly believes that it leads; only what carries its [token](Hold::token), or is written through
/// [`fenced`](Hold::fenced), is safe then.
///
/// ```
/// # async fn example(client: herdsman_client::Client) -> herdsman_recipes::Result<()> {
/// use herdsman_recipes::election::Election;
///
/// let election = Election::new(&client, "/app/leader", "host-1")?;
/// let leadership = election.campaign().await?;
/// let done = leadership.run(async {
///     leadership.fenced().set("/app/state", "led by host-1").await
/// });
/// done.await??;
/// leadership.resign().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the leader resigns when this is dropped"]
pub struct Leadership {
    hold: Hold,
    term: Term,
    term_events: TermEvents,
}

impl Leadership {
    pub(super) fn new(
        hold: Hold,
        id: String,
        entry: Option<&Entry>,
        lost_when: LostWhen,
        lifecycle: &Lifecycle,
    ) -> Self {
        let term = Term::new(Facts {
            id,
            node: hold.path().to_owned(),
            token: hold.token(),
            epoch: entry.map(|entry| entry.record.epoch),
            predecessor: entry.and_then(|entry| entry.predecessor.clone()),
            fence: hold.fenced(),
            session: hold.session().clone(),
            lost_when,
        });
        Leadership { hold, term, term_events: TermEvents::new(lifecycle) }
    }

    /// Returns the facts of this term, to keep or to pass on.
    #[must_use]
    pub fn term(&self) -> &Term {
        &self.term
    }

    /// See [`Term::epoch`].
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        self.term.epoch()
    }

    /// See [`Term::predecessor`].
    #[must_use]
    pub fn predecessor(&self) -> Option<&Predecessor> {
        self.term.predecessor()
    }

    /// Resolves when it can no longer be trusted: the connection or session is lost, depending on [`LostWhen`], or
    /// the node was deleted. Cancel-safe; costs a watch while awaited.
    pub async fn lost(&self) {
        self.hold.lost().await;
        self.term_events.lost(self.token());
    }

    /// Returns, after a loss, whether it turned out that no other candidate has led since. Waits until the connection
    /// is restored, then checks whether the node still exists: `true` means that the same term continues, `false`
    /// that it has ended.
    pub async fn regained(&self) -> bool {
        let is_known =
            |state: ConnectionState| state == ConnectionState::Connected || state.is_final();
        if self.term.session().wait_for(is_known).await.is_final() {
            return false;
        }
        // This may be a different server, which is behind.
        let is_in_sync = retrying(self.hold.client()).sync(self.hold.path()).await.is_ok();
        let is_still_held = is_in_sync && self.hold.is_there().await.unwrap_or(false);
        if is_still_held {
            self.term_events.regained();
        }
        is_still_held
    }

    /// Runs `work` while it leads: [`Error::Lost`] if the leadership was lost before the work was done; the work is
    /// then dropped at its current await point.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        run_until(self.lost(), work).await
    }

    /// Releases the leadership, and waits until the server has confirmed it, through an outage if necessary. If the
    /// future is dropped, this continues in the background.
    ///
    /// [`Error::Lost`] means that it did not lead any more; it is certainly released now.
    pub async fn resign(self) -> Result<()> {
        let Leadership { hold, mut term_events, .. } = self;
        term_events.stopping();
        hold.release().await
    }
}

impl Deref for Leadership {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl Guard for Leadership {
    fn hold(&self) -> &Hold {
        &self.hold
    }

    async fn release(self) -> Result<()> {
        self.resign().await
    }

    async fn lost(&self) {
        Leadership::lost(self).await;
    }
}

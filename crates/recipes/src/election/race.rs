//! The simple election: the candidate that creates the one node leads, and all others watch it.
//!
//! In: a path and an id. Out: a [`Leadership`]. When the leader leaves, *all* candidates wake up and try at once (a
//! herd effect): suitable for a few candidates, or where the node must have a fixed name for others to read.
//! [`Election`](super::Election) wakes only one.
//!
//! Layout: the leader's node, ephemeral, with the leader's id as data; beside it the epoch node (see
//! [`Race::epoch_at`]), raised in the same transaction. A name that all leaders share does not identify its holder,
//! so a former leader is fenced off by the epoch, which is therefore not optional here. Programs that only create the
//! node can take part, but do not raise the epoch.

use herdsman_client::{
    Client, Created, ErrorKind, EventType, Lifetime, Op, OpResult, Optional, Outcome, Session,
};
use uuid::Uuid;

use super::epoch::{Entry, EpochNode};
use super::events::{ElectionEvent, ElectionState, Lifecycle, Progress};
use super::leadership::Leadership;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::hold::Hold;
use crate::hold_options::{HoldOptions, Holder};
use crate::path;
use crate::retrying::{must_restart, retrying};

/// A candidate for leadership through one node at a fixed path.
///
/// ```
/// # async fn example(client: herdsman_client::Client) -> herdsman_recipes::Result<()> {
/// use herdsman_recipes::election::Race;
///
/// let race = Race::new(&client, "/app/master", "host-1")?;
/// let leadership = race.campaign().await?;
/// println!("master number {:?}", leadership.epoch());
/// leadership.resign().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Race {
    holder: Holder,
    path: String,
    epoch_node: EpochNode,
    lifecycle: Lifecycle,
}

impl Race {
    /// Creates a candidate with this id for the node at `path`. The epoch node is `<path>-epoch`.
    pub fn new(client: &Client, path: &str, id: &str) -> Result<Self> {
        path::check_below_root("an election", path)?;
        Ok(Race {
            holder: Holder::new(client, id.to_owned()),
            path: path.to_owned(),
            epoch_node: EpochNode { path: format!("{path}-epoch") },
            lifecycle: Lifecycle::new(),
        })
    }

    /// Sets another path for the epoch node. All candidates must agree on it.
    pub fn epoch_at(mut self, path: &str) -> Result<Self> {
        path::check_below_root("an election", path)?;
        if path == self.path {
            return Err(Error::invalid(
                "the epoch node and the leader's node need different paths",
            ));
        }
        path.clone_into(&mut self.epoch_node.path);
        Ok(self)
    }

    /// Sets when a leadership counts as lost, the candidate's id (the options' owner), and the ACL of its nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.holder.set(options);
        self
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

    /// Waits until the node does not exist and this candidate has created it. Continues through lost connections, and
    /// with a managed client through lost sessions. A node that this process left behind in an earlier session counts
    /// as another candidate's, and is waited for. Dropping the future withdraws the candidate.
    pub async fn campaign(&self) -> Result<Leadership> {
        let progress = Progress::start(&self.lifecycle);
        loop {
            match self.campaign_in_session().await {
                Ok((hold, entry)) => {
                    let (id, lost_when) = (self.id(), self.holder.lost_when);
                    let leadership =
                        Leadership::new(hold, id, Some(&entry), lost_when, &self.lifecycle);
                    progress.leading(leadership.token());
                    return Ok(leadership);
                }
                Err(error) if must_restart(&self.holder.client, &error) => {}
                Err(error) => {
                    progress.failed(&error);
                    return Err(error);
                }
            }
        }
    }

    async fn campaign_in_session(&self) -> Result<(Hold, Entry)> {
        let session = self.holder.client.connected_session().await?;
        let client = retrying(&self.holder.client.bound_to(&session));
        loop {
            self.wait_until_free(&client).await?;
            if let Some(won) = self.attempt(&session).await? {
                return Ok(won);
            }
        }
    }

    async fn wait_until_free(&self, client: &Client) -> Result<()> {
        loop {
            let Some((_, watch)) = client.get(&self.path).watch().await.optional()? else {
                return Ok(());
            };
            if watch.await?.kind == EventType::NodeDeleted {
                return Ok(());
            }
        }
    }

    /// Makes one attempt, which runs to its end even if the caller no longer waits: a node that it creates and that
    /// is not received is deleted again.
    async fn attempt(&self, session: &Session) -> Result<Option<(Hold, Entry)>> {
        let (race, session) = (self.clone(), session.clone());
        let attempt = async move { race.try_to_win(&session).await };
        // A hold that is not received is dropped, and thereby released.
        self.holder.client.spawn(attempt).await.unwrap_or(Err(Error::Lost))
    }

    /// Tries to create the node. `None` if another candidate was faster.
    async fn try_to_win(&self, session: &Session) -> Result<Option<(Hold, Entry)>> {
        let bound = self.holder.client.bound_to(session);
        let client = retrying(&bound);
        let holder = Uuid::new_v4().to_string();
        loop {
            let stored = self.epoch_node.read(&client).await?;
            let (op, entry) = self.epoch_node.next(&stored, &holder, &self.id());
            let error = match client.transaction([op, self.creation()]).await {
                Ok(results) => {
                    return self.leadership_of(&bound, session, created(results)?, entry);
                }
                Err(error) => error,
            };
            let is_unknown = error.outcome() == Outcome::Unknown;
            match (error.failed_op(), error.kind()) {
                (Some(1), ErrorKind::NodeExists) => return Ok(None),
                (Some(1), ErrorKind::NoNode) => self.make_parents(&client).await?,
                _ => self.epoch_node.recover(&client, error).await?,
            }
            if is_unknown && let Some(created) = self.find_created(&client, &entry).await? {
                return self.leadership_of(&bound, session, created, entry);
            }
        }
    }

    fn id(&self) -> String {
        String::from_utf8_lossy(&self.holder.owner).into_owned()
    }

    fn creation(&self) -> Op {
        Op::create(&self.path, self.holder.owner.clone()).ephemeral()
    }

    async fn make_parents(&self, client: &Client) -> Result<()> {
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        Ok(client
            .ensure(if parent.is_empty() { "/" } else { parent }, Lifetime::Persistent)
            .await?)
    }

    /// Returns the node that a transaction created whose reply was lost: the one that was created together with this
    /// candidate's entry.
    async fn find_created(&self, client: &Client, entry: &Entry) -> Result<Option<Created>> {
        let Some((record, epoch)) = self.epoch_node.read(client).await? else {
            return Ok(None);
        };
        let stat = client.exists(&self.path).await?;
        let ours = stat.filter(|stat| record == entry.record && stat.czxid == epoch.mzxid);
        Ok(ours.map(|stat| Created { path: self.path.clone(), stat }))
    }

    fn leadership_of(
        &self,
        client: &Client,
        session: &Session,
        created: Created,
        entry: Entry,
    ) -> Result<Option<(Hold, Entry)>> {
        let owner = created.stat.ephemeral_owner;
        let (client, session) = (client.clone(), session.clone());
        let (is_ours, lost_when) = (owner == session.id().0, self.holder.lost_when);
        let hold = Hold::of_incarnation(client, session, created, entry.incarnation(), lost_when);
        match is_ours {
            true => Ok(Some((hold, entry))),
            false => Err(Error::Lost),
        }
    }
}

/// Returns the leader's node from the results of the transaction that created it.
fn created(results: Vec<OpResult>) -> Result<Created> {
    let last = results.into_iter().next_back();
    match last {
        Some(OpResult::Created(created)) => Ok(created),
        _ => Err(Error::Lost),
    }
}

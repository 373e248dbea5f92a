//! A waiting line of ephemeral sequential nodes: the basis of fair locks, semaphores and elections.
//!
//! In: a directory, a name, and a rule that says which node another one waits for. Out: a [`Hold`] when it is this
//! node's turn. Each waiter watches only the node that the rule names, so the deletion of a node wakes only the
//! waiters for that node.
//!
//! Invariants: a node is taken for ours only if its owner is our session; a waiter that gives up, for whatever
//! reason, leaves no node behind. A waiter that loses its session starts again at the end of the line. Children that
//! are not of the recipe are ignored.
//!
//! Layouts: Curator's (`_c_<uuid>-<name><sequence>`, parents as containers), kazoo's (`<uuid><name><sequence>`) and
//! those of ZooKeeper's own recipes, whose names cannot contain a unique id. Curator: `LockInternals`.

pub(crate) mod creation;
mod names;

use herdsman_client::{Client, EventType, Lifetime, Optional, Session};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::hold_options::Holder;
use crate::retrying::{must_restart, retrying};
use creation::Creation;

pub(crate) use names::{OFFER, READ_LOCK, WRITE_LOCK, place_in};

/// The layout of a line's nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Curator's.
    #[default]
    Curator,
    /// kazoo's.
    Kazoo,
    /// That of ZooKeeper's own `WriteLock` (`zookeeper-recipes-lock`, Java and C).
    Apache,
}

/// A place in a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) sequence: i32,
    pub(crate) name: String,
    /// The line's marker that the name contains.
    pub(crate) marker: &'static str,
}

/// Whose turn it is, from the point of view of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Ours.
    Ours,
    /// Not before the node of this name has been deleted.
    After(String),
}

/// A line; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) holder: Holder,
    pub(crate) directory: String,
    pub(crate) layout: Layout,
    /// The markers of all nodes in the line.
    pub(crate) markers: &'static [&'static str],
}

/// A step of a waiter, to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'n> {
    /// It is about to create its node.
    Joining,
    /// It has created its node, which has this name.
    Joined(&'n str),
    /// It is about to read which nodes are in the line.
    Looking,
    /// It watches the node of this name.
    Watching(&'n str),
}

/// The rule of an exclusive line: wait for the node right before this one.
pub(crate) fn after_predecessor(places: &[Place], ours: usize) -> Turn {
    match places[..ours].last() {
        Some(place) => Turn::After(place.name.clone()),
        None => Turn::Ours,
    }
}

impl Line {
    /// Waits in the line until it is our turn. Dropping the future leaves the line.
    pub(crate) async fn wait(
        &self,
        marker: &'static str,
        rule: impl Fn(&[Place], usize) -> Turn,
    ) -> Result<Hold> {
        self.wait_and_report(marker, rule, |_| {}).await
    }

    /// Does the same, and reports each step.
    pub(crate) async fn wait_and_report(
        &self,
        marker: &'static str,
        rule: impl Fn(&[Place], usize) -> Turn,
        report: impl Fn(Step<'_>),
    ) -> Result<Hold> {
        loop {
            let session = self.holder.client.connected_session().await?;
            report(Step::Joining);
            let hold = match self.join(&session, marker).await {
                Err(error) if must_restart(&self.holder.client, &error) => continue,
                joined => joined?,
            };
            report(Step::Joined(hold.name()));
            match self.turn_of(&hold, &rule, &report).await {
                Ok(WaitResult::Turn) => return Ok(hold),
                // Our node was deleted, or the session has ended: start again.
                Ok(WaitResult::NotInLine) => {}
                Err(error) if must_restart(&self.holder.client, &error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Joins the line only if it need not wait.
    ///
    /// It reads the line before it joins: a node that joins and leaves again would wake the one behind it for
    /// nothing.
    pub(crate) async fn try_now(
        &self,
        marker: &'static str,
        rule: impl Fn(&[Place], usize) -> Turn,
    ) -> Result<Option<Hold>> {
        loop {
            match self.try_in_session(marker, &rule).await {
                Err(error) if must_restart(&self.holder.client, &error) => {}
                tried => return tried,
            }
        }
    }

    async fn try_in_session(
        &self,
        marker: &'static str,
        rule: &impl Fn(&[Place], usize) -> Turn,
    ) -> Result<Option<Hold>> {
        let session = self.holder.client.connected_session().await?;
        let client = retrying(&self.holder.client.bound_to(&session));
        // The server may be behind changes by other clients of which the caller knows.
        let synced = client.sync(&self.directory).send();
        let mut places = self.places(&client).await?;
        synced.await?;
        places.push(Place { sequence: i32::MAX, name: String::new(), marker });
        if rule(&places, places.len() - 1) != Turn::Ours {
            return Ok(None);
        }
        let hold = self.join(&session, marker).await?;
        let places = self.places_with(&client, &hold).await?.ok_or(Error::Lost)?;
        let ours = places.iter().position(|place| place.name == hold.name());
        match ours.map(|ours| rule(&places, ours)) {
            Some(Turn::Ours) => Ok(Some(hold)),
            Some(Turn::After(_)) => hold.release().await.map(|()| None),
            None => Err(Error::Lost),
        }
    }

    /// Returns all places in the line, in order.
    pub(crate) async fn places(&self, client: &Client) -> Result<Vec<Place>> {
        let Some(children) = client.children(&self.directory).await.optional()? else {
            return Ok(Vec::new());
        };
        Ok(self.in_order(children.names))
    }

    /// Returns the places of the line's nodes, in order.
    pub(crate) fn in_order(&self, names: Vec<String>) -> Vec<Place> {
        let mut places: Vec<_> = names.into_iter().filter_map(|name| self.place(name)).collect();
        places.sort();
        places
    }

    /// Returns the path of a node of this line.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.trim_end_matches('/'))
    }

    fn place(&self, name: String) -> Option<Place> {
        place_in(name, self.markers)
    }

    /// Creates our node, at the end of the line.
    pub(crate) async fn join(&self, session: &Session, marker: &str) -> Result<Hold> {
        let client = self.holder.client.bound_to(session);
        let create = retrying(&client)
            .create(&self.path(marker), self.holder.owner.clone())
            .ephemeral()
            .sequential();
        let create = match self.layout {
            Layout::Curator => create.container_parents().protected(),
            Layout::Kazoo => create.parents().protected_by(Uuid::new_v4().simple().to_string()),
            Layout::Apache => return self.join_exactly_once(session, marker).await,
        };
        let created = create.await?;
        let hold = Hold::new(client, session.clone(), created.clone(), self.holder.lost_when);
        if created.stat.ephemeral_owner != session.id().0 {
            return Err(Error::Lost);
        }
        Ok(hold)
    }

    /// Creates our node under a name that other contenders of the same session may use as well. Runs to its end even
    /// if the caller no longer waits: then the created node is deleted.
    async fn join_exactly_once(&self, session: &Session, marker: &str) -> Result<Hold> {
        let client = self.holder.client.bound_to(session);
        let creation = Creation {
            client: retrying(&client),
            session: session.clone(),
            directory: self.directory.clone(),
            receipts_beside: self.directory.clone(),
            // Programs that use ZooKeeper's recipes expect the directory to be permanent.
            directory_lifetime: Lifetime::Persistent,
            prefix: names::prefix(marker, session.id().0),
            data: self.holder.owner.clone(),
            acl: None,
        };
        let (session, lost_when) = (session.clone(), self.holder.lost_when);
        let join = async move {
            let created = creation.run(|| true).await?;
            Ok(Hold::at_reused_path(client, session, &created, lost_when))
        };
        // A hold that is not received is dropped, and its node deleted.
        self.holder.client.spawn(join).await.unwrap_or(Err(Error::Lost))
    }

    pub(crate) async fn wait_for_turn(
        &self,
        hold: &Hold,
        rule: &impl Fn(&[Place], usize) -> Turn,
    ) -> Result<WaitResult> {
        self.turn_of(hold, rule, &|_| {}).await
    }

    async fn turn_of(
        &self,
        hold: &Hold,
        rule: &impl Fn(&[Place], usize) -> Turn,
        report: &impl Fn(Step<'_>),
    ) -> Result<WaitResult> {
        let retrying = retrying(hold.client());
        loop {
            report(Step::Looking);
            let Some(places) = self.places_with(&retrying, hold).await? else {
                return Ok(WaitResult::NotInLine);
            };
            let Some(ours) = places.iter().position(|place| place.name == hold.name()) else {
                return Ok(WaitResult::NotInLine);
            };
            match rule(&places, ours) {
                Turn::Ours => return Ok(WaitResult::Turn),
                Turn::After(name) => self.wait_until_deleted(&retrying, &name, report).await?,
            }
        }
    }

    /// Returns all places in the line; `None` if the node with our name is not ours.
    async fn places_with(&self, client: &Client, hold: &Hold) -> Result<Option<Vec<Place>>> {
        // Deleting a directory resets its sequence numbers, so only a unique id makes a name safe.
        if self.layout != Layout::Apache {
            return self.places(client).await.map(Some);
        }
        // Sent together, in this order: if our node exists after the listing, it was ours in the listing.
        let own = async { client.exists(hold.path()).await };
        let (places, own) = tokio::join!(self.places(client), own);
        let is_ours = own?.is_some_and(|stat| stat.czxid == hold.czxid());
        Ok(is_ours.then_some(places?))
    }

    /// Waits until a node is deleted. Unlike a watch set by exists, one set by getData is not left behind when there
    /// is no node.
    async fn wait_until_deleted(
        &self,
        client: &Client,
        name: &str,
        report: &impl Fn(Step<'_>),
    ) -> Result<()> {
        let path = self.path(name);
        loop {
            let Some((_, watch)) = client.get(&path).watch().await.optional()? else {
                return Ok(());
            };
            report(Step::Watching(name));
            if watch.await?.kind == EventType::NodeDeleted {
                return Ok(());
            }
        }
    }
}

/// The result of waiting.
pub(crate) enum WaitResult {
    Turn,
    NotInLine,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(sequence: i32, name: &str, marker: &'static str) -> Place {
        Place { sequence, name: name.to_owned(), marker }
    }

    #[test]
    fn each_waits_for_the_one_right_before_it() {
        let places = [place(1, "b-1", "-"), place(4, "a-4", "-"), place(9, "c-9", "-")];
        assert_eq!(after_predecessor(&places, 0), Turn::Ours);
        assert_eq!(after_predecessor(&places, 1), Turn::After("b-1".to_owned()));
        assert_eq!(after_predecessor(&places, 2), Turn::After("a-4".to_owned()));
    }

    #[test]
    fn the_sequence_decides_before_names_and_markers() {
        let mut places = [place(10, "a", "x"), place(-3, "z", "y"), place(9, "b", "z")];
        places.sort();
        assert_eq!(places.map(|place| place.sequence), [-3, 9, 10]);
    }
}

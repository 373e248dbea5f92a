//! A waiting line of ephemeral sequential nodes: what fair locks, semaphores and elections stand on.
//!
//! In: a directory, a name, and a rule that says whom a node waits for. Out: a [`Hold`] when it is
//! one's turn. Each waiter watches only the node that the rule names, so a node that goes wakes
//! those who waited for it and nobody else.
//!
//! Invariants: a node is believed to be ours only if its owner is our session; a waiter that gives
//! up, for whatever reason, leaves no node behind. Whoever loses the session while waiting starts
//! again at the end of the line. Children that are not of the recipe are ignored.
//!
//! Layouts: Curator's (`_c_<uuid>-<name><sequence>`, parents as containers) and kazoo's
//! (`<uuid><name><sequence>`). Curator: `LockInternals`.

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, EventType, Session};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::hold::{Distrust, Hold, patient};
use crate::sequence::split_name;

/// Whose names a line uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Curator's.
    #[default]
    Curator,
    /// kazoo's.
    Kazoo,
}

/// A place in a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) sequence: i32,
    pub(crate) name: String,
    /// Which of the line's markers the name carries.
    pub(crate) marker: &'static str,
}

/// Whose turn it is, from the point of view of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Ours.
    Ours,
    /// Not before the node of this name has gone.
    After(String),
}

/// A line; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) directory: String,
    pub(crate) layout: Layout,
    /// Markers of all nodes that stand in the line.
    pub(crate) markers: &'static [&'static str],
    pub(crate) distrust: Distrust,
}

/// The place of a node with this name in a line whose nodes have one of these markers.
pub(crate) fn place_in(name: String, markers: &[&'static str]) -> Option<Place> {
    let fits = |marker: &&'static str| Some((split_name(&name, marker)?.sequence, *marker));
    let (sequence, marker) = markers.iter().find_map(fits)?;
    Some(Place { sequence, name, marker })
}

/// The rule of an exclusive line: after the one right before us.
pub(crate) fn after_predecessor(places: &[Place], ours: usize) -> Turn {
    match places[..ours].last() {
        Some(place) => Turn::After(place.name.clone()),
        None => Turn::Ours,
    }
}

impl Line {
    /// Stands in the line until it is our turn. Dropping the future leaves the line.
    pub(crate) async fn wait(
        &self,
        marker: &'static str,
        data: &Bytes,
        rule: impl Fn(&[Place], usize) -> Turn,
    ) -> Result<Hold> {
        loop {
            let session = self.client.connected_session().await?;
            let hold = match self.join(&session, marker, data).await {
                Err(error) if self.goes_on_after(&error) => continue,
                joined => joined?,
            };
            match self.wait_for_turn(&hold, &rule).await {
                Ok(Standing::Turn) => return Ok(hold),
                // Somebody deleted our node, or the session is over: from the start.
                Ok(Standing::NotInLine) => {}
                Err(error) if self.goes_on_after(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Stands in the line only if that means no waiting.
    ///
    /// It looks before it joins: a node that joins and leaves again would wake the one behind it for
    /// nothing.
    pub(crate) async fn try_now(
        &self,
        marker: &'static str,
        data: &Bytes,
        rule: impl Fn(&[Place], usize) -> Turn,
    ) -> Result<Option<Hold>> {
        loop {
            match self.try_in_session(marker, data, &rule).await {
                Err(error) if self.goes_on_after(&error) => {}
                tried => return tried,
            }
        }
    }

    async fn try_in_session(
        &self,
        marker: &'static str,
        data: &Bytes,
        rule: &impl Fn(&[Place], usize) -> Turn,
    ) -> Result<Option<Hold>> {
        let session = self.client.connected_session().await?;
        let client = patient(&self.client.bound_to(&session));
        // The server may be behind what others have done, and have told our caller.
        let synced = client.sync(&self.directory).send();
        let mut places = self.places(&client).await?;
        synced.await?;
        places.push(Place { sequence: i32::MAX, name: String::new(), marker });
        if rule(&places, places.len() - 1) != Turn::Ours {
            return Ok(None);
        }
        let hold = self.join(&session, marker, data).await?;
        let places = self.places(&client).await?;
        let ours = places.iter().position(|place| place.name == hold.name());
        match ours.map(|ours| rule(&places, ours)) {
            Some(Turn::Ours) => Ok(Some(hold)),
            Some(Turn::After(_)) => hold.release().await.map(|()| None),
            None => Err(Error::Lost),
        }
    }

    /// All who stand in the line, in order.
    pub(crate) async fn places(&self, client: &Client) -> Result<Vec<Place>> {
        let children = match client.children(&self.directory).await {
            Err(error) if *error.kind() == ErrorKind::NoNode => return Ok(Vec::new()),
            children => children?,
        };
        Ok(self.in_order(children.names))
    }

    /// The names of the line's nodes, in order.
    pub(crate) fn in_order(&self, names: Vec<String>) -> Vec<Place> {
        let mut places: Vec<_> = names.into_iter().filter_map(|name| self.place(name)).collect();
        places.sort();
        places
    }

    /// The path of a node of this line.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.trim_end_matches('/'))
    }

    fn place(&self, name: String) -> Option<Place> {
        place_in(name, self.markers)
    }

    /// Makes our node, at the end of the line.
    pub(crate) async fn join(&self, session: &Session, marker: &str, data: &Bytes) -> Result<Hold> {
        let client = self.client.bound_to(session);
        let create =
            patient(&client).create(&self.path(marker), data.clone()).ephemeral().sequential();
        let create = match self.layout {
            Layout::Curator => create.container_parents().protected(),
            Layout::Kazoo => create.parents().protected_by(Uuid::new_v4().simple().to_string()),
        };
        let created = create.await?;
        let hold = Hold::new(client, session.clone(), created.clone(), self.distrust);
        if created.stat.ephemeral_owner != session.id().0 {
            return Err(Error::Lost);
        }
        Ok(hold)
    }

    pub(crate) async fn wait_for_turn(
        &self,
        hold: &Hold,
        rule: &impl Fn(&[Place], usize) -> Turn,
    ) -> Result<Standing> {
        let patient = patient(hold.client());
        loop {
            let places = self.places(&patient).await?;
            let Some(ours) = places.iter().position(|place| place.name == hold.name()) else {
                return Ok(Standing::NotInLine);
            };
            match rule(&places, ours) {
                Turn::Ours => return Ok(Standing::Turn),
                Turn::After(name) => self.wait_until_gone(&patient, &name).await?,
            }
        }
    }

    /// A watch set by getData, unlike one set by exists, is not left behind when the node has gone.
    async fn wait_until_gone(&self, client: &Client, name: &str) -> Result<()> {
        let path = self.path(name);
        loop {
            let watch = match client.get(&path).watch().await {
                Err(error) if *error.kind() == ErrorKind::NoNode => return Ok(()),
                read => read?.1,
            };
            if watch.await?.kind == EventType::NodeDeleted {
                return Ok(());
            }
        }
    }

    /// Whether to stand in the line again: the session is over, but the client goes on. A lost
    /// connection says the same here: a patient client gives up a search for its node, and reports
    /// what made it search, only when the session has ended meanwhile.
    pub(crate) fn goes_on_after(&self, error: &Error) -> bool {
        let is_over = match error {
            Error::Lost => true,
            Error::Client(error) => error.is_retriable(),
            _ => false,
        };
        is_over && self.client.is_managed()
    }
}

/// What came of waiting.
pub(crate) enum Standing {
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

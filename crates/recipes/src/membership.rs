//! Group membership: the members of a group, each with some data.
//!
//! In: an id and data for each member. Out: the members as a snapshot, and as a stream of members that join, leave
//! and change. The layout is Curator's `GroupMember`: an ephemeral `<group>/<id>` with the data; the group's node is
//! a container. Anything directly below the group's node is a member.
//!
//! A member leaves when its session ends, and is put back in its program's next session or after its node was
//! deleted: it is a [`PersistentNode`]. Observers may miss intermediate states, but never the last one. While the
//! service cannot be reached they keep the last known state.
//!
//! A [`ShallowGroup`] never reads data: it makes one listing, and then only handles events. It can observe a group
//! whose members have data.

pub(crate) mod changes;
pub(crate) mod roster;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, Node, Stat};

use crate::error::Result;
use crate::events::Events;
use crate::path;
use crate::persistent_node::{OnForeignNode, PersistentNode};
use roster::{Content, Roster};

pub use changes::Change;

/// A group: a node below which each member has its own.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::membership::{Change, Group};
///
/// let group = Group::new(&zk, "/cluster")?;
/// let members = group.observe().await?;
/// let mut changes = members.changes();
///
/// let us = group.join("node-1", "10.0.0.1:7000").await?;
/// let Some(Change::Joined(member)) = changes.next().await else { panic!() };
/// assert_eq!((member.id.as_str(), &member.data[..]), ("node-1", &b"10.0.0.1:7000"[..]));
///
/// us.leave().await?;
/// assert!(matches!(changes.next().await, Some(Change::Left(_))));
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    place: Place,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id: the name of its node.
    pub id: String,
    /// Its data.
    pub data: Bytes,
    /// Its node's stat.
    pub stat: Stat,
}

impl Group {
    /// Creates a handle for the group at `path`, without any request.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Group { place: Place::new(client, path)? })
    }

    /// Sets what [`Group::join`] does when there is a member of the same id in another session. By default that is
    /// taken for a node that an earlier session of this program has left, and replaced.
    #[must_use]
    pub fn on_foreign_node(mut self, what: OnForeignNode) -> Self {
        self.place.on_foreign_node = what;
        self
    }

    /// Joins as `id`, and waits until the node exists.
    pub async fn join(&self, id: &str, data: impl Into<Bytes>) -> Result<Membership> {
        self.place.join(id, data.into()).await
    }

    /// Observes the members from now on.
    pub async fn observe(&self) -> Result<Members> {
        let read = |id: &str, node: &Node| {
            let Node { data, stat } = node.clone();
            Member { id: id.to_owned(), data, stat }
        };
        let content = Content::Data(Box::new(read));
        Ok(Members { roster: Roster::open(&self.place.client, &self.place.path, content).await? })
    }
}

/// A membership of this program. Dropping it leaves the group in the background.
#[derive(Debug)]
#[must_use = "the group is left when this is dropped"]
pub struct Membership {
    id: String,
    node: PersistentNode,
}

impl Membership {
    /// Returns the id of this member.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the node, for example to see whether it exists.
    pub fn node(&self) -> &PersistentNode {
        &self.node
    }

    /// Changes this member's data.
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<()> {
        self.node.set_data(data).await
    }

    /// Leaves the group, and waits until the node is deleted.
    pub async fn leave(self) -> Result<()> {
        self.node.close().await
    }
}

/// The members of a group, kept up to date until this and all streams of its changes are dropped.
#[derive(Clone, Debug)]
pub struct Members {
    roster: Roster<Member>,
}

impl Members {
    /// Returns the members as last seen, by id.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<String, Arc<Member>> {
        self.roster.snapshot().entries()
    }

    /// Returns every member that joins, leaves or changes from now on. A slow reader misses intermediate states,
    /// never the last one.
    pub fn changes(&self) -> Events<Change<Member>> {
        changes::changes(&self.roster)
    }
}

/// A group of which only the ids are used.
#[derive(Clone, Debug)]
pub struct ShallowGroup {
    place: Place,
}

impl ShallowGroup {
    /// Creates a handle for the group at `path`, without any request.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(ShallowGroup { place: Place::new(client, path)? })
    }

    /// See [`Group::on_foreign_node`].
    #[must_use]
    pub fn on_foreign_node(mut self, what: OnForeignNode) -> Self {
        self.place.on_foreign_node = what;
        self
    }

    /// Joins as `id`, and waits until the node exists.
    pub async fn join(&self, id: &str) -> Result<Membership> {
        self.place.join(id, Bytes::new()).await
    }

    /// Observes the ids from now on.
    pub async fn observe(&self) -> Result<Ids> {
        let content = Content::NamesOnly(Box::new(str::to_owned));
        Ok(Ids { roster: Roster::open(&self.place.client, &self.place.path, content).await? })
    }
}

/// The ids of a group's members, kept up to date until this and all streams of its changes are dropped.
#[derive(Clone, Debug)]
pub struct Ids {
    roster: Roster<String>,
}

impl Ids {
    /// Returns the ids as last seen, in order.
    #[must_use]
    pub fn snapshot(&self) -> Vec<String> {
        self.roster.snapshot().names().map(str::to_owned).collect()
    }

    /// Returns every member that joins or leaves from now on. A slow reader misses intermediate states, never the
    /// last one.
    pub fn changes(&self) -> Events<Change<String>> {
        changes::changes(&self.roster)
    }
}

/// The node of a group, and how to join it.
#[derive(Clone, Debug)]
struct Place {
    client: Client,
    path: String,
    on_foreign_node: OnForeignNode,
}

impl Place {
    fn new(client: &Client, path: &str) -> Result<Self> {
        path::check(path)?;
        let on_foreign_node = OnForeignNode::default();
        Ok(Place { client: client.clone(), path: path.to_owned(), on_foreign_node })
    }

    async fn join(&self, id: &str, data: Bytes) -> Result<Membership> {
        let path = path::child(&self.path, path::check_name("a member's id", id)?);
        let options = PersistentNode::at(&self.client, &path, data);
        let node = options.on_foreign_node(self.on_foreign_node).start()?;
        node.wait_until_present().await?;
        Ok(Membership { id: id.to_owned(), node })
    }
}

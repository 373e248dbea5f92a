//! A set of items divided among members, so that no item ever has two owners.
//!
//! In: the items, the same for all members, and an id for each member. Out: for each member a stream of the items
//! that it acquires, has to release and has lost. Shares differ by at most one, and when a member joins or leaves, no
//! more items move than necessary ([`rebalance`]).
//!
//! Layout: an ephemeral `<path>/members/<id>` for each member, and an ephemeral `<path>/owners/<item>` with
//! `{"member":"<id>","nonce":"<uuid>"}`; `members`, `owners` and the nodes above them are containers. The nonce
//! differs for each [`Partitioner`]: two with one id in one session do not take each other's nodes for their own. An
//! item belongs to the partitioner that created its owner node, and to no other until that node has been deleted:
//! there is no new owner before the former one has removed its node, or the servers have ended its session. There is
//! no coordinator: each member plans for itself from what it sees, and if they see different things for a moment, the
//! owner nodes decide.
//!
//! The two phases: a member that has too many items is asked to [`Release`] some; when it has confirmed, the owner
//! nodes are deleted, and members that have too few acquire the items.
//!
//! As with every lock there is a delay between the loss of a session and the moment the client learns of it. During
//! it a member may still work on an item that has a new owner. Each item has a token that grows from owner to owner;
//! a store that rejects lower ones is safe.
//!
//! It is modelled on kazoo's `SetPartitioner`, with another layout: there one change moves nearly all items, and all
//! members stop while they are divided.
//!
//! [`rebalance`]: crate::partition::rebalance

mod divider;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use herdsman_client::{Client, Node, Session, Zxid};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::contact::is_silent;
use crate::error::{Error, Result};
use crate::membership::roster::{Content, Roster};
use crate::messaging::envelope::from_json;
use crate::path::{self, check_name, child};
use crate::persistent_node::{OnForeignNode, PersistentNode};
use divider::{Acknowledged, Directories, Divider, Generations};
use plan::Owner;

/// Updates that wait for a slow reader. Beyond that, the member acquires nothing until they are read.
const UPDATES_MAX: usize = 8;

/// An item that this member owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The item.
    pub item: String,
    /// A number that grows from owner to owner of this item.
    pub token: u64,
}

/// A change of the items that this member owns.
#[derive(Debug)]
#[non_exhaustive]
pub enum Update {
    /// This member owns these items from now on.
    Acquired(Vec<Owned>),
    /// Other members need these: stop working on them, then confirm. This member owns them until then.
    Release(Release),
    /// This member no longer owns these items, because the session has ended or the owner nodes were deleted. Stop at
    /// once: they may have a new owner already.
    Lost(BTreeSet<String>),
}

/// Items to be released. Dropping this confirms that this member no longer works on them.
#[derive(Debug)]
#[must_use = "the items are released when this is dropped"]
pub struct Release {
    items: Generations,
    /// At most one message is sent for each `Release`, and there is at most one `Release` for each item.
    confirm: mpsc::UnboundedSender<Acknowledged>,
}

impl Release {
    /// The items.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &str> {
        self.items.keys().map(String::as_str)
    }

    /// Confirms that this member no longer works on them.
    pub fn confirm(self) {}
}

impl Drop for Release {
    fn drop(&mut self) {
        // If the partitioner was dropped, the owner nodes have been deleted.
        let _ = self.confirm.send(Acknowledged(std::mem::take(&mut self.items)));
    }
}

/// Options of a [`Partitioner`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it joins"]
pub struct PartitionerOptions {
    client: Client,
    path: String,
    member: String,
    items: Vec<String>,
    settle: Duration,
}

impl PartitionerOptions {
    /// Sets a delay: after members joined or left, the partitioner waits until there was no other such change for
    /// this long, so that items do not move several times when many programs start at once. Default 1 s.
    pub fn settle(mut self, time: Duration) -> Self {
        self.settle = time;
        self
    }

    /// Joins, and waits until that is done. An earlier session of the same member has to end first.
    pub async fn join(self) -> Result<Partitioner> {
        let (directories, items) = self.check()?;
        let roster = Roster::open(&self.client, &directories.members, owner_only()).await?;
        let owners =
            Roster::open(&self.client, &directories.owners, Content::Data(Box::new(owner_of)));
        let owners = owners.await?;
        let path = child(&directories.members, &self.member);
        let node = PersistentNode::at(&self.client, &path, "");
        // Two programs with one id must not delete each other's node.
        let node = node.on_foreign_node(OnForeignNode::Wait).start()?;
        node.wait_until_present().await?;
        let (updates, updates_seen) = mpsc::channel(UPDATES_MAX);
        let (owned, owned_seen) = watch::channel(Holdings::default());
        let PartitionerOptions { client, member, settle, .. } = self;
        let divider = Divider::new(client, member, items, directories)
            .with_snapshots(roster.subscribe(), owners.subscribe())
            .with_senders(updates, owned);
        let task = tokio::spawn(divider.run(node, settle));
        Ok(Partitioner { updates: updates_seen, owned: owned_seen, task })
    }

    fn check(&self) -> Result<(Directories, BTreeSet<String>)> {
        path::check(&self.path)?;
        check_name("a member's id", &self.member)?;
        if self.items.is_empty() {
            return Err(Error::invalid("there must be items to divide"));
        }
        let directories = Directories::below(&self.path);
        for item in &self.items {
            check_name("an item", item)?;
            path::check(&child(&directories.owners, item))?;
        }
        Ok((directories, self.items.iter().cloned().collect()))
    }
}

/// Returns how to read a member: only its session matters.
fn owner_only() -> Content<i64> {
    Content::Data(Box::new(|_, node| node.stat.ephemeral_owner))
}

/// The data of `owners/<item>`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct OwnerRecord {
    member: String,
    /// Distinguishes this partitioner from all others.
    nonce: String,
}

/// What a member owns.
#[derive(Debug, Default)]
struct Holdings {
    /// The session on which all of it depends.
    session: Option<Session>,
    items: BTreeMap<String, Zxid>,
}

/// Returns the owner of an item. A node of another kind has an owner that matches no member.
fn owner_of(item: &str, node: &Node) -> Owner {
    let OwnerRecord { member, nonce } = from_json(item, &node.data).unwrap_or_default();
    Owner { member, nonce, session: node.stat.ephemeral_owner, czxid: node.stat.czxid }
}

/// A member's part in dividing a set. Dropping it releases all items at once, in the background: stop working on them
/// first.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::partitioner::{Partitioner, Update};
/// use std::time::Duration;
///
/// let partitioner = Partitioner::of(&zk, "/shards", "node-1", ["s1", "s2", "s3"]);
/// let mut partitioner = partitioner.settle(Duration::from_millis(10)).join().await?;
/// let Some(Update::Acquired(items)) = partitioner.next().await else { panic!() };
/// assert_eq!(items.len(), 3);
/// partitioner.leave().await;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
#[must_use = "all items are released when this is dropped"]
pub struct Partitioner {
    updates: mpsc::Receiver<Update>,
    owned: watch::Receiver<Holdings>,
    task: JoinHandle<()>,
}

impl Partitioner {
    /// Returns options to divide `items`, as `member`, with all other members at `path`.
    pub fn of<I: Into<String>>(
        client: &Client,
        path: &str,
        member: &str,
        items: impl IntoIterator<Item = I>,
    ) -> PartitionerOptions {
        PartitionerOptions {
            client: client.clone(),
            path: path.to_owned(),
            member: member.to_owned(),
            items: items.into_iter().map(Into::into).collect(),
            settle: Duration::from_secs(1),
        }
    }

    /// Returns the next update; `None` when the client is closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Update> {
        self.updates.recv().await
    }

    /// Returns the items that this member owns now, as far as this process can know, even if the update that reports
    /// them was not read yet: none when no server has answered for a session timeout.
    #[must_use]
    pub fn owned(&self) -> Vec<Owned> {
        let Holdings { session, items } = &*self.owned.borrow();
        let is_trusted = session.as_ref().is_some_and(|session| !is_silent(session));
        let items = items.iter().filter(|_| is_trusted);
        items.map(|(item, czxid)| owned(item, *czxid)).collect()
    }

    /// Releases all items and leaves, and waits until that is done or there is no connection to do it with. Stop
    /// working on the items first.
    pub async fn leave(mut self) {
        self.updates.close();
        // It fails only if the task panicked, which the runtime has reported already.
        let _ = self.task.await;
    }
}

impl Stream for Partitioner {
    type Item = Update;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Update>> {
        self.updates.poll_recv(context)
    }
}

fn owned(item: &str, czxid: Zxid) -> Owned {
    Owned { item: item.to_owned(), token: u64::try_from(czxid.0).unwrap_or_default() }
}

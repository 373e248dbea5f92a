//! A double barrier: entering waits for all members, and so does leaving. This file is about entering; leaving is in
//! `leave`.
//!
//! ```text
//! <path>           a container; data: the number of members, as text (Curator and kazoo: empty)
//! <path>/<uuid>    one for each member, ephemeral
//! <path>/ready     persistent; all members may enter
//! ```
//! The layout is Curator's `DistributedDoubleBarrier`, and kazoo's `DoubleBarrier` can take part.
//! Differences: the node holds the size, children that are not members do not count, a wake-up counts only if it is
//! the right one, and a `ready` left over from an earlier round lets no member in. A member that was given no size
//! reads it from the node, again at each check, and waits while it is missing.
//!
//! # Which `ready` counts
//! `ready` is of the current round if a member that still exists, this one included, is older than it. A `ready` that
//! is older than every member was left behind by a round whose members have all left or died; it is removed. So that
//! a new `ready` is never removed by mistake, the removal is one transaction with a change of `<path>`, and creating
//! `ready` is one with a check that `<path>` has not changed.
//!
//! # Cost
//! A waiter has one watch on `ready` and reads nothing when it appears: one event for each member. A waiter for the
//! size has one watch on `<path>` until then.

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Children, Client, ErrorKind, EventType, Node, Op, Stat, Watch, Zxid};
use uuid::Uuid;

use super::at_most;
use super::size::{Size, members};
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::hold_options::{HoldOptions, Holder};
use crate::path::child;
use crate::retrying::retrying;

/// The child of a double barrier's node whose existence lets the members enter.
pub const READY: &str = "ready";

/// A barrier that a number of members enter together and leave together.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::DoubleBarrier;
///
/// let barrier = DoubleBarrier::new(&zk, "/jobs/42/together", 1)?;
/// let inside = barrier.enter().await?; // waits for the others
/// // … work that all do at the same time …
/// inside.leave().await?; // waits for the others
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    holder: Holder,
    path: String,
    /// `None` if it is read from the node.
    size: Option<Size>,
}

/// A member that is inside; see [`Hold`] for all that it can do. When it is [lost](Hold::lost), the others may leave
/// without it. Dropping or releasing it removes the member without waiting for the others; [`leave`](Inside::leave)
/// waits.
#[derive(Debug)]
#[must_use = "a member leaves when it is dropped"]
pub struct Inside {
    pub(super) hold: Hold,
    pub(super) path: String,
}

/// The state of the barrier as a member reads it.
struct View {
    ready: Option<Stat>,
    on_ready: Watch,
    node: Node,
    members: Vec<String>,
}

/// What a member does next.
enum Step {
    Enter,
    /// Wait until `ready` appears.
    Wait(Watch),
    /// Wait until `ready` appears or the node has a size.
    WaitForSize(Watch),
    ReadAgain,
}

impl DoubleBarrier {
    /// Creates a handle for the barrier at `path` for `size` members, without any request.
    ///
    /// # Errors
    /// If `size` is 0.
    pub fn new(client: &Client, path: impl Into<String>, size: u32) -> Result<Self> {
        let (size, path) = (Some(Size::new(size)?), path.into());
        Ok(DoubleBarrier { holder: Holder::new(client, "").until_session_timeout(), path, size })
    }

    /// Creates a handle for the barrier at `path` for as many members as its node says, without any request. The size
    /// is written by a process that was given one: a member of [`DoubleBarrier::new`], or
    /// [`DoubleBarrier::publish_size`].
    ///
    /// [`enter`](DoubleBarrier::enter) waits while the node has no size or does not exist;
    /// [`size`](DoubleBarrier::size) reads it without waiting. The server removes the node, and the size with it, a
    /// while after the last member has left. Until then the size counts for the next round, too, unless no member is
    /// inside when a member with another size enters.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let server = herdsman_testing::TestServer::start();
    /// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
    /// use herdsman_recipes::DoubleBarrier;
    ///
    /// DoubleBarrier::new(&zk, "/jobs/42/together", 1)?.publish_size().await?; // a coordinator
    /// let barrier = DoubleBarrier::with_published_size(&zk, "/jobs/42/together"); // a worker
    /// assert_eq!(barrier.size().await?, Some(1));
    /// barrier.enter().await?.leave().await?;
    /// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn with_published_size(client: &Client, path: impl Into<String>) -> Self {
        DoubleBarrier {
            holder: Holder::new(client, "").until_session_timeout(),
            path: path.into(),
            size: None,
        }
    }

    /// Sets when a member counts as lost, the owner text that other clients read, and the ACL of its nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.holder.set(options);
        self
    }

    /// Returns the number of members in the node; `None` if the node has no size or does not exist. Does not wait.
    ///
    /// # Errors
    /// [`Error::Codec`] if the node holds something else.
    pub async fn size(&self) -> Result<Option<u32>> {
        Ok(Size::read(&self.holder.client, &self.path).await?.map(Size::members))
    }

    /// Writes the size into the node, without entering, for members that [read it
    /// there](DoubleBarrier::with_published_size).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if members are inside that expect another number, or if this barrier was given no
    /// size.
    pub async fn publish_size(&self) -> Result<()> {
        match self.size {
            Some(size) => size.settle(&retrying(&self.holder.client), &self.path).await,
            None => Err(Error::invalid(format!("the barrier {} was given no size", self.path))),
        }
    }

    /// Waits until all members have entered. Dropping the future removes this member again.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the members that entered before expect another number of them; [`Error::Codec`]
    /// if the size is to be read from the node, and the node holds something else; [`Error::Lost`] if the session
    /// ended while waiting.
    pub async fn enter(&self) -> Result<Inside> {
        let session = self.holder.client.connected_session().await?;
        let client = retrying(&self.holder.client.bound_to(&session));
        let settled = match self.size {
            Some(size) => size.settle(&client, &self.path).await,
            None => Size::wait_for(&client, &self.path).await,
        };
        settled.map_err(lost_if_expired)?;
        let hold = self.join(&client).await.map_err(lost_if_expired)?;
        match self.wait_for_others(&hold).await.map_err(lost_if_expired) {
            Ok(()) => Ok(Inside { hold, path: self.path.clone() }),
            Err(error) => {
                // Waits for the deletion, so that a member that has failed is not counted.
                let _ = hold.release().await;
                Err(error)
            }
        }
    }

    /// Like [`DoubleBarrier::enter`], but fails with [`Error::TimedOut`] when `limit` has passed.
    pub async fn enter_within(&self, limit: Duration) -> Result<Inside> {
        at_most(limit, self.enter()).await
    }

    /// Creates this member's node. Its name is unique, so a node found there after a lost reply is ours.
    async fn join(&self, client: &Client) -> Result<Hold> {
        let session = client.session();
        let path = child(&self.path, &Uuid::new_v4().to_string());
        // From here on, dropping the future deletes the node.
        let cleanup = RemoveOnDrop { client, path: Some(&path) };
        let created = loop {
            let create =
                client.create(&path, self.holder.owner.clone()).ephemeral().container_parents();
            match create.await {
                Err(error) if error.is_node_exists() => {
                    if let Some(stat) = client.exists(&path).await? {
                        break herdsman_client::Created { path: path.clone(), stat };
                    }
                }
                Err(error) if error.outcome() == herdsman_client::Outcome::Unknown => {}
                created => break created?,
            }
        };
        cleanup.disarm();
        Ok(Hold::new(client.clone(), session, created, self.holder.lost_when))
    }

    async fn wait_for_others(&self, hold: &Hold) -> Result<()> {
        loop {
            let view = self.read_view(hold.client()).await?;
            match self.step(hold, view).await? {
                Step::Enter => return Ok(()),
                Step::ReadAgain => {}
                Step::WaitForSize(on_ready) => tokio::select! {
                    event = on_ready => if event?.kind == EventType::NodeCreated {
                        return Ok(());
                    },
                    size = Size::wait_for(hold.client(), &self.path) => size?,
                },
                Step::Wait(on_ready) => {
                    if on_ready.await?.kind == EventType::NodeCreated {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Reads the state in one round trip. The watch is set first: a member that enters after it counts this one.
    async fn read_view(&self, client: &Client) -> Result<View> {
        let ready = client.exists(&self.ready()).watch().send();
        let node = client.get(&self.path).send();
        let children = client.children(&self.path).send();
        let (ready, on_ready) = ready.await?;
        let (node, Children { names, .. }) = (node.await?, children.await?);
        Ok(View { ready, on_ready, node, members: members(names) })
    }

    async fn step(&self, hold: &Hold, view: View) -> Result<Step> {
        let size = match self.size {
            Some(size) => size.check(&self.path, &view.node).map(|()| Some(size))?,
            None => Size::of_node(&self.path, &view.node)?,
        };
        let is_complete = size.is_some_and(|size| size.is_reached_by(view.members.len()));
        if !view.members.iter().any(|member| member == hold.name()) {
            return Err(Error::Lost);
        }
        let Some(ready) = view.ready else {
            return match size {
                Some(_) if is_complete => self.make_ready(hold.client(), &view.node).await,
                Some(_) => Ok(Step::Wait(view.on_ready)),
                None => Ok(Step::WaitForSize(view.on_ready)),
            };
        };
        if is_complete || self.is_of_this_round(hold, &view.members, ready.czxid).await? {
            return Ok(Step::Enter);
        }
        self.remove_stale_ready(hold.client(), &view.node).await
    }

    async fn make_ready(&self, client: &Client, node: &Node) -> Result<Step> {
        let unchanged = Op::check(&self.path).version(node.stat.version);
        let create = Op::create(&self.ready(), Bytes::new());
        match client.transaction([unchanged, create]).await {
            Ok(_) => Ok(Step::Enter),
            Err(error) if error.is_node_exists() => Ok(Step::Enter),
            Err(error) => retry_after(error, &ErrorKind::BadVersion),
        }
    }

    /// Returns whether some member is older than `ready`.
    async fn is_of_this_round(&self, hold: &Hold, members: &[String], ready: Zxid) -> Result<bool> {
        if hold.token() < u64::try_from(ready.0).unwrap_or_default() {
            return Ok(true);
        }
        let paths = members.iter().map(|member| child(&self.path, member));
        let sent: Vec<_> = paths.map(|path| hold.client().exists(&path).send()).collect();
        for stat in sent {
            if stat.await?.is_some_and(|stat| stat.czxid < ready) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn remove_stale_ready(&self, client: &Client, node: &Node) -> Result<Step> {
        let mark = Op::set(&self.path, node.data.clone()).version(node.stat.version);
        match client.transaction([mark, Op::delete(&self.ready())]).await {
            Ok(_) => Ok(Step::ReadAgain),
            Err(error) if error.is_no_node() => Ok(Step::ReadAgain),
            Err(error) => retry_after(error, &ErrorKind::BadVersion),
        }
    }

    fn ready(&self) -> String {
        child(&self.path, READY)
    }
}

impl Inside {
    /// Like [`Inside::leave`], but fails with [`Error::TimedOut`] when `limit` has passed. The member has then left
    /// all the same.
    pub async fn leave_within(self, limit: Duration) -> Result<()> {
        at_most(limit, self.leave()).await
    }
}

guard!(Inside);

/// Deletes a node in the background if it is dropped before it is known whether the node exists.
struct RemoveOnDrop<'a> {
    client: &'a Client,
    path: Option<&'a str>,
}

impl RemoveOnDrop<'_> {
    fn disarm(mut self) {
        self.path = None;
    }
}

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.path {
            self.client.delete(path).in_background();
        }
    }
}

/// Another member was faster, or the reply was lost: in either case the state must be read again.
fn retry_after(error: herdsman_client::Error, expected: &ErrorKind) -> Result<Step> {
    match error.kind() == expected || error.is_retriable() {
        true => Ok(Step::ReadAgain),
        false => Err(error.into()),
    }
}

/// A member whose session ends has lost its place, whatever it was doing.
pub(super) fn lost_if_expired(error: Error) -> Error {
    match error.client_kind() {
        Some(ErrorKind::SessionExpired) => Error::Lost,
        _ => error,
    }
}

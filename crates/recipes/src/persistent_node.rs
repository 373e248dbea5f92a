//! A node that is put back whenever it is missing: after the end of a session, after somebody
//! deleted it.
//!
//! In: a path, data, and what to do about a node of somebody else in the same place. Out: the
//! node's presence as a value and as a stream. Curator has it as `PersistentNode`, and the node looks
//! the same: plain name, parents made as containers.
//!
//! Unlike there, a node counts as ours only if its `ephemeralOwner` is the session of today. A node
//! that an earlier session of the same program has left behind looks right, but goes when that
//! session expires: registries that took it for their own vanished minutes after a restart. So it is
//! replaced, in one transaction, by one of today's session.
//!
//! Deliberately not here: data that others write into the node is left as it is.

mod keeper;
mod make_persistent;
mod pace;
mod sequential;
mod spec;

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Acl, Client, ErrorKind};
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::events::Events;
use keeper::Keeper;
pub(crate) use pace::Pace;
use spec::Spec;

/// What to do when there is a node at the path that does not belong to our session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnForeignNode {
    /// Delete it and create ours, in one transaction. Right when the path is ours alone, so that
    /// only an earlier session of this program can have left it. Two live programs that share such
    /// a path replace each other's node, ever more slowly, for as long as they live.
    #[default]
    Replace,
    /// Wait until it has gone: the first come keeps the place.
    Wait,
}

/// Whether the node is there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// Not there as far as we know; it is being put back.
    Absent,
    /// There, and ours.
    Present {
        /// Its path: the one asked for, with a number behind it if it is sequential.
        path: String,
    },
    /// Somebody else's node is in its place, and we [wait](OnForeignNode::Wait).
    Occupied,
    /// The server refuses the node, for example by an ACL. It is tried again, less and less often.
    Refused(herdsman_client::Error),
    /// Nobody looks after it any more: it was closed, or its client was.
    Ended,
}

/// How a [`PersistentNode`] is made.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is started"]
pub struct PersistentNodeOptions {
    client: Client,
    spec: Spec,
    data: Bytes,
}

impl PersistentNodeOptions {
    /// The node stays when the session ends. By default it goes, and is put back in the next one.
    pub fn persistent(mut self) -> Self {
        self.spec.is_ephemeral = false;
        self
    }

    /// The server appends a number to the name when the node is created for the first time; it keeps
    /// that name from then on. Needs the right to create `<parent>-receipts` beside the parent, with a node for a
    /// moment: by that it is told from others, also of the same session, after a lost reply.
    pub fn sequential(mut self) -> Self {
        self.spec.is_sequential = true;
        self
    }

    /// For a parent beside which no other nodes should be: the receipt of a sequential node is beside this path.
    pub(crate) fn receipts_beside(mut self, path: &str) -> Self {
        self.spec.receipts_beside = Some(path.to_owned());
        self
    }

    /// What to do about a node that is not ours. By default it is replaced.
    pub fn on_foreign_node(mut self, what: OnForeignNode) -> Self {
        self.spec.on_foreign_node = what;
        self
    }

    /// Who may do what with the node; without this the client's default ACL.
    pub fn acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.spec.acl = Some(acl.into());
        self
    }

    /// Replaces a node without an owner, although others are waited for: what an earlier use of the path
    /// has left. Only until ours is there for the first time, so that one that was lost in between does not
    /// replace what a later use has left.
    pub(crate) fn replace_leftover(mut self) -> Self {
        self.spec.replaces_leftover = true;
        self
    }

    /// Writes changes of the data at most once in each interval. Those in between are skipped, never the
    /// last one.
    pub(crate) fn write_interval(mut self, interval: Duration) -> Self {
        self.spec.write_interval = interval;
        self
    }

    /// Starts to look after the node, in a task of its own, which runs where the client does.
    pub fn start(self) -> Result<PersistentNode> {
        let PersistentNodeOptions { client, spec, data } = self;
        spec.check()?;
        let (wishes, wishes_seen) = watch::channel(Wish { data, revision: 0, end: None });
        let (reports, reports_seen) = watch::channel(Report::default());
        let path = spec.path.clone();
        client.clone().spawn(Keeper::new(client, spec, wishes_seen, reports).run());
        Ok(PersistentNode { path, wishes, reports: reports_seen })
    }
}

/// What the handle wants of the task.
#[derive(Clone, Debug)]
struct Wish {
    data: Bytes,
    /// Grows with each change of the data.
    revision: u64,
    end: Option<End>,
}

/// How looking after a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Delete,
    LeaveInPlace,
    MakePersistent,
}

/// What the task tells the handle.
#[derive(Clone, Debug)]
struct Report {
    presence: Presence,
    /// The revision of the data that is in the tree.
    written: Option<u64>,
    /// Why the node could not be deleted at the end.
    failure: Option<herdsman_client::Error>,
}

impl Default for Report {
    fn default() -> Self {
        Report { presence: Presence::Absent, written: None, failure: None }
    }
}

/// A node that is looked after. Dropping this deletes the node in the background.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::persistent_node::PersistentNode;
///
/// let node = PersistentNode::at(&zk, "/workers/w1", "idle").start()?;
/// node.wait_until_present().await?;
/// zk.delete("/workers/w1").await?; // it comes back
/// node.set_data("busy").await?;
/// assert_eq!(zk.get("/workers/w1").await?.data, "busy");
/// node.close().await?;
/// assert!(zk.exists("/workers/w1").await?.is_none());
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the node is deleted when this is dropped"]
pub struct PersistentNode {
    path: String,
    wishes: watch::Sender<Wish>,
    reports: watch::Receiver<Report>,
}

impl PersistentNode {
    /// An ephemeral node at `path` with this data, unless the options say otherwise.
    pub fn at(client: &Client, path: &str, data: impl Into<Bytes>) -> PersistentNodeOptions {
        let spec = Spec {
            path: path.to_owned(),
            is_ephemeral: true,
            is_sequential: false,
            receipts_beside: None,
            on_foreign_node: OnForeignNode::default(),
            replaces_leftover: false,
            write_interval: Duration::ZERO,
            acl: None,
        };
        PersistentNodeOptions { client: client.clone(), spec, data: data.into() }
    }

    /// The path that was asked for. That of a sequential node is in its [`Presence`].
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the node is there, as far as is known now.
    #[must_use]
    pub fn presence(&self) -> Presence {
        self.reports.borrow().presence.clone()
    }

    /// The presence now and after each change. A slow reader sees the latest only.
    pub fn presences(&self) -> Events<Presence> {
        let mut last = None;
        // A report may tell of the data only.
        Events::of_latest(self.reports.clone(), move |report| {
            let presence = Some(report.presence);
            (presence != last).then(|| last.clone_from(&presence)).and(presence)
        })
    }

    /// Waits until the node is there. Fails if the server refuses it, and when it never will be
    /// there; after a refusal it is tried again all the same. Cancel-safe.
    pub async fn wait_until_present(&self) -> Result<()> {
        self.wait_for(|report| matches!(report.presence, Presence::Present { .. })).await
    }

    /// Changes the data, now and for every time that the node is put back. Waits until it is in the
    /// tree; if this future is dropped, it will be there all the same.
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<()> {
        self.put_data(data);
        self.flush().await
    }

    /// The same without waiting.
    pub(crate) fn put_data(&self, data: impl Into<Bytes>) {
        self.wishes.send_modify(|wish| {
            wish.data = data.into();
            wish.revision += 1;
        });
    }

    /// Waits until the data that was given last is in the tree.
    pub(crate) async fn flush(&self) -> Result<()> {
        let wanted = self.wishes.borrow().revision;
        self.wait_for(|report| report.written >= Some(wanted)).await
    }

    /// Leaves a persistent node with this data in the place of ours, in one transaction, and waits until
    /// it is there. If this future is dropped, that happens all the same. Fails with
    /// [`ErrorKind::NodeExists`] if another client has the path by now.
    pub(crate) async fn make_persistent(mut self, data: impl Into<Bytes>) -> Result<()> {
        let mut wanted = 0;
        self.wishes.send_modify(|wish| {
            wish.data = data.into();
            wish.revision += 1;
            wish.end = Some(End::MakePersistent);
            wanted = wish.revision;
        });
        self.ended().await?;
        let is_written = self.reports.borrow().written >= Some(wanted);
        if is_written { Ok(()) } else { Err(closed()) }
    }

    /// Deletes the node, and waits until it has gone. If this future is dropped, it goes all the
    /// same.
    pub async fn close(mut self) -> Result<()> {
        self.end(End::Delete);
        self.ended().await
    }

    /// Stops looking after the node and leaves it as it is. An ephemeral one goes with the session.
    pub fn abandon(self) {
        self.end(End::LeaveInPlace);
    }

    fn end(&self, how: End) {
        self.wishes.send_if_modified(|wish| {
            let is_first = wish.end.is_none();
            wish.end.get_or_insert(how);
            is_first
        });
    }

    async fn ended(&mut self) -> Result<()> {
        let ended = self.reports.wait_for(|report| report.presence == Presence::Ended).await;
        // The task is gone without a word only if its runtime is; then nothing can be done.
        let failure = ended.ok().and_then(|report| report.failure.clone());
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn wait_for(&self, mut wanted: impl FnMut(&Report) -> bool) -> Result<()> {
        let mut reports = self.reports.clone();
        let reached = reports
            .wait_for(|report| {
                let is_over = matches!(report.presence, Presence::Refused(_) | Presence::Ended);
                wanted(report) || is_over
            })
            .await;
        match reached.as_ref().map(|report| &report.presence) {
            Ok(Presence::Refused(error)) => Err(Error::Client(error.clone())),
            Ok(Presence::Ended) | Err(_) => Err(closed()),
            Ok(_) => Ok(()),
        }
    }
}

impl Drop for PersistentNode {
    fn drop(&mut self) {
        self.end(End::Delete);
    }
}

fn closed() -> Error {
    herdsman_client::Error::not_applied(ErrorKind::Closed).into()
}

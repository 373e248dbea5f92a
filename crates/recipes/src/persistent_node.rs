//! A node that is put back whenever it is missing: after the end of a session, or after it was deleted.
//!
//! In: a path, data, and what to do about a foreign node at the same path. Out: the node's presence as a value and as
//! a stream. Curator has it as `PersistentNode`, with the same layout: plain name, parents created as containers.
//!
//! Unlike there, a node counts as ours only if its `ephemeralOwner` is the current session. A node that an earlier
//! session of the same program has left behind looks right, but is deleted when that session expires: registries that
//! took it for their own vanished minutes after a restart. So it is replaced, in one transaction, by one of the
//! current session.
//!
//! Deliberately not here: if another client writes data into the node, it is left as it is.

mod make_persistent;
mod pace;
mod sequential;
mod spec;
mod task;

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Acl, Client, ErrorKind};
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::events::Events;
pub(crate) use pace::Pace;
use spec::Spec;
use task::NodeTask;

/// What to do when there is a node at the path that does not belong to our session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnForeignNode {
    /// Delete it and create ours, in one transaction. Right when only this program uses the path, so that only an
    /// earlier session of it can have left the node. Two live programs that share such a path replace each other's
    /// node, at growing intervals, for as long as they live.
    #[default]
    Replace,
    /// Wait until it is deleted: the first client keeps the path.
    Wait,
}

/// Whether the node exists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// It does not exist as far as is known; it is being put back.
    Absent,
    /// It exists, and is ours.
    Present {
        /// Its path: the requested one, followed by a number if it is sequential.
        path: String,
    },
    /// A foreign node is in its place, and this one [waits](OnForeignNode::Wait).
    Occupied,
    /// The server rejects the node, for example because of an ACL. It is tried again, at growing intervals.
    Refused(herdsman_client::Error),
    /// It is no longer maintained: it was closed, or its client was.
    Ended,
}

/// Options of a [`PersistentNode`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is started"]
pub struct PersistentNodeOptions {
    client: Client,
    spec: Spec,
    data: Bytes,
}

impl PersistentNodeOptions {
    /// Keeps the node when the session ends. By default it ends with the session, and is put back in the next one.
    pub fn persistent(mut self) -> Self {
        self.spec.is_ephemeral = false;
        self
    }

    /// Lets the server append a number to the name when the node is created for the first time; it keeps that name
    /// from then on. Needs the permission to create `<parent>-receipts` beside the parent, with a temporary node by
    /// which this one is distinguished from others, also of the same session, after a lost reply.
    pub fn sequential(mut self) -> Self {
        self.spec.is_sequential = true;
        self
    }

    /// Sets another path for the receipt of a sequential node, for a parent beside which there should be no other
    /// nodes.
    pub(crate) fn receipts_beside(mut self, path: &str) -> Self {
        self.spec.receipts_beside = Some(path.to_owned());
        self
    }

    /// Sets what to do about a node that is not ours. By default it is replaced.
    pub fn on_foreign_node(mut self, what: OnForeignNode) -> Self {
        self.spec.on_foreign_node = what;
        self
    }

    /// Sets the ACL of the node; by default the client's default ACL.
    pub fn acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.spec.acl = Some(acl.into());
        self
    }

    /// Replaces a node without an owner, even if foreign nodes are waited for: it was left by an earlier use of the
    /// path. Only until ours exists for the first time, so that a node that was lost in between does not replace one
    /// that was left by a later use.
    pub(crate) fn replace_leftover(mut self) -> Self {
        self.spec.replaces_leftover = true;
        self
    }

    /// Writes changes of the data at most once in each interval. Those in between are skipped, never the last one.
    pub(crate) fn write_interval(mut self, interval: Duration) -> Self {
        self.spec.write_interval = interval;
        self
    }

    /// Starts to maintain the node, in a separate task in the client's runtime.
    pub fn start(self) -> Result<PersistentNode> {
        let PersistentNodeOptions { client, spec, data } = self;
        spec.check()?;
        let (desired, desired_seen) = watch::channel(Desired { data, revision: 0, end: None });
        let (reports, reports_seen) = watch::channel(Report::default());
        let path = spec.path.clone();
        client.clone().spawn(NodeTask::new(client, spec, desired_seen, reports).run());
        Ok(PersistentNode { path, desired, reports: reports_seen })
    }
}

/// The state that the handle wants the task to reach.
#[derive(Clone, Debug)]
struct Desired {
    data: Bytes,
    /// A number that grows with each change of the data.
    revision: u64,
    end: Option<End>,
}

/// How to end the maintenance of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Delete,
    LeaveInPlace,
    MakePersistent,
}

/// The state that the task reports to the handle.
#[derive(Clone, Debug)]
struct Report {
    presence: Presence,
    /// The revision of the data that is written.
    written: Option<u64>,
    /// Why the node could not be deleted at the end.
    failure: Option<herdsman_client::Error>,
}

impl Default for Report {
    fn default() -> Self {
        Report { presence: Presence::Absent, written: None, failure: None }
    }
}

/// A node that is maintained. Dropping this deletes the node in the background.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::persistent_node::PersistentNode;
///
/// let node = PersistentNode::at(&zk, "/workers/w1", "idle").start()?;
/// node.wait_until_present().await?;
/// zk.delete("/workers/w1").await?; // it is put back
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
    desired: watch::Sender<Desired>,
    reports: watch::Receiver<Report>,
}

impl PersistentNode {
    /// Returns options of an ephemeral node at `path` with this data.
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

    /// Returns the path that was requested. That of a sequential node is in its [`Presence`].
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether the node exists, as far as is known now.
    #[must_use]
    pub fn presence(&self) -> Presence {
        self.reports.borrow().presence.clone()
    }

    /// Returns the presence now and after each change. A slow reader sees only the latest.
    pub fn presences(&self) -> Events<Presence> {
        let mut last = None;
        // A report may be about the data only.
        Events::of_latest(self.reports.clone(), move |report| {
            let presence = Some(report.presence);
            (presence != last).then(|| last.clone_from(&presence)).and(presence)
        })
    }

    /// Waits until the node exists. Fails if the server rejects it, and when it never will exist; after a rejection
    /// it is still tried again. Cancel-safe.
    pub async fn wait_until_present(&self) -> Result<()> {
        self.wait_for(|report| matches!(report.presence, Presence::Present { .. })).await
    }

    /// Changes the data, now and for every time that the node is put back. Waits until it is written; if this future
    /// is dropped, it is still written.
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<()> {
        self.put_data(data);
        self.flush().await
    }

    /// Does the same without waiting.
    pub(crate) fn put_data(&self, data: impl Into<Bytes>) {
        self.desired.send_modify(|desired| {
            desired.data = data.into();
            desired.revision += 1;
        });
    }

    /// Waits until the data that was given last is written.
    pub(crate) async fn flush(&self) -> Result<()> {
        let wanted = self.desired.borrow().revision;
        self.wait_for(|report| report.written >= Some(wanted)).await
    }

    /// Replaces this node by a persistent node with this data, in one transaction, and waits until that is done. If
    /// this future is dropped, it is still done. Fails with [`ErrorKind::NodeExists`] if another client has the path
    /// by now.
    pub(crate) async fn make_persistent(mut self, data: impl Into<Bytes>) -> Result<()> {
        let mut wanted = 0;
        self.desired.send_modify(|desired| {
            desired.data = data.into();
            desired.revision += 1;
            desired.end = Some(End::MakePersistent);
            wanted = desired.revision;
        });
        self.ended().await?;
        let is_written = self.reports.borrow().written >= Some(wanted);
        if is_written { Ok(()) } else { Err(closed()) }
    }

    /// Deletes the node, and waits until it is deleted. If this future is dropped, it is still deleted.
    pub async fn close(mut self) -> Result<()> {
        self.end(End::Delete);
        self.ended().await
    }

    /// Stops maintaining the node and leaves it as it is. An ephemeral one ends with the session.
    pub fn abandon(self) {
        self.end(End::LeaveInPlace);
    }

    fn end(&self, how: End) {
        self.desired.send_if_modified(|desired| {
            let is_first = desired.end.is_none();
            desired.end.get_or_insert(how);
            is_first
        });
    }

    async fn ended(&mut self) -> Result<()> {
        let ended = self.reports.wait_for(|report| report.presence == Presence::Ended).await;
        // The task ends without a report only if its runtime has ended; then nothing can be done.
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

//! An ephemeral node of ours, and its deletion.
//!
//! In: a node that was created in a session and is known to be ours. Out: writes that fail once it has been deleted,
//! and its deletion, from any thread and through any loss of the connection. Deliberately not here: how it is known
//! to be ours.
//!
//! A path alone does not identify a node: ours may be deleted by hand, and another client may create its own under
//! the same name. A server compares only data versions, and that of a new node is 0 each time. So a node at a path
//! that other clients use, too, has an [`Incarnation`]: a second node whose version changes with each new owner of
//! the path. Data that an owner leaves there for the next one is written together with the deletion.
//!
//! Invariant: no other node is deleted. A deletion whose reply was lost is repeated only if the node is still the
//! same. (Without an incarnation a name is unique, or is compared by its czxid: then there is a moment between the
//! comparison and the deletion in which only a deletion by hand could do harm.)

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bytes::Bytes;
use herdsman_client::{Client, Created, ErrorKind, Fenced, Op, Outcome, Reply, Zxid};

use crate::error::{Error, Result};
use crate::retrying::{PAUSE, retrying};

/// An ephemeral node of ours.
#[derive(Clone, Debug)]
pub(crate) struct OwnedNode {
    /// The client, bound to the session that owns the node.
    pub(crate) client: Client,
    pub(crate) path: String,
    pub(crate) czxid: Zxid,
    naming: Naming,
}

/// Whether the path may later belong to another node.
#[derive(Clone, Debug)]
enum Naming {
    /// No other node will ever have this name.
    Unique,
    /// Others may create a node of the same name once ours has been deleted.
    Reused,
    /// The same, and this distinguishes the nodes.
    Incarnation(Incarnation),
}

/// What distinguishes the owners of one path.
#[derive(Clone, Debug)]
pub(crate) struct Incarnation {
    /// A node whose version each new owner changes in the transaction that makes it the owner.
    pub(crate) guard: String,
    /// Its version after our own writes. Shared with code that makes further ones.
    pub(crate) version: Arc<AtomicI32>,
    /// An ephemeral node under a unique name, created in the same transaction. It is deleted together with ours.
    pub(crate) marker: Option<String>,
    /// Written to the guard together with the node's deletion.
    pub(crate) last_data: Option<LastData>,
    /// Other programs may become owners of the path without changing the guard, so the node has to be read before it
    /// is deleted.
    pub(crate) may_be_bypassed: bool,
}

/// The data of the guard after an owner has released the path.
#[derive(Clone)]
pub(crate) struct LastData(Arc<dyn Fn(End) -> Bytes + Send + Sync>);

/// How an ownership ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    /// The guard that owns the node was dropped.
    Dropped,
}

impl LastData {
    pub(crate) fn new(data: impl Fn(End) -> Bytes + Send + Sync + 'static) -> Self {
        LastData(Arc::new(data))
    }
}

impl fmt::Debug for LastData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LastData").finish()
    }
}

impl OwnedNode {
    /// Creates one for a node whose name no other node will ever have. `client` is bound to the session that owns it.
    pub(crate) fn new(client: Client, created: Created) -> Self {
        let Created { path, stat } = created;
        OwnedNode { client, path, czxid: stat.czxid, naming: Naming::Unique }
    }

    /// Creates one for a node at a path that others use, too.
    pub(crate) fn at_reused_path(client: Client, path: &str, czxid: Zxid) -> Self {
        OwnedNode { client, path: path.to_owned(), czxid, naming: Naming::Reused }
    }

    pub(crate) fn with_incarnation(mut self, incarnation: Incarnation) -> Self {
        self.naming = Naming::Incarnation(incarnation);
        self
    }

    /// Returns a client whose writes fail once this node has been deleted.
    pub(crate) fn fenced(&self) -> Fenced {
        let fenced = self.client.fenced_by(&self.path);
        let Naming::Incarnation(incarnation) = &self.naming else {
            return fenced;
        };
        let fenced = fenced.and(&incarnation.guard).at_version(incarnation.version());
        match &incarnation.marker {
            // While it exists, the guard has not been deleted and created again.
            Some(marker) => fenced.and(marker),
            None => fenced,
        }
    }

    /// Returns the first operation of a transaction that must fail once another client owns the path.
    pub(crate) fn check(&self) -> Op {
        match &self.naming {
            Naming::Incarnation(incarnation) => incarnation.check(),
            _ => Op::check(&self.path),
        }
    }

    /// Returns whether this very node still exists, as the server knows it.
    pub(crate) async fn is_there(&self) -> Result<bool> {
        let stat = retrying(&self.client).exists(&self.path).await?;
        Ok(stat.is_some_and(|stat| stat.czxid == self.czxid))
    }

    /// Deletes it, whatever happens to the connection. [`Error::Lost`] if it did not exist any more.
    pub(crate) async fn remove(self) -> Result<()> {
        let first = self.send_removal(End::Released);
        self.finish_removal(first, End::Released).await
    }

    /// Does the same without waiting. The request is queued now, before whatever the caller sends next, except at a
    /// reused path, where the node has to be read before. May be called outside of a runtime.
    pub(crate) fn remove_in_background(self) {
        let first = self.send_removal(End::Dropped);
        let path = self.path.clone();
        self.client.clone().spawn(async move {
            if let Err(error) = self.finish_removal(first, End::Dropped).await {
                tracing::debug!(%error, path, "could not delete a node in the background");
            }
        });
    }

    /// Sends the removal in one request; `None` if the node has to be read before.
    fn send_removal(&self, end: End) -> Option<Reply<()>> {
        let client = retrying(&self.client);
        match &self.naming {
            Naming::Unique => Some(client.delete(&self.path).send()),
            Naming::Reused => None,
            Naming::Incarnation(incarnation) if incarnation.may_be_bypassed => None,
            Naming::Incarnation(incarnation) => {
                let sent = client.transaction(self.removal(incarnation, end)).send();
                Some(Box::pin(async move { sent.await.map(drop) }))
            }
        }
    }

    fn removal(&self, incarnation: &Incarnation, end: End) -> impl Iterator<Item = Op> {
        let marker = incarnation.marker.as_deref().map(Op::delete);
        [incarnation.last_op(end), Op::delete(&self.path)].into_iter().chain(marker)
    }

    async fn finish_removal(self, first: Option<Reply<()>>, end: End) -> Result<()> {
        let mut removal = first;
        let mut may_be_gone = false;
        let mut may_write = true;
        while let Some(removed) = removal {
            let Err(error) = removed.await else {
                return Ok(());
            };
            match error.kind() {
                ErrorKind::SessionExpired => return Err(Error::Lost),
                _ if is_in_doubt(&error) => {
                    may_be_gone = true;
                    pause_after(&error).await;
                    removal = self.send_removal(end);
                }
                ErrorKind::NoNode | ErrorKind::BadVersion => break,
                // There may be no permission to write to the guard.
                ErrorKind::NoAuth if matches!(self.naming, Naming::Incarnation(_)) => {
                    may_write = false;
                    break;
                }
                _ => return Err(error.into()),
            }
        }
        let removed = match self.naming {
            Naming::Unique => Ok(false),
            _ => self.remove_if_same(&mut may_be_gone, may_write, end).await,
        };
        self.remove_marker();
        match removed {
            Ok(true) => Ok(()),
            Ok(false) if may_be_gone => Ok(()),
            Ok(false) => Err(Error::Lost),
            Err(error) if *error.kind() == ErrorKind::SessionExpired => Err(Error::Lost),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes the node at the path if it is ours; returns `false` if it is not.
    async fn remove_if_same(
        &self,
        may_be_gone: &mut bool,
        mut may_write: bool,
        end: End,
    ) -> herdsman_client::Result<bool> {
        let client = retrying(&self.client);
        loop {
            // This may be a different server, which is behind.
            client.sync(&self.path).await?;
            // Before the node: if another client owns that by the time of its deletion, the guard has another
            // version.
            let guard = self.last_op_of_guard(&client, may_write.then_some(end)).await?;
            let stat = client.exists(&self.path).await?;
            if stat.is_none_or(|stat| stat.czxid != self.czxid) {
                return Ok(false);
            }
            let removed = match guard {
                None => client.delete(&self.path).await,
                Some(guard) => client.transaction([guard, Op::delete(&self.path)]).await.map(drop),
            };
            match removed {
                Ok(()) => return Ok(true),
                Err(error) if error.is_no_node() || error.is_bad_version() => {}
                Err(error) if may_write && *error.kind() == ErrorKind::NoAuth => may_write = false,
                Err(error) if is_in_doubt(&error) => {
                    *may_be_gone = true;
                    pause_after(&error).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the operation on the guard, if there is one, that belongs to the deletion. If another client has
    /// written to the guard, or it may not be written (no `end`), it only has to stay unchanged.
    async fn last_op_of_guard(
        &self,
        client: &Client,
        end: Option<End>,
    ) -> herdsman_client::Result<Option<Op>> {
        let Naming::Incarnation(incarnation) = &self.naming else {
            return Ok(None);
        };
        let stat = client.exists(&incarnation.guard).await?;
        Ok(stat.map(|stat| match end {
            Some(end) if stat.version == incarnation.version() => incarnation.last_op(end),
            _ => Op::check(&incarnation.guard).version(stat.version),
        }))
    }

    /// Deletes the marker when the node was deleted without it.
    fn remove_marker(&self) {
        if let Naming::Incarnation(Incarnation { marker: Some(marker), .. }) = &self.naming {
            self.client.delete(marker).in_background();
        }
    }
}

impl Incarnation {
    fn version(&self) -> i32 {
        self.version.load(Ordering::Relaxed)
    }

    fn check(&self) -> Op {
        Op::check(&self.guard).version(self.version())
    }

    fn last_op(&self, end: End) -> Op {
        match &self.last_data {
            Some(LastData(data)) => Op::set(&self.guard, data(end)).version(self.version()),
            None => self.check(),
        }
    }
}

/// Returns whether the reply was lost, or the server failed before or after the deletion: the next attempt finds out.
fn is_in_doubt(error: &herdsman_client::Error) -> bool {
    let is_transient = error.is_retriable() || matches!(error.kind(), ErrorKind::Server(_));
    is_transient && error.outcome() == Outcome::Unknown
}

/// Pauses after a failure reported by the server. (A request without a connection waits anyway.)
async fn pause_after(error: &herdsman_client::Error) {
    if !error.is_retriable() {
        tokio::time::sleep(PAUSE).await;
    }
}

//! Claims a path that one client at a time holds, and others after it.
//!
//! In: a path, and a session. Out: a [`Hold`], or the result that another client has the path. Deliberately not here:
//! waiting for the path to become free.
//!
//! # Nodes
//! The path `P` itself, ephemeral, with the caller's data. Beside it `P-fence`, a container, and in it one ephemeral
//! node with a unique name for each holder, the marker. All three are written in one transaction, which also raises
//! the version of `P-fence`. The version identifies the holder: `P` may be deleted by hand and created again by the
//! next holder, but then the version is another one, and the former holder's fenced writes and its deletion of `P`
//! are rejected. The server deletes the container when it has been empty for a while, and its version then starts
//! again; the marker of a former holder does not exist any more by then, and its fenced writes need both.
//!
//! # Lost replies
//! The same transaction is sent again. If the first one was applied, the second one finds its own marker. Since both
//! go through the leader, it does not matter whether the server that answers is behind.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, Created, ErrorKind, Lifetime, Op, OpResult, Outcome, Session, Stat};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::hold_options::{Holder, LostWhen};
use crate::owned_node::{Incarnation, OwnedNode};
use crate::path::child;
use crate::retrying::retrying;

/// The index of this operation in the transaction.
const CREATES_MARKER: usize = 0;

/// One attempt to hold a path.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Bound to the session.
    client: Client,
    session: Session,
    path: String,
    data: Bytes,
    lost_when: LostWhen,
    /// A holder whose lease has expired, and which this claim replaces.
    replaced: Option<Replaced>,
    fence: String,
    marker: String,
}

/// The holder that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// The version of the fence that identifies it.
    pub(crate) fence_version: i32,
    /// The version of its node; it differs if the holder has written to the node since.
    pub(crate) node_version: i32,
}

/// The suffix of the node beside a [`NaiveLock`](crate::NaiveLock) or [`LeaseLock`](crate::LeaseLock) that
/// distinguishes its holders.
pub const FENCE_SUFFIX: &str = "-fence";

/// Returns the path of the node whose version identifies the holder of a path.
pub(crate) fn fence_of(path: &str) -> String {
    format!("{path}{FENCE_SUFFIX}")
}

impl Claim {
    pub(crate) fn new(holder: &Holder, session: Session, path: &str, data: Bytes) -> Self {
        let fence = fence_of(path);
        Claim {
            client: holder.client.bound_to(&session),
            session,
            path: path.to_owned(),
            data,
            lost_when: holder.lost_when,
            replaced: None,
            marker: child(&fence, &Uuid::new_v4().to_string()),
            fence,
        }
    }

    /// Replaces this holder, if it still holds the path.
    pub(crate) fn replacing(mut self, replaced: Replaced) -> Self {
        self.replaced = Some(replaced);
        self
    }

    /// Makes the claim; `None` if another client has the path. Once it was sent, it runs to its end even if the
    /// caller no longer waits: then the path is released again.
    pub(crate) async fn make(self) -> Result<Option<Hold>> {
        let (send, receive) = oneshot::channel();
        let client = self.client.clone();
        client.spawn(async move {
            let made = self.run(|| send.is_closed()).await;
            // A hold that was not received is dropped, and thereby released.
            let _ = send.send(made);
        });
        receive.await.unwrap_or(Err(Error::Lost))
    }

    async fn run(&self, is_abandoned: impl Fn() -> bool) -> Result<Option<Hold>> {
        let client = retrying(&self.client);
        let mut is_in_doubt = false;
        loop {
            if is_abandoned() && !is_in_doubt {
                return Ok(None);
            }
            let error = match client.transaction(self.ops()).await {
                Ok(results) => return Ok(self.hold_from(results)),
                Err(error) => error,
            };
            match (error.failed_op(), error.kind()) {
                // Created by an earlier attempt.
                (Some(CREATES_MARKER), ErrorKind::NodeExists) => return self.find(&client).await,
                (Some(CREATES_MARKER), ErrorKind::NoNode) if self.replaced.is_none() => {
                    client.ensure(&self.fence, Lifetime::Container).await?;
                }
                (Some(_), ErrorKind::NodeExists | ErrorKind::NoNode | ErrorKind::BadVersion) => {
                    return Ok(None);
                }
                (None, _) if error.outcome() == Outcome::Unknown && error.is_retriable() => {
                    is_in_doubt = true;
                }
                _ => return Err(error.into()),
            }
        }
    }

    fn ops(&self) -> Vec<Op> {
        let set = Op::set(&self.fence, "");
        let create = Op::create(&self.path, self.data.clone()).ephemeral();
        let marker = Op::create(&self.marker, "").ephemeral();
        match self.replaced {
            None => vec![marker, set, create],
            Some(Replaced { fence_version, node_version }) => {
                let delete = Op::delete(&self.path).version(node_version);
                vec![marker, set.version(fence_version), delete, create]
            }
        }
    }

    fn hold_from(&self, results: Vec<OpResult>) -> Option<Hold> {
        let mut fence = None;
        let mut node = None;
        for result in results {
            match result {
                OpResult::Set(stat) => fence = Some(stat),
                OpResult::Created(created) => node = Some(created),
                _ => {}
            }
        }
        Some(self.hold(node?, &fence?))
    }

    fn hold(&self, created: Created, fence: &Stat) -> Hold {
        let incarnation = Incarnation {
            guard: self.fence.clone(),
            version: Arc::new(fence.version.into()),
            marker: Some(self.marker.clone()),
            last_data: None,
            may_be_bypassed: false,
        };
        let (client, session) = (self.client.clone(), self.session.clone());
        Hold::of_incarnation(client, session, created, incarnation, self.lost_when)
    }

    /// Finds what an attempt whose reply was lost has created. All of it has the zxid of that transaction; otherwise
    /// the node was deleted by hand, and another client may have created it.
    async fn find(&self, client: &Client) -> Result<Option<Hold>> {
        let [marker, node, fence] =
            [&self.marker, &self.path, &self.fence].map(|path| client.exists(path).send());
        let (marker, node, fence) = (marker.await?, node.await?, fence.await?);
        if let (Some(marker), Some(stat)) = (marker, node)
            && stat.czxid == marker.czxid
        {
            if let Some(fence) = fence.filter(|fence| fence.mzxid == marker.czxid) {
                let created = Created { path: self.path.clone(), stat };
                return Ok(Some(self.hold(created, &fence)));
            }
            // The fence was written to by hand, so its version no longer shows which one is ours.
            OwnedNode::at_reused_path(self.client.clone(), &self.path, stat.czxid)
                .remove_in_background();
        }
        self.client.delete(&self.marker).in_background();
        Ok(None)
    }
}

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
//! The marker is the witness of that transaction: see [`crate::witness`].

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, Created, Op, OpResult, Session, Stat};

use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::hold_options::{Holder, LostWhen};
use crate::owned_node::{Incarnation, OwnedNode};
use crate::retrying::{is_overtaken, retrying};
use crate::witness::{Committed, Witness};

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
        let client = self.client.clone();
        // A hold that is not received is dropped, and thereby released.
        client.spawn(async move { self.run().await }).await.unwrap_or(Err(Error::Lost))
    }

    async fn run(&self) -> Result<Option<Hold>> {
        let client = retrying(&self.client);
        let mut marker = Witness::new(&client, &self.session, &self.fence);
        let hold = match marker.commit(&self.ops()).await {
            Ok(Committed::Now(results)) => self.hold_from(results, marker.path()),
            Ok(Committed::Before) => self.find(&client, marker.path()).await?,
            Err(error) if is_overtaken(&error) => None,
            Err(error) => return Err(error.into()),
        };
        if hold.is_some() {
            marker.disarm();
        }
        Ok(hold)
    }

    fn ops(&self) -> Vec<Op> {
        let set = Op::set(&self.fence, "");
        let create = Op::create(&self.path, self.data.clone()).ephemeral();
        match self.replaced {
            None => vec![set, create],
            Some(Replaced { fence_version, node_version }) => {
                let delete = Op::delete(&self.path).version(node_version);
                vec![set.version(fence_version), delete, create]
            }
        }
    }

    fn hold_from(&self, results: Vec<OpResult>, marker: &str) -> Option<Hold> {
        let mut fence = None;
        let mut node = None;
        for result in results {
            match result {
                OpResult::Set(stat) => fence = Some(stat),
                OpResult::Created(created) => node = Some(created),
                _ => {}
            }
        }
        Some(self.hold(node?, &fence?, marker))
    }

    fn hold(&self, created: Created, fence: &Stat, marker: &str) -> Hold {
        let incarnation = Incarnation {
            guard: self.fence.clone(),
            version: Arc::new(fence.version.into()),
            marker: Some(marker.to_owned()),
            last_data: None,
            may_be_bypassed: false,
        };
        let (client, session) = (self.client.clone(), self.session.clone());
        Hold::of_incarnation(client, session, created, incarnation, self.lost_when)
    }

    /// Finds what an attempt whose reply was lost has created. All of it has the zxid of that transaction; otherwise
    /// the node was deleted by hand, and another client may have created it.
    async fn find(&self, client: &Client, marker: &str) -> Result<Option<Hold>> {
        let [created, node, fence] =
            [marker, &self.path, &self.fence].map(|path| client.exists(path).send());
        let (created, node, fence) = (created.await?, node.await?, fence.await?);
        if let (Some(created), Some(stat)) = (created, node)
            && stat.czxid == created.czxid
        {
            if let Some(fence) = fence.filter(|fence| fence.mzxid == stat.czxid) {
                let created = Created { path: self.path.clone(), stat };
                return Ok(Some(self.hold(created, &fence, marker)));
            }
            // The fence was written to by hand, so its version no longer shows which one is ours.
            OwnedNode::at_reused_path(self.client.clone(), &self.path, stat.czxid)
                .remove_in_background();
        }
        Ok(None)
    }
}

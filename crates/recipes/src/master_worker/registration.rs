//! A worker's registration: an ephemeral node under a name of the worker's choice.
//!
//! In: a session. Out: the node, known to be of this very registration. If the name is taken by another registration,
//! this one waits for it to end: that may be an earlier session of this worker, which the servers have not ended yet,
//! and as long as it lives its tasks belong to it.

use bytes::Bytes;
use herdsman_client::{Client, Optional, Outcome, Result, Session, Watch, Zxid};

use crate::owned_node::OwnedNode;

/// A registration's node. Dropping it deletes the node in the background.
#[derive(Debug)]
pub(super) struct Registration {
    session: Session,
    node: OwnedNode,
    is_lost: bool,
}

impl Registration {
    /// Registers in this session, to which `client` is bound; waits while the name is taken. No other registration
    /// has the same `data`. Dropping the future withdraws the registration, if it was made.
    pub(super) async fn make(
        client: &Client,
        session: &Session,
        path: &str,
        data: Bytes,
    ) -> Result<Self> {
        let mut pending = Pending { client, path, data, is_settled: false };
        let czxid = pending.create().await?;
        pending.is_settled = true;
        let node = OwnedNode::at_reused_path(client.clone(), path, czxid);
        Ok(Registration { session: session.clone(), node, is_lost: false })
    }

    /// Returns the czxid, which differs for each registration.
    pub(super) fn incarnation(&self) -> i64 {
        self.node.czxid.0
    }

    /// Resolves when the node no longer exists; fails when the session has ended.
    pub(super) async fn lost(&mut self) -> Result<()> {
        while let Some(watch) = self.watch().await? {
            watch.await?;
        }
        self.is_lost = true;
        Ok(())
    }

    /// Sets a watch; `None` if there is another node, or none.
    async fn watch(&self) -> Result<Option<Watch>> {
        match self.node.client.get(&self.node.path).watch().await {
            Ok((node, watch)) if node.stat.czxid == self.node.czxid => Ok(Some(watch)),
            Err(error) if !error.is_no_node() => Err(error),
            _ => Ok(None),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.is_lost && !self.session.state().is_final() {
            self.node.clone().remove_in_background();
        }
    }
}

/// A registration that may have been made.
struct Pending<'a> {
    client: &'a Client,
    path: &'a str,
    data: Bytes,
    is_settled: bool,
}

impl Pending<'_> {
    async fn create(&self) -> Result<Zxid> {
        loop {
            match self.client.create(self.path, self.data.clone()).ephemeral().await {
                Err(error) if error.is_node_exists() => {}
                // Handled like a node that existed before. If this server does not have it yet, the next attempt to
                // create it shows that it exists.
                Err(error) if error.outcome() == Outcome::Unknown && error.is_retriable() => {}
                created => return Ok(created?.stat.czxid),
            }
            let Some((node, watch)) = self.client.get(self.path).watch().await.optional()? else {
                continue;
            };
            if node.data == self.data {
                return Ok(node.stat.czxid);
            }
            tracing::info!(self.path, "another session is registered under this name; waiting");
            watch.await?;
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let (client, path, data) = (self.client.clone(), self.path.to_owned(), self.data.clone());
        self.client.spawn(async move {
            // Sent after the request to create it, so it sees the node if that was applied. Fails only if the session
            // has ended, which removes the node.
            if client.sync(&path).await.is_ok()
                && let Ok(node) = client.get(&path).await
                && node.data == data
            {
                OwnedNode::at_reused_path(client, &path, node.stat.czxid).remove_in_background();
            }
        });
    }
}

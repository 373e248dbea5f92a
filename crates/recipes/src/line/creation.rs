//! Creates a sequential node exactly once, under a name that cannot contain a unique id.
//!
//! In: a directory and the prefix of the node's name. Out: the node, which is certainly ours, even if replies were
//! lost, and even if other contenders create nodes with the same prefix in the same session.
//!
//! After a lost reply, ZooKeeper's own recipes look for a child with their prefix, so two locks of one session take
//! each other's nodes for their own (`WriteLock`), or they do not look at all and leave a node behind that is never
//! deleted (`LeaderElectionSupport`). Here the node is created in one transaction with a *receipt*, which shows
//! whether that was applied (see [`crate::witness`]). If it was and its reply was lost, our node is the one with the
//! receipt's czxid, which no other node of the directory has.
//!
//! Nodes: `<directory>-receipts/<uuid>`, in a container, deleted as soon as the outcome is known. They must not be in
//! the directory: `LeaderElectionSupport` fails on children that are not offers, and readers of a group would take
//! them for members. Cost: no round trip, one more small write and its deletion.

use bytes::Bytes;
use herdsman_client::{Acl, Client, Created, Lifetime, Op, OpResult, Optional, Session};

use crate::error::{Error, Result};
use crate::witness::{Committed, Witness};

/// A node to be created.
#[derive(Debug)]
pub(crate) struct Creation {
    /// The client, bound to a session and with endless retries.
    pub(crate) client: Client,
    pub(crate) session: Session,
    pub(crate) directory: String,
    /// The lifetime of the directory, if it is missing.
    pub(crate) directory_lifetime: Lifetime,
    /// The receipts are beside this path, usually the directory.
    pub(crate) receipts_beside: String,
    pub(crate) prefix: String,
    pub(crate) data: Bytes,
    /// The ACL; the client's default if `None`.
    pub(crate) acl: Option<Vec<Acl>>,
}

impl Creation {
    /// Creates the node, and the directory if it is missing. Makes no further attempt once the node is no longer
    /// wanted.
    pub(crate) async fn run(&self, is_wanted: impl Fn() -> bool) -> Result<Created> {
        let mut receipt = Witness::new(&self.client, &self.session, &self.receipts());
        while is_wanted() {
            match receipt.commit(&[self.node()]).await {
                Ok(Committed::Now(results)) => return created(results),
                Ok(Committed::Before) => return self.find(receipt.path()).await,
                Err(error) if error.is_no_node() => {
                    self.client.ensure(&self.directory, self.directory_lifetime).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Lost)
    }

    fn node(&self) -> Op {
        let node = Op::create(&self.child(&self.prefix), self.data.clone());
        let node = node.ephemeral().sequential();
        match &self.acl {
            Some(acl) => node.acl(acl.clone()),
            None => node,
        }
    }

    /// Returns the node that was created together with the receipt. [`Error::Lost`] if it has been deleted.
    async fn find(&self, receipt: &str) -> Result<Created> {
        let czxid = self.client.exists(receipt).await?.ok_or(Error::Lost)?.czxid;
        let Some(children) = self.client.children(&self.directory).await.optional()? else {
            return Err(Error::Lost);
        };
        let ours = children.names.iter().filter(|name| name.starts_with(&self.prefix));
        let reads: Vec<_> = ours
            .map(|name| self.child(name))
            .map(|path| (self.client.exists(&path).send(), path))
            .collect();
        for (read, path) in reads {
            if let Some(stat) = read.await?.filter(|stat| stat.czxid == czxid) {
                return Ok(Created { path, stat });
            }
        }
        Err(Error::Lost)
    }

    fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.trim_end_matches('/'))
    }

    fn receipts(&self) -> String {
        match self.receipts_beside.as_str() {
            "/" => "/-receipts".to_owned(),
            path => format!("{path}-receipts"),
        }
    }
}

fn created(results: Vec<OpResult>) -> Result<Created> {
    match results.into_iter().next_back() {
        Some(OpResult::Created(created)) => Ok(created),
        _ => Err(Error::Lost),
    }
}

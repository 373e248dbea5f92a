//! The properties of a persistent node.

use std::time::Duration;

use herdsman_client::ops::CreateCall;
use herdsman_client::{Acl, Lifetime, Op, Session, Stat};

use super::OnForeignNode;

/// The properties to maintain.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) path: String,
    pub(super) is_ephemeral: bool,
    pub(super) is_sequential: bool,
    /// The path beside which the receipt of a sequential node is, if not its parent.
    pub(super) receipts_beside: Option<String>,
    pub(super) on_foreign_node: OnForeignNode,
    /// A node without an owner that existed before ours did is always replaced.
    pub(super) replaces_leftover: bool,
    /// The minimum time between two writes of the data.
    pub(super) write_interval: Duration,
    /// The ACL; the client's default if `None`.
    pub(super) acl: Option<Vec<Acl>>,
}

impl Spec {
    /// Rejects what no server would accept.
    pub(super) fn check(&self) -> crate::Result<()> {
        if matches!(self.path.as_str(), "" | "/") {
            return Err(crate::Error::invalid("the root cannot be a persistent node"));
        }
        if self.is_sequential && !self.is_ephemeral {
            // It is created together with an ephemeral node, by which it is distinguished from others.
            return Err(crate::Error::invalid("a sequential persistent node must be ephemeral"));
        }
        let number = if self.is_sequential { "0" } else { "" };
        crate::path::check(&format!("{}{number}", self.path))
    }

    pub(super) fn with_acl(&self, create: CreateCall) -> CreateCall {
        match &self.acl {
            Some(acl) => create.acl(acl.clone()),
            None => create,
        }
    }

    pub(super) fn op_with_acl(&self, create: Op) -> Op {
        match &self.acl {
            Some(acl) => create.acl(acl.clone()),
            None => create,
        }
    }

    pub(super) fn lifetime(&self) -> Lifetime {
        if self.is_ephemeral { Lifetime::Ephemeral } else { Lifetime::Persistent }
    }

    pub(super) fn is_ours(&self, stat: &Stat, session: &Session) -> bool {
        let owner = if self.is_ephemeral { session.id().0 } else { 0 };
        stat.ephemeral_owner == owner
    }
}

//! Walks the whole tree for a snapshot, in steps, so that writes can happen in between.
//! Apache: `DataTree.serialize`.
//!
//! The result is fuzzy: a znode shows its state at the step that visits it, not at the start. That
//! is correct because every txn after [`Dump::zxid`] is replayed over it, and replay is idempotent.
//! Invariants: a parent is visited before its children; a znode that was created after the start is left
//! out, also if it has taken the slot of a deleted one. The replay creates it, with its
//! ACL, which may be missing in the table from the start.

use std::sync::Arc;

use herdsman_proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::nodes::{NodeId, Znode};
use crate::tree::Tree;

/// A walk in progress.
#[derive(Debug)]
pub struct Dump {
    zxid: Zxid,
    sessions: Vec<(SessionId, i32)>,
    acls: Vec<(i64, Arc<[Acl]>)>,
    /// Slots still to visit.
    rest: Vec<NodeId>,
    path: String,
}

/// A step ends early when it has visited this many bytes of paths and data, because writers wait for it.
pub const STEP_BYTES_MAX: usize = 1 << 20;

/// Called for each znode of a dump: path, data, ACL key, stat.
pub type Emit<'a> = dyn FnMut(&str, Option<&[u8]>, i64, &StatPersisted) + 'a;

impl Dump {
    /// Starts a walk; the snapshot is named by the tree's zxid at this moment.
    #[must_use]
    pub fn start(tree: &Tree) -> Self {
        Dump {
            zxid: tree.last_zxid(),
            sessions: tree.sessions().collect(),
            acls: tree.acls.sorted(),
            rest: vec![NodeId::ROOT],
            path: String::new(),
        }
    }

    /// The last txn that is certainly contained.
    #[must_use]
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Sessions that were open at the start.
    #[must_use]
    pub fn sessions(&self) -> &[(SessionId, i32)] {
        &self.sessions
    }

    /// ACLs that were in use at the start, by key.
    #[must_use]
    pub fn acls(&self) -> &[(i64, Arc<[Acl]>)] {
        &self.acls
    }

    /// Visits up to `nodes_max` znodes, fewer if they are large: the last one is the one with which
    /// [`STEP_BYTES_MAX`] is reached. False when all have been visited.
    pub fn step(&mut self, tree: &Tree, nodes_max: usize, emit: &mut Emit<'_>) -> bool {
        let mut bytes = 0;
        for _ in 0..nodes_max {
            if bytes >= STEP_BYTES_MAX {
                break;
            }
            let Some(id) = self.rest.pop() else {
                return false;
            };
            let was_there = |node: &Znode<'_>| node.stat().czxid <= self.zxid;
            let Some(node) = tree.nodes.try_get(id).filter(was_there) else {
                continue;
            };
            self.path.clear();
            tree.nodes.path_into(id, &mut self.path);
            bytes += self.path.len() + node.data().map_or(0, <[u8]>::len);
            emit(&self.path, node.data(), tree.acls.key(node.acl()), &node.stat());
            self.rest.extend_from_slice(node.children());
        }
        !self.rest.is_empty()
    }
}

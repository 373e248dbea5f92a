//! Tracks the znodes that change while an exact copy of the tree is taken.
//!
//! A [`Dump`](crate::Dump) is fuzzy: recovery replays the log over it. A copy
//! without the log (a backup) must show one point in time. So the caller
//! listens from before the walk until after it, and reads the changed znodes again at the end.
//!
//! There is one listener at a time. Without a listener, a change costs one comparison.

use std::collections::BTreeSet;
use std::sync::Arc;

use herdsman_proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::tree::Tree;

/// Paths that are kept before the listener takes them; with more, the copy is given up. Bounds
/// the cost of a copy while all of a large tree is rewritten.
const PATHS_MAX: usize = 1 << 20;

/// There is a listener already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another copy of the tree is being taken")]
pub struct CopyInProgress;

/// More znodes changed than are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {PATHS_MAX} znodes changed while a copy of the tree was taken")]
pub struct TooManyChanges;

/// The changes that the listener has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    paths: BTreeSet<Box<str>>,
    overflown: bool,
}

impl Changes {
    pub(crate) fn note(&mut self, path: &str) {
        if self.paths.contains(path) {
            return;
        }
        if self.paths.len() < PATHS_MAX {
            self.paths.insert(path.into());
        } else {
            self.overflown = true;
        }
    }
}

/// A znode as it is in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotZnode {
    /// Its data.
    pub data: Option<Arc<[u8]>>,
    /// The key of its ACL.
    pub acl_key: i64,
    /// Its stat.
    pub stat: StatPersisted,
}

impl Tree {
    /// Begins to record the paths of znodes that are created, changed or removed.
    ///
    /// # Errors
    /// There is another listener.
    pub fn listen_to_changes(&self) -> Result<(), CopyInProgress> {
        let mut changes = self.changes.lock();
        if changes.is_some() {
            return Err(CopyInProgress);
        }
        *changes = Some(Changes::default());
        Ok(())
    }

    /// The paths that changed since the listening began, or since the last call. The root's is empty.
    ///
    /// # Errors
    /// There were too many of them.
    pub fn take_changes(&self) -> Result<BTreeSet<Box<str>>, TooManyChanges> {
        let mut changes = self.changes.lock();
        let taken = changes.as_mut().map(std::mem::take).unwrap_or_default();
        if taken.overflown { Err(TooManyChanges) } else { Ok(taken.paths) }
    }

    /// Ends the listening.
    pub fn stop_listening_to_changes(&self) {
        *self.changes.lock() = None;
    }

    /// Records the change of a znode.
    pub(crate) fn touch(&mut self, path: &str) {
        if let Some(changes) = self.changes.get_mut() {
            changes.note(path);
        }
    }

    /// Sets a later last zxid: the tree replaces another one, of which
    /// later txns were seen.
    pub fn skip_to(&mut self, zxid: Zxid) {
        assert!(zxid >= self.last_zxid, "zxids go up: {zxid} after {}", self.last_zxid);
        self.last_zxid = zxid;
    }

    /// A znode as it is in a snapshot; the root's path is empty.
    #[must_use]
    pub fn image(&self, path: &str) -> Option<SnapshotZnode> {
        let node = self.nodes.get(self.nodes.find(path)?);
        Some(SnapshotZnode {
            data: node.to_data(),
            acl_key: self.acls.key(node.acl()),
            stat: node.stat(),
        })
    }

    /// Sessions and ACLs as in a snapshot of this moment.
    #[must_use]
    pub fn tables(&self) -> SnapshotTables {
        let acls = self.acls.sorted();
        SnapshotTables { sessions: self.sessions().collect(), acls }
    }
}

/// The part of a snapshot before its znodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotTables {
    /// Open sessions with their timeouts.
    pub sessions: Vec<(SessionId, i32)>,
    /// ACLs in use, by key.
    pub acls: Vec<(i64, Arc<[Acl]>)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Events, TreeOptions};
    use herdsman_proto::txn::{CreateKind, CreateTxn, Entry};
    use herdsman_proto::{Perms, Txn, TxnHeader};

    fn apply(tree: &mut Tree, txn: Txn) {
        let zxid = tree.last_zxid().next();
        let header = TxnHeader { session: SessionId(1), cxid: 1, zxid, time_ms: 1 };
        tree.apply(&Entry { header, txn, digest: None }, &mut Events::new());
    }

    fn create(path: &str) -> Txn {
        Txn::Create(CreateTxn {
            path: path.into(),
            data: None,
            acl: vec![Acl::world(Perms::ALL)],
            kind: CreateKind::Plain { ephemeral: false, with_stat: false },
            parent_cversion: -1,
        })
    }

    fn sorted(tree: &Tree) -> Vec<String> {
        let mut paths: Vec<_> =
            tree.take_changes().unwrap().into_iter().map(String::from).collect();
        paths.sort_unstable();
        paths
    }

    #[test]
    fn a_listener_gets_every_znode_that_changes() {
        let mut tree = Tree::new(TreeOptions::default());
        apply(&mut tree, create("/before"));
        tree.listen_to_changes().unwrap();
        assert_eq!(tree.listen_to_changes(), Err(CopyInProgress));
        apply(&mut tree, create("/a"));
        apply(&mut tree, create("/a/b"));
        assert_eq!(sorted(&tree), ["", "/a", "/a/b"]);
        apply(&mut tree, Txn::SetAcl { path: "/before".into(), acl: vec![], version: 1 });
        assert_eq!(sorted(&tree), ["/before"]);
        apply(&mut tree, Txn::Delete { path: "/a/b".into(), container: false });
        assert_eq!(sorted(&tree), ["/a", "/a/b"]);
        assert!(tree.image("/a/b").is_none());
        assert_eq!(tree.image("/a").unwrap().stat.pzxid, Zxid(5));
        tree.stop_listening_to_changes();
        apply(&mut tree, create("/c"));
        tree.listen_to_changes().unwrap();
        assert_eq!(sorted(&tree), [""; 0]);
    }

    #[test]
    fn too_many_changes_are_an_error() {
        let mut changes = Changes::default();
        for i in 0..=PATHS_MAX {
            changes.note(&i.to_string());
            changes.note(&i.to_string());
        }
        assert!(changes.overflown && changes.paths.len() == PATHS_MAX);
    }
}

//! Builds a tree from the parts of a snapshot, in the order in which a snapshot has them.
//! Apache: `DataTree.deserialize`.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use herdsman_proto::{Acl, Perms, SessionId, StatPersisted, Zxid, path};

use crate::acls::{AclSlot, OPEN_KEY};
use crate::nodes::NodeId;
use crate::tree::{Tree, TreeOptions};

/// An error in the parts of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A znode comes before its parent, or its parent is missing.
    #[error("znode {0} has no parent")]
    NoParent(String),
    /// A znode comes twice.
    #[error("znode {0} appears twice")]
    Duplicate(String),
    /// The first znode must be the root.
    #[error("the root znode is missing")]
    NoRoot,
}

/// Builds a tree.
#[derive(Debug)]
pub struct Loader {
    tree: Tree,
    /// The keys of the snapshot with the slots of their ACLs.
    acl_slots: HashMap<i64, AclSlot, FixedState>,
    root_seen: bool,
    newest_effect: Zxid,
    branch: Branch,
}

impl Loader {
    /// A loader of an empty tree.
    #[must_use]
    pub fn new(options: TreeOptions) -> Self {
        let hasher = FixedState::with_seed(options.hash_seed);
        Loader {
            tree: Tree::bare(options),
            acl_slots: HashMap::with_hasher(hasher),
            root_seen: false,
            newest_effect: Zxid::ZERO,
            branch: Branch::default(),
        }
    }

    /// Adds an open session.
    pub fn session(&mut self, session: SessionId, timeout_ms: i32) {
        self.tree.sessions.insert(session, timeout_ms);
    }

    /// Adds an ACL with the key that znodes use for it.
    pub fn acl(&mut self, key: i64, acl: Vec<Acl>) {
        let own = self.tree.acls.load(acl);
        self.acl_slots.insert(key, own);
    }

    /// Reserves space for this many znodes.
    pub fn expect(&mut self, znodes: usize) {
        self.tree.nodes.reserve(znodes);
    }

    /// Adds a znode, after its parent. The root's path is empty.
    pub fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        let digest = self.tree.digest_of(path, data, &stat);
        self.node_with_digest(path, data, acl_key, stat, digest)
    }

    /// Whether the tree keeps digests, so that it is worth computing them ahead for
    /// [`Loader::node_with_digest`].
    #[must_use]
    pub fn wants_digests(&self) -> bool {
        self.tree.options.digest
    }

    /// Adds a znode with its [`znode_digest`](crate::digest::znode_digest). To be called only
    /// if [`Loader::wants_digests`].
    pub fn node_with_digest(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
        digest: u32,
    ) -> Result<(), LoadError> {
        let acl = self.acl_of(acl_key);
        self.newest_effect = self.newest_effect.max(Loader::effect_of(path, &stat));
        let Some((parent_path, name)) = path::split(path) else {
            return self.root(path, data, acl, stat);
        };
        let parent = match self.branch.find(parent_path) {
            Some(parent) => Some(parent),
            None => self.tree.nodes.find(parent_path).filter(|_| self.root_seen),
        };
        let parent = parent.ok_or_else(|| LoadError::NoParent(path.to_owned()))?;
        if self.tree.nodes.child(parent, name).is_some() {
            return Err(LoadError::Duplicate(path.to_owned()));
        }
        let place = (parent, path, name);
        let id = self.tree.insert_digested(place, data.into(), acl, stat, digest);
        self.branch.grow((parent_path, parent), path, id);
        self.tree.own(path, stat.ephemeral_owner);
        Ok(())
    }

    fn root(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: AclSlot,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        if !path.is_empty() {
            return Err(LoadError::NoParent(path.to_owned()));
        }
        if std::mem::replace(&mut self.root_seen, true) {
            return Err(LoadError::Duplicate("/".to_owned()));
        }
        self.tree.data_size += data.map_or(0, |data| data.len() as u64);
        self.tree.update(NodeId::ROOT, "", |nodes| {
            nodes.set_data(NodeId::ROOT, data.into());
            nodes.change_stat(NodeId::ROOT, |root| *root = stat);
            nodes.replace_acl(NodeId::ROOT, acl);
        });
        Ok(())
    }

    /// A snapshot taken during writes may refer to an ACL that is not in its table. The
    /// txn that added it is in the log and will set it; until then no permissions are granted.
    fn acl_of(&mut self, key: i64) -> AclSlot {
        if key == OPEN_KEY {
            return AclSlot::OPEN;
        }
        match self.acl_slots.get(&key) {
            Some(&own) => {
                self.tree.acls.load_use(own);
                own
            }
            None => self.tree.acls.acquire(&[Acl::world(Perms(0))]),
        }
    }

    /// The last txn of which a znode shows an effect. The znode of the membership does not count: every
    /// server of an ensemble sets it from its own configuration, and the value in place of a zxid
    /// is that configuration's version, which may be ahead of the log.
    /// Apache: `ZKDatabase.initConfigInZKDatabase`.
    #[must_use]
    pub fn effect_of(path: &str, stat: &StatPersisted) -> Zxid {
        if path == path::CONFIG {
            return Zxid::ZERO;
        }
        stat.czxid.max(stat.mzxid).max(stat.pzxid)
    }

    /// The last txn of which some znode shows an effect. In a snapshot that was taken during
    /// writes it is later than the snapshot's name, and the log must reach it.
    #[must_use]
    pub fn newest_effect(&self) -> Zxid {
        self.newest_effect
    }

    /// The tree, as of the given txn.
    pub fn finish(mut self, last_zxid: Zxid) -> Result<Tree, LoadError> {
        if !self.root_seen {
            return Err(LoadError::NoRoot);
        }
        self.tree.last_zxid = last_zxid;
        self.tree.acls.purge_unused();
        self.tree.ensure_config_node();
        self.tree.load_quotas();
        Ok(self.tree)
    }
}

/// The znode that was loaded last, and its known ancestors. A snapshot is written branch by
/// branch, so the next znode's parent is nearly always among them and need not be looked up from the root.
#[derive(Debug, Default)]
struct Branch {
    path: String,
    /// Ancestors and the znode itself: the length of its path in `path`, and its id.
    known: Vec<(usize, NodeId)>,
}

impl Branch {
    /// The znode of this path, if it is on the branch. Drops what is below it.
    fn find(&mut self, path: &str) -> Option<NodeId> {
        // `"//a"` counts as a child of the root, but cannot be found by that name.
        if path == path::ROOT {
            self.known.clear();
            return None;
        }
        while self.known.last().is_some_and(|&(bytes, _)| bytes > path.len()) {
            self.known.pop();
        }
        let &(bytes, id) = self.known.last()?;
        (self.path.as_bytes()[..bytes] == *path.as_bytes()).then_some(id)
    }

    /// Extends the branch from the parent, which was just found, to a new child.
    fn grow(&mut self, (parent_path, parent): (&str, NodeId), path: &str, id: NodeId) {
        if parent_path == path::ROOT {
            return;
        }
        if self.path.get(..parent_path.len()) != Some(parent_path) {
            self.known.clear();
        }
        if self.known.is_empty() {
            self.known.push((parent_path.len(), parent));
        }
        self.path.clear();
        self.path.push_str(path);
        self.known.push((path.len(), id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the result for each path, in this order.
    fn check(paths: &[(&str, Result<(), LoadError>)]) {
        let mut loader = Loader::new(TreeOptions::default());
        for (path, expected) in paths {
            let loaded = loader.node(path, None, -1, StatPersisted::default());
            assert_eq!(loaded, *expected, "{path}");
        }
    }

    fn no_parent(path: &str) -> Result<(), LoadError> {
        Err(LoadError::NoParent(path.to_owned()))
    }

    fn duplicate(path: &str) -> Result<(), LoadError> {
        Err(LoadError::Duplicate(path.to_owned()))
    }

    #[test]
    fn a_parent_is_found_wherever_the_last_znode_was() {
        check(&[
            ("", Ok(())),
            ("/a", Ok(())),
            ("/a/b", Ok(())),
            ("/a/b/c", Ok(())),
            ("/a/bb", Ok(())),
            ("/a/b/d", Ok(())),
            ("/e", Ok(())),
            ("/a/bb/c", Ok(())),
            ("/a/bb/c", duplicate("/a/bb/c")),
            ("/a", duplicate("/a")),
            ("/a/b/c/d/e", no_parent("/a/b/c/d/e")),
            ("/a/x/y", no_parent("/a/x/y")),
            ("/e/b/c", no_parent("/e/b/c")),
            ("/a/b/c/d", Ok(())),
        ]);
    }

    #[test]
    fn names_that_no_client_can_create_are_accepted_as_before() {
        check(&[
            ("/a", no_parent("/a")),
            ("a", no_parent("a")),
            ("", Ok(())),
            ("", duplicate("/")),
            ("//a", Ok(())),
            ("//a/b", no_parent("//a/b")),
            ("/a", duplicate("/a")),
            ("/a/b", Ok(())),
            ("/", Ok(())),
            ("//c", Ok(())),
            ("/c", duplicate("/c")),
            ("/a/", Ok(())),
            ("/a//d", Ok(())),
        ]);
    }
}

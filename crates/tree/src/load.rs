//! Builds a tree from the parts of a snapshot, in the order in which a snapshot has them.
//! Apache: `DataTree.deserialize`.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use herdsman_proto::txn::Data;
use herdsman_proto::{Acl, Perms, SessionId, StatPersisted, Zxid, path};

use crate::acls::AclKey;
use crate::nodes::NodeId;
use crate::tree::{Tree, TreeOptions};

/// Why the parts do not make a tree.
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

/// A tree in the making.
#[derive(Debug)]
pub struct Loader {
    tree: Tree,
    /// Keys of the snapshot, and what they became.
    acl_keys: HashMap<i64, AclKey, FixedState>,
    root_seen: bool,
    newest_effect: Zxid,
}

impl Loader {
    /// An empty one.
    #[must_use]
    pub fn new(options: TreeOptions) -> Self {
        let hasher = FixedState::with_seed(options.hash_seed);
        Loader {
            tree: Tree::bare(options),
            acl_keys: HashMap::with_hasher(hasher),
            root_seen: false,
            newest_effect: Zxid::ZERO,
        }
    }

    /// An open session.
    pub fn session(&mut self, session: SessionId, timeout_ms: i32) {
        self.tree.sessions.insert(session, timeout_ms);
    }

    /// An ACL and the key by which znodes name it.
    pub fn acl(&mut self, key: i64, acl: Vec<Acl>) {
        let own = self.tree.acls.load(acl);
        self.acl_keys.insert(key, own);
    }

    /// A znode; its parent came before. The root's path is empty.
    pub fn node(
        &mut self,
        path: &str,
        data: Data,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        let acl = self.acl_of(acl_key);
        self.newest_effect = self.newest_effect.max(Loader::effect_of(path, &stat));
        let Some((parent_path, name)) = path::split(path) else {
            return self.root(path, data, acl, stat);
        };
        let parent = self.tree.nodes.find(parent_path).filter(|_| self.root_seen);
        let parent = parent.ok_or_else(|| LoadError::NoParent(path.to_owned()))?;
        if self.tree.nodes.child(parent, name).is_some() {
            return Err(LoadError::Duplicate(path.to_owned()));
        }
        self.tree.insert(parent, path, name, data, acl, stat);
        self.tree.own(path, stat.ephemeral_owner);
        Ok(())
    }

    fn root(
        &mut self,
        path: &str,
        data: Data,
        acl: AclKey,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        if !path.is_empty() {
            return Err(LoadError::NoParent(path.to_owned()));
        }
        if std::mem::replace(&mut self.root_seen, true) {
            return Err(LoadError::Duplicate("/".to_owned()));
        }
        self.tree.data_size += data.as_ref().map_or(0, |data| data.len() as u64);
        self.tree.update(NodeId::ROOT, "", |node| {
            node.data = data;
            node.stat = stat;
            node.acl = acl;
        });
        Ok(())
    }

    /// A snapshot taken while writes went on may name an ACL that its table does not have yet. The
    /// txn that brought it is in the log and will set it; until then nobody gets in.
    fn acl_of(&mut self, key: i64) -> AclKey {
        if key == AclKey::OPEN.on_disk() {
            return AclKey::OPEN;
        }
        match self.acl_keys.get(&key) {
            Some(&own) => {
                self.tree.acls.load_use(own);
                own
            }
            None => self.tree.acls.acquire(&[Acl::world(Perms(0))]),
        }
    }

    /// The last txn of which a znode shows an effect. The znode of the membership tells nothing: every
    /// server of an ensemble fills it in from its own configuration, and what stands there in a zxid's
    /// place is that configuration's version, which may be ahead of the log.
    /// Apache: `ZKDatabase.initConfigInZKDatabase`.
    #[must_use]
    pub fn effect_of(path: &str, stat: &StatPersisted) -> Zxid {
        if path == path::CONFIG {
            return Zxid::ZERO;
        }
        stat.czxid.max(stat.mzxid).max(stat.pzxid)
    }

    /// The last txn of which some znode shows an effect. In a snapshot that was taken while writes
    /// went on it is later than the snapshot's name, and the log must reach it.
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

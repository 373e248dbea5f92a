//! The state itself: znodes, ACLs, sessions and what is derived from them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Bound;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use herdsman_proto::{Acl, Perms, SessionId, Stat, StatPersisted, TxnDigest, Zxid, path};
use parking_lot::Mutex;

use crate::acls::{AclSlot, Acls};
use crate::changes::Changes;
use crate::digest::{DigestLog, TreeDigest, znode_digest};
use crate::nodes::{NewData, NewZnode, NodeId, Nodes, Znode};
use crate::owner::{Owner, OwnerRules};
use crate::quota::Quotas;
use crate::watches::Watches;

/// Options that all servers of an ensemble should share, and the seed of this one's hash tables.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Seeds the hash tables; give each server its own.
    pub hash_seed: u64,
    /// Keep the tree digest and write it into txns (`zookeeper.digest.enabled`).
    pub digest: bool,
    /// How stored owners are decoded.
    pub owner_rules: OwnerRules,
    /// Skip every ACL check (`skipACL=yes`).
    pub skip_acl: bool,
    /// Hard quotas refuse writes (`enforceQuota`).
    pub enforce_quota: bool,
    /// A closeSession txn lists the ephemerals it deletes (`closeSessionTxn.enabled`).
    pub close_session_lists_ephemerals: bool,
    /// The authentication schemes that an ACL may contain.
    pub schemes: crate::auth::Schemes,
    /// The maximum size of a txn: a larger one could not be read from the log (`jute.maxbuffer` and its extra).
    pub txn_bytes_max: usize,
    /// Reconfiguration is enabled (`reconfigEnabled`).
    pub reconfig_enabled: bool,
    /// Watches that one connection may have (`herdsman.watchesPerSessionMax`). Servers may differ in it.
    pub watches_per_watcher_max: Option<NonZeroU32>,
    /// The maximum size of a reply to a read (`herdsman.replyBytesMax`). Servers may differ in it. At most 1 GiB: a
    /// reply that is twice as long has no length that can be sent.
    pub reply_bytes_max: usize,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions {
            hash_seed: 0,
            digest: true,
            owner_rules: OwnerRules::default(),
            skip_acl: false,
            enforce_quota: false,
            close_session_lists_ephemerals: true,
            schemes: crate::auth::Schemes::default(),
            txn_bytes_max: 2 * 0xf_ffff,
            reconfig_enabled: false,
            watches_per_watcher_max: None,
            reply_bytes_max: 1 << 30,
        }
    }
}

/// The replicated state.
#[derive(Debug)]
pub struct Tree {
    pub(crate) options: TreeOptions,
    pub(crate) nodes: Nodes,
    pub(crate) acls: Acls,
    /// Timeout of each open session.
    pub(crate) sessions: BTreeMap<SessionId, i32>,
    pub(crate) ephemerals: HashMap<SessionId, BTreeSet<Arc<str>>, FixedState>,
    pub(crate) ephemeral_count: usize,
    pub(crate) containers: BTreeSet<Box<str>>,
    pub(crate) ttls: BTreeSet<Box<str>>,
    pub(crate) quotas: Quotas,
    pub(crate) digest: TreeDigest,
    pub(crate) digest_log: DigestLog,
    pub(crate) last_zxid: Zxid,
    /// Bytes of paths and data, kept up to date for the metric.
    pub(crate) data_size: u64,
    watches: Mutex<Watches>,
    /// The changed paths, while there is a listener.
    pub(crate) changes: Mutex<Option<Changes>>,
}

impl Tree {
    /// The initial tree of a new server: the root and the service's own znodes.
    #[must_use]
    pub fn new(options: TreeOptions) -> Self {
        let mut tree = Tree::bare(options);
        let zookeeper = tree.insert_own(NodeId::ROOT, path::ZOOKEEPER);
        tree.insert_own(zookeeper, path::QUOTA);
        tree.ensure_config_node();
        tree
    }

    /// Only a root, for the loader.
    pub(crate) fn bare(options: TreeOptions) -> Self {
        let stat = StatPersisted::default();
        let digest = if options.digest { znode_digest("", Some(&[]), &stat) } else { 0 };
        let root = NewZnode { data: NewData::Bytes(&[]), stat, acl: AclSlot::OPEN, digest };
        let hasher = FixedState::with_seed(options.hash_seed);
        let watches = Watches::new(options.hash_seed).limited_to(options.watches_per_watcher_max);
        let mut tree = Tree {
            nodes: Nodes::new(options.hash_seed, &root),
            acls: Acls::new(options.hash_seed),
            sessions: BTreeMap::new(),
            ephemerals: HashMap::with_hasher(hasher),
            ephemeral_count: 0,
            containers: BTreeSet::new(),
            ttls: BTreeSet::new(),
            quotas: Quotas::default(),
            digest: TreeDigest::default(),
            digest_log: DigestLog::default(),
            last_zxid: Zxid::ZERO,
            data_size: 0,
            watches: Mutex::new(watches),
            changes: Mutex::new(None),
            options,
        };
        tree.digest.add(digest);
        tree
    }

    /// Drops the digests of txns before this one: over a snapshot that shows later ones
    /// already, they were never true.
    pub fn forget_digests_before(&mut self, zxid: Zxid) {
        self.digest_log.forget_before(zxid);
    }

    /// Sets `/zookeeper/config` to the membership that this server uses, as of the txn that
    /// made it. Not a txn itself: a server gets its membership in other ways too, and the digest
    /// does not cover it.
    pub fn set_config(&mut self, text: &[u8], zxid: Zxid) {
        let Some(id) = self.nodes.find(path::CONFIG) else {
            return;
        };
        let before = self.update(id, path::CONFIG, |nodes| {
            nodes.change_stat(id, |stat| {
                stat.version = -1;
                stat.mzxid = zxid;
            });
            nodes.set_data(id, NewData::Bytes(text))
        });
        self.data_size = self.data_size - before as u64 + text.len() as u64;
    }

    /// The text of the membership in `/zookeeper/config`.
    #[must_use]
    pub fn config(&self) -> Option<&[u8]> {
        let id = self.nodes.find(path::CONFIG)?;
        self.nodes.get(id).data()
    }

    /// Whether the tree has this digest now; also true if it keeps none, or of another kind.
    #[must_use]
    pub fn has_digest(&self, digest: &TxnDigest) -> bool {
        !self.options.digest
            || digest.version != TxnDigest::VERSION
            || digest.tree_digest == self.digest.0
    }

    /// `/zookeeper/config` exists in every tree; snapshots of servers before 3.5 lack it.
    /// Readable by all, writable only by the super user.
    pub(crate) fn ensure_config_node(&mut self) {
        if self.nodes.find(path::CONFIG).is_some() {
            return;
        }
        let Some(zookeeper) = self.nodes.find(path::ZOOKEEPER) else {
            return;
        };
        let config = self.insert_own(zookeeper, path::CONFIG);
        let acl = self.acls.acquire(&[Acl::world(Perms::READ)]);
        self.nodes.replace_acl(config, acl);
        self.nodes.change_stat(config, |stat| stat.aversion = -1);
    }

    fn insert_own(&mut self, parent: NodeId, path: &str) -> NodeId {
        let (_, name) = path::split(path).expect("the service's own paths are absolute");
        let stat = StatPersisted::default();
        self.insert(parent, path, name, NewData::Bytes(&[]), AclSlot::OPEN, stat)
    }

    /// Puts a znode into the arena, the digest and the size. What else a new znode means (owner
    /// lists, quotas, watches) is the caller's.
    pub(crate) fn insert(
        &mut self,
        parent: NodeId,
        path: &str,
        name: &str,
        data: NewData<'_>,
        acl: AclSlot,
        stat: StatPersisted,
    ) -> NodeId {
        let digest = self.digest_of(path, data.bytes(), &stat);
        self.insert_digested((parent, path, name), data, acl, stat, digest)
    }

    /// The same, if the znode's digest is known already.
    pub(crate) fn insert_digested(
        &mut self,
        (parent, path, name): (NodeId, &str, &str),
        data: NewData<'_>,
        acl: AclSlot,
        stat: StatPersisted,
        digest: u32,
    ) -> NodeId {
        self.touch(path);
        self.digest.add(digest);
        self.data_size += (path.len() + data.bytes().map_or(0, <[u8]>::len)) as u64;
        self.nodes.insert(parent, name, &NewZnode { data, stat, acl, digest })
    }

    /// Changes a znode, and no other, and the digest with it.
    pub(crate) fn update<T>(
        &mut self,
        id: NodeId,
        path: &str,
        change: impl FnOnce(&mut Nodes) -> T,
    ) -> T {
        self.touch(path);
        let result = change(&mut self.nodes);
        if self.options.digest {
            let node = self.nodes.get(id);
            let digest = node.digest_with(path, &node.stat());
            self.digest.remove(self.nodes.replace_digest(id, digest));
            self.digest.add(digest);
        }
        result
    }

    pub(crate) fn digest_of(&self, path: &str, data: Option<&[u8]>, stat: &StatPersisted) -> u32 {
        if self.options.digest { znode_digest(path, data, stat) } else { 0 }
    }

    /// The last txn applied.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// The tree digest.
    #[must_use]
    pub fn digest(&self) -> i64 {
        self.digest.0
    }

    /// Digests of the recent past.
    #[must_use]
    pub fn digest_log(&self) -> &DigestLog {
        &self.digest_log
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &TreeOptions {
        &self.options
    }

    /// Number of znodes, the root once.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Number of ephemeral znodes.
    #[must_use]
    pub fn ephemeral_count(&self) -> usize {
        self.ephemeral_count
    }

    /// Bytes of paths and data of all znodes.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.data_size
    }

    /// Open sessions with their timeouts, in order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, i32)> + '_ {
        self.sessions.iter().map(|(&session, &timeout_ms)| (session, timeout_ms))
    }

    /// Number of open sessions.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Open sessions after this id with their timeouts, in order of their ids.
    pub fn sessions_after(&self, after: SessionId) -> impl Iterator<Item = (SessionId, i32)> + '_ {
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        self.sessions.range(behind).map(|(&session, &timeout_ms)| (session, timeout_ms))
    }

    /// The timeout of an open session.
    #[must_use]
    pub fn session_timeout_ms(&self, session: SessionId) -> Option<i32> {
        self.sessions.get(&session).copied()
    }

    /// How many ephemerals a session has.
    #[must_use]
    pub fn ephemerals_of(&self, session: SessionId) -> usize {
        self.ephemerals.get(&session).map_or(0, BTreeSet::len)
    }

    /// The session that owns this znode; `None` if it is not an ephemeral.
    #[must_use]
    pub fn ephemeral_owner(&self, path: &str) -> Option<SessionId> {
        let stat = self.nodes.get(self.nodes.find(path)?).stat();
        match self.options.owner_rules.owner(stat.ephemeral_owner) {
            Owner::Session(session) => Some(session),
            Owner::None | Owner::Container | Owner::Ttl(_) => None,
        }
    }

    /// Whether the ensemble has this session open, as far as this tree knows.
    #[must_use]
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// A session's ephemerals, in order of their paths.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// Those of a session's ephemerals whose paths have this prefix, in order. The others cost nothing.
    pub(crate) fn ephemerals_with<'a>(
        &'a self,
        session: SessionId,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let paths = self.ephemerals.get(&session);
        let behind = paths.into_iter().flat_map(move |paths| paths.range::<str, _>(from));
        behind.take_while(move |path| path.starts_with(prefix))
    }

    /// Sessions that own ephemerals, in order of their ids.
    #[must_use]
    pub fn ephemeral_owners(&self) -> Vec<SessionId> {
        let mut owners: Vec<_> = self
            .ephemerals
            .iter()
            .filter(|(_, paths)| !paths.is_empty())
            .map(|(&id, _)| id)
            .collect();
        owners.sort_unstable();
        owners
    }

    /// Sessions that own ephemerals but are not open: their close was lost, and the node closes them.
    #[must_use]
    pub fn orphan_ephemeral_owners(&self) -> Vec<SessionId> {
        let mut owners = self.ephemeral_owners();
        owners.retain(|owner| !self.sessions.contains_key(owner));
        owners
    }

    /// The watches. Take them only under a guard of the tree, so that no change falls in between.
    pub fn watches(&self) -> parking_lot::MutexGuard<'_, Watches> {
        self.watches.lock()
    }

    /// The stat for clients: the stored cversion counts creations, clients see a count of changes.
    #[must_use]
    pub fn stat(&self, node: Znode<'_>) -> Stat {
        let stored = node.stat();
        let num_children = node.children().len() as i32;
        Stat {
            czxid: stored.czxid,
            mzxid: stored.mzxid,
            ctime: stored.ctime,
            mtime: stored.mtime,
            version: stored.version,
            cversion: stored.cversion.wrapping_mul(2).wrapping_sub(num_children),
            aversion: stored.aversion,
            ephemeral_owner: self.options.owner_rules.visible_owner(stored.ephemeral_owner),
            data_length: node.data_len() as i32,
            num_children,
            pzxid: stored.pzxid,
        }
    }

    /// Adds a znode's path to the table for its kind of owner.
    pub(crate) fn own(&mut self, path: &str, ephemeral_owner: i64) {
        match self.options.owner_rules.owner(ephemeral_owner) {
            Owner::None => {}
            Owner::Container => _ = self.containers.insert(path.into()),
            Owner::Ttl(_) => _ = self.ttls.insert(path.into()),
            Owner::Session(session) => {
                if self.ephemerals.entry(session).or_default().insert(path.into()) {
                    self.ephemeral_count += 1;
                }
            }
        }
    }

    /// Removes it from that table.
    pub(crate) fn disown(&mut self, path: &str, ephemeral_owner: i64) {
        match self.options.owner_rules.owner(ephemeral_owner) {
            Owner::None => {}
            Owner::Container => _ = self.containers.remove(path),
            Owner::Ttl(_) => _ = self.ttls.remove(path),
            Owner::Session(session) => {
                if self.ephemerals.get_mut(&session).is_some_and(|paths| paths.remove(path)) {
                    self.ephemeral_count -= 1;
                }
            }
        }
    }
}

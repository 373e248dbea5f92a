//! The tree as it will be when everything in flight is committed: changes that were prepared but
//! not applied yet, on top of the tree. Apache: `outstandingChanges`, `ChangeRecord`.
//!
//! Only the leader (or a standalone server) has one. Invariant: through the overlay, a path
//! shows what it will show when the last prepared txn is applied.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::{Entry, EntryRef};
use herdsman_proto::txn::Data;
use herdsman_proto::{ErrorCode, SessionId, StatPersisted, TxnDigest, Zxid};

use crate::acl_list::AclList;
use crate::apply::digest_path;
use crate::digest::{TreeDigest, digest_after, text_crc, znode_digest};
use crate::tree::Tree;

/// A znode as it will be.
#[derive(Clone, Debug)]
pub(crate) struct PendingZnode {
    pub stat: StatPersisted,
    pub children: usize,
    pub acl: Arc<AclList>,
    pub data: PendingData,
    digest: u32,
}

/// Data of this length or more is read once for all digests. For less, that would save nothing.
const CRC_KEPT_BYTES_MIN: usize = 4096;

/// The data of a znode as it will be.
#[derive(Clone, Debug)]
pub(crate) enum PendingData {
    /// The length of data in the tree: nothing in flight changes it, so it need not be copied.
    InTree(usize),
    /// The data of a txn in flight, with the CRC of the znode's path with it, once a digest has needed it.
    New(Data, Option<u32>),
}

impl PendingData {
    /// The data of a txn in flight.
    pub fn new(data: Data) -> Self {
        PendingData::New(data, None)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            PendingData::InTree(bytes) => *bytes,
            PendingData::New(data, _) => data.as_ref().map_or(0, |data| data.len()),
        }
    }

    /// The digest of the znode at this path, with this stat. The data is read only the first time, unless it is small.
    fn digest(&mut self, tree: &Tree, path: &str, stat: &StatPersisted) -> u32 {
        match self {
            PendingData::InTree(_) => match tree.nodes.find(path) {
                Some(id) => tree.nodes.get(id).digest_with(path, stat),
                None => znode_digest(path, None, stat),
            },
            PendingData::New(Some(data), crc) if data.len() >= CRC_KEPT_BYTES_MIN => {
                let crc = *crc.get_or_insert_with(|| text_crc(path, data));
                digest_after(crc, path, stat)
            }
            PendingData::New(data, _) => znode_digest(path, data.as_deref(), stat),
        }
    }
}

impl PendingZnode {
    /// A new znode.
    pub fn new(stat: StatPersisted, acl: Arc<AclList>, data: Data) -> Self {
        PendingZnode { stat, children: 0, acl, data: PendingData::new(data), digest: 0 }
    }
}

/// The newest change of a path: a znode, or `None` for one that will be deleted.
#[derive(Clone, Debug)]
struct Change {
    zxid: Zxid,
    state: Option<PendingZnode>,
}

impl Change {
    /// The owner of the znode as it will be, if it has one.
    fn owner(&self) -> Option<i64> {
        self.state.as_ref().map(|pending| pending.stat.ephemeral_owner).filter(|&owner| owner != 0)
    }
}

/// A state of the overlay to which it can return.
#[derive(Debug)]
pub struct Savepoint {
    recorded: usize,
    digest: Option<TreeDigest>,
}

/// Changes in flight.
#[derive(Debug)]
pub struct Overlay {
    by_path: HashMap<Arc<str>, Change, FixedState>,
    /// The owned znodes of `by_path`, by owner, for the end of a session.
    by_owner: HashMap<i64, BTreeSet<Arc<str>>, FixedState>,
    /// Every change in order, with what it replaced: for cleanup and rollback.
    recorded: VecDeque<(Zxid, Arc<str>, Option<Change>)>,
    /// The tree digest after the last prepared txn; `None` while nothing is in flight.
    digest: Option<TreeDigest>,
}

impl Overlay {
    /// An empty overlay.
    #[must_use]
    pub fn new(hash_seed: u64) -> Self {
        Overlay {
            by_path: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            by_owner: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            recorded: VecDeque::new(),
            digest: None,
        }
    }

    /// The number of changes in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recorded.len()
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// A path as it will be.
    pub(crate) fn get(&self, tree: &Tree, path: &str) -> Option<PendingZnode> {
        match self.by_path.get(digest_path(path)) {
            Some(change) => change.state.clone(),
            None => tree.nodes.find(path).map(|id| {
                let node = tree.nodes.get(id);
                PendingZnode {
                    stat: node.stat(),
                    children: node.children().len(),
                    acl: Arc::clone(tree.acls.get(node.acl())),
                    data: PendingData::InTree(node.data_len()),
                    digest: node.digest(),
                }
            }),
        }
    }

    /// A path that must exist.
    pub(crate) fn require(&self, tree: &Tree, path: &str) -> Result<PendingZnode, ErrorCode> {
        self.get(tree, path).ok_or(ErrorCode::NoNode)
    }

    /// Records a new znode, or a changed one from [`Overlay::get`]: it still has the digest that
    /// it had before the change.
    pub(crate) fn put(&mut self, tree: &Tree, zxid: Zxid, path: &str, mut pending: PendingZnode) {
        let path = digest_path(path);
        debug_assert_eq!(pending.digest, self.digest_now(tree, path), "{path} changed meanwhile");
        let mut digest = self.tree_digest(tree);
        digest.remove(pending.digest);
        if tree.options.digest {
            pending.digest = pending.data.digest(tree, path, &pending.stat);
        }
        digest.add(pending.digest);
        self.digest = Some(digest);
        self.record(zxid, path, Change { zxid, state: Some(pending) });
    }

    /// Records a deletion.
    pub(crate) fn delete(&mut self, tree: &Tree, zxid: Zxid, path: &str) {
        let mut digest = self.tree_digest(tree);
        digest.remove(self.digest_now(tree, path));
        self.digest = Some(digest);
        self.record(zxid, path, Change { zxid, state: None });
    }

    fn record(&mut self, zxid: Zxid, path: &str, change: Change) {
        let owner = change.owner();
        let (path, replaced) = match self.by_path.entry_ref(path) {
            EntryRef::Occupied(mut entry) => (Arc::clone(entry.key()), Some(entry.insert(change))),
            EntryRef::Vacant(entry) => {
                let path: Arc<str> = Arc::from(path);
                entry.insert_with_key(Arc::clone(&path), change);
                (path, None)
            }
        };
        self.note_owner(&path, replaced.as_ref().and_then(Change::owner), owner);
        self.recorded.push_back((zxid, path, replaced));
    }

    /// Updates the owner of a path after a change.
    fn note_owner(&mut self, path: &Arc<str>, before: Option<i64>, after: Option<i64>) {
        if before == after {
            return;
        }
        if let Some(before) = before
            && let Entry::Occupied(mut entry) = self.by_owner.entry(before)
        {
            entry.get_mut().remove(path);
            if entry.get().is_empty() {
                entry.remove();
            }
        }
        if let Some(after) = after {
            self.by_owner.entry(after).or_default().insert(Arc::clone(path));
        }
    }

    fn digest_now(&self, tree: &Tree, path: &str) -> u32 {
        match self.by_path.get(path) {
            Some(change) => change.state.as_ref().map_or(0, |pending| pending.digest),
            None => tree.nodes.find(path).map_or(0, |id| tree.nodes.get(id).digest()),
        }
    }

    fn tree_digest(&self, tree: &Tree) -> TreeDigest {
        self.digest.unwrap_or(tree.digest)
    }

    /// The digest that a txn prepared now carries.
    pub(crate) fn txn_digest(&self, tree: &Tree) -> Option<TxnDigest> {
        tree.options.digest.then(|| TxnDigest {
            version: TxnDigest::VERSION,
            tree_digest: self.tree_digest(tree).0,
        })
    }

    /// Where a multi, or a txn that turns out too large, may have to return to.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { recorded: self.recorded.len(), digest: self.digest }
    }

    /// Undoes everything since the savepoint, parents' sequence numbers included (ZOOKEEPER-1624).
    pub fn roll_back(&mut self, savepoint: &Savepoint) {
        while self.recorded.len() > savepoint.recorded {
            let (_, path, replaced) = self.recorded.pop_back().expect("longer than the savepoint");
            let owner = replaced.as_ref().and_then(Change::owner);
            let undone = match replaced {
                Some(change) => self.by_path.insert(Arc::clone(&path), change),
                None => self.by_path.remove(&path),
            };
            self.note_owner(&path, undone.as_ref().and_then(Change::owner), owner);
        }
        self.digest = savepoint.digest;
    }

    /// Drops the changes of a txn that was applied to the tree.
    pub fn applied(&mut self, zxid: Zxid) {
        while self.recorded.front().is_some_and(|(recorded, ..)| *recorded <= zxid) {
            let (recorded, path, _) = self.recorded.pop_front().expect("just looked at");
            if let EntryRef::Occupied(entry) = self.by_path.entry_ref(&*path)
                && entry.get().zxid == recorded
            {
                let owner = entry.remove().owner();
                self.note_owner(&path, owner, None);
            }
        }
        if self.recorded.is_empty() {
            debug_assert!(self.by_path.is_empty() && self.by_owner.is_empty(), "nothing is left");
            self.digest = None;
        }
    }

    /// The ephemerals a session will own, those that nothing in flight changes first. Changes in flight of other
    /// sessions cost nothing.
    pub(crate) fn ephemerals<'a>(
        &'a self,
        tree: &'a Tree,
        session: SessionId,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let unchanged = tree.ephemerals(session).filter(|path| !self.by_path.contains_key(*path));
        let changed = self.by_owner.get(&session.0).into_iter().flatten();
        unchanged.chain(changed)
    }
}

//! Where znodes live: an arena of slots, and one hash index from (parent, name) to slot.
//!
//! A znode is found by walking its path, one probe a component; nothing holds a full path. Slots
//! come in blocks that never move, and the index keeps each entry's hash, so growing to the next
//! million znodes does not stop the world. Invariants: slot 0 is the root and is never freed; a
//! znode's `slot_in_parent` is its index in the parent's list of children.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use herdsman_proto::StatPersisted;
use herdsman_proto::txn::Data;
use std::hash::BuildHasher;

use crate::acls::AclKey;

/// A slot of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The root's slot.
    pub const ROOT: NodeId = NodeId(0);
}

/// One znode.
#[derive(Debug)]
pub struct Znode {
    name: Box<str>,
    parent: NodeId,
    slot_in_parent: u32,
    /// Most znodes are leaves, and a boxed vector costs them 8 bytes instead of 24.
    #[expect(clippy::box_collection, reason = "leaves pay for one pointer only")]
    children: Option<Box<Vec<NodeId>>>,
    /// Its data.
    pub data: Data,
    /// Its stat, without what can be counted.
    pub stat: StatPersisted,
    /// Its ACL.
    pub acl: AclKey,
    /// Its share of the tree digest.
    pub digest: u32,
}

impl Znode {
    /// The last component of its path; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its children, in no particular order.
    #[must_use]
    pub fn children(&self) -> &[NodeId] {
        self.children.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Bytes of data.
    #[must_use]
    pub fn data_len(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.len())
    }
}

/// What a new znode starts with.
#[derive(Clone, Debug)]
pub struct NewZnode {
    /// Its data.
    pub data: Data,
    /// Its stat.
    pub stat: StatPersisted,
    /// Its ACL.
    pub acl: AclKey,
    /// Its share of the tree digest.
    pub digest: u32,
}

const BLOCK: usize = 4096;

type Block = Vec<Option<Znode>>;

#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    hash: u32,
    node: NodeId,
}

/// All znodes.
#[derive(Debug)]
pub struct Nodes {
    blocks: Vec<Block>,
    free: Vec<NodeId>,
    index: HashTable<IndexEntry>,
    hasher: FixedState,
    count: usize,
}

impl Nodes {
    /// Only a root. `hash_seed` should differ between servers, so that nobody can prepare names
    /// that all fall into one bucket.
    #[must_use]
    pub fn new(hash_seed: u64, root: NewZnode) -> Self {
        let mut nodes = Nodes {
            blocks: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(hash_seed),
            count: 0,
        };
        let id = nodes.place(znode("", NodeId::ROOT, 0, root));
        assert_eq!(id, NodeId::ROOT, "the root takes the first slot");
        nodes
    }

    /// Number of znodes, the root included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Never: there is always a root.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The znode in a slot that is known to be taken.
    #[must_use]
    pub fn get(&self, id: NodeId) -> &Znode {
        self.try_get(id).expect("the id was taken from the tree under the same guard")
    }

    /// The znode in a slot, if it is taken.
    #[must_use]
    pub fn try_get(&self, id: NodeId) -> Option<&Znode> {
        self.blocks.get(id.0 as usize / BLOCK)?.get(id.0 as usize % BLOCK)?.as_ref()
    }

    /// The znode in a slot that is known to be taken.
    pub fn get_mut(&mut self, id: NodeId) -> &mut Znode {
        self.blocks[id.0 as usize / BLOCK][id.0 as usize % BLOCK]
            .as_mut()
            .expect("the id was taken from the tree under the same guard")
    }

    /// Finds a path. Both `""` and `"/"` are the root, as in Apache's tables.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<NodeId> {
        if path.is_empty() || path == herdsman_proto::path::ROOT {
            return Some(NodeId::ROOT);
        }
        path.strip_prefix('/')?
            .split('/')
            .try_fold(NodeId::ROOT, |parent, name| self.child(parent, name))
    }

    /// Finds a child by name.
    #[must_use]
    pub fn child(&self, parent: NodeId, name: &str) -> Option<NodeId> {
        let hash = self.hash(parent, name);
        self.index
            .find(spread(hash), |entry| entry.hash == hash && self.is(entry.node, parent, name))
            .map(|entry| entry.node)
    }

    /// Adds a child. The caller has checked that it is not there.
    pub fn insert(&mut self, parent: NodeId, name: &str, new: NewZnode) -> NodeId {
        let slot_in_parent = self.get(parent).children().len() as u32;
        let id = self.place(znode(name, parent, slot_in_parent, new));
        self.get_mut(parent).children.get_or_insert_default().push(id);
        let hash = self.hash(parent, name);
        self.index
            .insert_unique(spread(hash), IndexEntry { hash, node: id }, |entry| spread(entry.hash));
        id
    }

    /// Takes a childless znode out.
    pub fn remove(&mut self, id: NodeId) -> Znode {
        assert_ne!(id, NodeId::ROOT, "the root stays");
        self.unlink(id);
        let removed = self.blocks[id.0 as usize / BLOCK][id.0 as usize % BLOCK]
            .take()
            .expect("the id was taken from the tree under the same guard");
        assert!(removed.children().is_empty(), "{} still has children", removed.name);
        self.free.push(id);
        self.count -= 1;
        removed
    }

    fn unlink(&mut self, id: NodeId) {
        let node = self.get(id);
        let (parent, slot) = (node.parent, node.slot_in_parent as usize);
        let hash = self.hash(parent, &node.name);
        if let Ok(entry) = self.index.find_entry(spread(hash), |entry| entry.node == id) {
            entry.remove();
        }
        let siblings = self.get_mut(parent).children.as_mut().expect("a parent lists its child");
        siblings.swap_remove(slot);
        match siblings.get(slot).copied() {
            Some(moved) => self.get_mut(moved).slot_in_parent = slot as u32,
            None if siblings.is_empty() => self.get_mut(parent).children = None,
            None => {}
        }
    }

    /// Appends a znode's full path; nothing for the root. A loop, not a recursion: clients decide
    /// how deep the tree is.
    pub fn path_into(&self, id: NodeId, path: &mut String) {
        let parent = |&id: &NodeId| Some(self.get(id).parent);
        let ancestry: Vec<_> =
            std::iter::successors(Some(id), parent).take_while(|&id| id != NodeId::ROOT).collect();
        for id in ancestry.into_iter().rev() {
            path.push('/');
            path.push_str(&self.get(id).name);
        }
    }

    /// The parent's id.
    #[must_use]
    pub fn parent(&self, id: NodeId) -> NodeId {
        self.get(id).parent
    }

    fn is(&self, id: NodeId, parent: NodeId, name: &str) -> bool {
        let node = self.get(id);
        node.parent == parent && *node.name == *name
    }

    fn hash(&self, parent: NodeId, name: &str) -> u32 {
        self.hasher.hash_one((parent.0, name)) as u32
    }

    fn place(&mut self, node: Znode) -> NodeId {
        self.count += 1;
        if let Some(id) = self.free.pop() {
            self.blocks[id.0 as usize / BLOCK][id.0 as usize % BLOCK] = Some(node);
            return id;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let id = (self.blocks.len() - 1) * BLOCK + self.blocks.last().map_or(0, Vec::len);
        self.blocks.last_mut().expect("a block was just ensured").push(Some(node));
        NodeId(u32::try_from(id).expect("fewer than 2^32 znodes"))
    }
}

fn znode(name: &str, parent: NodeId, slot_in_parent: u32, new: NewZnode) -> Znode {
    let NewZnode { data, stat, acl, digest } = new;
    Znode { name: name.into(), parent, slot_in_parent, children: None, data, stat, acl, digest }
}

/// The index wants 64 well-mixed bits; the arena keeps 32 of them for each entry.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn new() -> NewZnode {
        NewZnode { data: None, stat: StatPersisted::default(), acl: AclKey::OPEN, digest: 0 }
    }

    proptest! {
        /// Against a plain map: after any inserts and removals, the same paths are found, and each
        /// parent lists exactly its children.
        #[test]
        fn behaves_like_a_map_of_paths(ops in prop::collection::vec((0u8..6, 0u8..6, any::<bool>()), 0..200)) {
            let mut nodes = Nodes::new(7, new());
            let mut model: BTreeMap<String, ()> = BTreeMap::new();
            for (a, b, insert) in ops {
                let (top, path) = (format!("/{a}"), format!("/{a}/{b}"));
                if insert {
                    let parent = nodes.find(&top).unwrap_or_else(|| {
                        model.insert(top.clone(), ());
                        nodes.insert(NodeId::ROOT, &a.to_string(), new())
                    });
                    if nodes.find(&path).is_none() {
                        nodes.insert(parent, &b.to_string(), new());
                        model.insert(path, ());
                    }
                } else {
                    let leaf = nodes.find(&path).map(|id| (id, path)).or(nodes.find(&top).map(|id| (id, top)));
                    if let Some((id, path)) = leaf.filter(|(id, _)| nodes.get(*id).children().is_empty()) {
                        nodes.remove(id);
                        model.remove(&path);
                    }
                }
            }
            prop_assert_eq!(nodes.len(), model.len() + 1);
            for path in model.keys() {
                let id = nodes.find(path).expect("in the model");
                let mut spelled = String::new();
                nodes.path_into(id, &mut spelled);
                prop_assert_eq!(&spelled, path);
                prop_assert!(nodes.get(nodes.parent(id)).children().contains(&id));
            }
        }
    }

    #[test]
    fn a_very_deep_path_is_spelled_without_recursion() {
        let mut nodes = Nodes::new(7, new());
        let deepest = (0..200_000).fold(NodeId::ROOT, |id, _| nodes.insert(id, "a", new()));
        let mut path = String::new();
        nodes.path_into(deepest, &mut path);
        assert_eq!(path.len(), 400_000);
    }

    #[test]
    fn only_exact_paths_are_found() {
        let mut nodes = Nodes::new(1, new());
        nodes.insert(NodeId::ROOT, "a", new());
        assert_eq!((nodes.find(""), nodes.find("/")), (Some(NodeId::ROOT), Some(NodeId::ROOT)));
        assert!(nodes.find("/a").is_some());
        for wrong in ["a", "/a/", "//a", "/b", "/a/b", "//"] {
            assert_eq!(nodes.find(wrong), None, "{wrong}");
        }
    }
}

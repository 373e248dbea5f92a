//! Storage of znodes: an arena of slots, their names and data, and a hash index from (parent, name) to
//! slot.
//!
//! A znode is found by walking its path, one probe per component; no full path is stored. Slots are
//! in blocks that never move, and the index consists of tables so small that the growth of one takes
//! little time, so there is no long pause while the tree grows. Invariants: slot 0 is
//! the root and is never freed; a znode's `slot_in_parent` is its index in the parent's list of
//! children.

mod arena;
mod child_lists;
mod index;
#[cfg(test)]
mod tests;
mod texts;
mod znode;

use std::sync::Arc;

use herdsman_proto::{JuteWrite, StatPersisted, path};

use self::arena::Arena;
use self::child_lists::{ChildLists, WIDE};
use self::index::Index;
use self::texts::{MovedRow, Texts};
use self::znode::Slot;
pub use self::znode::{NewData, NewZnode, Totals, Znode};
use crate::acls::AclSlot;

/// A slot of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The root's slot.
    pub const ROOT: NodeId = NodeId(0);
}

/// All znodes.
#[derive(Debug)]
pub struct Nodes {
    arena: Arena,
    index: Index,
    texts: Texts,
    child_lists: ChildLists,
}

impl Nodes {
    /// Creates only a root. `hash_seed` should differ between servers, so that no client can prepare names
    /// that all fall into one bucket.
    #[must_use]
    pub fn new(hash_seed: u64, root: &NewZnode<'_>) -> Self {
        let (arena, index, texts) = (Arena::default(), Index::new(hash_seed), Texts::new());
        let mut nodes = Nodes { arena, index, texts, child_lists: ChildLists::default() };
        let id = nodes.put("", (NodeId::ROOT, 0), root);
        assert_eq!(id, NodeId::ROOT, "the root takes the first slot");
        nodes
    }

    /// Number of znodes, the root included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arena.len()
    }

    /// Always false: there is always a root.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The znode in a slot that is known to be in use.
    #[must_use]
    #[inline]
    pub fn get(&self, id: NodeId) -> Znode<'_> {
        self.try_get(id).expect("the id was taken from the tree under the same guard")
    }

    /// The znode in a slot, if it is in use.
    #[must_use]
    #[inline]
    pub fn try_get(&self, id: NodeId) -> Option<Znode<'_>> {
        self.arena.get(id).map(|slot| Znode { slot, texts: &self.texts })
    }

    fn slot_mut(&mut self, id: NodeId) -> &mut Slot {
        self.arena.get_mut(id).expect("the id was taken from the tree under the same guard")
    }

    /// Changes a znode's stat.
    pub fn change_stat(&mut self, id: NodeId, change: impl FnOnce(&mut StatPersisted)) {
        self.slot_mut(id).change_stat(change);
    }

    /// Replaces the ACL of a znode. Returns the old one.
    pub fn replace_acl(&mut self, id: NodeId, acl: AclSlot) -> AclSlot {
        std::mem::replace(&mut self.slot_mut(id).acl, acl)
    }

    /// Replaces a znode's share of the tree digest. Returns the old one.
    pub fn replace_digest(&mut self, id: NodeId, digest: u32) -> u32 {
        std::mem::replace(&mut self.slot_mut(id).digest, digest)
    }

    /// Replaces the data of a znode, in place if possible. Returns the old number of bytes.
    pub fn set_data(&mut self, id: NodeId, data: NewData<'_>) -> usize {
        let before = self.get(id);
        let (bytes_before, place, name) =
            (before.data_len(), before.slot.place, before.slot.name_bytes());
        let (text_bytes, text) = (before.slot.text_bytes(), data.unshared());
        let in_place = self.texts.overwrite(place, text_bytes, name, text);
        let place = in_place.map_or_else(|_| self.move_text(id, text), |()| place);
        self.slot_mut(id).set_data(data, place);
        self.note_data_len(id, bytes_before);
        bytes_before
    }

    fn note_data_len(&mut self, id: NodeId, before: usize) {
        let now = self.get(id).data_len();
        if now == before || id == NodeId::ROOT {
            return;
        }
        let parent = self.parent(id);
        let totals = |bytes: usize| Totals { znodes: 0, bytes: bytes as u64 };
        if now > before {
            self.for_ancestors(parent, |slot| slot.add_below(totals(now - before)));
        } else {
            self.for_ancestors(parent, |slot| slot.subtract_below(totals(before - now)));
        }
    }

    /// Changes a znode and all its ancestors. There are fewer of them than bytes in the path of the request.
    fn for_ancestors(&mut self, first: NodeId, mut change: impl FnMut(&mut Slot)) {
        let mut id = first;
        loop {
            let slot = self.slot_mut(id);
            change(slot);
            if id == NodeId::ROOT {
                return;
            }
            id = slot.parent;
        }
    }

    /// Finds a path. Both `""` and `"/"` are the root, as in Apache's tables.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<NodeId> {
        if path.is_empty() || path == path::ROOT {
            return Some(NodeId::ROOT);
        }
        path::names(path.strip_prefix('/')?)
            .try_fold(NodeId::ROOT, |parent, name| self.child_by_key((parent, name)))
    }

    /// Finds a child by name.
    #[must_use]
    pub fn child(&self, parent: NodeId, name: &str) -> Option<NodeId> {
        self.child_by_key((parent, name.as_bytes()))
    }

    fn child_by_key(&self, key: index::Key<'_>) -> Option<NodeId> {
        self.index.find(key, |id| {
            let node = self.get(id);
            node.slot.parent == key.0 && node.name_bytes() == key.1
        })
    }

    /// Adds a child. The caller has checked that it does not exist.
    pub fn insert(&mut self, parent: NodeId, name: &str, new: &NewZnode<'_>) -> NodeId {
        let slot_in_parent = self.get(parent).children().len() as u32;
        let id = self.put(name, (parent, slot_in_parent), new);
        self.slot_mut(parent).push_child(id);
        let added = Totals { znodes: 1, bytes: self.get(id).data_len() as u64 };
        self.for_ancestors(parent, |slot| slot.add_below(added));
        self.child_lists.forget(parent);
        let Nodes { arena, index, texts, .. } = self;
        let indexed = |id| arena.get(id).expect("the index holds slots that are taken");
        index
            .insert((parent, name.as_bytes()), id, |id| key_of(Znode { slot: indexed(id), texts }));
        id
    }

    /// Reserves space for this many znodes in total.
    pub fn reserve(&mut self, znodes: usize) {
        let Nodes { arena, index, texts, .. } = self;
        let indexed = |id| arena.get(id).expect("the index holds slots that are taken");
        index.reserve(znodes, |id| key_of(Znode { slot: indexed(id), texts }));
    }

    /// Removes a childless znode.
    pub fn remove(&mut self, id: NodeId) {
        assert_ne!(id, NodeId::ROOT, "the root stays");
        let Nodes { arena, index, texts, .. } = self;
        let slot = arena.take(id).expect("the id was taken from the tree under the same guard");
        let node = Znode { slot: &slot, texts };
        assert!(node.children().is_empty(), "{} still has children", node.name());
        let removed = Totals { znodes: 1, bytes: node.data_len() as u64 };
        index.remove(key_of(node), id);
        let moved = texts.remove(slot.place, slot.text_bytes());
        self.note_moved(moved.as_ref());
        self.child_lists.forget(slot.parent);
        self.for_ancestors(slot.parent, |slot| slot.subtract_below(removed));
        if let Some(moved) = self.slot_mut(slot.parent).remove_child(slot.slot_in_parent) {
            self.slot_mut(moved).slot_in_parent = slot.slot_in_parent;
        }
    }

    fn put(&mut self, name: &str, parent: (NodeId, u32), new: &NewZnode<'_>) -> NodeId {
        let text = new.data.unshared();
        let place = self.texts.insert(self.arena.next_id(), name.as_bytes(), text);
        self.arena.put(Slot::new(place, name, parent, new))
    }

    /// Moves a znode's name and new data to a row of the right size.
    fn move_text(&mut self, id: NodeId, data: &[u8]) -> texts::RowId {
        let node = self.get(id);
        let (place, bytes) = (node.slot.place, node.slot.text_bytes());
        let name = node.name_bytes().to_vec();
        let moved = self.texts.remove(place, bytes);
        self.note_moved(moved.as_ref());
        self.texts.insert(id, &name, data)
    }

    fn note_moved(&mut self, moved: Option<&MovedRow>) {
        if let Some(&MovedRow { owner, to }) = moved {
            self.slot_mut(owner).place = to;
        }
    }

    /// Appends a znode's full path; nothing for the root. A loop, not a recursion: clients decide
    /// how deep the tree is.
    pub fn path_into(&self, id: NodeId, path: &mut String) {
        let parent = |&id: &NodeId| Some(self.parent(id));
        let ancestry: Vec<_> =
            std::iter::successors(Some(id), parent).take_while(|&id| id != NodeId::ROOT).collect();
        for id in ancestry.into_iter().rev() {
            path.push('/');
            path.push_str(self.get(id).name());
        }
    }

    /// Appends the names of a znode's children as a list in jute. False, with a part of it appended, if it takes more
    /// than `bytes_max`.
    pub fn names_into(&self, id: NodeId, bytes_max: usize, out: &mut Vec<u8>) -> bool {
        let children = self.get(id).children();
        if let Some(list) = self.child_list(id) {
            out.extend_from_slice(&list);
            return true;
        }
        // Each name has a length field and at least one character.
        if children.len().saturating_mul(5) > bytes_max {
            return false;
        }
        let start = out.len();
        out.put_count(children.len());
        for &child in children {
            // A string and a buffer are encoded alike, and the UTF-8 check need not be repeated.
            let name = self.get(child).name_bytes();
            out.put_count(name.len());
            out.extend_from_slice(name);
            if out.len() - start > bytes_max {
                return false;
            }
        }
        if children.len() >= WIDE {
            self.child_lists.note(id, &out[start..]);
        }
        true
    }

    fn child_list(&self, id: NodeId) -> Option<Arc<[u8]>> {
        (self.get(id).children().len() >= WIDE).then(|| self.child_lists.get(id)).flatten()
    }

    /// The parent's id.
    #[must_use]
    pub fn parent(&self, id: NodeId) -> NodeId {
        self.get(id).slot.parent
    }
}

fn key_of(node: Znode<'_>) -> index::Key<'_> {
    (node.slot.parent, node.name_bytes())
}

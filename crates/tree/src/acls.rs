//! ACLs in use, each stored once and counted. Apache: `ReferenceCountedACLCache`.
//!
//! Two numbers identify an ACL. A znode holds an [`AclSlot`], four bytes that are reused when the ACL is no
//! longer used. A snapshot identifies it by a key, which is never used twice in the life of a tree: the table of a
//! snapshot is written before its znodes, and a key that meant another ACL by the time a znode is written
//! would give that znode the old one.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use herdsman_proto::{Acl, Perms};

use crate::acl_list::AclList;

/// Where the ACL of a znode is stored in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclSlot(u32);

impl AclSlot {
    /// `world:anyone:cdrwa`, which is never stored.
    pub const OPEN: AclSlot = AclSlot(0);

    /// The index in the table, unless it is the open ACL.
    fn index(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }
}

/// The key of the open ACL in snapshots.
pub(crate) const OPEN_KEY: i64 = -1;

#[derive(Debug)]
struct Stored {
    acl: Arc<AclList>,
    key: i64,
    uses: u64,
}

/// The table of ACLs.
#[derive(Debug)]
pub struct Acls {
    open: Arc<AclList>,
    hash_seed: u64,
    slots: Vec<Option<Stored>>,
    by_acl: HashMap<Arc<[Acl]>, AclSlot, FixedState>,
    /// Free slots.
    free: Vec<AclSlot>,
    last_key: i64,
}

impl Acls {
    /// An empty table.
    #[must_use]
    pub fn new(hash_seed: u64) -> Self {
        Acls {
            open: Arc::new(AclList::new(Arc::from([Acl::world(Perms::ALL)]), hash_seed)),
            hash_seed,
            slots: Vec::new(),
            by_acl: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            free: Vec::new(),
            last_key: 0,
        }
    }

    /// The slot of an ACL, counted once more.
    pub fn acquire(&mut self, acl: &[Acl]) -> AclSlot {
        if *acl == **self.open.entries() {
            return AclSlot::OPEN;
        }
        let slot = match self.by_acl.get(acl) {
            Some(&slot) => slot,
            None => self.store(self.arrange(acl)),
        };
        self.load_use(slot);
        slot
    }

    /// Releases the ACL of a znode.
    pub fn release(&mut self, slot: AclSlot) {
        let Some(stored) = self.stored_mut(slot) else { return };
        stored.uses -= 1;
        if stored.uses == 0 {
            self.free(slot);
        }
    }

    /// The ACL in a slot.
    #[must_use]
    pub fn get(&self, slot: AclSlot) -> &Arc<AclList> {
        self.stored(slot).map_or(&self.open, |stored| &stored.acl)
    }

    /// The list for a txn in flight: the stored one, if there is one.
    #[must_use]
    pub fn find_or_arrange(&self, acl: &[Acl]) -> Arc<AclList> {
        if *acl == **self.open.entries() {
            return Arc::clone(&self.open);
        }
        match self.by_acl.get(acl) {
            Some(&slot) => Arc::clone(self.get(slot)),
            None => self.arrange(acl),
        }
    }

    fn arrange(&self, acl: impl Into<Arc<[Acl]>>) -> Arc<AclList> {
        Arc::new(AclList::new(acl.into(), self.hash_seed))
    }

    /// The key of the ACL in a slot, for snapshots.
    #[must_use]
    pub fn key(&self, slot: AclSlot) -> i64 {
        self.stored(slot).map_or(OPEN_KEY, |stored| stored.key)
    }

    /// Stores an ACL of a snapshot, not counted yet. It gets a new key.
    pub(crate) fn load(&mut self, acl: Vec<Acl>) -> AclSlot {
        match self.by_acl.get(&*acl) {
            Some(&slot) => slot,
            None => self.store(self.arrange(acl)),
        }
    }

    /// Counts a znode of a snapshot.
    pub(crate) fn load_use(&mut self, slot: AclSlot) {
        if let Some(stored) = self.stored_mut(slot) {
            stored.uses += 1;
        }
    }

    /// Drops ACLs that no znode uses.
    pub(crate) fn purge_unused(&mut self) {
        let is_unused = |stored: &Stored| stored.uses == 0;
        for index in 0..self.slots.len() {
            if self.slots[index].as_ref().is_some_and(is_unused) {
                self.free(slot_at(index));
            }
        }
    }

    /// All stored ACLs by their keys, in order.
    #[must_use]
    pub fn sorted(&self) -> Vec<(i64, Arc<[Acl]>)> {
        let stored = self.slots.iter().flatten();
        let mut all: Vec<_> =
            stored.map(|stored| (stored.key, Arc::clone(stored.acl.entries()))).collect();
        all.sort_unstable_by_key(|&(key, _)| key);
        all
    }

    fn store(&mut self, acl: Arc<AclList>) -> AclSlot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            slot_at(self.slots.len() - 1)
        });
        self.last_key += 1;
        self.by_acl.insert(Arc::clone(acl.entries()), slot);
        let index = slot.index().expect("the open ACL is not stored");
        self.slots[index] = Some(Stored { acl, key: self.last_key, uses: 0 });
        slot
    }

    fn free(&mut self, slot: AclSlot) {
        if let Some(stored) = slot.index().and_then(|index| self.slots[index].take()) {
            self.by_acl.remove(stored.acl.entries());
            self.free.push(slot);
        }
    }

    fn stored(&self, slot: AclSlot) -> Option<&Stored> {
        let stored = self.slots[slot.index()?].as_ref();
        Some(stored.expect("a znode's ACL is counted, so it is stored"))
    }

    fn stored_mut(&mut self, slot: AclSlot) -> Option<&mut Stored> {
        self.slots[slot.index()?].as_mut()
    }
}

fn slot_at(index: usize) -> AclSlot {
    AclSlot(u32::try_from(index + 1).expect("fewer ACLs than znodes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::Id;

    fn digest_acl(user: &str) -> Vec<Acl> {
        vec![Acl { perms: Perms::ALL, id: Id::new("digest", user) }]
    }

    #[test]
    fn equal_lists_share_a_slot_until_the_last_use_ends() {
        let mut acls = Acls::new(0);
        let first = acls.acquire(&digest_acl("a:x"));
        assert_eq!(acls.acquire(&digest_acl("a:x")), first);
        assert_ne!(acls.acquire(&digest_acl("b:x")), first);
        acls.release(first);
        assert_eq!(**acls.get(first).entries(), *digest_acl("a:x"));
        acls.release(first);
        assert_eq!(acls.sorted().len(), 1);
        assert_eq!(acls.acquire(&[Acl::world(Perms::ALL)]), AclSlot::OPEN);
    }

    #[test]
    fn a_slot_is_used_again_and_a_key_is_not() {
        let mut acls = Acls::new(0);
        let mut keys = Vec::new();
        for user in ["a:x", "b:x", "a:x"] {
            let slot = acls.acquire(&digest_acl(user));
            assert_eq!(slot, AclSlot(1));
            keys.push(acls.key(slot));
            acls.release(slot);
        }
        assert_eq!(keys, [1, 2, 3]);
    }
}

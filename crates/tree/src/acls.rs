//! ACLs in use, each stored once and counted. Apache: `ReferenceCountedACLCache`.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use herdsman_proto::{Acl, Perms};

/// Names an ACL inside one tree and its snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclKey(u32);

impl AclKey {
    /// `world:anyone:cdrwa`, which is never stored.
    pub const OPEN: AclKey = AclKey(0);

    /// The key as snapshots write it: -1 for the open ACL.
    #[must_use]
    pub fn on_disk(self) -> i64 {
        if self == AclKey::OPEN { -1 } else { i64::from(self.0) }
    }
}

#[derive(Debug)]
struct Stored {
    acl: Arc<[Acl]>,
    uses: u64,
}

/// The table of ACLs.
#[derive(Debug)]
pub struct Acls {
    open: Arc<[Acl]>,
    by_key: HashMap<AclKey, Stored, FixedState>,
    by_acl: HashMap<Arc<[Acl]>, AclKey, FixedState>,
    /// Keys that were in use and are not any more.
    free: Vec<AclKey>,
    last_key: u32,
}

impl Acls {
    /// An empty table.
    #[must_use]
    pub fn new(hash_seed: u64) -> Self {
        let hasher = FixedState::with_seed(hash_seed);
        Acls {
            open: Arc::from([Acl::world(Perms::ALL)]),
            by_key: HashMap::with_hasher(hasher.clone()),
            by_acl: HashMap::with_hasher(hasher),
            free: Vec::new(),
            last_key: 0,
        }
    }

    /// The key of an ACL, counted once more.
    pub fn acquire(&mut self, acl: &[Acl]) -> AclKey {
        if *acl == *self.open {
            return AclKey::OPEN;
        }
        if let Some(&key) = self.by_acl.get(acl) {
            self.by_key.get_mut(&key).expect("both maps hold the same keys").uses += 1;
            return key;
        }
        self.store(Arc::from(acl), 1)
    }

    /// A znode lets go of its ACL.
    pub fn release(&mut self, key: AclKey) {
        let Some(stored) = self.by_key.get_mut(&key) else {
            return;
        };
        stored.uses -= 1;
        if stored.uses == 0 {
            let acl = Arc::clone(&stored.acl);
            self.by_key.remove(&key);
            self.by_acl.remove(&acl);
            self.free.push(key);
        }
    }

    /// The ACL behind a key.
    #[must_use]
    pub fn get(&self, key: AclKey) -> &Arc<[Acl]> {
        if key == AclKey::OPEN {
            return &self.open;
        }
        &self.by_key.get(&key).expect("a znode's key is counted, so it is stored").acl
    }

    /// Stores an ACL of a snapshot, not counted yet. It gets a key of ours.
    pub(crate) fn load(&mut self, acl: Vec<Acl>) -> AclKey {
        self.store(Arc::from(acl), 0)
    }

    /// Counts a znode of a snapshot.
    pub(crate) fn load_use(&mut self, key: AclKey) {
        if let Some(stored) = self.by_key.get_mut(&key) {
            stored.uses += 1;
        }
    }

    /// Drops what no znode uses.
    pub(crate) fn purge_unused(&mut self) {
        self.by_key.retain(|_, stored| stored.uses > 0);
        let by_key = &self.by_key;
        self.by_acl.retain(|_, key| by_key.contains_key(key));
    }

    /// All stored ACLs, in order of their keys.
    #[must_use]
    pub fn sorted(&self) -> Vec<(AclKey, Arc<[Acl]>)> {
        let mut all: Vec<_> =
            self.by_key.iter().map(|(&key, stored)| (key, Arc::clone(&stored.acl))).collect();
        all.sort_unstable_by_key(|&(key, _)| key);
        all
    }

    fn store(&mut self, acl: Arc<[Acl]>, uses: u64) -> AclKey {
        let key = self.free.pop().unwrap_or_else(|| {
            self.last_key += 1;
            AclKey(self.last_key)
        });
        self.by_acl.insert(Arc::clone(&acl), key);
        self.by_key.insert(key, Stored { acl, uses });
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::Id;

    fn digest_acl(user: &str) -> Vec<Acl> {
        vec![Acl { perms: Perms::ALL, id: Id::new("digest", user) }]
    }

    #[test]
    fn equal_lists_share_a_key_until_the_last_use_ends() {
        let mut acls = Acls::new(0);
        let first = acls.acquire(&digest_acl("a:x"));
        assert_eq!(acls.acquire(&digest_acl("a:x")), first);
        assert_ne!(acls.acquire(&digest_acl("b:x")), first);
        acls.release(first);
        assert_eq!(**acls.get(first), *digest_acl("a:x"));
        acls.release(first);
        assert_eq!(acls.sorted().len(), 1);
        assert_eq!(acls.acquire(&[Acl::world(Perms::ALL)]), AclKey::OPEN);
    }
}

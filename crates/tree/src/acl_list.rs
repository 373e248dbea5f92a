//! One ACL, indexed so that the cost of a check depends on the caller's ids, not on the length of the list.
//!
//! A list has up to 1,024 entries and a connection up to 64 ids, each of which may be long. A client that may set a
//! list can also have it checked, thousands of times in a multi, while others wait for the node's lock. So no id is
//! compared with every entry: entries are found by a hash of scheme and id, and networks are parsed once. What is
//! left to scan is the networks of a list, for the address of the connection. [`ProvenIds`] keeps the hashes of the
//! caller's ids for all checks of one request, and what long lists grant to them.
//!
//! A list is indexed once, when it is set or loaded; that costs as much as sorting it.

use std::cell::{OnceCell, RefCell};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use herdsman_proto::{Acl, Id, Perms};

use crate::auth::{IP, Network, SASL, WORLD, X509};

/// The cost of a check, in entries and ids together, from which on its result is kept for the rest of the request.
const CACHED_COST_MIN: usize = 32;

/// The ids of a caller. They are hashed once, at the first list that does not grant everything to everyone.
#[derive(Debug)]
pub struct ProvenIds<'a> {
    ids: &'a [Id],
    hashes: OnceCell<Vec<u64>>,
    granted: RefCell<GrantCache>,
}

/// The permissions that long lists grant to all ids together, by the address of their entries, which are kept, too:
/// no other list can get that address meanwhile.
type GrantCache = HashMap<usize, (Arc<[Acl]>, Perms), FixedState>;

impl<'a> ProvenIds<'a> {
    /// Creates the ids for one request.
    #[must_use]
    pub fn new(ids: &'a [Id]) -> Self {
        let granted = RefCell::new(HashMap::with_hasher(FixedState::with_seed(0)));
        ProvenIds { ids, hashes: OnceCell::new(), granted }
    }

    /// The permissions that a list grants to these ids together. `granted` computes those of one id with its hash;
    /// a long list is checked only once.
    pub(crate) fn granted_by(
        &self,
        acl: &AclList,
        hash_seed: u64,
        granted: impl Fn(&Id, u64) -> Perms,
    ) -> Perms {
        let all = || {
            let each = self.hashed(hash_seed).map(|(id, hash)| granted(id, hash));
            each.fold(Perms(0), Perms::union)
        };
        if acl.entries.len() + self.ids.len() < CACHED_COST_MIN {
            return all();
        }
        let mut kept = self.granted.borrow_mut();
        kept.entry(acl.entries.as_ptr().addr())
            .or_insert_with(|| (Arc::clone(&acl.entries), all()))
            .1
    }

    /// The ids.
    #[must_use]
    pub fn as_slice(&self) -> &'a [Id] {
        self.ids
    }

    /// The ids with their hashes, for lists of a tree with this seed.
    fn hashed(&self, hash_seed: u64) -> impl Iterator<Item = (&'a Id, u64)> {
        let hash = |id: &Id| hash_of(hash_seed, &id.scheme, &id.id);
        let hashes = self.hashes.get_or_init(|| self.ids.iter().map(hash).collect());
        self.ids.iter().zip(hashes.iter().copied())
    }
}

/// The permissions of an id.
#[derive(Debug, PartialEq, Eq)]
struct Grant {
    hash: u64,
    /// The first entry of this id.
    entry: u32,
    /// The permissions of all its entries.
    perms: Perms,
}

/// The entries of an ACL in their order, with an index.
#[derive(Debug, PartialEq, Eq)]
pub struct AclList {
    entries: Arc<[Acl]>,
    entry_bytes: usize,
    hash_seed: u64,
    /// One for each id, sorted by hash.
    grants: Box<[Grant]>,
    networks: Box<[(Network, Perms)]>,
    /// The permissions of everyone.
    anyone: Perms,
    /// The permissions that all entries of the scheme `x509` grant together.
    x509: Perms,
    /// The same for `sasl`.
    sasl: Perms,
}

impl AclList {
    /// Indexes a list.
    #[must_use]
    pub fn new(entries: Arc<[Acl]>, hash_seed: u64) -> Self {
        let of = |is_meant: &dyn Fn(&Id) -> bool| {
            let meant = entries.iter().filter(|entry| is_meant(&entry.id));
            meant.fold(Perms(0), |perms, entry| perms.union(entry.perms))
        };
        let network = |entry: &Acl| Some((Network::parse(&entry.id.id)?, entry.perms));
        let networks = entries.iter().filter(|entry| entry.id.scheme == IP).filter_map(network);
        let text_bytes = |entry: &Acl| entry.id.scheme.len() + entry.id.id.len();
        AclList {
            hash_seed,
            entry_bytes: size_of_val(&*entries) + entries.iter().map(text_bytes).sum::<usize>(),
            grants: grants(&entries, hash_seed),
            networks: networks.collect(),
            anyone: of(&|id| id.scheme == WORLD && id.id == "anyone"),
            x509: of(&|id| id.scheme == X509),
            sasl: of(&|id| id.scheme == SASL),
            entries,
        }
    }

    /// The entries as they were set.
    #[must_use]
    pub fn entries(&self) -> &Arc<[Acl]> {
        &self.entries
    }

    /// The memory that the entries take, which is also what a copy of them takes.
    #[must_use]
    pub fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    /// The permissions of everyone.
    #[must_use]
    pub fn to_anyone(&self) -> Perms {
        self.anyone
    }

    /// The permissions of exactly this id.
    #[must_use]
    pub fn to_id(&self, id: &Id, hash: u64) -> Perms {
        let mut grants = self.grants_like(hash);
        let grant = grants.find(|grant| self.entries[grant.entry as usize].id == *id);
        grant.map_or(Perms(0), |grant| grant.perms)
    }

    /// The same for an id whose hash is not known.
    #[must_use]
    pub fn to_other_id(&self, id: &Id) -> Perms {
        self.to_id(id, hash_of(self.hash_seed, &id.scheme, &id.id))
    }

    /// The permissions of the networks that contain this address.
    #[must_use]
    pub fn to_address(&self, address: IpAddr) -> Perms {
        let around = self.networks.iter().filter(|(network, _)| network.contains(address));
        around.fold(Perms(0), |granted, (_, perms)| granted.union(*perms))
    }

    /// The permissions of all clients with a certificate together.
    #[must_use]
    pub fn to_all_x509(&self) -> Perms {
        self.x509
    }

    /// The permissions of all clients logged in with SASL together.
    #[must_use]
    pub fn to_all_sasl(&self) -> Perms {
        self.sasl
    }

    /// The grants with the same hash, which an id is compared with.
    fn grants_like(&self, hash: u64) -> impl Iterator<Item = &Grant> {
        let first = self.grants.partition_point(|grant| grant.hash < hash);
        self.grants[first..].iter().take_while(move |grant| grant.hash == hash)
    }
}

fn hash_of(hash_seed: u64, scheme: &str, id: &str) -> u64 {
    FixedState::with_seed(hash_seed).hash_one((scheme, id))
}

/// The index of the entries that are found by their ids, with one grant for each id.
fn grants(entries: &[Acl], hash_seed: u64) -> Box<[Grant]> {
    let by_id = entries.iter().zip(0..).filter(|(entry, _)| {
        let is_found_otherwise = entry.id.scheme == IP || entry.id.scheme == WORLD;
        !is_found_otherwise
    });
    let mut grants: Vec<_> = by_id
        .map(|(Acl { id, perms }, entry)| Grant {
            hash: hash_of(hash_seed, &id.scheme, &id.id),
            entry,
            perms: *perms,
        })
        .collect();
    let id_of = |grant: &Grant| &entries[grant.entry as usize].id;
    grants.sort_unstable_by(|a, b| {
        a.hash.cmp(&b.hash).then_with(|| id_of(a).cmp(id_of(b))).then(a.entry.cmp(&b.entry))
    });
    grants.dedup_by(|next, kept| {
        let is_same = next.hash == kept.hash && id_of(next) == id_of(kept);
        if is_same {
            kept.perms = kept.perms.union(next.perms);
        }
        is_same
    });
    grants.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: impl IntoIterator<Item = (Perms, Id)>) -> AclList {
        let entries = entries.into_iter().map(|(perms, id)| Acl { perms, id });
        AclList::new(entries.collect(), 7)
    }

    /// Before, each check compared each of the caller's ids with each entry.
    #[test]
    fn an_id_is_compared_only_with_equal_ids() {
        let user = |i: usize| format!("user{i:0>1000}:hash");
        let list = list((0..1024).map(|i| (Perms::READ, Id::new("digest", &user(i)))));
        let ids = |users: std::ops::Range<usize>| -> Vec<_> {
            users.map(|i| Id::new("digest", &user(i))).collect()
        };
        let compared = |ids: &[Id]| -> usize {
            ProvenIds::new(ids).hashed(7).map(|(_, hash)| list.grants_like(hash).count()).sum()
        };
        assert_eq!(compared(&ids(2000..2064)), 0);
        assert_eq!(compared(&ids(1000..1064)), 24);
        assert_eq!(list.to_other_id(&ids(5..6)[0]), Perms::READ);
        assert_eq!(list.to_other_id(&Id::new("sasl", &user(5))), Perms(0));
    }

    /// A multi may have 50,000 operations on one list, for each of which all ids were looked up.
    #[test]
    fn a_long_list_is_checked_once_in_a_request() {
        let ann = Id::new("digest", "ann:hash");
        let of = |perms| list((0..1024).map(|i| (perms, Id::new("digest", &format!("u{i}:hash")))));
        let (first, second) = (of(Perms::READ), of(Perms::WRITE));
        let ids = [ann, Id::new("digest", "u7:hash")];
        let (ids, asked) = (ProvenIds::new(&ids), std::cell::Cell::new(0));
        let granted_by = |acl: &AclList| {
            ids.granted_by(acl, 7, |id, hash| {
                asked.set(asked.get() + 1);
                acl.to_id(id, hash)
            })
        };
        for _ in 0..100 {
            assert_eq!(granted_by(&first), Perms::READ);
            assert_eq!(granted_by(&second), Perms::WRITE);
        }
        assert_eq!(asked.get(), 2 * 2);
    }

    /// There are as many different permissions as a list may have entries.
    #[test]
    fn entries_of_one_id_are_compared_once() {
        let ann = Id::new("digest", "ann:hash");
        let list = list((1..=1024).map(|i| (Perms(i << 5), ann.clone())));
        assert_eq!(list.grants.len(), 1);
        let all = (1..=1024).fold(0, |all, i| all | i << 5);
        assert_eq!(list.to_other_id(&ann), Perms(all));
        assert_eq!(list.entries().len(), 1024);
    }

    #[test]
    fn each_kind_of_entry_is_found() {
        let list = list([
            (Perms::READ, Id::anyone()),
            (Perms::WRITE, Id::new("ip", "10.0.0.0/8")),
            (Perms::CREATE, Id::new("ip", "10.1.0.0/16")),
            (Perms::ADMIN, Id::new("ip", "nowhere")),
            (Perms::WRITE, Id::new("x509", "CN=a")),
            (Perms::DELETE, Id::new("x509", "CN=b")),
            (Perms::ADMIN, Id::new("sasl", "ann")),
        ]);
        assert_eq!(list.to_anyone(), Perms::READ);
        let near = IpAddr::from([10, 1, 2, 3]);
        assert_eq!(list.to_address(near), Perms::WRITE.union(Perms::CREATE));
        assert_eq!(list.to_address(IpAddr::from([11, 1, 2, 3])), Perms(0));
        assert_eq!(list.to_other_id(&Id::new("x509", "CN=b")), Perms::DELETE);
        assert_eq!(list.to_all_x509(), Perms::WRITE.union(Perms::DELETE));
        assert_eq!(list.to_all_sasl(), Perms::ADMIN);
        assert_eq!(list.to_other_id(&Id::new("ip", "10.0.0.0/8")), Perms(0));
    }
}

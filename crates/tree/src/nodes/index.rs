//! The hash index from (parent, name) to slot, 4 bytes and a tag for each znode.
//!
//! It holds neither names nor hashes, so a table that grows looks up the names of all its znodes.
//! That is why there are many small tables instead of a large one: no single insertion moves more
//! than one of them, about a thousandth of all znodes.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

use super::NodeId;

/// The number of tables. Enough that the growth of one takes well under a millisecond with millions of znodes,
/// and few enough that an empty tree stays small.
const SHARDS: usize = 1024;

/// The number of hash positions from which a table is chosen.
const POSITIONS: u64 = 1 << 16;

/// The key of a znode: its parent and its name.
pub(super) type Key<'a> = (NodeId, &'a [u8]);

/// The index.
#[derive(Debug)]
pub(super) struct Index {
    shards: Box<[HashTable<NodeId>; SHARDS]>,
    hasher: FixedState,
}

impl Index {
    pub(super) fn new(hash_seed: u64) -> Self {
        Index {
            shards: Box::new([const { HashTable::new() }; SHARDS]),
            hasher: FixedState::with_seed(hash_seed),
        }
    }

    /// Finds a znode; `is` checks a candidate.
    #[inline]
    pub(super) fn find(&self, key: Key<'_>, is: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let hash = hash(&self.hasher, key);
        self.shards[shard(hash)].find(hash, |&id| is(id)).copied()
    }

    /// Adds a znode that is not in the index; `key_of` looks up the keys of other znodes.
    pub(super) fn insert<'a>(
        &mut self,
        key: Key<'_>,
        id: NodeId,
        key_of: impl Fn(NodeId) -> Key<'a>,
    ) {
        let Index { shards, hasher } = self;
        let own_hash = hash(hasher, key);
        let hash_of = |&other: &NodeId| hash(hasher, key_of(other));
        shards[shard(own_hash)].insert_unique(own_hash, id, hash_of);
    }

    /// Reserves space for this many znodes in total: then tables need not grow and look up the names of their znodes.
    pub(super) fn reserve<'a>(&mut self, znodes: usize, key_of: impl Fn(NodeId) -> Key<'a>) {
        let Index { shards, hasher } = self;
        let mut shares = [0; SHARDS];
        (0..POSITIONS).for_each(|position| shares[shard_at(position)] += 1);
        for (shard, share) in shards.iter_mut().zip(shares) {
            let wanted = (znodes as u64).saturating_mul(share).div_ceil(POSITIONS) as usize;
            let missing = wanted.saturating_sub(shard.len());
            shard.reserve(missing, |&other| hash(hasher, key_of(other)));
        }
    }

    /// Removes a znode.
    pub(super) fn remove(&mut self, key: Key<'_>, id: NodeId) {
        let hash = hash(&self.hasher, key);
        if let Ok(entry) = self.shards[shard(hash)].find_entry(hash, |&other| other == id) {
            entry.remove();
        }
    }
}

/// Does not use `Hash`, which would add a mark for the end of the name: nothing follows it.
#[inline]
fn hash(hasher: &FixedState, (parent, name): Key<'_>) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u32(parent.0);
    hasher.write(name);
    hasher.finish()
}

/// A table uses the lowest bits of a hash and the highest ones, so the choice among tables is made by
/// others. The last table gets about twice as much as the first, those between in proportion: tables
/// double when they are full, and so they do it one after another while the tree doubles, not all at
/// the same time. The curve is close to a logarithm of `position`, from 0 to 1 in 16 bits.
fn shard(hash: u64) -> usize {
    shard_at((hash >> 32) % POSITIONS)
}

fn shard_at(position: u64) -> usize {
    let bent = position + position * (POSITIONS - position) * 11 / (32 * POSITIONS);
    (bent * SHARDS as u64 / POSITIONS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short pauses during growth depend on this.
    #[test]
    fn no_table_holds_much_more_than_its_share() {
        let names: Vec<_> = (0..100_000).map(|number| format!("n{number:07}")).collect();
        let key = |id: NodeId| (NodeId(id.0 % 100), names[id.0 as usize].as_bytes());
        let mut index = Index::new(5);
        for id in (0..names.len() as u32).map(NodeId) {
            index.insert(key(id), id, key);
        }
        let share = names.len() / SHARDS;
        let lens: Vec<_> = index.shards.iter().map(HashTable::len).collect();
        assert!(lens.iter().all(|len| (share / 3..3 * share).contains(len)), "{share} in {lens:?}");
        let (first, last) = (&lens[..SHARDS / 16], &lens[SHARDS - SHARDS / 16..]);
        let ratio = last.iter().sum::<usize>() * 10 / first.iter().sum::<usize>();
        assert!((17..22).contains(&ratio), "they would grow together: {ratio}");
    }

    #[test]
    fn with_room_for_all_hardly_any_table_grows() {
        let names: Vec<_> = (0..100_000).map(|number| format!("n{number:07}")).collect();
        let key = |id: NodeId| (NodeId(7), names[id.0 as usize].as_bytes());
        let ids = || (0..names.len() as u32).map(NodeId);
        let mut index = Index::new(5);
        ids().take(1000).for_each(|id| index.insert(key(id), id, key));
        index.reserve(names.len(), key);
        let room = |index: &Index| index.shards.iter().map(HashTable::capacity).collect::<Vec<_>>();
        let before = room(&index);
        ids().skip(1000).for_each(|id| index.insert(key(id), id, key));
        let grown = room(&index).iter().zip(&before).filter(|(now, before)| now > before).count();
        assert!(grown < SHARDS / 5, "{grown} tables grew");
        assert!(ids().all(|id| index.find(key(id), |found| found == id) == Some(id)));
    }
}

//! What a server has logged, as the world saw it: the server cannot lie about it.

use bytes::Bytes;
use herdsman_node::membership_in;
use herdsman_proto::{Membership, Zxid};

use crate::chronicle::fingerprint;

/// A log, from some txn on.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    base: Zxid,
    entries: Vec<(Zxid, u64, Bytes)>,
    /// Those that bring a membership.
    changes: Vec<Zxid>,
}

impl Mirror {
    /// The txn before the first one.
    #[must_use]
    pub fn base(&self) -> Zxid {
        self.base
    }

    /// The last one.
    #[must_use]
    pub fn last(&self) -> Zxid {
        self.entries.last().map_or(self.base, |(zxid, ..)| *zxid)
    }

    /// Fingerprint of a txn.
    #[must_use]
    pub fn hash_of(&self, zxid: Zxid) -> Option<u64> {
        Some(self.entries[self.index_of(zxid)?].1)
    }

    fn index_of(&self, zxid: Zxid) -> Option<usize> {
        self.entries.binary_search_by_key(&zxid, |(zxid, ..)| *zxid).ok()
    }

    /// The last membership that was proposed.
    #[must_use]
    pub fn last_membership(&self) -> Option<Membership> {
        let index = self.index_of(self.last_change()?)?;
        membership_in(&self.entries[index].2)
    }

    /// The last txn that brings a membership.
    #[must_use]
    pub fn last_change(&self) -> Option<Zxid> {
        self.changes.last().copied()
    }

    /// A txn is logged. Gives its fingerprint.
    pub fn push(&mut self, zxid: Zxid, payload: Bytes) -> u64 {
        let hash = fingerprint(&payload);
        if membership_in(&payload).is_some() {
            self.changes.push(zxid);
        }
        self.entries.push((zxid, hash, payload));
        hash
    }

    /// The log was cut.
    pub fn cut_after(&mut self, zxid: Zxid) {
        self.entries.retain(|(other, ..)| *other <= zxid);
        self.changes.retain(|other| *other <= zxid);
        if self.last() != zxid {
            self.reset(zxid);
        }
    }

    /// The same log up to a txn.
    #[must_use]
    pub fn until(&self, zxid: Zxid) -> Mirror {
        let mut mirror = self.clone();
        mirror.cut_after(zxid);
        mirror
    }

    /// Everything was replaced by a tree.
    pub fn reset(&mut self, zxid: Zxid) {
        *self = Mirror { base: zxid, ..Mirror::default() };
    }

    /// Txns after one and up to another: the one before, zxid, fingerprint, bytes.
    #[must_use]
    pub fn between(&self, after: Zxid, until: Zxid) -> Vec<(Zxid, Zxid, u64, Bytes)> {
        let start = self.entries.partition_point(|(zxid, ..)| *zxid <= after);
        let mut previous = match start {
            0 => self.base,
            _ => self.entries[start - 1].0,
        };
        let mut found = Vec::new();
        for (zxid, hash, payload) in &self.entries[start..] {
            if *zxid > until {
                break;
            }
            found.push((previous, *zxid, *hash, payload.clone()));
            previous = *zxid;
        }
        found
    }
}

//! The tree digest (version 2): a wrapping sum of one CRC32 a znode, so that a change costs only
//! the znodes it touches. Apache: `DigestCalculator`, `AdHash`.
//!
//! Znodes below `/zookeeper/` are left out, because quota statistics there are kept by each server
//! on its own. ACLs are not part of it.

use std::collections::VecDeque;

use herdsman_proto::{StatPersisted, Zxid, path};

/// The digest of one znode. `path` is the empty text for the root.
#[must_use]
pub fn znode_digest(path: &str, data: Option<&[u8]>, stat: &StatPersisted) -> u32 {
    if is_excluded(path) {
        return 0;
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(path.as_bytes());
    crc.update(data.unwrap_or_default());
    for long in [stat.czxid.0, stat.mzxid.0, stat.pzxid.0, stat.ctime, stat.mtime] {
        crc.update(&long.to_be_bytes());
    }
    for int in [stat.version, stat.cversion, stat.aversion] {
        crc.update(&int.to_be_bytes());
    }
    crc.update(&stat.ephemeral_owner.to_be_bytes());
    crc.finalize()
}

fn is_excluded(path: &str) -> bool {
    path.strip_prefix(path::ZOOKEEPER).is_some_and(|rest| rest.starts_with('/'))
}

/// A running sum of znode digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeDigest(pub i64);

impl TreeDigest {
    /// Counts a znode in.
    pub fn add(&mut self, znode: u32) {
        self.0 = self.0.wrapping_add(i64::from(znode));
    }

    /// Counts a znode out.
    pub fn remove(&mut self, znode: u32) {
        self.0 = self.0.wrapping_sub(i64::from(znode));
    }
}

/// Digests of the recent past, one every 128 txns, so that operators can compare servers.
/// Apache: `DataTree.digestLog`.
#[derive(Debug, Default)]
pub struct DigestLog(VecDeque<(Zxid, i64)>);

impl DigestLog {
    const EVERY: i64 = 128;
    const KEPT_MAX: usize = 1024;

    /// Keeps the digest if it is this txn's turn.
    pub(crate) fn note(&mut self, zxid: Zxid, digest: TreeDigest) {
        if zxid.0 % Self::EVERY != 0 || self.0.back().is_some_and(|&(last, _)| last >= zxid) {
            return;
        }
        if self.0.len() == Self::KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((zxid, digest.0));
    }

    /// Forgets what was kept before this txn.
    pub(crate) fn forget_before(&mut self, zxid: Zxid) {
        self.0.retain(|(kept, _)| *kept >= zxid);
    }

    /// All that are kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Zxid, i64)> + '_ {
        self.0.iter().copied()
    }
}

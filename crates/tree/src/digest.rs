//! The tree digest (version 2): a wrapping sum of one CRC32 a znode, so that a change costs only
//! the znodes it touches. Apache: `DigestCalculator`, `AdHash`.
//!
//! Znodes below `/zookeeper/` are left out, because quota statistics there are kept by each server
//! on its own. ACLs are not part of it.

use herdsman_proto::{StatPersisted, path};

/// The digest of one znode. `path` is the empty text for the root.
#[must_use]
pub fn znode_digest(path: &str, data: Option<&[u8]>, stat: &StatPersisted) -> u32 {
    if is_excluded(path) {
        return 0;
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(path.as_bytes());
    crc.update(data.unwrap_or_default());
    for long in [
        stat.czxid.0,
        stat.mzxid.0,
        stat.pzxid.0,
        stat.ctime,
        stat.mtime,
    ] {
        crc.update(&long.to_be_bytes());
    }
    for int in [stat.version, stat.cversion, stat.aversion] {
        crc.update(&int.to_be_bytes());
    }
    crc.update(&stat.ephemeral_owner.to_be_bytes());
    crc.finalize()
}

fn is_excluded(path: &str) -> bool {
    path.strip_prefix(path::ZOOKEEPER)
        .is_some_and(|rest| rest.starts_with('/'))
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

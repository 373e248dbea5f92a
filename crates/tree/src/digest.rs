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
    let stat = stat_bytes(stat);
    let parts = [path.as_bytes(), data.unwrap_or_default(), &stat];
    let mut crc = crc32fast::Hasher::new();
    let mut joined = [0; JOINED_BYTES_MAX];
    match join(parts, &mut joined) {
        Some(whole) => crc.update(whole),
        None => parts.into_iter().for_each(|part| crc.update(part)),
    }
    crc.finalize()
}

/// The CRC of a znode's path and data, from which [`digest_after`] continues.
pub(crate) fn text_crc(path: &str, data: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(path.as_bytes());
    crc.update(data);
    crc.finalize()
}

/// The digest of a znode whose path and data have this CRC. Its cost does not depend on the data, so the CRC of much
/// data is kept: a parent's stat changes with every child.
pub(crate) fn digest_after(text_crc: u32, path: &str, stat: &StatPersisted) -> u32 {
    if is_excluded(path) {
        return 0;
    }
    let mut crc = crc32fast::Hasher::new_with_initial(text_crc);
    crc.update(&stat_bytes(stat));
    crc.finalize()
}

/// A CRC of 128 bytes or more takes a wide multiplication at each step, a shorter one a table lookup for
/// each byte. So the parts of an ordinary znode, each of which is short, are joined first.
const JOINED_BYTES_MAX: usize = 512;

/// Joins the parts, if there is room.
fn join<'a>(parts: [&[u8]; 3], joined: &'a mut [u8; JOINED_BYTES_MAX]) -> Option<&'a [u8]> {
    let mut end = 0;
    for part in parts {
        joined.get_mut(end..end + part.len())?.copy_from_slice(part);
        end += part.len();
    }
    Some(&joined[..end])
}

/// The stat in the digest's order, which is not that of the files.
fn stat_bytes(stat: &StatPersisted) -> [u8; StatPersisted::BYTES] {
    let mut bytes = [0; StatPersisted::BYTES];
    let longs = [stat.czxid.0, stat.mzxid.0, stat.pzxid.0, stat.ctime, stat.mtime];
    let ints = [stat.version, stat.cversion, stat.aversion];
    let (front, rest) = bytes.split_at_mut(8 * longs.len());
    for (place, long) in front.chunks_exact_mut(8).zip(longs) {
        place.copy_from_slice(&long.to_be_bytes());
    }
    let (middle, owner) = rest.split_at_mut(4 * ints.len());
    for (place, int) in middle.chunks_exact_mut(4).zip(ints) {
        place.copy_from_slice(&int.to_be_bytes());
    }
    owner.copy_from_slice(&stat.ephemeral_owner.to_be_bytes());
    bytes
}

fn is_excluded(path: &str) -> bool {
    path.strip_prefix(path::ZOOKEEPER).is_some_and(|rest| rest.starts_with('/'))
}

/// A running sum of znode digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeDigest(pub i64);

impl TreeDigest {
    /// Adds a znode.
    pub fn add(&mut self, znode: u32) {
        self.0 = self.0.wrapping_add(i64::from(znode));
    }

    /// Removes a znode.
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

    /// Keeps the digest of every 128th txn.
    pub(crate) fn note(&mut self, zxid: Zxid, digest: TreeDigest) {
        if zxid.0 % Self::EVERY != 0 || self.0.back().is_some_and(|&(last, _)| last >= zxid) {
            return;
        }
        if self.0.len() == Self::KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((zxid, digest.0));
    }

    /// Drops digests from before this txn.
    pub(crate) fn forget_before(&mut self, zxid: Zxid) {
        self.0.retain(|(kept, _)| *kept >= zxid);
    }

    /// The kept digests, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Zxid, i64)> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field by field, as Apache does it.
    fn field_by_field(path: &str, data: &[u8], stat: &StatPersisted) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(path.as_bytes());
        crc.update(data);
        for long in [stat.czxid.0, stat.mzxid.0, stat.pzxid.0, stat.ctime, stat.mtime] {
            crc.update(&long.to_be_bytes());
        }
        for int in [stat.version, stat.cversion, stat.aversion] {
            crc.update(&int.to_be_bytes());
        }
        crc.update(&stat.ephemeral_owner.to_be_bytes());
        crc.finalize()
    }

    #[test]
    fn short_and_long_znodes_are_summed_alike() {
        let stat = StatPersisted {
            czxid: Zxid(1),
            mzxid: Zxid(0x2_0000_0003),
            ctime: 4,
            mtime: -5,
            version: 6,
            cversion: 7,
            aversion: -8,
            ephemeral_owner: 0x0900_0000_0000_000a,
            pzxid: Zxid(11),
        };
        for bytes in [0, 1, 100, 449, 450, 451, 4096] {
            let data: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
            let expected = field_by_field("/a", &data, &stat);
            assert_eq!(znode_digest("/a", Some(&data), &stat), expected, "{bytes}");
            assert_eq!(digest_after(text_crc("/a", &data), "/a", &stat), expected, "{bytes}");
        }
        assert_eq!(znode_digest("/a", None, &stat), field_by_field("/a", &[], &stat));
    }
}

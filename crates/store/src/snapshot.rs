//! Snapshots: the whole tree in one file.
//!
//! ```text
//! header    "ZKSN" │ 00 00 00 02 │ dbid: i64 = -1
//! sessions  count: i32 │ { id: i64, timeout_ms: i32 }*
//! ACLs      count: i32 │ { key: i64, ACL vector }*
//! znodes    { path: string, data: buffer, ACL key: i64, stat: 60 bytes }*   root first, path ""
//!           "/" as a string: the end
//! seal      Adler-32 of everything before it: i64 │ "/" as a string
//! digest    zxid: i64 │ version: i32 = 2 │ digest: i64 │ seal               may be missing
//! last zxid zxid: i64 │ seal                                                 may be missing
//! ```
//! A file may be compressed as a whole; checksums are those of the uncompressed bytes. A snapshot is *fuzzy*:
//! a znode has its state at the moment when it was written, so the file may show effects of
//! txns after the one that names it, up to the zxid in its trailer. Those are in the log and are
//! replayed over it.
//!
//! A leader sends a learner only the middle part, see [`wire`].
//!
//! Apache: `FileSnap`, `SnapStream`. How we differ: a snapshot is always written under a name that
//! is not read as data, synced, and renamed.

mod batch;
mod input;
pub mod pack;
pub mod parts;
pub mod reader;
pub mod wire;
pub mod writer;

use std::sync::Arc;

use herdsman_proto::txn::TxnDigest;
use herdsman_proto::{Acl, JuteWrite, SessionId, StatPersisted, Zxid};
use herdsman_tree::Tree;

/// The header of a snapshot file.
pub const HEADER: [u8; 16] = *b"ZKSN\x00\x00\x00\x02\xff\xff\xff\xff\xff\xff\xff\xff";
/// The checked part of the header; Apache never reads the dbid after it.
const HEADER_CHECKED_BYTES: usize = 8;
/// The path that ends the list of znodes, and a seal.
const END_PATH: &str = "/";
/// The last bytes of a snapshot that is not compressed.
const LAST_BYTES: [u8; 5] = [0, 0, 0, 1, b'/'];

/// The tree's digest as of a txn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZxidDigest {
    /// The txn.
    pub zxid: Zxid,
    /// The version of the digest; ours is 2.
    pub version: i32,
    /// Its value.
    pub digest: i64,
}

/// The part after the znodes: the state of the tree when the last znode was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// The digest; servers before 3.6 write none, and servers with `digest.enabled=false` write none either.
    pub digest: Option<ZxidDigest>,
    /// The last applied txn; servers before 3.9 write none.
    pub last_zxid: Option<Zxid>,
}

/// Whether the last zxid is written. Apache: `serializeLastProcessedZxid.enabled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastZxid {
    /// Like 3.9.
    #[default]
    Write,
    /// Like servers before 3.9.
    Omit,
}

impl Trailer {
    /// The trailer of a snapshot whose last znode has just been taken from `tree`.
    #[must_use]
    pub fn of(tree: &Tree, last_zxid: LastZxid) -> Self {
        let zxid = tree.last_zxid();
        let digest = tree.options().digest.then(|| ZxidDigest {
            zxid,
            version: TxnDigest::VERSION,
            // Apache writes none before the first txn.
            digest: if zxid == Zxid::ZERO { 0 } else { tree.digest() },
        });
        Trailer { digest, last_zxid: (last_zxid == LastZxid::Write).then_some(zxid) }
    }

    /// The last txn of which a snapshot of this name may show an effect.
    #[must_use]
    pub fn fuzzy_until(&self, file_zxid: Zxid) -> Zxid {
        let digest_zxid = self.digest.map_or(Zxid::ZERO, |digest| digest.zxid);
        file_zxid.max(digest_zxid).max(self.last_zxid.unwrap_or(Zxid::ZERO))
    }
}

/// Appends sessions and ACLs, as in a file and in a leader's snapshot for a learner.
pub fn encode_tables(sessions: &[(SessionId, i32)], acls: &[(i64, Arc<[Acl]>)], out: &mut Vec<u8>) {
    out.put_vector(sessions, |out, (id, timeout_ms)| {
        out.put_long(id.0);
        out.put_int(*timeout_ms);
    });
    out.put_vector(acls, |out, (key, acl)| {
        out.put_long(*key);
        out.put_vector(acl, |out, acl| acl.encode(out));
    });
}

/// Appends a znode.
pub fn encode_node(
    path: &str,
    data: Option<&[u8]>,
    acl_key: i64,
    stat: &StatPersisted,
    out: &mut Vec<u8>,
) {
    out.put_string(path);
    out.put_buffer(data);
    out.put_long(acl_key);
    stat.encode(out);
}

/// Appends the end of the znodes.
pub fn encode_end(out: &mut Vec<u8>) {
    out.put_string(END_PATH);
}

#[cfg(test)]
#[path = "snapshot/tests.rs"]
mod tests;

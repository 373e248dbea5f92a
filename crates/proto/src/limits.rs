//! How long things may be, and that what one place accepts the next one does, too.
//!
//! A client's request passes a frame, the link between a learner and the leader, the leader's proposal and the log.
//! If a later one took less than an earlier one, a client could cost a server its link or its log by what it is
//! allowed to send. So all of these limits are computed here, from the two numbers that an operator sets. Apache has
//! no limit on the ids of a connection, and none on the ids of a packet.

use crate::acl::Id;

/// Ids that one connection may have proven.
pub const CONNECTION_IDS_MAX: usize = 64;
/// Bytes of those ids. A learner sends all of them with each write.
pub const CONNECTION_IDS_BYTES_MAX: usize = 64 * 1024;
/// Entries of an ACL that a client may set, `auth` spelled out.
pub const ACL_ENTRIES_MAX: usize = 1024;
/// Bytes that `auth` entries of one request may stand for, once for the request and once more for each of its
/// operations. A short entry stands for all ids of its connection; without a limit, a request of some hundred bytes
/// would be a txn of a megabyte, and a thousand of them a gigabyte in flight.
pub const SPELLED_BYTES_MAX: usize = 2 * CONNECTION_IDS_BYTES_MAX;
/// See [`SPELLED_BYTES_MAX`].
pub const SPELLED_BYTES_OF_OPERATION: usize = 256;
/// Sessions that one PING of a learner reports; for more it sends several.
pub const PING_SESSIONS_MAX: usize = 4096;

/// The least that a record may have on top of a frame.
const EXTRA_BYTES_MIN: usize = 1024;
/// What the data of a packet may have on top of a record: more than any header that is put before a request or a
/// txn, and so much that a small `jute.maxbuffer` has room for ids, sessions and a membership.
const LINK_EXTRA_BYTES: usize = 128 * 1024;
/// Lengths are ints.
const LENGTH_MAX: usize = i32::MAX as usize;

/// What an operator sets: `jute.maxbuffer` and `jute.maxbuffer.extrasize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    frame_bytes_max: usize,
    record_bytes_max: usize,
}

impl SizeLimits {
    /// A client's frame may have this many bytes, a record that many more.
    #[must_use]
    pub fn new(frame_bytes_max: u32, extra_bytes_max: u32) -> Self {
        let longest = LENGTH_MAX - LINK_EXTRA_BYTES;
        let extra = (extra_bytes_max as usize).clamp(EXTRA_BYTES_MIN, longest);
        let frame_bytes_max = (frame_bytes_max as usize).min(longest - EXTRA_BYTES_MIN);
        SizeLimits {
            frame_bytes_max,
            record_bytes_max: frame_bytes_max.saturating_add(extra).min(longest),
        }
    }

    /// The longest frame of a client.
    #[must_use]
    pub fn frame_bytes_max(self) -> usize {
        self.frame_bytes_max
    }

    /// The longest txn, and the longest record of the log or of a snapshot.
    #[must_use]
    pub fn record_bytes_max(self) -> usize {
        self.record_bytes_max
    }

    /// The longest field of a packet between servers, and all ids of a packet together.
    #[must_use]
    pub fn link_field_bytes_max(self) -> usize {
        self.record_bytes_max + LINK_EXTRA_BYTES
    }
}

/// One connection may have all of these ids.
#[must_use]
pub fn ids_fit(ids: &[Id]) -> bool {
    ids.len() <= CONNECTION_IDS_MAX && ids_len(ids) <= CONNECTION_IDS_BYTES_MAX
}

/// What these ids take in a packet between servers.
#[must_use]
pub fn ids_len(ids: &[Id]) -> usize {
    ids.iter().map(|id| 8 + id.scheme.len() + id.id.len()).sum()
}

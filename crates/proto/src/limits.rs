//! Size limits, computed so that what one component accepts the next one accepts, too.
//!
//! A client's request passes a frame, the link between a learner and the leader, the leader's proposal and the log.
//! If a later limit were smaller than an earlier one, a client could break a server's link or log with a request that
//! it may send. So all of these limits are computed here, from the two numbers that an operator sets. Apache has
//! no limit on the ids of a connection, and none on the ids of a packet.

use crate::acl::Id;

/// Ids that one connection may have.
pub const CONNECTION_IDS_MAX: usize = 64;
/// Bytes of those ids. A learner sends all of them with each write.
pub const CONNECTION_IDS_BYTES_MAX: usize = 64 * 1024;
/// Entries of an ACL that a client may set, with `auth` expanded.
pub const ACL_ENTRIES_MAX: usize = 1024;
/// Bytes to which `auth` entries of one request may expand, once for the request and once more for each of its
/// operations. A short entry stands for all ids of its connection; without a limit, a request of some hundred bytes
/// would be a txn of a megabyte, and a thousand of them a gigabyte in flight.
pub const SPELLED_BYTES_MAX: usize = 2 * CONNECTION_IDS_BYTES_MAX;
/// See [`SPELLED_BYTES_MAX`].
pub const SPELLED_BYTES_OF_OPERATION: usize = 256;
/// Sessions that one PING of a learner reports; for more it sends several.
pub const PING_SESSIONS_MAX: usize = 4096;

/// The minimum that a record may have on top of a frame.
const EXTRA_BYTES_MIN: usize = 1024;
/// The bytes that the data of a packet may have on top of a record: more than any header of a request or a
/// txn, and enough for ids, sessions and a membership with a small `jute.maxbuffer`.
const LINK_EXTRA_BYTES: usize = 128 * 1024;
/// Lengths are ints.
const LENGTH_MAX: usize = i32::MAX as usize;

/// The limits from the settings `jute.maxbuffer` and `jute.maxbuffer.extrasize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    frame_bytes_max: usize,
    record_bytes_max: usize,
}

impl SizeLimits {
    /// Limits for frames of `frame_bytes_max`, and for records that are `extra_bytes_max` longer.
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

/// Whether one connection may have all of these ids.
#[must_use]
pub fn ids_fit(ids: &[Id]) -> bool {
    ids.len() <= CONNECTION_IDS_MAX && ids_len(ids) <= CONNECTION_IDS_BYTES_MAX
}

/// The bytes of these ids in a packet between servers.
#[must_use]
pub fn ids_len(ids: &[Id]) -> usize {
    ids.iter().map(|id| 8 + id.scheme.len() + id.id.len()).sum()
}

//! What a znode was when it was read.
//!
//! Versions alone do not tell: a znode that was deleted and created again counts its versions from 0
//! again, and may have the one that was read. Zxids are never used twice.

use herdsman_client::{Stat, Zxid};

/// What a znode was when it was read: enough to know it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZnodeVersion {
    /// The creation of the znode.
    pub czxid: Zxid,
    /// The last change of its data.
    pub mzxid: Zxid,
    /// The version of its data.
    pub version: i32,
    /// The version of its ACL.
    pub aversion: i32,
}

impl ZnodeVersion {
    /// As this stat shows it.
    #[must_use]
    pub fn of(stat: &Stat) -> Self {
        let Stat { czxid, mzxid, version, aversion, .. } = *stat;
        ZnodeVersion { czxid, mzxid, version, aversion }
    }

    /// Whether it is the same znode, with the same data.
    #[must_use]
    pub fn has_same_data(&self, other: &ZnodeVersion) -> bool {
        (self.czxid, self.mzxid) == (other.czxid, other.mzxid)
    }
}

//! The versions of a znode when it was read.
//!
//! The data version alone is not enough: a znode that was deleted and created again counts its versions
//! from 0 again, and may have the version that was read. Zxids are never used twice.

use herdsman_client::{Stat, Zxid};

/// The versions of a znode when it was read, enough to detect any change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZnodeVersion {
    /// The zxid of its creation.
    pub czxid: Zxid,
    /// The zxid of the last change of its data.
    pub mzxid: Zxid,
    /// The version of its data.
    pub version: i32,
    /// The version of its ACL.
    pub aversion: i32,
}

impl ZnodeVersion {
    /// The versions in a stat.
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

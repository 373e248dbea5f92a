//! The metadata of a znode, as clients see it and as it is stored on disk.

use crate::ids::Zxid;
use crate::jute::{JuteReader, JuteWrite, Result};

/// The stat of a znode as a client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Txn that created the znode.
    pub czxid: Zxid,
    /// Txn that last changed its data.
    pub mzxid: Zxid,
    /// When it was created, milliseconds since 1970.
    pub ctime: i64,
    /// When its data last changed.
    pub mtime: i64,
    /// Changes of the data.
    pub version: i32,
    /// Changes of the list of children.
    pub cversion: i32,
    /// Changes of the ACL.
    pub aversion: i32,
    /// Session that owns an ephemeral znode, else 0.
    pub ephemeral_owner: i64,
    /// Bytes of data.
    pub data_length: i32,
    /// Number of children.
    pub num_children: i32,
    /// Txn that last changed the list of children.
    pub pzxid: Zxid,
}

impl Stat {
    /// Encoded size.
    pub const BYTES: usize = 68;

    /// Appends the stat. It is laid out apart first, so that `out` makes room once, not for each number.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        let mut bytes = [0; Self::BYTES];
        self.lay_out(&mut bytes.as_mut_slice());
        out.put_raw(&bytes);
    }

    fn lay_out(&self, out: &mut &mut [u8]) {
        out.put_long(self.czxid.0);
        out.put_long(self.mzxid.0);
        out.put_long(self.ctime);
        out.put_long(self.mtime);
        out.put_int(self.version);
        out.put_int(self.cversion);
        out.put_int(self.aversion);
        out.put_long(self.ephemeral_owner);
        out.put_int(self.data_length);
        out.put_int(self.num_children);
        out.put_long(self.pzxid.0);
    }

    /// Reads a stat.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<Self> {
        Ok(Stat {
            czxid: Zxid(reader.long()?),
            mzxid: Zxid(reader.long()?),
            ctime: reader.long()?,
            mtime: reader.long()?,
            version: reader.int()?,
            cversion: reader.int()?,
            aversion: reader.int()?,
            ephemeral_owner: reader.long()?,
            data_length: reader.int()?,
            num_children: reader.int()?,
            pzxid: Zxid(reader.long()?),
        })
    }
}

/// The stat of a znode as it is stored. `cversion` counts creations only (it is the source of
/// sequence numbers), and `ephemeral_owner` also marks containers and TTL znodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatPersisted {
    /// Txn that created the znode.
    pub czxid: Zxid,
    /// Txn that last changed its data.
    pub mzxid: Zxid,
    /// When it was created, milliseconds since 1970.
    pub ctime: i64,
    /// When its data last changed.
    pub mtime: i64,
    /// Changes of the data.
    pub version: i32,
    /// Children ever created.
    pub cversion: i32,
    /// Changes of the ACL.
    pub aversion: i32,
    /// Owning session, container mark or time to live.
    pub ephemeral_owner: i64,
    /// Txn that last changed the list of children.
    pub pzxid: Zxid,
}

impl StatPersisted {
    /// Encoded size.
    pub const BYTES: usize = 60;

    /// The stat of a znode just created.
    #[must_use]
    pub fn created(zxid: Zxid, time_ms: i64, ephemeral_owner: i64) -> Self {
        StatPersisted {
            czxid: zxid,
            mzxid: zxid,
            ctime: time_ms,
            mtime: time_ms,
            ephemeral_owner,
            pzxid: zxid,
            ..StatPersisted::default()
        }
    }

    /// Appends the stat.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        out.put_long(self.czxid.0);
        out.put_long(self.mzxid.0);
        out.put_long(self.ctime);
        out.put_long(self.mtime);
        out.put_int(self.version);
        out.put_int(self.cversion);
        out.put_int(self.aversion);
        out.put_long(self.ephemeral_owner);
        out.put_long(self.pzxid.0);
    }

    /// Reads a stat.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<Self> {
        Ok(StatPersisted {
            czxid: Zxid(reader.long()?),
            mzxid: Zxid(reader.long()?),
            ctime: reader.long()?,
            mtime: reader.long()?,
            version: reader.int()?,
            cversion: reader.int()?,
            aversion: reader.int()?,
            ephemeral_owner: reader.long()?,
            pzxid: Zxid(reader.long()?),
        })
    }
}

//! Access control lists: who (`scheme:id`) may do what (permission bits) with a znode.

use crate::jute::{JuteWrite, Reader, Result};

/// Permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Perms(pub i32);

impl Perms {
    /// Read data and list children.
    pub const READ: Perms = Perms(1);
    /// Replace data.
    pub const WRITE: Perms = Perms(2);
    /// Create children.
    pub const CREATE: Perms = Perms(4);
    /// Delete children.
    pub const DELETE: Perms = Perms(8);
    /// Replace the ACL.
    pub const ADMIN: Perms = Perms(16);
    /// Everything.
    pub const ALL: Perms = Perms(31);

    /// Any of `wanted`'s bits is among these.
    #[must_use]
    pub fn intersects(self, wanted: Perms) -> bool {
        self.0 & wanted.0 != 0
    }

    /// All bits of either.
    #[must_use]
    pub const fn union(self, other: Perms) -> Perms {
        Perms(self.0 | other.0)
    }
}

/// A principal: an authentication scheme and what it knows somebody by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// `world`, `digest`, `ip`, …
    pub scheme: String,
    /// In the scheme's own form.
    pub id: String,
}

impl Id {
    /// A principal of the given scheme.
    #[must_use]
    pub fn new(scheme: &str, id: &str) -> Self {
        Id { scheme: scheme.to_owned(), id: id.to_owned() }
    }

    /// Everybody.
    #[must_use]
    pub fn anyone() -> Self {
        Id::new("world", "anyone")
    }

    /// Reads an id. Null fields are read as empty text, which no scheme accepts.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let scheme = reader.string()?.unwrap_or_default().into_owned();
        let id = reader.string()?.unwrap_or_default().into_owned();
        Ok(Id { scheme, id })
    }

    /// Appends the id.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        out.put_string(&self.scheme);
        out.put_string(&self.id);
    }
}

/// One entry of an access control list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Acl {
    /// What is allowed.
    pub perms: Perms,
    /// To whom.
    pub id: Id,
}

impl Acl {
    /// `world:anyone` with the given permissions.
    #[must_use]
    pub fn world(perms: Perms) -> Self {
        Acl { perms, id: Id::anyone() }
    }

    /// Reads an entry.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Acl { perms: Perms(reader.int()?), id: Id::decode(reader)? })
    }

    /// Appends the entry.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        out.put_int(self.perms.0);
        self.id.encode(out);
    }
}

//! Access control lists: the permissions (bits) of ids (`scheme:id`) on a znode.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::Digest;

use crate::jute::{JuteReader, JuteWrite, Result};

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
    /// All permissions.
    pub const ALL: Perms = Perms(31);

    /// Whether any of `wanted`'s bits is set.
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

/// A principal: an authentication scheme and an id in that scheme.
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

    /// Everyone: `world:anyone`.
    #[must_use]
    pub fn anyone() -> Self {
        Id::new("world", "anyone")
    }

    /// Reads an id. Null fields are read as empty text, which no scheme accepts.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<Self> {
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
    /// The permissions.
    pub perms: Perms,
    /// The id that has them.
    pub id: Id,
}

impl Acl {
    /// `world:anyone` with the given permissions.
    #[must_use]
    pub fn world(perms: Perms) -> Self {
        Acl { perms, id: Id::anyone() }
    }

    /// Everyone may do everything. Apache: `Ids.OPEN_ACL_UNSAFE`.
    #[must_use]
    pub fn open() -> Self {
        Acl::world(Perms::ALL)
    }

    /// All clients may read, and none may change anything. Apache: `Ids.READ_ACL_UNSAFE`.
    #[must_use]
    pub fn read_only() -> Self {
        Acl::world(Perms::READ)
    }

    /// All permissions for the creator of the znode: the server replaces this entry by one for each
    /// identity of the connection, and rejects it if there is none. Apache: `Ids.CREATOR_ALL_ACL`.
    #[must_use]
    pub fn creator_all() -> Self {
        Acl { perms: Perms::ALL, id: Id::new("auth", "") }
    }

    /// A user of the scheme `digest`, authenticated with `user:password`. The hash is SHA-1, the default
    /// of servers; see [`digest_id`] for others. The user's name must not contain a colon.
    #[must_use]
    pub fn digest(user: &str, password: &str, perms: Perms) -> Self {
        let id = digest_id(&format!("{user}:{password}"), DigestAlgorithm::Sha1);
        Acl { perms, id: Id::new("digest", &id) }
    }

    /// Reads an entry.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<Self> {
        Ok(Acl { perms: Perms(reader.int()?), id: Id::decode(reader)? })
    }

    /// Appends the entry.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        out.put_int(self.perms.0);
        self.id.encode(out);
    }
}

/// A list of one entry.
impl From<Acl> for Vec<Acl> {
    fn from(entry: Acl) -> Self {
        vec![entry]
    }
}

/// The hash function for passwords of the scheme `digest`
/// (`zookeeper.DigestAuthenticationProvider.digestAlg`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// The default of all servers.
    #[default]
    Sha1,
    /// Of the SHA-2 family.
    Sha256,
    /// Of the SHA-2 family.
    Sha384,
    /// Of the SHA-2 family.
    Sha512,
}

/// `user:password` → `user:base64(hash(user:password))`, the id of the scheme `digest`.
/// Apache: `DigestAuthenticationProvider.generateDigest`.
#[must_use]
pub fn digest_id(credentials: &str, algorithm: DigestAlgorithm) -> String {
    let hash = match algorithm {
        DigestAlgorithm::Sha1 => STANDARD.encode(sha1::Sha1::digest(credentials)),
        DigestAlgorithm::Sha256 => STANDARD.encode(sha2::Sha256::digest(credentials)),
        DigestAlgorithm::Sha384 => STANDARD.encode(sha2::Sha384::digest(credentials)),
        DigestAlgorithm::Sha512 => STANDARD.encode(sha2::Sha512::digest(credentials)),
    };
    let user = credentials.split(':').next().unwrap_or_default();
    format!("{user}:{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_the_well_known_ones() {
        // From the ZooKeeper documentation's super user example.
        let known = "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=";
        assert_eq!(digest_id("super:admin", DigestAlgorithm::Sha1), known);
        let entry = Acl::digest("super", "admin", Perms::READ);
        assert_eq!(entry, Acl { perms: Perms::READ, id: Id::new("digest", known) });
    }
}

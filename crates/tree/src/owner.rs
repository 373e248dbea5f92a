//! What a znode's stored `ephemeralOwner` means: a session, a container mark or a time to live.
//! Apache: `EphemeralType`.

use herdsman_proto::SessionId;

/// Marks a container znode.
pub const CONTAINER: i64 = i64::MIN;

const EXTENDED_MASK: i64 = 0xff00_0000_0000_0000_u64 as i64;
const FEATURE_MASK: i64 = 0x00ff_ff00_0000_0000;

/// Longest time to live: 40 bits of milliseconds.
pub const TTL_MS_MAX: i64 = 0xff_ffff_ffff;

/// The kind of owner of a znode, which decides how it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No owner: the znode is deleted only by a request.
    None,
    /// Ephemeral: it is deleted with this session.
    Session(SessionId),
    /// A container: it is deleted after its last child.
    Container,
    /// A TTL znode: it is deleted when it was idle and childless for this many milliseconds.
    Ttl(i64),
}

/// Which stored values are read as TTL znodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerRules {
    /// `zookeeper.extendedTypesEnabled`: TTL znodes exist.
    pub extended_types: bool,
    /// `zookeeper.emulate353TTLNodes`: the layout of 3.5.3 is understood as well.
    pub emulate_353_ttl: bool,
}

impl OwnerRules {
    /// Decodes a stored owner. Unknown extended features are read as 3.4 does: as a session.
    #[must_use]
    pub fn owner(self, stored: i64) -> Owner {
        if stored == 0 {
            return Owner::None;
        }
        if self.extended_types {
            let emulated = self.emulate_353_ttl && stored < 0 && stored != CONTAINER;
            let extended = stored & EXTENDED_MASK == EXTENDED_MASK && stored & FEATURE_MASK == 0;
            if emulated || extended {
                return Owner::Ttl(stored & TTL_MS_MAX);
            }
        }
        if stored == CONTAINER { Owner::Container } else { Owner::Session(SessionId(stored)) }
    }

    /// The session that a client sees as the owner, or 0.
    #[must_use]
    pub fn visible_owner(self, stored: i64) -> i64 {
        match self.owner(stored) {
            Owner::Session(session) => session.0,
            Owner::None | Owner::Container | Owner::Ttl(_) => 0,
        }
    }
}

/// The stored owner for a time to live; `None` when it is out of range.
#[must_use]
pub fn ttl_owner(ttl_ms: i64) -> Option<i64> {
    (1..=TTL_MS_MAX).contains(&ttl_ms).then_some(EXTENDED_MASK | ttl_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_decoded_by_the_rules_in_effect() {
        let plain = OwnerRules::default();
        let extended = OwnerRules { extended_types: true, ..plain };
        let emulating = OwnerRules { emulate_353_ttl: true, ..extended };
        let ttl = ttl_owner(1234).unwrap();
        let check = |rules: OwnerRules, stored, expected| assert_eq!(rules.owner(stored), expected);
        check(plain, 0, Owner::None);
        check(plain, 7, Owner::Session(SessionId(7)));
        check(plain, CONTAINER, Owner::Container);
        check(plain, ttl, Owner::Session(SessionId(ttl)));
        check(extended, ttl, Owner::Ttl(1234));
        check(extended, CONTAINER, Owner::Container);
        check(emulating, CONTAINER | 99, Owner::Ttl(99));
        check(emulating, CONTAINER, Owner::Container);
    }

    #[test]
    fn times_to_live_have_a_range() {
        assert_eq!((ttl_owner(0), ttl_owner(-1), ttl_owner(TTL_MS_MAX + 1)), (None, None, None));
        assert!(ttl_owner(TTL_MS_MAX).is_some());
    }
}

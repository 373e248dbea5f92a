//! Ids of sessions as they are shown: whole to those who may see everything, masked to all others.
//!
//! Whoever knows the id of a session knows its password too, unless passwords are made with a key
//! (`herdsman.sessionKeyFile`), and then still the one half of what it takes. So an id is shown only to a
//! request that may take a snapshot, which shows them all: one that has logged in with all permissions on the
//! root. Others see in its place a number that is the same for the same session as long as this process runs, so that
//! sessions can be told apart and followed, and from which the id cannot be computed.

use herdsman_node::SessionKey;
use herdsman_proto::SessionId;

/// How a masked id begins where ids are text.
pub(crate) const PREFIX: &str = "masked-";
/// How many hexadecimal digits follow.
pub(crate) const MASKED_DIGITS: usize = 13;

/// Computes masked ids, with a random key that exists only in this process.
#[derive(Debug)]
pub(crate) struct Masks(SessionKey);

impl Default for Masks {
    fn default() -> Self {
        let mut secret = [0; SessionKey::BYTES_MIN];
        getrandom::fill(&mut secret).expect("the system has randomness");
        Masks(SessionKey::new(&secret).expect("as long as a key"))
    }
}

impl Masks {
    /// Of 52 bits, so that it is exact also where all numbers are floating point.
    fn masked(&self, session: SessionId) -> u64 {
        let tag = self.0.password(session);
        u64::from_be_bytes([0, 0, tag[0], tag[1], tag[2], tag[3], tag[4], tag[5]]) << 4
            | u64::from(tag[6] >> 4)
    }

    /// As text, which no id can be.
    pub fn text(&self, session: SessionId) -> String {
        format!("{PREFIX}{:013x}", self.masked(session))
    }

    /// Whether this is the masked id of a session, of which only the digits behind [`PREFIX`] are given.
    pub fn is_of(&self, digits: u64, session: SessionId) -> bool {
        self.masked(session) == digits
    }

    /// As a number. It is negative, which ids are only in ensembles with server numbers above 127.
    pub fn number(&self, session: SessionId) -> i64 {
        -1 - self.masked(session).cast_signed()
    }
}

/// How one request sees ids.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IdView<'a> {
    /// As they are.
    Whole,
    /// Masked.
    Masked(&'a Masks),
}

impl IdView<'_> {
    /// As text.
    pub fn text(self, session: SessionId) -> String {
        match self {
            IdView::Whole => session.to_string(),
            IdView::Masked(masks) => masks.text(session),
        }
    }

    /// As a number. A connection without a session has none to hide.
    pub fn number(self, session: SessionId) -> i64 {
        match self {
            IdView::Masked(masks) if session != SessionId::NONE => masks.number(session),
            _ => session.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_ids_tell_sessions_apart_and_nothing_else() {
        let (masks, others) = (Masks::default(), Masks::default());
        let [one, two] = [SessionId(0x0100_0000_0000_0001), SessionId(0x0100_0000_0000_0002)];
        assert_eq!(masks.text(one), masks.text(one));
        assert_ne!(masks.text(one), masks.text(two));
        assert_ne!(masks.text(one), others.text(one), "the key goes with the process");
        assert!(masks.number(one) < 0 && masks.number(one) >= -(1 << 53));
        assert_eq!(format!("masked-{:013x}", -1 - masks.number(one)), masks.text(one));
        assert_eq!(IdView::Whole.number(one), one.0);
        assert_eq!(IdView::Masked(&masks).number(SessionId::NONE), 0);
    }
}

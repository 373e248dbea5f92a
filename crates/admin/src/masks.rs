//! Session ids in responses: whole for callers who may see everything, masked for all others.
//!
//! The id of a session is enough to know its password, unless passwords are made with a key
//! (`herdsman.sessionKeyFile`), and then it is still one half of what is needed. So an id is shown only to a
//! request that may take a snapshot, which contains all ids: one that has logged in with all permissions on the
//! root. Other callers see a number instead that is the same for the same session while this process runs, so that
//! sessions can be distinguished and followed, and from which the id cannot be computed.

use herdsman_node::SessionKey;
use herdsman_proto::SessionId;

/// The prefix of a masked id in text form.
pub(crate) const PREFIX: &str = "masked-";
/// The number of hexadecimal digits that follow.
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
    /// A masked id. It has 52 bits, so that it is exact as a floating-point number, too.
    fn masked(&self, session: SessionId) -> u64 {
        let tag = self.0.password(session);
        u64::from_be_bytes([0, 0, tag[0], tag[1], tag[2], tag[3], tag[4], tag[5]]) << 4
            | u64::from(tag[6] >> 4)
    }

    /// A masked id as text, in a form that no id has.
    pub fn text(&self, session: SessionId) -> String {
        format!("{PREFIX}{:013x}", self.masked(session))
    }

    /// Whether these are the digits (after [`PREFIX`]) of the masked id of a session.
    pub fn is_of(&self, digits: u64, session: SessionId) -> bool {
        self.masked(session) == digits
    }

    /// A masked id as a negative number. Real ids are negative only in ensembles with server ids above 127.
    pub fn number(&self, session: SessionId) -> i64 {
        -1 - self.masked(session).cast_signed()
    }
}

/// How a request sees ids.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IdView<'a> {
    /// Whole.
    Whole,
    /// Masked.
    Masked(&'a Masks),
}

impl IdView<'_> {
    /// The id as text.
    pub fn text(self, session: SessionId) -> String {
        match self {
            IdView::Whole => session.to_string(),
            IdView::Masked(masks) => masks.text(session),
        }
    }

    /// The id as a number. That of a connection without a session needs no mask.
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
    fn masked_ids_distinguish_sessions_and_reveal_nothing_else() {
        let (masks, others) = (Masks::default(), Masks::default());
        let [one, two] = [SessionId(0x0100_0000_0000_0001), SessionId(0x0100_0000_0000_0002)];
        assert_eq!(masks.text(one), masks.text(one));
        assert_ne!(masks.text(one), masks.text(two));
        assert_ne!(masks.text(one), others.text(one), "the key belongs to the process");
        assert!(masks.number(one) < 0 && masks.number(one) >= -(1 << 53));
        assert_eq!(format!("masked-{:013x}", -1 - masks.number(one)), masks.text(one));
        assert_eq!(IdView::Whole.number(one), one.0);
        assert_eq!(IdView::Masked(&masks).number(SessionId::NONE), 0);
    }
}

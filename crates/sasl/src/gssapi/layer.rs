//! The last two messages of RFC 4752, section 3: the server says which layers it has to protect what follows
//! the login, the client which one it takes, and who it wants to be. We have none and take none.
//!
//! Both are one byte of flags, three bytes with the longest message that the sender takes in a layer (zero
//! where there is none), and in the client's message a name in UTF-8.

use crate::SaslError;

/// The flag for no layer at all.
const NO_LAYER: u8 = 1;
const HEADER_BYTES: usize = 4;

/// The server's message.
pub(super) const OFFER: [u8; HEADER_BYTES] = [NO_LAYER, 0, 0, 0];
/// The client's message. It names nobody, which means whoever the ticket is for.
pub(super) const CHOICE: [u8; HEADER_BYTES] = OFFER;

/// Whether the server lets us do without a layer.
pub(super) fn check_offer(offer: &[u8]) -> Result<(), SaslError> {
    match offer {
        [layers, _, _, _] if layers & NO_LAYER != 0 => Ok(()),
        [_, _, _, _] => Err(SaslError::Protection),
        _ => Err(SaslError::MalformedLayers),
    }
}

/// Whom the client wants to be, if it does without a layer and says so.
pub(super) fn read_choice(choice: &[u8]) -> Result<Option<&str>, SaslError> {
    let (header, name) = choice.split_at_checked(HEADER_BYTES).ok_or(SaslError::MalformedLayers)?;
    if header[0] != NO_LAYER {
        return Err(SaslError::Protection);
    }
    let name = std::str::from_utf8(name).map_err(|_| SaslError::MalformedLayers)?;
    Ok(Some(name).filter(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_with_no_layer_among_others_is_taken() {
        assert_eq!(check_offer(&[7, 1, 0, 0]), Ok(()));
        assert_eq!(check_offer(&OFFER), Ok(()));
        assert_eq!(check_offer(&[6, 1, 0, 0]), Err(SaslError::Protection));
        for odd in [&[][..], &[1], &[1, 0, 0], &[1, 0, 0, 0, 0]] {
            assert_eq!(check_offer(odd), Err(SaslError::MalformedLayers), "{odd:?}");
        }
    }

    #[test]
    fn a_choice_is_one_layer_and_maybe_a_name() {
        assert_eq!(read_choice(&CHOICE), Ok(None));
        // The JDK's client says how much it would take in a layer, though it wants none.
        assert_eq!(read_choice(b"\x01\x01\0\0ann@HERD"), Ok(Some("ann@HERD")));
        assert_eq!(read_choice(b"\x02\0\0\0ann"), Err(SaslError::Protection));
        assert_eq!(read_choice(b"\x03\0\0\0ann"), Err(SaslError::Protection));
        assert_eq!(read_choice(b"\x01\0\0"), Err(SaslError::MalformedLayers));
        assert_eq!(read_choice(b"\x01\0\0\0\xff"), Err(SaslError::MalformedLayers));
    }
}

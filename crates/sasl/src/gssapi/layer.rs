//! The last two messages of RFC 4752, section 3: the server lists its layers for protecting what follows
//! the login; the client chooses one and names the identity it wants. We support no layer and choose none.
//!
//! Both are one byte of flags and three bytes with the longest message that the sender accepts in a layer
//! (zero if there is none); the client's message ends with a name in UTF-8.

use crate::SaslError;

/// The flag for "no layer".
const NO_LAYER: u8 = 1;
const HEADER_BYTES: usize = 4;

/// The server's message.
pub(super) const OFFER: [u8; HEADER_BYTES] = [NO_LAYER, 0, 0, 0];
/// The client's message. It has no name, which means the ticket's owner.
pub(super) const CHOICE: [u8; HEADER_BYTES] = OFFER;

/// Checks that the server allows a connection without a layer.
pub(super) fn check_offer(offer: &[u8]) -> Result<(), SaslError> {
    match offer {
        [layers, _, _, _] if layers & NO_LAYER != 0 => Ok(()),
        [_, _, _, _] => Err(SaslError::Protection),
        _ => Err(SaslError::MalformedLayers),
    }
}

/// Returns the identity that the client requests, if it chooses no layer.
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
        // The JDK's client states a maximum length even though it chooses no layer.
        assert_eq!(read_choice(b"\x01\x01\0\0ann@HERD"), Ok(Some("ann@HERD")));
        assert_eq!(read_choice(b"\x02\0\0\0ann"), Err(SaslError::Protection));
        assert_eq!(read_choice(b"\x03\0\0\0ann"), Err(SaslError::Protection));
        assert_eq!(read_choice(b"\x01\0\0"), Err(SaslError::MalformedLayers));
        assert_eq!(read_choice(b"\x01\0\0\0\xff"), Err(SaslError::MalformedLayers));
    }
}

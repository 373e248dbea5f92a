//! Distinguishes TLS from plain bytes on a port that accepts both.
//!
//! In: the first bytes from a peer, none of them consumed. Out: whether they start a TLS record. Apache:
//! Netty's `SslHandler.isEncrypted`, which always waits for five bytes; we decide as soon as possible, so
//! that a four-letter word without a line end is not kept waiting.

/// A TLS record begins with its type, the version and its length.
const RECORD_HEADER_BYTES: usize = 5;

/// Whether a connection that starts with these bytes is TLS. None: more bytes are needed.
#[must_use]
pub fn looks_like_tls(first_bytes: &[u8]) -> Option<bool> {
    let is_content_type = |byte: u8| (20..=24).contains(&byte);
    match *first_bytes {
        [content_type, ..] if !is_content_type(content_type) => Some(false),
        [_, major, ..] if major != 3 => Some(false),
        [_, _, _, high, low, ..] => Some((high, low) != (0, 0)),
        _ => {
            debug_assert!(first_bytes.len() < RECORD_HEADER_BYTES);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_distinguished_from_plain_bytes() {
        for (bytes, answer) in [
            (&b""[..], None),
            (&[22], None),
            (&[22, 3], None),
            (&[22, 3, 1, 2], None),
            (&[22, 3, 1, 2, 0], Some(true)),
            (&[20, 3, 3, 0, 1], Some(true)),
            (&[24, 3, 4, 0, 1, 0], Some(true)),
            (&[22, 3, 1, 0, 0], Some(false)),
            (&[22, 2], Some(false)),
            (&[19], Some(false)),
            (&[25, 3, 1, 2, 0], Some(false)),
            (b"ruok", Some(false)),
            (b"G", Some(false)),
            // A connect request, a learner's first packet, the hello of an election connection.
            (&[0, 0, 0, 44], Some(false)),
            (&[0, 0, 0, 11], Some(false)),
            (&[255, 255, 255, 255, 255, 255, 0, 0], Some(false)),
        ] {
            assert_eq!(looks_like_tls(bytes), answer, "{bytes:?}");
        }
    }
}

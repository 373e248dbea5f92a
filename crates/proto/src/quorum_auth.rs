//! Authentication between servers before other packets: SASL tokens in small packets, the first
//! thing on a connection between servers. Apache: `QuorumAuthPacket`, `QuorumAuth`.
//!
//! In: the front of a stream. Out: a packet, and bytes again. The content of the tokens is opaque here.
//!
//! On the wire a packet is `long magic, int status, buffer token`, without a length prefix, so decoding
//! returns [`DecodeError::Truncated`] if a packet is not complete yet. No other protocol between
//! servers starts with the magic, so a listener uses it to detect a peer that wants to log in ([`is_auth`]).

use crate::jute::{DecodeError, JuteReader, JuteWrite, Result};

/// How every packet starts.
pub const MAGIC: [u8; 8] = [0x5f, 0x24, 0x35, 0x01, 0x35, 0x01, 0xed, 0xcc];
/// The longest token that is read. DIGEST-MD5 needs at most 4 KiB; a Kerberos ticket may carry a long list
/// of groups. Apache has no limit of its own but `jute.maxbuffer`, 1 MiB for an unidentified peer.
pub const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// Whether these are the first bytes of a packet, and not of a conversation without a login.
#[must_use]
pub fn is_auth(first_bytes: [u8; 8]) -> bool {
    first_bytes == MAGIC
}

/// How far a login has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthStatus {
    /// The receiver is to answer the token.
    InProgress,
    /// The server accepts; the token is its last word.
    Success,
    /// The server refuses.
    Error,
}

impl AuthStatus {
    fn code(self) -> i32 {
        match self {
            AuthStatus::InProgress => 0,
            AuthStatus::Success => 1,
            AuthStatus::Error => -1,
        }
    }

    fn from_code(code: i32) -> Result<Self> {
        match code {
            0 => Ok(AuthStatus::InProgress),
            1 => Ok(AuthStatus::Success),
            -1 => Ok(AuthStatus::Error),
            value => Err(DecodeError::Undefined { what: "status of a login", value }),
        }
    }
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumAuthPacket<'a> {
    /// How far the login has come.
    pub status: AuthStatus,
    /// For the SASL mechanism. Apache sends null where a mechanism has nothing to say; it is read as
    /// empty, which no mechanism takes for anything else.
    pub token: &'a [u8],
}

impl<'a> QuorumAuthPacket<'a> {
    /// Reads a packet from the front; refuses a token above [`TOKEN_BYTES_MAX`] before it is there.
    pub fn decode(reader: &mut JuteReader<'a>) -> Result<Self> {
        let mut limited = JuteReader::with_limit(reader.rest(), TOKEN_BYTES_MAX);
        for half in MAGIC.chunks(4) {
            let value = limited.int()?;
            if value.to_be_bytes() != half {
                return Err(DecodeError::Undefined { what: "magic of a login", value });
            }
        }
        let status = AuthStatus::from_code(limited.int()?)?;
        let token = limited.buffer()?.unwrap_or_default();
        reader.skip(reader.rest().len() - limited.rest().len())?;
        Ok(QuorumAuthPacket { status, token })
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_raw(&MAGIC);
        out.put_int(self.status.code());
        out.put_buffer(Some(self.token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC_DIGITS: [u8; 8] = 0x5f24_3501_3501_edcc_u64.to_be_bytes();

    fn bytes(status: i32, token: &[u8]) -> Vec<u8> {
        let mut out = MAGIC_DIGITS.to_vec();
        out.extend(status.to_be_bytes());
        out.extend_from_slice(token);
        out
    }

    fn decode(bytes: &[u8]) -> Result<QuorumAuthPacket<'_>> {
        QuorumAuthPacket::decode(&mut JuteReader::new(bytes))
    }

    #[test]
    fn packets_are_those_of_apache() {
        for (status, code) in
            [(AuthStatus::InProgress, 0), (AuthStatus::Success, 1), (AuthStatus::Error, -1)]
        {
            let packet = QuorumAuthPacket { status, token: b"xy" };
            let expected = bytes(code, &[0, 0, 0, 2, b'x', b'y']);
            let mut encoded = Vec::new();
            packet.encode(&mut encoded);
            assert_eq!(encoded, expected);
            assert_eq!(decode(&expected), Ok(packet));
        }
        assert_eq!(i64::from_be_bytes(MAGIC), 0xa0db_cafe_cafe_1234_u64.wrapping_neg() as i64);
    }

    #[test]
    fn a_packet_ends_where_the_next_one_starts() {
        let mut stream = bytes(0, &[0, 0, 0, 1, b'x']);
        stream.extend(bytes(1, &[0, 0, 0, 0]));
        let mut reader = JuteReader::new(&stream);
        assert_eq!(QuorumAuthPacket::decode(&mut reader).map(|packet| packet.token), Ok(&b"x"[..]));
        let second = QuorumAuthPacket { status: AuthStatus::Success, token: b"" };
        assert_eq!(QuorumAuthPacket::decode(&mut reader), Ok(second));
        assert!(reader.is_empty());
    }

    #[test]
    fn null_is_an_empty_token() {
        assert_eq!(decode(&bytes(0, &[0xff; 4])).map(|packet| packet.token), Ok(&b""[..]));
    }

    #[test]
    fn what_is_not_whole_yet_is_said_to_be_so() {
        let whole = bytes(0, &[0, 0, 0, 2, b'x', b'y']);
        for end in 0..whole.len() {
            assert!(matches!(decode(&whole[..end]), Err(DecodeError::Truncated { .. })), "{end}");
        }
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        let long = i32::try_from(TOKEN_BYTES_MAX + 1).unwrap();
        assert_eq!(decode(&bytes(0, &long.to_be_bytes())), Err(DecodeError::Length(long)));
        assert!(matches!(decode(&bytes(2, &[0; 4])), Err(DecodeError::Undefined { value: 2, .. })));
        assert!(matches!(decode(&[0; 16]), Err(DecodeError::Undefined { value: 0, .. })));
        assert!(is_auth(MAGIC));
        assert!(!is_auth([0; 8]));
    }
}

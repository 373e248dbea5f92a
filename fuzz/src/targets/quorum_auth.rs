//! Packets of a login between servers, from the front of a stream.

use herdsman_proto::quorum_auth::{MAGIC, QuorumAuthPacket, TOKEN_BYTES_MAX};
use herdsman_proto::{DecodeError, JuteReader};

/// In: the bytes of a stream.
pub fn run(bytes: &[u8]) {
    let mut reader = JuteReader::new(bytes);
    match QuorumAuthPacket::decode(&mut reader) {
        Ok(packet) => {
            let mut out = Vec::new();
            packet.encode(&mut out);
            assert_eq!(QuorumAuthPacket::decode(&mut JuteReader::new(&out)), Ok(packet));
        }
        Err(error) => {
            let late = matches!(error, DecodeError::Truncated { .. });
            let bytes_max = MAGIC.len() + 4 + 4 + TOKEN_BYTES_MAX;
            assert!(!late || bytes.len() < bytes_max, "a stream is not read forever");
        }
    }
}

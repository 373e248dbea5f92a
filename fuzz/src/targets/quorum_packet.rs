//! The packets between a leader and a learner, as a stream.

use herdsman_proto::{DecodeError, JuteReader, QuorumPacket};

/// The longest field that is accepted here.
const FIELD_BYTES_MAX: usize = 256;
/// No packet that keeps the limit is longer: type, zxid, length, data, count, ids.
const PACKET_BYTES_MAX: usize = 4 + 8 + 4 + FIELD_BYTES_MAX + 4 + FIELD_BYTES_MAX;

/// In: the bytes of a stream.
pub fn run(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let mut reader = JuteReader::with_limit(rest, FIELD_BYTES_MAX);
        match QuorumPacket::decode(&mut reader) {
            Ok(packet) => {
                let (whole, behind) = rest.split_at(rest.len() - reader.rest().len());
                comes_back(&packet);
                nothing_is_late_but_its_prefixes(whole);
                rest = behind;
            }
            Err(error) => {
                assert_eq!(reader.rest(), rest, "a reader that failed stays where it was");
                let late = matches!(error, DecodeError::Truncated { .. });
                assert!(!late || rest.len() < PACKET_BYTES_MAX, "a stream is not read forever");
                return;
            }
        }
    }
}

/// Without the limit: bytes that are not valid text have become longer.
fn comes_back(packet: &QuorumPacket) {
    let mut out = Vec::new();
    packet.encode(&mut out);
    let mut again = JuteReader::new(&out);
    assert_eq!(QuorumPacket::decode(&mut again).as_ref(), Ok(packet));
    assert!(again.is_empty());
}

fn nothing_is_late_but_its_prefixes(whole: &[u8]) {
    assert!(whole.len() <= PACKET_BYTES_MAX);
    for end in 0..whole.len() {
        let outcome =
            QuorumPacket::decode(&mut JuteReader::with_limit(&whole[..end], FIELD_BYTES_MAX));
        assert!(matches!(outcome, Err(DecodeError::Truncated { .. })), "{end}: {outcome:?}");
    }
}

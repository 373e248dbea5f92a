//! The longest packets that a client can cause are accepted on the links between servers.

use bytes::Bytes;
use herdsman_proto::limits::{
    CONNECTION_IDS_BYTES_MAX, CONNECTION_IDS_MAX, PING_SESSIONS_MAX, SizeLimits, ids_fit,
};
use herdsman_proto::{Id, JuteReader, QuorumPacket, ServerId, SessionId, Zxid, membership};

/// Bytes of a client's frame before a request's body: xid and op.
const REQUEST_HEADER_BYTES: usize = 8;

fn bytes(count: usize) -> Bytes {
    vec![b'x'; count].into()
}

/// As many ids as one connection may have, with as many bytes as it may have.
fn longest_ids() -> Vec<Id> {
    let mut ids: Vec<_> =
        (1..CONNECTION_IDS_MAX).map(|i| Id::new("digest", &format!("{i:040}"))).collect();
    let used: usize = ids.iter().map(|id| 8 + id.scheme.len() + id.id.len()).sum();
    let rest = CONNECTION_IDS_BYTES_MAX - used - 8 - "x509".len();
    ids.push(Id::new("x509", &"n".repeat(rest)));
    ids
}

fn check_passes(packet: &QuorumPacket, limits: SizeLimits) {
    let mut encoded = Vec::new();
    packet.encode(&mut encoded);
    let bytes_max = QuorumPacket::bytes_max(limits.link_field_bytes_max());
    assert!(encoded.len() <= bytes_max, "{} of {bytes_max} bytes", encoded.len());
    let mut reader = JuteReader::with_limit(&encoded, limits.link_field_bytes_max());
    let decoded = QuorumPacket::decode(&mut reader);
    assert!(decoded.is_ok_and(|decoded| decoded == *packet), "with {limits:?}");
}

#[test]
fn whatever_a_client_may_send_passes_a_link() {
    for (frame_bytes_max, extra_bytes_max) in
        [(0, 0), (100, 1024), (4096, 4096), (0xf_ffff, 1024), (0xf_ffff, 0xf_ffff), (8 << 20, 1024)]
    {
        let limits = SizeLimits::new(frame_bytes_max, extra_bytes_max);
        let body = bytes(limits.frame_bytes_max().saturating_sub(REQUEST_HEADER_BYTES));
        let session = SessionId(-1);
        for ids in [Vec::new(), longest_ids()] {
            assert!(ids_fit(&ids));
            let request =
                QuorumPacket::Request { session, cxid: 1, op: 14, body: body.clone(), ids };
            check_passes(&request, limits);
        }
        let (zxid, leader) = (Zxid(1), ServerId(1));
        let payload = bytes(limits.record_bytes_max());
        check_passes(&QuorumPacket::Proposal { zxid, payload: payload.clone() }, limits);
        check_passes(&QuorumPacket::Inform { zxid, payload: payload.clone() }, limits);
        check_passes(&QuorumPacket::InformAndActivate { zxid, leader, payload }, limits);
        let config = bytes(membership::TEXT_BYTES_MAX);
        check_passes(&QuorumPacket::NewLeader { zxid, config }, limits);
        let touched = vec![(session, i32::MAX); PING_SESSIONS_MAX];
        check_passes(&QuorumPacket::Ping { zxid, touched }, limits);
    }
}

#[test]
fn the_largest_settings_stay_within_the_lengths_of_the_wire() {
    for frame_bytes_max in [i32::MAX as u32, u32::MAX] {
        for extra_bytes_max in [0, u32::MAX] {
            let limits = SizeLimits::new(frame_bytes_max, extra_bytes_max);
            assert!(limits.link_field_bytes_max() <= i32::MAX as usize);
            assert!(limits.frame_bytes_max() < limits.record_bytes_max());
        }
    }
}

#[test]
fn ids_of_a_connection_are_limited_in_number_and_in_bytes() {
    let mut ids = longest_ids();
    ids[0].id.push('x');
    assert!(!ids_fit(&ids), "one byte too many");
    let many = vec![Id::new("digest", "u:h"); CONNECTION_IDS_MAX + 1];
    assert!(ids_fit(&many[1..]) && !ids_fit(&many));
}

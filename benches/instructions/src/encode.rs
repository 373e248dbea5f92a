//! Values → bytes: txns for the log, packets for learners, and the digest, which is similar.
//! For the encoding of replies see [`crate::read`] and [`crate::node`].

use std::hint::black_box;

use bytes::Bytes;
use herdsman_proto::txn::Entry;
use herdsman_proto::{QuorumPacket, StatPersisted, Zxid};
use herdsman_tree::digest::znode_digest;

use crate::cases::Operation;
use crate::fixture;

/// A txn that replaces 100 bytes.
pub fn a_txn() -> Entry {
    fixture::set_data_entry(0, &fixture::item_path(fixture::GROUPS, 7))
}

/// The same as a packet for a learner.
pub fn a_proposal() -> QuorumPacket {
    let entry = a_txn();
    let mut payload = Vec::new();
    entry.encode(&mut payload);
    QuorumPacket::Proposal { zxid: entry.header.zxid, payload: Bytes::from(payload) }
}

/// Encodes a txn for the log and the learners, into a buffer with enough capacity.
pub fn txn() -> Operation {
    let entry = a_txn();
    let mut out = Vec::with_capacity(1024);
    Box::new(move |_| {
        out.clear();
        black_box(&entry).encode(&mut out);
        assert_eq!(black_box(&out).len(), entry.encoded_len());
    })
}

/// Encodes a PROPOSAL, into a buffer with enough capacity.
pub fn proposal() -> Operation {
    let packet = a_proposal();
    let mut out = Vec::with_capacity(1024);
    Box::new(move |_| {
        out.clear();
        black_box(&packet).encode(&mut out);
        assert!(black_box(&out).len() > fixture::DATA.len());
    })
}

/// The digest of one znode.
pub fn digest() -> Operation {
    let path = fixture::item_path(fixture::GROUPS, 7);
    let stat = StatPersisted::created(Zxid(1), fixture::WALL_MS, 0);
    let expected = znode_digest(&path, Some(&fixture::DATA), &stat);
    Box::new(move |_| {
        let digest = znode_digest(black_box(&path), Some(black_box(&fixture::DATA)), &stat);
        assert_eq!(digest, expected);
    })
}

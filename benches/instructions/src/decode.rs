//! Bytes → values: requests as `herdsman-server` reads them from its clients, packets as a learner
//! reads them from its leader, txns as a log is read.

use std::hint::black_box;

use herdsman_proto::request::RequestHeader;
use herdsman_proto::txn::Entry;
use herdsman_proto::{JuteReader, OpCode, QuorumPacket, ReadRequest, Request, Txn, WriteRequest};

use crate::cases::Operation;
use crate::{encode, fixture};

/// `jute.maxbuffer` plus a header.
const FIELD_BYTES_MAX: usize = 0xf_ffff;
const HEADER_BYTES: usize = 8;

/// A getData request.
pub fn get_data() -> Operation {
    let path = fixture::item_path(fixture::GROUPS, 7);
    let request = Request::Read(ReadRequest::GetData { path: path.into(), watch: false });
    let payload = fixture::payload(&request);
    Box::new(move |_| {
        let request = decode_request(black_box(&payload));
        assert!(matches!(black_box(&request), Request::Read(ReadRequest::GetData { .. })));
    })
}

/// A setData request.
pub fn set_data() -> Operation {
    let path = fixture::item_path(fixture::GROUPS, 7);
    let payload = fixture::payload(&Request::Write(fixture::set_data_request(&path)));
    Box::new(move |_| {
        let request = decode_request(black_box(&payload));
        assert!(matches!(black_box(&request), Request::Write(WriteRequest::SetData { .. })));
    })
}

fn decode_request(payload: &[u8]) -> Request<'_> {
    let header = RequestHeader::decode(&mut JuteReader::new(payload)).expect("encoded by us");
    let op = OpCode::from_code(header.op).expect("encoded by us");
    let mut body = JuteReader::with_limit(&payload[HEADER_BYTES..], FIELD_BYTES_MAX);
    Request::decode(op, &mut body).expect("encoded by us")
}

/// A txn of the log.
pub fn txn() -> Operation {
    let mut payload = Vec::new();
    encode::a_txn().encode(&mut payload);
    Box::new(move |_| {
        let entry = Entry::decode(black_box(&payload)).expect("encoded by us");
        assert!(matches!(black_box(&entry).txn, Txn::SetData { .. }));
    })
}

/// A PROPOSAL.
pub fn proposal() -> Operation {
    let mut bytes = Vec::new();
    encode::a_proposal().encode(&mut bytes);
    Box::new(move |_| {
        let mut reader = JuteReader::with_limit(black_box(&bytes), FIELD_BYTES_MAX);
        let packet = QuorumPacket::decode(&mut reader).expect("encoded by us");
        assert!(matches!(black_box(&packet), QuorumPacket::Proposal { .. }));
    })
}

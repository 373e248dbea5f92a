//! Requests: a header and a body, and the same body decoded as every op.

use herdsman_proto::request::{CreateMode, RequestHeader};
use herdsman_proto::{JuteReader, OpCode, Request, WriteRequest};

/// A limit on fields, as in a server.
const FIELD_BYTES_MAX: usize = 0x1f_ffff;

/// In: the payload of a frame.
pub fn run(bytes: &[u8]) {
    let mut reader = JuteReader::with_limit(bytes, FIELD_BYTES_MAX);
    let Ok(header) = RequestHeader::decode(&mut reader) else {
        assert!(bytes.len() < 8, "a header is eight bytes of anything");
        return;
    };
    let mut out = Vec::new();
    header.encode(&mut out);
    assert_eq!(out, bytes[..8]);
    for &op in OpCode::ALL {
        check(op, reader);
    }
}

/// Decodes as this op; the result must survive encoding and decoding.
pub(super) fn check(op: OpCode, mut reader: JuteReader<'_>) {
    let Ok(request) = Request::decode(op, &mut reader) else {
        return;
    };
    if !has_encoding(&request) {
        return;
    }
    let mut out = Vec::new();
    request.encode(&mut out);
    let again = Request::decode(request.op(), &mut JuteReader::new(&out));
    assert_eq!(again.as_ref(), Ok(&request), "as {op:?}");
}

/// A create in a multi may have undefined flags: it was a createTTL, and is rejected later.
fn has_encoding(request: &Request<'_>) -> bool {
    let Request::Write(WriteRequest::Multi(writes)) = request else {
        return true;
    };
    writes.iter().all(|write| match write {
        WriteRequest::Create(create) => CreateMode::from_flags(create.flags).is_some(),
        _ => true,
    })
}

//! The list inside a multi or multiRead, and lists of results.

use herdsman_proto::multi::MultiHeader;
use herdsman_proto::{OpCode, Reader};

use super::request;

/// In: the body of a multi or multiRead.
pub fn run(bytes: &[u8]) {
    request::check(OpCode::Multi, Reader::new(bytes));
    request::check(OpCode::MultiRead, Reader::new(bytes));
    let mut reader = Reader::new(bytes);
    while let Ok(header) = MultiHeader::decode(&mut reader) {
        let mut out = Vec::new();
        header.encode(&mut out);
        assert_eq!(MultiHeader::decode(&mut Reader::new(&out)), Ok(header));
        if header.done {
            break;
        }
    }
}

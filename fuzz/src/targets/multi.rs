//! The list inside a multi or multiRead, and lists of results.

use herdsman_proto::multi::MultiHeader;
use herdsman_proto::{JuteReader, OpCode};

use super::request;

/// In: the body of a multi or multiRead.
pub fn run(bytes: &[u8]) {
    request::check(OpCode::Multi, JuteReader::new(bytes));
    request::check(OpCode::MultiRead, JuteReader::new(bytes));
    let mut reader = JuteReader::new(bytes);
    while let Ok(header) = MultiHeader::decode(&mut reader) {
        let mut out = Vec::new();
        header.encode(&mut out);
        assert_eq!(MultiHeader::decode(&mut JuteReader::new(&out)), Ok(header));
        if header.done {
            break;
        }
    }
}

//! The txn log: every change, in order, durable before it is acknowledged.
//!
//! A file is a 16-byte header, records, and zeros up to the preallocated size or up to the [`table`] at its end:
//! ```text
//! 0   5a 4b 4c 47   "ZKLG"
//! 4   00 00 00 02   version
//! 8   00 … 00       dbid, 0
//! 16  crc: i64 = Adler-32 of the payload │ len: i32 │ payload │ 42 'B'      … and again
//! ```
//! Apache: `FileTxnLog`. How we differ: a file frees its unused space when it is closed, directories
//! are synced, a torn tail is told from damage (see [`ending`]), and the zxids must continue from
//! record to record and from file to file (see [`walk`]).

pub mod chain;
pub mod ending;
pub mod lost;
pub mod pieces;
pub mod range;
pub mod record;
pub(crate) mod repeats;
mod search;
pub mod table;
pub mod truncate;
pub mod walk;
pub mod writer;

/// The header of a log file.
pub const HEADER: [u8; 16] = *b"ZKLG\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00";
/// Bytes of a log file's header.
pub const HEADER_BYTES: u64 = HEADER.len() as u64;
/// The checked part of the header; Apache never reads the dbid after it.
const HEADER_CHECKED_BYTES: usize = 8;
/// Bytes before a record's payload: checksum and length.
pub const RECORD_HEAD_BYTES: usize = 12;
/// The byte that ends a record.
pub const RECORD_END: u8 = b'B';
/// Bytes of a record besides its payload.
pub const RECORD_EXTRA_BYTES: usize = RECORD_HEAD_BYTES + 1;
/// Bytes of the shortest payload, a txn header.
pub const PAYLOAD_BYTES_MIN: usize = 32;

/// The checksum of a payload, as stored in the file.
#[must_use]
pub fn checksum(payload: &[u8]) -> i64 {
    i64::from(simd_adler32::adler32(&payload))
}

/// Appends a whole record to a buffer, and returns the checksum in it.
pub fn encode_record(payload: &[u8], out: &mut Vec<u8>) -> u32 {
    use herdsman_proto::JuteWrite;
    let adler = simd_adler32::adler32(&payload);
    out.put_long(i64::from(adler));
    out.put_buffer(Some(payload));
    out.put_byte(RECORD_END);
    adler
}

/// Reads the checksum and the length in a record's head without checking them.
fn parse_head(head: &[u8]) -> (u64, i32) {
    let mut crc = [0; 8];
    crc.copy_from_slice(&head[..8]);
    let mut length = [0; 4];
    length.copy_from_slice(&head[8..RECORD_HEAD_BYTES]);
    (u64::from_be_bytes(crc), i32::from_be_bytes(length))
}

/// The zxid in a payload's txn header.
fn payload_zxid(payload: &[u8]) -> Option<herdsman_proto::Zxid> {
    let mut reader = herdsman_proto::JuteReader::new(payload);
    herdsman_proto::txn::Entry::decode_header(&mut reader).ok().map(|(header, _)| header.zxid)
}

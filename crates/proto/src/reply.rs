//! Replies, server to client: the header, and frames whose length is written last.

use crate::error_code::ErrorCode;
use crate::ids::{Xid, Zxid};
use crate::jute::{JuteReader, JuteWrite, Result};

/// The header before the body of every reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The request's number.
    pub xid: Xid,
    /// The server's last processed txn.
    pub zxid: Zxid,
    /// The error; `None` on success. With an error there is no body, except in [`sasl`].
    pub error: Option<ErrorCode>,
}

impl ReplyHeader {
    /// Encoded size.
    pub const BYTES: usize = 16;

    /// Appends the header.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        out.put_int(self.xid.0);
        out.put_long(self.zxid.0);
        out.put_int(self.error.map_or(0, ErrorCode::code));
    }

    /// Reads xid, zxid and the raw error number.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<(Xid, Zxid, i32)> {
        Ok((Xid(reader.int()?), Zxid(reader.long()?), reader.int()?))
    }
}

/// Appends a frame: its length, then whatever `fill` appends.
pub fn frame<T>(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = out.len();
    out.put_int(0);
    let result = fill(out);
    let length = i32::try_from(out.len() - start - 4).expect("a frame is below 2 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    result
}

/// Appends a reply: the header, then the body that `fill` appends. When `fill` reports an error,
/// what it appended is dropped and the header has the error instead.
pub fn reply(
    out: &mut Vec<u8>,
    xid: Xid,
    zxid: Zxid,
    fill: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), ErrorCode>,
) -> std::result::Result<(), ErrorCode> {
    frame(out, |out| {
        let start = out.len();
        ReplyHeader { xid, zxid, error: None }.encode(out);
        let result = fill(out);
        if let Err(code) = result {
            out.truncate(start);
            ReplyHeader { xid, zxid, error: Some(code) }.encode(out);
        }
        result
    })
}

/// Appends a reply that is only a header.
pub fn header_only(out: &mut Vec<u8>, xid: Xid, zxid: Zxid, error: Option<ErrorCode>) {
    frame(out, |out| ReplyHeader { xid, zxid, error }.encode(out));
}

/// Appends the reply to a SASL token. The server's token is present with an error, too: Apache's clients read it
/// before they check the error, and treat a frame that is too short as a broken connection and
/// retry forever. Apache: `ZooKeeperServer.processSasl`.
pub fn sasl(out: &mut Vec<u8>, xid: Xid, error: Option<ErrorCode>, token: Option<&[u8]>) {
    frame(out, |out| {
        ReplyHeader { xid, zxid: Zxid::ZERO, error }.encode(out);
        out.put_buffer(token);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As recorded from Apache 3.9.5.
    #[test]
    fn a_refused_sasl_login_is_answered_with_a_null_token() {
        let mut out = Vec::new();
        sasl(&mut out, Xid(2), Some(ErrorCode::AuthFailed), None);
        let header = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x8d];
        assert_eq!(out, [&[0, 0, 0, 20], &header[..], &[0xff; 4]].concat());
    }

    #[test]
    fn an_error_drops_the_body() {
        let mut out = Vec::new();
        let failed = reply(&mut out, Xid(5), Zxid(9), |out| {
            out.put_string("half a body");
            Err(ErrorCode::NoNode)
        });
        assert_eq!(failed, Err(ErrorCode::NoNode));
        let mut reader = JuteReader::new(&out);
        assert_eq!(reader.int(), Ok(16));
        assert_eq!(ReplyHeader::decode(&mut reader), Ok((Xid(5), Zxid(9), -101)));
        assert!(reader.is_empty());
    }
}

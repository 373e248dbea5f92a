//! Splits bytes into frames and extracts from frames what rules and counters need.
//! In: bytes of one direction as they arrive. Out: pieces, each a whole frame with its length prefix, or
//! bytes that are not frames (a four-letter word, garbage). Concatenated, the pieces are the original
//! bytes. Nothing is rejected here; that is up to the server.

use bytes::{Bytes, BytesMut};
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::request::{RequestHeader, SetWatches};
use herdsman_proto::{
    EventType, JuteReader, OpCode, ReadRequest, Request, WatchedEvent, WriteRequest, Xid,
};

/// Longer frames are not parsed: from there on bytes are forwarded as they arrive. Far above any server's
/// default limits.
pub(super) const FRAME_BYTES_MAX: usize = 16 << 20;
const LENGTH_BYTES: usize = 4;

/// A part of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A frame with its length prefix.
    Frame(Bytes),
    /// Bytes that are not frames; there will be no more frames in this direction.
    Raw(Bytes),
}

/// Splits a stream into pieces.
#[derive(Default)]
pub(super) struct Splitter {
    pub buffer: BytesMut,
    pub is_raw: bool,
}

impl Splitter {
    /// Returns the next piece; `None` while it is incomplete.
    pub fn next(&mut self) -> Option<Piece> {
        if !self.is_raw {
            let length = self.buffer.first_chunk::<LENGTH_BYTES>()?;
            match usize::try_from(i32::from_be_bytes(*length)) {
                Ok(length) if length <= FRAME_BYTES_MAX => {
                    let whole = LENGTH_BYTES + length;
                    let is_here = self.buffer.len() >= whole;
                    return is_here.then(|| Piece::Frame(self.buffer.split_to(whole).freeze()));
                }
                _ => self.is_raw = true,
            }
        }
        let rest = self.buffer.split().freeze();
        (!rest.is_empty()).then_some(Piece::Raw(rest))
    }

    /// Returns the rest of a stream that has ended, possibly within a frame.
    pub fn rest(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }
}

/// A parsed request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SeenRequest {
    /// `None` if the operation is unknown or the frame too short.
    pub op: Option<OpCode>,
    /// The xid that the reply will carry; `None` for a handshake, whose reply has no header.
    pub xid: Option<Xid>,
    /// The paths that it names.
    pub paths: Vec<String>,
}

impl SeenRequest {
    /// The first frame of a connection.
    pub fn handshake() -> Self {
        SeenRequest { op: Some(OpCode::CreateSession), ..SeenRequest::default() }
    }

    /// Parses a frame with its length prefix, except the first frame.
    pub fn decode(frame: &[u8]) -> Self {
        let mut reader = JuteReader::new(frame.get(LENGTH_BYTES..).unwrap_or_default());
        let Ok(header) = RequestHeader::decode(&mut reader) else {
            return SeenRequest::default();
        };
        let op = OpCode::from_code(header.op);
        let request = op.and_then(|op| Request::decode(op, &mut reader).ok());
        let paths = request.as_ref().map(paths).unwrap_or_default();
        SeenRequest { op, xid: Some(header.xid), paths }
    }
}

fn paths(request: &Request<'_>) -> Vec<String> {
    let mut paths = Vec::new();
    match request {
        Request::Write(write) => add_written(write, &mut paths),
        Request::Read(read) => add_read(read, &mut paths),
        Request::Sync { path } => paths.push(path.to_string()),
        _ => {}
    }
    paths
}

fn add_written(request: &WriteRequest<'_>, paths: &mut Vec<String>) {
    match request {
        WriteRequest::Create(create) => paths.push(create.path.to_string()),
        WriteRequest::Delete { path, .. }
        | WriteRequest::SetData { path, .. }
        | WriteRequest::SetAcl { path, .. }
        | WriteRequest::Check { path, .. } => paths.push(path.to_string()),
        WriteRequest::Multi(parts) => parts.iter().for_each(|part| add_written(part, paths)),
        WriteRequest::Reconfig(_) => {}
    }
}

fn add_read(request: &ReadRequest<'_>, paths: &mut Vec<String>) {
    match request {
        ReadRequest::Exists { path, .. }
        | ReadRequest::GetData { path, .. }
        | ReadRequest::GetAcl { path }
        | ReadRequest::GetChildren { path, .. }
        | ReadRequest::GetAllChildrenNumber { path }
        | ReadRequest::CheckWatches { path, .. }
        | ReadRequest::RemoveWatches { path, .. }
        | ReadRequest::AddWatch { path, .. } => paths.push(path.to_string()),
        ReadRequest::GetEphemerals { prefix } => paths.extend(prefix.iter().map(|p| p.to_string())),
        ReadRequest::SetWatches(watches) => {
            let SetWatches { data, exist, child, persistent, persistent_recursive, .. } = watches;
            let lists = [data, exist, child, persistent, persistent_recursive];
            paths.extend(lists.into_iter().flatten().map(|path| path.to_string()));
        }
        ReadRequest::MultiRead(parts) => parts.iter().for_each(|part| add_read(part, paths)),
        ReadRequest::WhoAmI => {}
    }
}

/// A parsed frame from the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SeenAnswer {
    /// A watch event, with its content if it can be parsed.
    Event(Option<(EventType, String)>),
    /// A reply to the request with this xid.
    Reply(Xid),
    /// The frame is too short.
    Unknown,
}

impl SeenAnswer {
    /// Parses a frame with its length prefix, except the first frame.
    pub fn decode(frame: &[u8]) -> Self {
        let mut reader = JuteReader::new(frame.get(LENGTH_BYTES..).unwrap_or_default());
        match ReplyHeader::decode(&mut reader) {
            Ok((Xid::NOTIFICATION, ..)) => {
                SeenAnswer::Event(WatchedEvent::decode(&mut reader).ok())
            }
            Ok((xid, ..)) => SeenAnswer::Reply(xid),
            Err(_) => SeenAnswer::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use herdsman_proto::reply;

    use super::*;

    fn pieces(splitter: &mut Splitter, bytes: &[u8]) -> Vec<Piece> {
        splitter.buffer.extend_from_slice(bytes);
        std::iter::from_fn(|| splitter.next()).collect()
    }

    #[test]
    fn frames_are_reassembled_from_any_chunks() {
        let mut bytes = Vec::new();
        for payload in [&b"first"[..], b"", b"third"] {
            reply::frame(&mut bytes, |out| out.extend_from_slice(payload));
        }
        let expected = [&bytes[..9], &bytes[9..13], &bytes[13..]];
        let expected = expected.map(|frame| Piece::Frame(Bytes::copy_from_slice(frame)));
        assert_eq!(pieces(&mut Splitter::default(), &bytes), expected);
        let mut splitter = Splitter::default();
        let one_by_one: Vec<_> =
            bytes.iter().flat_map(|&byte| pieces(&mut splitter, &[byte])).collect();
        assert_eq!(one_by_one, expected);
        assert!(splitter.rest().is_empty());
    }

    #[test]
    fn bytes_that_are_not_frames_stay_raw() {
        for start in [&b"ruok"[..], &[0xff, 0xf4, 0xff, 0xfd], &[0x7f, 0xff, 0xff, 0xff]] {
            let mut splitter = Splitter::default();
            let raw = |bytes: &[u8]| vec![Piece::Raw(Bytes::copy_from_slice(bytes))];
            assert_eq!(pieces(&mut splitter, start), raw(start));
            let like_a_frame = [0, 0, 0, 1, 9];
            assert_eq!(pieces(&mut splitter, &like_a_frame), raw(&like_a_frame));
        }
    }

    #[test]
    fn an_unfinished_frame_is_not_lost() {
        let mut splitter = Splitter::default();
        assert_eq!(pieces(&mut splitter, &[0, 0, 0, 9, 1]), []);
        assert_eq!(splitter.rest(), &[0, 0, 0, 9, 1][..]);
    }

    #[test]
    fn the_paths_of_a_multi_are_all_seen() {
        let check = |path: &'static str| WriteRequest::Check { path: path.into(), version: 1 };
        let request = Request::Write(WriteRequest::Multi(vec![check("/a"), check("/b")]));
        let mut frame = Vec::new();
        reply::frame(&mut frame, |out| {
            RequestHeader { xid: Xid(7), op: OpCode::Multi.code() }.encode(out);
            request.encode(out);
        });
        let seen = SeenRequest::decode(&frame);
        let paths = vec!["/a".to_owned(), "/b".to_owned()];
        assert_eq!(seen, SeenRequest { op: Some(OpCode::Multi), xid: Some(Xid(7)), paths });
    }

    #[test]
    fn garbage_is_ignored() {
        assert_eq!(SeenRequest::decode(&[0, 0, 0, 2, 1, 1]), SeenRequest::default());
        let unknown_op = SeenRequest::decode(&[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 9, 9]);
        assert_eq!(unknown_op, SeenRequest { xid: Some(Xid(1)), ..SeenRequest::default() });
        assert_eq!(SeenAnswer::decode(&[0, 0, 0, 1, 1]), SeenAnswer::Unknown);
        assert_eq!(SeenAnswer::decode(&[]), SeenAnswer::Unknown);
    }
}

//! A lane: one connection with its session, its requests in flight, its output buffer, and the beginning of an
//! incomplete frame.
//!
//! Two system calls do the work: one read for all available replies, one write for all requests that replace
//! them. Nothing is allocated for a request once the buffers have grown to their size.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;

use herdsman_proto::reply::ReplyHeader;
use mio::net::TcpStream;

use crate::load::RequestTag;
use crate::wire::Wire;

/// Longer than any requested reply: a million children with their names.
const FRAME_BYTES_MAX: usize = 256 << 20;

/// The initial size of the input buffer, which grows if a single frame is longer.
const INPUT_BYTES: usize = 256 << 10;

/// A request that has no reply yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) xid: i32,
    pub(crate) tag: RequestTag,
    pub(crate) at: Instant,
}

/// A connection with its session.
pub(crate) struct Lane {
    pub(crate) wire: Wire<TcpStream>,
    pub(crate) in_flight: VecDeque<Sent>,
    /// The newest zxid that the server has sent on this connection.
    pub(crate) newest_zxid: i64,
    output: Vec<u8>,
    written: usize,
    /// The first bytes of an incomplete frame.
    started_frame: Vec<u8>,
    last_xid: i32,
}

/// The header and the body of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) error: i32,
    pub(crate) body: &'a [u8],
}

/// The input buffer, shared by all lanes of a thread.
pub(crate) struct Input(Vec<u8>);

impl Input {
    pub(crate) fn new() -> Self {
        Input(vec![0; INPUT_BYTES])
    }
}

/// Whether a lane may have more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// The socket was emptied; the next readiness event says when there is more.
    Emptied,
    /// The buffer was filled: read again.
    PerhapsMore,
}

impl Lane {
    pub(crate) fn new(wire: Wire<TcpStream>) -> Self {
        Lane {
            wire,
            in_flight: VecDeque::new(),
            newest_zxid: 0,
            output: Vec::new(),
            written: 0,
            started_frame: Vec::new(),
            last_xid: 0,
        }
    }

    /// Returns the xid for the next request. It is positive: other xids have special meanings.
    fn next_xid(&mut self) -> i32 {
        self.last_xid = self.last_xid.checked_add(1).unwrap_or(1);
        self.last_xid
    }

    /// Encodes requests until `depth` are in flight or `next` has none. [`Lane::flush`] sends them.
    pub(crate) fn fill_up(
        &mut self,
        depth: usize,
        mut next: impl FnMut(i32, &mut Vec<u8>) -> Option<RequestTag>,
    ) {
        if self.in_flight.len() >= depth {
            return;
        }
        let mut at = None;
        while self.in_flight.len() < depth {
            let xid = self.next_xid();
            let Some(tag) = next(xid, &mut self.output) else {
                return;
            };
            let at = *at.get_or_insert_with(Instant::now);
            self.in_flight.push_back(Sent { xid, tag, at });
        }
    }

    /// Writes what the socket accepts. The rest waits until the socket is writable again.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.written < self.output.len() {
            match self.wire.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        // With TLS, written bytes may still be buffered.
        match self.wire.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            flushed => flushed,
        }
    }

    /// Reads once and passes every complete frame to `take`.
    pub(crate) fn read_frames(
        &mut self,
        input: &mut Input,
        mut take: impl FnMut(&mut Self, Frame<'_>) -> io::Result<()>,
    ) -> io::Result<Readable> {
        let kept = self.started_frame.len();
        input.0[..kept].copy_from_slice(&self.started_frame);
        let bytes = match self.wire.read(&mut input.0[kept..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Readable::Emptied),
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                return Ok(Readable::PerhapsMore);
            }
            Err(error) => return Err(error),
        };
        let filled = kept + bytes;
        let mut rest = &input.0[..filled];
        while let Some((frame, tail)) = split_frame(rest)? {
            rest = tail;
            take(self, frame)?;
        }
        self.started_frame.clear();
        self.started_frame.extend_from_slice(rest);
        if filled < input.0.len() && self.wire.is_emptied_by_short_read() {
            return Ok(Readable::Emptied);
        }
        self.make_room(input);
        Ok(Readable::PerhapsMore)
    }

    /// Enlarges the buffer if an incomplete frame would soon fill it.
    fn make_room(&self, input: &mut Input) {
        if self.started_frame.len() * 2 > input.0.len() {
            input.0.resize(input.0.len() * 2, 0);
        }
    }
}

/// Splits off the first frame, if it is complete.
fn split_frame(bytes: &[u8]) -> io::Result<Option<(Frame<'_>, &[u8])>> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = frame_length(*length)?;
    let Some((frame, rest)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    Ok(Some((parse_frame(frame)?, rest)))
}

/// Decodes the length of a reply; fails if it is not plausible.
pub(crate) fn frame_length(bytes: [u8; 4]) -> io::Result<usize> {
    let length = i32::from_be_bytes(bytes);
    usize::try_from(length)
        .ok()
        .filter(|length| (ReplyHeader::BYTES..=FRAME_BYTES_MAX).contains(length))
        .ok_or_else(|| broken(format!("invalid length of a reply: {length} bytes")))
}

/// Splits header and body.
pub(crate) fn parse_frame(frame: &[u8]) -> io::Result<Frame<'_>> {
    let (xid, rest) = frame.split_first_chunk::<4>().ok_or_else(too_short)?;
    let (zxid, rest) = rest.split_first_chunk::<8>().ok_or_else(too_short)?;
    let (error, body) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
    let (xid, zxid) = (i32::from_be_bytes(*xid), i64::from_be_bytes(*zxid));
    Ok(Frame { xid, zxid, error: i32::from_be_bytes(*error), body })
}

fn too_short() -> io::Error {
    broken("a reply is too short for its header".to_owned())
}

/// Creates the error for a violation of the protocol, which ends the connection.
pub(crate) fn broken(message: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::{Xid, Zxid, reply};

    #[test]
    fn frames_are_split_by_their_length() {
        let mut bytes = Vec::new();
        reply::header_only(&mut bytes, Xid(7), Zxid(9), None);
        reply::header_only(&mut bytes, Xid(8), Zxid(9), None);
        let (first, rest) = split_frame(&bytes).unwrap().unwrap();
        assert_eq!((first.xid, first.zxid, first.error, first.body.len()), (7, 9, 0, 0));
        assert_eq!(split_frame(rest).unwrap().unwrap().0.xid, 8);
        for short in 0..20 {
            assert!(split_frame(&bytes[..short]).unwrap().is_none(), "{short} bytes");
        }
    }

    #[test]
    fn an_invalid_length_is_an_error() {
        for length in [-1, 0, 15, i32::MAX] {
            assert!(split_frame(&length.to_be_bytes()).is_err(), "{length}");
        }
    }
}

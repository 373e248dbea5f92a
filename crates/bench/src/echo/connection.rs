//! One connection: all available requests are read with one call, and the replies are written with one call.
//!
//! The buffers are shared by all connections of a thread, so that they stay in the processor's cache. A connection
//! keeps only what is left over: an incomplete frame, or replies that the client has not read. Until it reads them,
//! no more requests are read from it.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;

use super::replies::{AfterReply, Replies};

/// A longer frame ends its connection. The default limit of servers is 1 MiB.
const FRAME_BYTES_MAX: usize = 4 << 20;
/// The size of a read.
const READ_BYTES: usize = 128 << 10;
/// Replies are written when they reach this size, even if there are more requests.
const WRITE_BYTES: usize = 256 << 10;

/// The buffers shared by the connections of a thread.
pub(super) struct SharedBuffers {
    input: Box<[u8]>,
    output: Vec<u8>,
}

impl SharedBuffers {
    pub(super) fn new() -> Self {
        SharedBuffers {
            input: vec![0; 4 + FRAME_BYTES_MAX + READ_BYTES].into_boxed_slice(),
            output: Vec::with_capacity(2 * WRITE_BYTES),
        }
    }
}

/// Whether a connection is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The connection waits for the next event of the poll.
    Open,
    /// The connection is to be dropped.
    Closed,
}

pub(super) struct Connection {
    stream: TcpStream,
    /// The handshake is over.
    greeted: bool,
    /// Bytes read and not processed yet; fewer than [`SharedBuffers::input`].
    unanswered: Vec<u8>,
    /// Replies that the client has not read: at most [`WRITE_BYTES`] and one more reply.
    unsent: Vec<u8>,
}

/// How much of the input was processed.
struct Answered {
    bytes: usize,
    /// The client has closed its session.
    closing: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Connection { stream, greeted: false, unanswered: Vec::new(), unsent: Vec::new() }
    }

    /// Reads and writes until the socket has no more input, or accepts no more output.
    pub(super) fn serve(
        &mut self,
        replies: &Replies,
        buffers: &mut SharedBuffers,
    ) -> io::Result<State> {
        loop {
            if !self.send_rest()? {
                return Ok(State::Open);
            }
            let kept = self.unanswered.len();
            buffers.input[..kept].copy_from_slice(&self.unanswered);
            self.unanswered.clear();
            let room = (buffers.input.len() - kept).min(READ_BYTES);
            let Some(read) = self.receive(&mut buffers.input[kept..kept + room])? else {
                return Ok(State::Closed);
            };
            let SharedBuffers { input, output } = buffers;
            let input = &input[..kept + read];
            let answered = self.answer(replies, input, output)?;
            self.unanswered.extend_from_slice(&input[answered.bytes..]);
            if answered.closing {
                return Ok(State::Closed);
            }
            if read < room || !self.unsent.is_empty() {
                return Ok(State::Open);
            }
        }
    }

    /// Reads once. Returns `None` if the client has closed the connection, and 0 if there is no input.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if buffer.is_empty() {
            return Ok(Some(0));
        }
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Ok(None),
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Some(0)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Replies to the complete frames of the input, until they end or the client reads no more.
    fn answer(
        &mut self,
        replies: &Replies,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> io::Result<Answered> {
        let mut bytes = 0;
        let mut closing = false;
        output.clear();
        while !closing && let Some(frame) = whole_frame(&input[bytes..])? {
            bytes += 4 + frame.len();
            if self.greeted {
                closing = replies.append(frame, output)? == AfterReply::Close;
            } else {
                replies.append_connect_response(frame, output)?;
                self.greeted = true;
            }
            if output.len() >= WRITE_BYTES {
                self.send(output)?;
                output.clear();
                if !self.unsent.is_empty() {
                    break;
                }
            }
        }
        self.send(output)?;
        Ok(Answered { bytes, closing })
    }

    /// Writes, and keeps what the socket does not accept now.
    fn send(&mut self, output: &[u8]) -> io::Result<()> {
        if output.is_empty() {
            return Ok(());
        }
        let sent = send_some(&mut self.stream, output)?;
        self.unsent.extend_from_slice(&output[sent..]);
        Ok(())
    }

    /// Writes what was kept; returns whether all of it was written.
    fn send_rest(&mut self) -> io::Result<bool> {
        if !self.unsent.is_empty() {
            let sent = send_some(&mut self.stream, &self.unsent)?;
            self.unsent.drain(..sent);
        }
        Ok(self.unsent.is_empty())
    }
}

/// Writes until everything is written or the socket accepts no more.
fn send_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Returns the payload of the first frame, if it is complete.
fn whole_frame(input: &[u8]) -> io::Result<Option<&[u8]>> {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length))
        .ok()
        .filter(|length| *length <= FRAME_BYTES_MAX)
        .ok_or(ErrorKind::InvalidData)?;
    Ok(rest.get(..length))
}

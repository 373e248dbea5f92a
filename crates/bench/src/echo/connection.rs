//! One connection: all that it has sent is read at once, answered, and the answers written at once.
//!
//! The bytes live in buffers that all connections of a thread share, so that they stay in the processor's
//! cache; a connection keeps only what is left over: a frame that has not arrived whole, or replies that the
//! client does not take. Until it takes them, nothing more is read from it.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;

use super::replies::{Replies, Wanted};

/// A longer frame ends its connection. Servers take 1 MiB unless told otherwise.
const FRAME_BYTES_MAX: usize = 4 << 20;
/// As much is read at a time.
const READ_BYTES: usize = 128 << 10;
/// Replies are written when there are so many bytes of them, even if there are requests left to answer.
const WRITE_BYTES: usize = 256 << 10;

/// What the connections of a thread share.
pub(super) struct Scratch {
    input: Box<[u8]>,
    output: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Scratch {
            input: vec![0; 4 + FRAME_BYTES_MAX + READ_BYTES].into_boxed_slice(),
            output: Vec::with_capacity(2 * WRITE_BYTES),
        }
    }
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The poll will tell when there is more to do.
    Open,
    /// It is to be dropped.
    Closed,
}

pub(super) struct Connection {
    stream: TcpStream,
    /// The handshake is over.
    greeted: bool,
    /// Read and not answered yet; shorter than [`Scratch::input`].
    unanswered: Vec<u8>,
    /// Replies that the client has not taken: at most [`WRITE_BYTES`] and one reply more.
    unsent: Vec<u8>,
}

/// How much of the input was answered.
struct Answered {
    bytes: usize,
    /// The client said goodbye.
    closing: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Connection { stream, greeted: false, unanswered: Vec::new(), unsent: Vec::new() }
    }

    /// Does all there is to do until the kernel has nothing more, or takes nothing more.
    pub(super) fn serve(&mut self, replies: &Replies, scratch: &mut Scratch) -> io::Result<State> {
        loop {
            if !self.send_rest()? {
                return Ok(State::Open);
            }
            let kept = self.unanswered.len();
            scratch.input[..kept].copy_from_slice(&self.unanswered);
            self.unanswered.clear();
            let room = (scratch.input.len() - kept).min(READ_BYTES);
            let Some(read) = self.receive(&mut scratch.input[kept..kept + room])? else {
                return Ok(State::Closed);
            };
            let Scratch { input, output } = scratch;
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

    /// Reads once. `None`: the client is gone. 0: there is nothing.
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

    /// Answers the whole frames of the input, until they end or the client takes no more.
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
                closing = replies.append(frame, output)? == Wanted::Close;
            } else {
                replies.append_greeting(frame, output)?;
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

    /// Writes, and keeps what the client does not take now.
    fn send(&mut self, output: &[u8]) -> io::Result<()> {
        if output.is_empty() {
            return Ok(());
        }
        let sent = send_some(&mut self.stream, output)?;
        self.unsent.extend_from_slice(&output[sent..]);
        Ok(())
    }

    /// Writes what was kept; whether nothing is left of it.
    fn send_rest(&mut self) -> io::Result<bool> {
        if !self.unsent.is_empty() {
            let sent = send_some(&mut self.stream, &self.unsent)?;
            self.unsent.drain(..sent);
        }
        Ok(self.unsent.is_empty())
    }
}

/// Writes until all is written or the kernel takes no more.
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

/// The payload of the frame at the start, if all of it is there.
fn whole_frame(input: &[u8]) -> io::Result<Option<&[u8]>> {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length))
        .ok()
        .filter(|length| *length <= FRAME_BYTES_MAX)
        .ok_or(ErrorKind::InvalidData)?;
    Ok(rest.get(..length))
}

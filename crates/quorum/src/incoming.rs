//! A receive buffer: bytes that were received and not decoded yet.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::stream::PeerStream;

/// A buffer that grew beyond this for one large packet is released when it is empty.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The result of waiting for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Bytes were added.
    Bytes,
    /// Timed out.
    Nothing,
    /// End of the stream.
    End,
}

/// The receiving side of a connection. The buffer grows with the bytes that were really received and not
/// decoded; its reader limits that.
pub(crate) struct Incoming {
    stream: Arc<PeerStream>,
    /// Only `start..end` is valid; the rest is spare capacity.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The timeout of the socket; `Some(None)` is no timeout.
    timeout: Option<Option<Duration>>,
}

impl Incoming {
    pub fn new(stream: Arc<PeerStream>, room_bytes: usize) -> Self {
        Incoming { stream, buffer: vec![0; room_bytes], start: 0, end: 0, timeout: None }
    }

    /// The underlying stream.
    pub fn stream(&self) -> &Arc<PeerStream> {
        &self.stream
    }

    /// The received bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Consumes the first `count` bytes.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "{count} bytes of {}", self.end - self.start);
        self.start += count;
    }

    /// Waits for more bytes, forever if there is no timeout.
    pub fn fill(&mut self, timeout: Option<Duration>) -> io::Result<Fill> {
        if self.timeout != Some(timeout) {
            self.stream.socket().set_read_timeout(timeout)?;
            self.timeout = Some(timeout);
        }
        self.make_room();
        loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(Fill::End),
                Ok(count) => {
                    self.end += count;
                    return Ok(Fill::Bytes);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if timeout.is_some() => {
                        return Ok(Fill::Nothing);
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > KEPT_BYTES_MAX {
                self.buffer.truncate(KEPT_BYTES_MAX);
                self.buffer.shrink_to_fit();
            }
        }
        if self.end < self.buffer.len() {
            return;
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end >= self.buffer.len() / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
    }
}

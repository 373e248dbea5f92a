//! Splits received bytes into frames. Buffers come from the thread's pool and return to it when they are empty,
//! so an idle connection holds none; one that waits for the rest of a frame holds the received part.
//!
//! Limits: the length of a frame, and one read ahead ([`READ_BYTES`]). Memory for the rest of a longer frame is
//! allocated when that is read; the connection decides whether it may be read, see
//! [`Intake::long_frame_bytes`].

use bytes::{Buf, Bytes, BytesMut};

use crate::clients::buffer_pool;

/// Bytes requested from the socket at a time.
const READ_BYTES: usize = 64 * 1024;
/// The buffer is grown before a read when less space than this is left.
const ROOM_BYTES_MIN: usize = READ_BYTES / 4;
/// A smaller frame that is kept for later is copied, because it would keep a whole buffer in memory.
const OWN_BYTES_MAX: usize = 4096;

/// The length field in front of each frame.
const LENGTH_BYTES: usize = 4;

/// A frame length that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frame length {0} is out of range (jute.maxbuffer)")]
pub struct BadLength(pub i32);

/// Received bytes that are not consumed yet.
#[derive(Debug)]
pub struct Intake {
    bytes: BytesMut,
    frame_bytes_max: usize,
}

impl Intake {
    /// Creates an empty intake.
    #[must_use]
    pub fn new(frame_bytes_max: usize) -> Self {
        Intake { bytes: BytesMut::new(), frame_bytes_max }
    }

    /// Sets the maximum frame length.
    pub fn set_frame_bytes_max(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// The size of the first frame, if it exceeds one read.
    #[must_use]
    pub fn long_frame_bytes(&self) -> Option<usize> {
        if self.bytes.is_empty() {
            return None;
        }
        let length = frame_length(&self.bytes, self.frame_bytes_max).ok().flatten()?;
        Some(LENGTH_BYTES + length).filter(|&bytes| bytes > READ_BYTES)
    }

    /// The buffer for the next read.
    pub fn room(&mut self) -> &mut BytesMut {
        let length = frame_length(&self.bytes, self.frame_bytes_max).ok().flatten();
        let wanted = length.map_or(0, |length| LENGTH_BYTES + length);
        let missing = wanted.saturating_sub(self.bytes.len()).max(ROOM_BYTES_MIN);
        if self.bytes.is_empty() {
            self.bytes = buffer_pool::take_input();
        }
        if self.bytes.capacity() - self.bytes.len() < missing {
            self.bytes.reserve(missing.max(READ_BYTES));
        }
        &mut self.bytes
    }

    /// The first four bytes, which may be a four-letter word.
    #[must_use]
    pub fn word(&self) -> Option<[u8; 4]> {
        self.bytes.first_chunk().copied()
    }

    /// Everything after the first four bytes.
    #[must_use]
    pub fn after_word(&self) -> &[u8] {
        self.bytes.get(4..).unwrap_or_default()
    }

    /// The payload of the next frame, if it is complete.
    pub fn peek(&self) -> Result<Option<&[u8]>, BadLength> {
        let length = frame_length(&self.bytes, self.frame_bytes_max)?;
        Ok(length.and_then(|length| self.bytes.get(LENGTH_BYTES..LENGTH_BYTES + length)))
    }

    /// The payloads of all complete frames; stops at the first invalid length.
    pub fn frames(&self) -> impl Iterator<Item = Result<&[u8], BadLength>> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let length = match frame_length(rest, self.frame_bytes_max).transpose()? {
                Ok(length) => length,
                Err(bad) => {
                    rest = &[];
                    return Some(Err(bad));
                }
            };
            let payload = rest.get(LENGTH_BYTES..LENGTH_BYTES + length)?;
            rest = &rest[LENGTH_BYTES + length..];
            Some(Ok(payload))
        })
    }

    /// The encoded size of a frame with this payload.
    #[must_use]
    pub fn frame_bytes(payload: &[u8]) -> usize {
        LENGTH_BYTES + payload.len()
    }

    /// Drops the frame that was peeked at.
    pub fn consume(&mut self, payload_bytes: usize) {
        self.consume_bytes(LENGTH_BYTES + payload_bytes);
    }

    /// Drops this many bytes of frames.
    pub fn consume_bytes(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
        self.release_if_empty();
    }

    /// Takes the frame that was peeked at, to keep it.
    pub fn take(&mut self, payload_bytes: usize) -> Bytes {
        self.bytes.advance(LENGTH_BYTES);
        let payload = if payload_bytes <= OWN_BYTES_MAX {
            let payload = Bytes::copy_from_slice(&self.bytes[..payload_bytes]);
            self.bytes.advance(payload_bytes);
            payload
        } else {
            self.bytes.split_to(payload_bytes).freeze()
        };
        self.release_if_empty();
        payload
    }

    /// Releases a large buffer while the connection is idle; unread bytes move to a smaller one.
    pub fn rest(&mut self) {
        if !self.bytes.is_empty()
            && self.bytes.len() <= OWN_BYTES_MAX
            && self.bytes.capacity() > 2 * OWN_BYTES_MAX
        {
            let left = BytesMut::from(&self.bytes[..]);
            buffer_pool::return_input(std::mem::replace(&mut self.bytes, left));
        } else {
            self.release_if_empty();
        }
    }

    fn release_if_empty(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > 0 {
            buffer_pool::return_input(std::mem::take(&mut self.bytes));
        }
    }
}

fn frame_length(bytes: &[u8], frame_bytes_max: usize) -> Result<Option<usize>, BadLength> {
    let Some(length) = bytes.first_chunk().map(|head| i32::from_be_bytes(*head)) else {
        return Ok(None);
    };
    match usize::try_from(length) {
        Ok(bytes) if bytes <= frame_bytes_max => Ok(Some(bytes)),
        _ => Err(BadLength(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole() {
        let mut intake = Intake::new(8);
        intake.room().extend_from_slice(&[0, 0, 0, 2, 7]);
        assert_eq!(intake.peek(), Ok(None));
        intake.room().extend_from_slice(&[8, 0, 0]);
        assert_eq!(intake.peek(), Ok(Some(&[7, 8][..])));
        assert_eq!(intake.take(2), Bytes::from_static(&[7, 8]));
        assert_eq!(intake.peek(), Ok(None));
        intake.room().extend_from_slice(&[0, 9]);
        assert_eq!(intake.peek(), Err(BadLength(9)));
    }

    #[test]
    fn a_long_frame_is_known_by_its_length() {
        let mut intake = Intake::new(100 * 1024);
        assert_eq!(intake.long_frame_bytes(), None);
        intake.room().extend_from_slice(&[0, 1]);
        assert_eq!(intake.long_frame_bytes(), None);
        intake.room().extend_from_slice(&[0, 0, 7]);
        assert_eq!(intake.long_frame_bytes(), Some(65_540));
        intake.set_frame_bytes_max(4096);
        assert_eq!((intake.long_frame_bytes(), intake.peek()), (None, Err(BadLength(65_536))));
        let mut short = Intake::new(100 * 1024);
        short.room().extend_from_slice(&65_532i32.to_be_bytes());
        assert_eq!(short.long_frame_bytes(), None);
    }

    #[test]
    fn all_whole_frames_are_seen_and_dropped_together() {
        let mut intake = Intake::new(8);
        intake.room().extend_from_slice(&[0, 0, 0, 1, 7, 0, 0, 0, 2, 8, 9, 0, 0, 0, 3, 1]);
        let frames: Vec<_> = intake.frames().map(Result::unwrap).collect();
        assert_eq!(frames, [&[7][..], &[8, 9]]);
        intake.consume_bytes(11);
        assert_eq!((intake.peek(), intake.frames().next()), (Ok(None), None));
        intake.room().extend_from_slice(&[2, 3, 0, 0, 0, 9]);
        let frames: Vec<_> = intake.frames().collect();
        assert_eq!(frames, [Ok(&[1, 2, 3][..]), Err(BadLength(9))]);
    }
}

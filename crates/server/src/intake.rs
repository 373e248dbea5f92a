//! Bytes from a socket → frames. The memory is given back whenever nothing is left over, so an idle
//! connection holds none.

use bytes::{Buf, Bytes, BytesMut};

/// Asked of the socket at a time.
pub const READ_BYTES: usize = 64 * 1024;

/// A frame that no reader should accept.
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
    /// Empty.
    #[must_use]
    pub fn new(frame_bytes_max: usize) -> Self {
        Intake { bytes: BytesMut::new(), frame_bytes_max }
    }

    /// Where the socket puts more.
    pub fn room(&mut self) -> &mut BytesMut {
        let wanted = self.frame_length().ok().flatten().map_or(0, |length| 4 + length);
        let missing = wanted.saturating_sub(self.bytes.len());
        self.bytes.reserve(missing.max(READ_BYTES / 4));
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

    fn frame_length(&self) -> Result<Option<usize>, BadLength> {
        let Some(length) = self.bytes.first_chunk().map(|head| i32::from_be_bytes(*head)) else {
            return Ok(None);
        };
        match usize::try_from(length) {
            Ok(bytes) if bytes <= self.frame_bytes_max => Ok(Some(bytes)),
            _ => Err(BadLength(length)),
        }
    }

    /// The next frame's payload, if it is all here.
    pub fn peek(&self) -> Result<Option<&[u8]>, BadLength> {
        Ok(self.frame_length()?.and_then(|length| self.bytes.get(4..4 + length)))
    }

    /// Drops the frame that was peeked at.
    pub fn consume(&mut self, payload_bytes: usize) {
        self.bytes.advance(4 + payload_bytes);
        self.release_if_empty();
    }

    /// Takes the frame that was peeked at, to keep it.
    pub fn take(&mut self, payload_bytes: usize) -> Bytes {
        self.bytes.advance(4);
        let payload = self.bytes.split_to(payload_bytes).freeze();
        self.release_if_empty();
        payload
    }

    fn release_if_empty(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
        }
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
}

//! Reads the content of a snapshot field by field, from a file or from a leader.
//!
//! In: a `Read`. Out: fields. Memory is bounded by the received bytes of the largest record, never by a
//! claimed length: the buffer grows in steps, each after the previous one was filled.

use std::io::{self, Read};

use herdsman_proto::{DecodeError, JuteReader};
use simd_adler32::Adler32;

use super::parts::SnapshotFault;

const CHUNK_BYTES: usize = 256 << 10;

/// Whether more than the requested bytes may be read from the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadAhead {
    /// The source contains only the snapshot: read it in large pieces.
    Chunks,
    /// Other data follows the snapshot: do not read one byte too many. The source should be buffered.
    Never,
}

/// The input, with a running checksum of the consumed bytes.
pub(super) struct Input<'a, R: Read + ?Sized> {
    source: &'a mut R,
    read_ahead: ReadAhead,
    /// No string or buffer may be longer.
    field_bytes_max: usize,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are consumed.
    start: usize,
    /// Bytes of the buffer that are in the checksum.
    summed: usize,
    adler: Adler32,
    /// Offset of the buffer in the content.
    base: u64,
}

impl<'a, R: Read + ?Sized> Input<'a, R> {
    /// The content of a file; its checksums cover the lengths in it.
    pub(super) fn of_file(source: &'a mut R) -> Self {
        Input::new(source, ReadAhead::Chunks, i32::MAX as usize)
    }

    pub(super) fn new(source: &'a mut R, read_ahead: ReadAhead, field_bytes_max: usize) -> Self {
        Input {
            source,
            read_ahead,
            field_bytes_max,
            buffer: Vec::new(),
            start: 0,
            summed: 0,
            adler: Adler32::new(),
            base: 0,
        }
    }

    /// Bytes consumed so far.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// The next `count` bytes, without moving on.
    pub(super) fn view(&mut self, count: usize) -> Result<&[u8], SnapshotFault> {
        if self.buffer.len() - self.start < count {
            self.fill(count)?;
        }
        self.buffer.get(self.start..self.start + count).ok_or(SnapshotFault::Truncated)
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Reads until `count` bytes are there or the content ends.
    fn fill(&mut self, count: usize) -> Result<(), SnapshotFault> {
        self.sum();
        self.buffer.drain(..self.start);
        self.base += self.start as u64;
        self.start = 0;
        self.summed = 0;
        while self.buffer.len() < count {
            let old = self.buffer.len();
            let piece = match self.read_ahead {
                ReadAhead::Chunks => CHUNK_BYTES,
                ReadAhead::Never => CHUNK_BYTES.min(count - old),
            };
            self.buffer.resize(old + piece, 0);
            let read = self.source.read(&mut self.buffer[old..]);
            self.buffer.truncate(old + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(SnapshotFault::Truncated);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sum(&mut self) {
        self.adler.write(&self.buffer[self.summed..self.start]);
        self.summed = self.start;
    }

    /// The checksum of everything consumed.
    pub(super) fn adler(&mut self) -> Adler32 {
        self.sum();
        self.adler.clone()
    }

    pub(super) fn int(&mut self) -> Result<i32, SnapshotFault> {
        let value = JuteReader::new(self.view(4)?).int()?;
        self.consume(4);
        Ok(value)
    }

    pub(super) fn long(&mut self) -> Result<i64, SnapshotFault> {
        let value = JuteReader::new(self.view(8)?).long()?;
        self.consume(8);
        Ok(value)
    }

    /// How many elements follow.
    pub(super) fn count(&mut self) -> Result<i32, SnapshotFault> {
        match self.int()? {
            count if count < 0 => Err(DecodeError::Length(count).into()),
            count => Ok(count),
        }
    }

    /// Bytes of the string or buffer at `at`, with its length field.
    pub(super) fn field_bytes(&mut self, at: usize) -> Result<usize, SnapshotFault> {
        let length = JuteReader::new(&self.view(at + 4)?[at..]).int()?;
        match usize::try_from(length) {
            Ok(bytes) if bytes <= self.field_bytes_max => Ok(4 + bytes),
            Err(_) if length == -1 => Ok(4),
            _ => Err(DecodeError::Length(length).into()),
        }
    }

    /// All that is left, which must not be more than `bytes_max`.
    pub(super) fn rest(&mut self, bytes_max: usize) -> Result<&[u8], SnapshotFault> {
        if self.buffer.len() - self.start <= bytes_max {
            self.fill(bytes_max + 1)?;
        }
        let rest = &self.buffer[self.start..];
        if rest.len() > bytes_max {
            return Err(SnapshotFault::Trailer);
        }
        Ok(rest)
    }
}

//! Compression of snapshot files: none, gzip, or snappy-java's stream format.
//!
//! snappy-java: `82 53 4e 41 50 50 59 00`, version 1, lowest compatible version 1 (`i32` each), then
//! blocks of a length (`i32`) and that many bytes of raw snappy. The 16-byte header may occur
//! again where two streams were concatenated.
//!
//! Neither direction holds more than a block in memory, whatever the file claims.

use std::io::{self, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::disk::WriteFile;
use crate::names::Compression;

const SNAPPY_MAGIC: [u8; 8] = *b"\x82SNAPPY\x00";
const SNAPPY_HEADER: [u8; 16] = *b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01";
/// The block size of snappy-java.
const SNAPPY_BLOCK_BYTES: usize = 32 << 10;
/// Snappy turns three bytes into at most 64.
const SNAPPY_RATIO_MAX: usize = 32;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Dirty pages are synced in pieces: the last sync has little left to do, and a sync of the log that
/// happens in between waits for at most one of them.
const SYNC_EVERY_BYTES: u64 = 1 << 20;

/// The magic number of a compressed file.
pub(super) fn magic(compression: Compression) -> &'static [u8] {
    match compression {
        Compression::None => &super::HEADER[..super::HEADER_CHECKED_BYTES],
        Compression::Gzip => &GZIP_MAGIC,
        Compression::Snappy => &SNAPPY_MAGIC,
    }
}

/// Decompresses a stream.
pub fn unpack(
    packed: impl Read + Send + 'static,
    compression: Compression,
) -> Box<dyn Read + Send> {
    match compression {
        Compression::None => Box::new(packed),
        Compression::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Compression::Snappy => Box::new(SnappyReader::new(packed)),
    }
}

/// A compressing writer to a file.
pub(super) enum Packer {
    None(FileSink),
    Gzip(GzEncoder<FileSink>),
    Snappy(Box<SnappyWriter>),
}

impl Packer {
    pub(super) fn new(file: Box<dyn WriteFile>, compression: Compression) -> io::Result<Self> {
        let sink = FileSink { file, offset: 0, synced: 0 };
        Ok(match compression {
            Compression::None => Packer::None(sink),
            Compression::Gzip => Packer::Gzip(GzEncoder::new(sink, flate2::Compression::default())),
            Compression::Snappy => Packer::Snappy(Box::new(SnappyWriter::new(sink)?)),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Packer::None(sink) => sink.write_all(bytes),
            Packer::Gzip(encoder) => encoder.write_all(bytes),
            Packer::Snappy(writer) => writer.write(bytes),
        }
    }

    /// Bytes written to the file so far.
    pub(super) fn file_bytes(&self) -> u64 {
        match self {
            Packer::None(sink) => sink.offset,
            Packer::Gzip(encoder) => encoder.get_ref().offset,
            Packer::Snappy(writer) => writer.sink.offset,
        }
    }

    /// Writes the rest and makes the file durable. Returns the file's length.
    pub(super) fn finish(self) -> io::Result<u64> {
        let mut sink = match self {
            Packer::None(sink) => sink,
            Packer::Gzip(encoder) => encoder.finish()?,
            Packer::Snappy(writer) => writer.finish()?,
        };
        sink.file.sync_data()?;
        Ok(sink.offset)
    }
}

/// A sequential writer to a file.
pub(super) struct FileSink {
    file: Box<dyn WriteFile>,
    offset: u64,
    synced: u64,
}

impl Write for FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        if self.offset - self.synced >= SYNC_EVERY_BYTES {
            self.file.sync_data()?;
            self.synced = self.offset;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// snappy-java's `SnappyOutputStream`.
pub(super) struct SnappyWriter {
    sink: FileSink,
    encoder: snap::raw::Encoder,
    block: Vec<u8>,
    packed: Vec<u8>,
}

impl SnappyWriter {
    fn new(mut sink: FileSink) -> io::Result<Self> {
        sink.write_all(&SNAPPY_HEADER)?;
        Ok(SnappyWriter {
            sink,
            encoder: snap::raw::Encoder::new(),
            block: Vec::with_capacity(SNAPPY_BLOCK_BYTES),
            packed: vec![0; 4 + snap::raw::max_compress_len(SNAPPY_BLOCK_BYTES)],
        })
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = SNAPPY_BLOCK_BYTES - self.block.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == SNAPPY_BLOCK_BYTES {
                self.write_block()?;
            }
        }
        Ok(())
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let bytes =
            self.encoder.compress(&self.block, &mut self.packed[4..]).map_err(io::Error::other)?;
        let length = u32::try_from(bytes).expect("a block is small");
        self.packed[..4].copy_from_slice(&length.to_be_bytes());
        self.block.clear();
        self.sink.write_all(&self.packed[..4 + bytes])
    }

    fn finish(mut self) -> io::Result<FileSink> {
        self.write_block()?;
        Ok(self.sink)
    }
}

/// snappy-java's `SnappyInputStream`.
struct SnappyReader<R> {
    packed: R,
    decoder: snap::raw::Decoder,
    block: Vec<u8>,
    position: usize,
    started: bool,
}

impl<R: Read> SnappyReader<R> {
    fn new(packed: R) -> Self {
        SnappyReader {
            packed,
            decoder: snap::raw::Decoder::new(),
            block: Vec::new(),
            position: 0,
            started: false,
        }
    }

    /// Decompresses the next block; false at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        loop {
            let mut length = [0; 4];
            if !read_all_or_nothing(&mut self.packed, &mut length)? {
                return Ok(false);
            }
            if length == SNAPPY_MAGIC[..4] {
                let mut rest = [0; 12];
                self.packed.read_exact(&mut rest)?;
                if rest[..4] != SNAPPY_MAGIC[4..] {
                    return Err(invalid("a snappy stream header is damaged"));
                }
                self.started = true;
                continue;
            }
            if !self.started {
                return Err(invalid("the file does not start with a snappy stream header"));
            }
            return self.unpack_block(u32::from_be_bytes(length)).map(|()| true);
        }
    }

    fn unpack_block(&mut self, length: u32) -> io::Result<()> {
        let mut packed = Vec::new();
        // Grows only with the bytes that are really there.
        let read = (&mut self.packed).take(u64::from(length)).read_to_end(&mut packed)?;
        if read != length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = snap::raw::decompress_len(&packed).map_err(invalid)?;
        if bytes > packed.len().saturating_mul(SNAPPY_RATIO_MAX) {
            return Err(invalid("a snappy block claims more than it can hold"));
        }
        self.block = self.decoder.decompress_vec(&packed).map_err(invalid)?;
        self.position = 0;
        Ok(())
    }
}

impl<R: Read> Read for SnappyReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.position == self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.block.len() - self.position);
        buffer[..count].copy_from_slice(&self.block[self.position..self.position + count]);
        self.position += count;
        Ok(count)
    }
}

/// Fills the buffer. Returns false if the input ends before its first byte.
fn read_all_or_nothing(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..])? {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(true)
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

//! Reads a snapshot and trusts nothing that its checksums do not cover.
//!
//! In: a file. Out: its parts, passed to a [`SnapshotVisitor`] as they are read, and its trailer. The whole
//! file is read, to its last byte; the first fault ends it with an error that has the offset.
//! Memory is bounded by the largest znode that is really there, not by any claimed length.
//!
//! Parts visited before an error must be discarded: a seal verifies all the bytes before it.
//!
//! Apache: `FileSnap.deserialize`. Differences: Apache reads the digest only with `digest.enabled`, and
//! then reads a last zxid that follows seal 1 directly as a digest; we try both layouts, since a seal
//! shows which is correct. And it stops at the last seal; we also detect bytes after it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use herdsman_proto::{JuteReader, Zxid};
use simd_adler32::Adler32;

use super::batch::{FileRead, NodesFault, read_nodes};
use super::input::Input;
use super::pack::{magic, unpack};
use super::parts::read_tables;
pub use super::parts::{SnapshotFault, SnapshotVisitor};
use super::{HEADER, HEADER_CHECKED_BYTES, LAST_BYTES, Trailer, ZxidDigest};
use crate::ahead::FillThread;
use crate::disk::{Disk, ReadFile, Stream};
use crate::log::ending::read_exactly;
use crate::names::{Compression, SnapshotName};

/// Limit for a trailer, also for one with a digest as text.
const TRAILER_BYTES_MAX: usize = 4096;

/// The rest of a snapshot, besides the visited parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// The state of the tree when the last znode was written.
    pub trailer: Trailer,
    /// Znodes.
    pub nodes: u64,
    /// Length of the file.
    pub file_bytes: u64,
}

/// An error of reading a snapshot: it is not a snapshot, or it is damaged.
#[derive(Debug, thiserror::Error)]
#[error("snapshot {path} cannot be used: {fault} (at offset {offset} of its content)", path = path.display())]
pub struct SnapshotError {
    /// Which file.
    pub path: PathBuf,
    /// The offset in its uncompressed content.
    pub offset: u64,
    /// What is wrong.
    pub fault: SnapshotFault,
}

/// Called with the number of bytes of the file that were read so far.
pub type ReadProgress<'a> = dyn FnMut(u64) + 'a;

/// Reads a whole snapshot.
pub fn read_snapshot(
    disk: &dyn Disk,
    dir: &Path,
    name: SnapshotName,
    visitor: &mut dyn SnapshotVisitor,
    progress: &mut ReadProgress<'_>,
) -> Result<SnapshotSummary, SnapshotError> {
    read_snapshot_at(disk, &name.path(dir), name.compression, visitor, progress)
}

/// The same, for a file that does not have a snapshot's name.
pub fn read_snapshot_at(
    disk: &dyn Disk,
    path: &Path,
    compression: Compression,
    visitor: &mut dyn SnapshotVisitor,
    progress: &mut ReadProgress<'_>,
) -> Result<SnapshotSummary, SnapshotError> {
    let file = disk.open_read(path).and_then(|file| {
        let bytes = file.bytes()?;
        Ok((file, bytes))
    });
    let (file, file_bytes) = file.map_err(|source| SnapshotError {
        path: path.to_owned(),
        offset: 0,
        fault: SnapshotFault::Io(source),
    })?;
    let read = Arc::new(AtomicU64::new(0));
    let counted = Counted { stream: Stream::new(file, 0), read: read.clone() };
    let mut content = unpack(counted, compression);
    let mut input = Input::of_file(&mut *content);
    let result = read_head(&mut input, visitor).map_err(NodesFault::Input).and_then(|()| {
        let place = FillThread::for_bytes(file_bytes);
        let file = FileRead { bytes: &read, bytes_total: file_bytes };
        let nodes = read_nodes(&mut input, place, visitor, &file, progress)?;
        let trailer = read_end(&mut input).map_err(NodesFault::Input)?;
        Ok(SnapshotSummary { trailer, nodes, file_bytes })
    });
    if result.is_ok() {
        progress(read.load(Ordering::Relaxed));
    }
    result.map_err(|fault| {
        let (offset, fault) = match fault {
            NodesFault::Input(fault) => (input.offset(), fault),
            NodesFault::Refused(offset, error) => (offset, error.into()),
        };
        SnapshotError { path: path.to_owned(), offset, fault }
    })
}

/// A quick check of both ends of a file: whether it was probably written completely. Apache:
/// `SnapStream.isValidSnapshot`.
pub fn looks_whole(disk: &dyn Disk, dir: &Path, name: SnapshotName) -> io::Result<bool> {
    let file = disk.open_read(&name.path(dir))?;
    let bytes = file.bytes()?;
    let magic = magic(name.compression);
    if bytes < magic.len() as u64 || !has_at(&*file, 0, magic)? {
        return Ok(false);
    }
    if name.compression != Compression::None {
        return Ok(true);
    }
    match bytes.checked_sub(LAST_BYTES.len() as u64) {
        Some(offset) if offset >= HEADER.len() as u64 => has_at(&*file, offset, &LAST_BYTES),
        _ => Ok(false),
    }
}

/// Detects the compression of a file with any name from its first bytes; `None` if it is not a snapshot.
pub fn detect_compression(disk: &dyn Disk, path: &Path) -> io::Result<Option<Compression>> {
    let file = disk.open_read(path)?;
    let bytes = file.bytes()?;
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
        let magic = magic(compression);
        if bytes >= magic.len() as u64 && has_at(&*file, 0, magic)? {
            return Ok(Some(compression));
        }
    }
    Ok(None)
}

fn has_at(file: &dyn ReadFile, offset: u64, expected: &[u8]) -> io::Result<bool> {
    let mut found = vec![0; expected.len()];
    read_exactly(file, offset, &mut found)?;
    Ok(found == expected)
}

/// Reads the part before the znodes.
fn read_head(
    input: &mut Input<'_, impl Read + ?Sized>,
    visitor: &mut dyn SnapshotVisitor,
) -> Result<(), SnapshotFault> {
    let header = input.view(HEADER.len())?;
    if header[..HEADER_CHECKED_BYTES] != HEADER[..HEADER_CHECKED_BYTES] {
        return Err(SnapshotFault::Header);
    }
    input.consume(HEADER.len());
    read_tables(input, visitor)
}

/// Reads the part after the znodes.
fn read_end(input: &mut Input<'_, impl Read + ?Sized>) -> Result<Trailer, SnapshotFault> {
    check_seal(input)?;
    read_trailer(input)
}

/// Reads a seal and compares it with the bytes before it.
fn check_seal(input: &mut Input<'_, impl Read + ?Sized>) -> Result<(), SnapshotFault> {
    let computed = input.adler().finish();
    let mut reader = JuteReader::new(input.view(SEAL_BYTES)?);
    let stored = reader.long()?;
    if stored != i64::from(computed) || reader.rest() != LAST_BYTES {
        return Err(SnapshotFault::Seal { computed, stored });
    }
    input.consume(SEAL_BYTES);
    Ok(())
}

const SEAL_BYTES: usize = 8 + LAST_BYTES.len();

/// Reads what follows the first seal, which must be a trailer to the last byte.
fn read_trailer(input: &mut Input<'_, impl Read + ?Sized>) -> Result<Trailer, SnapshotFault> {
    let adler = input.adler();
    let rest = input.rest(TRAILER_BYTES_MAX)?;
    if rest.is_empty() {
        return Ok(Trailer::default());
    }
    let tail = TrailerBytes { rest, adler };
    let with_digest = tail.clone().digest().and_then(|(digest, tail)| {
        let last_zxid = match tail.rest.is_empty() {
            true => None,
            false => Some(tail.last_zxid()?),
        };
        Some(Trailer { digest: Some(digest), last_zxid })
    });
    let trailer =
        with_digest.or_else(|| Some(Trailer { digest: None, last_zxid: Some(tail.last_zxid()?) }));
    trailer.ok_or(SnapshotFault::Trailer)
}

/// The bytes after the first seal, and the checksum of everything before them.
#[derive(Clone)]
struct TrailerBytes<'a> {
    rest: &'a [u8],
    adler: Adler32,
}

impl<'a> TrailerBytes<'a> {
    fn digest(self) -> Option<(ZxidDigest, TrailerBytes<'a>)> {
        let mut reader = JuteReader::new(self.rest);
        let zxid = Zxid(reader.long().ok()?);
        let version = reader.int().ok()?;
        let digest = if version < 2 {
            // Older versions wrote the digest as hex text.
            i64::from_str_radix(&reader.required_string().ok()?, 16).ok()?
        } else {
            reader.long().ok()?
        };
        let bytes = self.rest.len() - reader.rest().len();
        let digest = ZxidDigest { zxid, version, digest };
        Some((digest, self.sealed(bytes)?))
    }

    /// The last zxid, its seal, and nothing else.
    fn last_zxid(self) -> Option<Zxid> {
        let zxid = Zxid(JuteReader::new(self.rest).long().ok()?);
        self.sealed(8)?.rest.is_empty().then_some(zxid)
    }

    /// The rest after `bytes` and their seal, if the seal matches.
    fn sealed(mut self, bytes: usize) -> Option<TrailerBytes<'a>> {
        let (content, rest) = self.rest.split_at_checked(bytes)?;
        self.adler.write(content);
        let (seal, rest) = rest.split_at_checked(SEAL_BYTES)?;
        let expected = [&i64::from(self.adler.finish()).to_be_bytes(), &LAST_BYTES[..]].concat();
        self.adler.write(seal);
        (seal == expected).then_some(TrailerBytes { rest, adler: self.adler })
    }
}

/// Counts the bytes that are read from the compressed file.
struct Counted {
    stream: Stream,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

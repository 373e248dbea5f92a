//! Reads a snapshot and believes nothing that its checksums do not cover.
//!
//! In: a file. Out: its parts, handed to a [`SnapshotVisitor`] as they come, and its trailer. The whole
//! file is read, to its last byte; the first thing that is wrong ends it with an error that says where.
//! Memory is bounded by the largest znode that is really there, not by any length that is claimed.
//!
//! What has been visited before an error is worth nothing: a seal vouches for all the bytes before it.
//!
//! Apache: `FileSnap.deserialize`. Differences: Apache reads the digest only with `digest.enabled`, and
//! then takes a last zxid that follows seal 1 directly for a digest; we try both shapes, since a seal
//! tells which is right. And it stops at the last seal; we also see what should not follow it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use herdsman_proto::{Acl, DecodeError, Reader, SessionId, StatPersisted, Zxid};
use herdsman_tree::{LoadError, Loader};
use simd_adler32::Adler32;

use super::pack::{magic, unpack};
use super::{END_PATH, HEADER, HEADER_CHECKED_BYTES, LAST_BYTES, Trailer, ZxidDigest};
use crate::disk::{Disk, ReadFile, Stream};
use crate::log::ending::read_exactly;
use crate::names::{Compression, SnapshotName};

const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of a znode behind its data: ACL key and stat.
const NODE_TAIL_BYTES: usize = 8 + StatPersisted::BYTES;
/// No trailer is longer, not even one with a digest as text.
const TRAILER_BYTES_MAX: usize = 4096;
/// Progress is reported each time that so many znodes have been read.
const PROGRESS_NODES: u64 = 4096;

/// Takes the parts of a snapshot, in the file's order.
pub trait SnapshotVisitor {
    /// An open session.
    fn session(&mut self, id: SessionId, timeout_ms: i32);
    /// An ACL and its key.
    fn acl(&mut self, key: i64, acl: Vec<Acl>);
    /// A znode.
    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError>;
}

impl SnapshotVisitor for Loader {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        Loader::session(self, id, timeout_ms);
    }

    fn acl(&mut self, key: i64, acl: Vec<Acl>) {
        Loader::acl(self, key, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        Loader::node(self, path, data.map(Arc::from), acl_key, stat)
    }
}

/// What a snapshot holds besides what was visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// The state of the tree when the last znode had been written down.
    pub trailer: Trailer,
    /// Znodes.
    pub nodes: u64,
    /// Length of the file.
    pub file_bytes: u64,
}

/// A file that is no snapshot, or not a whole one.
#[derive(Debug, thiserror::Error)]
#[error("snapshot {path} cannot be used: {fault} (at offset {offset} of its content)", path = path.display())]
pub struct SnapshotError {
    /// Which file.
    pub path: PathBuf,
    /// Where in its unpacked content.
    pub offset: u64,
    /// What is wrong.
    pub fault: SnapshotFault,
}

/// What is wrong with a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFault {
    /// It cannot be read or unpacked.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It ends too early.
    #[error("the file ends too early")]
    Truncated,
    /// It is something else.
    #[error("it does not start with a snapshot's header")]
    Header,
    /// A checksum does not fit.
    #[error("the checksum of what comes before is {computed:#x}, the file says {stored:#x}")]
    Seal {
        /// Computed from what was read.
        computed: u32,
        /// Found in the file.
        stored: i64,
    },
    /// Something follows the last seal, or stands in its place.
    #[error("what follows the first seal is no valid trailer")]
    Trailer,
    /// A field makes no sense.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// The znodes do not make a tree.
    #[error("{0}")]
    Load(#[from] LoadError),
}

/// Is told how many bytes of the file have been read.
pub type ReadProgress<'a> = dyn FnMut(u64) + 'a;

/// Reads a whole snapshot.
pub fn read_snapshot(
    disk: &dyn Disk,
    dir: &Path,
    name: SnapshotName,
    visitor: &mut dyn SnapshotVisitor,
    progress: &mut ReadProgress<'_>,
) -> Result<SnapshotSummary, SnapshotError> {
    let path = name.path(dir);
    let file = disk.open_read(&path).and_then(|file| {
        let bytes = file.bytes()?;
        Ok((file, bytes))
    });
    let (file, file_bytes) = file.map_err(|source| SnapshotError {
        path: path.clone(),
        offset: 0,
        fault: SnapshotFault::Io(source),
    })?;
    let read = Arc::new(AtomicU64::new(0));
    let counted = Counted { stream: Stream::new(file, 0), read: read.clone() };
    let mut input = Input::new(unpack(counted, name.compression));
    let mut report = || progress(read.load(Ordering::Relaxed));
    match read_parts(&mut input, visitor, &mut report) {
        Ok((trailer, nodes)) => Ok(SnapshotSummary { trailer, nodes, file_bytes }),
        Err(fault) => Err(SnapshotError { path, offset: input.offset(), fault }),
    }
}

/// A quick look at both ends of a file: it was probably written to its end. Apache:
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

fn has_at(file: &dyn ReadFile, offset: u64, expected: &[u8]) -> io::Result<bool> {
    let mut found = vec![0; expected.len()];
    read_exactly(file, offset, &mut found)?;
    Ok(found == expected)
}

fn read_parts(
    input: &mut Input,
    visitor: &mut dyn SnapshotVisitor,
    report: &mut dyn FnMut(),
) -> Result<(Trailer, u64), SnapshotFault> {
    let header = input.view(HEADER.len())?;
    if header[..HEADER_CHECKED_BYTES] != HEADER[..HEADER_CHECKED_BYTES] {
        return Err(SnapshotFault::Header);
    }
    input.consume(HEADER.len());
    for _ in 0..input.count()? {
        let id = SessionId(input.long()?);
        visitor.session(id, input.int()?);
    }
    for _ in 0..input.count()? {
        let key = input.long()?;
        visitor.acl(key, read_acl(input)?);
    }
    let mut nodes = 0;
    while read_node(input, visitor)? {
        nodes += 1;
        if nodes % PROGRESS_NODES == 0 {
            report();
        }
    }
    check_seal(input)?;
    let trailer = read_trailer(input)?;
    report();
    Ok((trailer, nodes))
}

fn read_acl(input: &mut Input) -> Result<Vec<Acl>, SnapshotFault> {
    let mut acl = Vec::new();
    for _ in 0..input.count()? {
        // perms, then two strings: find out how long they are, then decode in one go.
        let scheme = 4 + input.field_bytes(4)?;
        let bytes = scheme + input.field_bytes(scheme)?;
        let mut reader = Reader::new(input.view(bytes)?);
        acl.push(Acl::decode(&mut reader)?);
        input.consume(bytes);
    }
    Ok(acl)
}

/// Reads a znode; false at the end of the znodes.
fn read_node(input: &mut Input, visitor: &mut dyn SnapshotVisitor) -> Result<bool, SnapshotFault> {
    let path_bytes = input.field_bytes(0)?;
    let mut reader = Reader::new(input.view(path_bytes)?);
    if reader.required_string()? == END_PATH {
        input.consume(path_bytes);
        return Ok(false);
    }
    let bytes = path_bytes + input.field_bytes(path_bytes)? + NODE_TAIL_BYTES;
    let mut reader = Reader::new(input.view(bytes)?);
    let path = reader.required_string()?;
    let data = reader.buffer()?;
    let acl_key = reader.long()?;
    visitor.node(&path, data, acl_key, StatPersisted::decode(&mut reader)?)?;
    input.consume(bytes);
    Ok(true)
}

/// Reads a seal and compares it with what came before.
fn check_seal(input: &mut Input) -> Result<(), SnapshotFault> {
    let computed = input.adler().finish();
    let mut reader = Reader::new(input.view(SEAL_BYTES)?);
    let stored = reader.long()?;
    if stored != i64::from(computed) || reader.rest() != LAST_BYTES {
        return Err(SnapshotFault::Seal { computed, stored });
    }
    input.consume(SEAL_BYTES);
    Ok(())
}

const SEAL_BYTES: usize = 8 + LAST_BYTES.len();

/// Reads what follows the first seal, which must be a trailer to the last byte.
fn read_trailer(input: &mut Input) -> Result<Trailer, SnapshotFault> {
    let adler = input.adler();
    let rest = input.rest(TRAILER_BYTES_MAX)?;
    if rest.is_empty() {
        return Ok(Trailer::default());
    }
    let tail = Tail { rest, adler };
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

/// Bytes behind the first seal, and the checksum of all before them.
#[derive(Clone)]
struct Tail<'a> {
    rest: &'a [u8],
    adler: Adler32,
}

impl<'a> Tail<'a> {
    fn digest(self) -> Option<(ZxidDigest, Tail<'a>)> {
        let mut reader = Reader::new(self.rest);
        let zxid = Zxid(reader.long().ok()?);
        let version = reader.int().ok()?;
        let digest = if version < 2 {
            // Before the digest became a number it was one in hex.
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
        let zxid = Zxid(Reader::new(self.rest).long().ok()?);
        self.sealed(8)?.rest.is_empty().then_some(zxid)
    }

    /// What follows `bytes` and their seal, if the seal fits.
    fn sealed(mut self, bytes: usize) -> Option<Tail<'a>> {
        let (content, rest) = self.rest.split_at_checked(bytes)?;
        self.adler.write(content);
        let (seal, rest) = rest.split_at_checked(SEAL_BYTES)?;
        let expected = [&i64::from(self.adler.finish()).to_be_bytes(), &LAST_BYTES[..]].concat();
        self.adler.write(seal);
        (seal == expected).then_some(Tail { rest, adler: self.adler })
    }
}

/// Counts what is read of the packed file.
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

/// The unpacked content, with a running checksum of what has been consumed.
struct Input {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Consumed up to here.
    start: usize,
    /// In the checksum up to here.
    summed: usize,
    adler: Adler32,
    /// Offset of the buffer in the content.
    base: u64,
}

impl Input {
    fn new(source: Box<dyn Read + Send>) -> Self {
        Input { source, buffer: Vec::new(), start: 0, summed: 0, adler: Adler32::new(), base: 0 }
    }

    fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// The next `count` bytes, without moving on.
    fn view(&mut self, count: usize) -> Result<&[u8], SnapshotFault> {
        if self.buffer.len() - self.start < count {
            self.fill(count)?;
        }
        self.buffer.get(self.start..self.start + count).ok_or(SnapshotFault::Truncated)
    }

    fn consume(&mut self, count: usize) {
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
            self.buffer.resize(old + CHUNK_BYTES, 0);
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
    fn adler(&mut self) -> Adler32 {
        self.sum();
        self.adler.clone()
    }

    fn int(&mut self) -> Result<i32, SnapshotFault> {
        let value = Reader::new(self.view(4)?).int()?;
        self.consume(4);
        Ok(value)
    }

    fn long(&mut self) -> Result<i64, SnapshotFault> {
        let value = Reader::new(self.view(8)?).long()?;
        self.consume(8);
        Ok(value)
    }

    /// How many elements follow.
    fn count(&mut self) -> Result<i32, SnapshotFault> {
        match self.int()? {
            count if count < 0 => Err(DecodeError::Length(count).into()),
            count => Ok(count),
        }
    }

    /// Bytes of the string or buffer at `at`, with its length field.
    fn field_bytes(&mut self, at: usize) -> Result<usize, SnapshotFault> {
        let length = Reader::new(&self.view(at + 4)?[at..]).int()?;
        match usize::try_from(length) {
            Ok(bytes) => Ok(4 + bytes),
            Err(_) if length == -1 => Ok(4),
            Err(_) => Err(DecodeError::Length(length).into()),
        }
    }

    /// All that is left, which must not be more than `bytes_max`.
    fn rest(&mut self, bytes_max: usize) -> Result<&[u8], SnapshotFault> {
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

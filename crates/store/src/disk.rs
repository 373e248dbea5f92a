//! The disk interface, a trait so that it can be simulated.
//!
//! In: paths and bytes. Out: bytes and `io::Error`s. [`RealDisk`] does it with system calls,
//! [`MemoryDisk`] in memory with crashes, torn writes and faults on command.
//!
//! Guarantees, and no others: after [`WriteFile::sync_data`] returned `Ok`, what was
//! written and the file's length survive a crash; after [`Disk::sync_dir`] returned `Ok`, so do the
//! names in that directory. [`Disk::rename`] replaces its target atomically. Everything not synced
//! may survive in whole, in part or not at all.

mod memory;
mod real;
mod tolerant;

use std::error::Error;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use memory::{MemoryDisk, SECTOR_BYTES, Unsynced};
pub use real::RealDisk;
pub(crate) use tolerant::TolerantDisk;
pub use tolerant::is_unreadable;

/// A disk.
pub trait Disk: Send + Sync {
    /// Creates a new, empty file; no file of that name may exist.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Opens an existing file for writing.
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Opens an existing file for reading.
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn ReadFile>>;

    /// Lists the regular files in a directory, by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Renames a file, replacing a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory and its missing parents, durably.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes the content of an existing file durable. It need not be writable.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Bytes that an ordinary user can still write below a directory.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// Takes an exclusive lock on a file, creating it if needed, and writes `note` into it. The lock
    /// ends with the returned value or with the process.
    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn DiskLock>, LockError>;

    /// Takes an exclusive lock on directories that exist, by whatever paths they are reached, where the file system can
    /// lock a directory. Two of them may be the same.
    fn lock_directories(&self, dirs: &[&Path]) -> Result<Vec<Box<dyn DiskLock>>, LockError>;
}

/// A file being written.
pub trait WriteFile: Send {
    /// Writes all of `bytes` at `offset`. After an error any part of them may be there.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Grows the file to `bytes`, reading as zeros, and reserves the space where the file system can.
    fn allocate(&mut self, bytes: u64) -> io::Result<()>;

    /// Cuts the file, or grows it with zeros.
    fn set_len(&mut self, bytes: u64) -> io::Result<()>;

    /// Frees the space of a part that holds only zeros, where the file system can. It reads as zeros afterwards, and
    /// the file keeps its length.
    fn release(&mut self, part: Range<u64>) -> io::Result<()>;

    /// Makes content and length durable. After an error nothing is known about what was written
    /// since the last success, and a second call proves nothing.
    fn sync_data(&mut self) -> io::Result<()>;

    /// The file's length.
    fn bytes(&self) -> io::Result<u64>;
}

/// A file being read.
pub trait ReadFile: Send {
    /// Reads at `offset`; 0 is the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The file's length.
    fn bytes(&self) -> io::Result<u64>;

    /// Drops a part of the file from the system's cache, if there is one, so that the next read of it reads the disk.
    fn drop_cached(&self, _offset: u64, _bytes: u64) {}
}

/// A lock, held until dropped.
pub trait DiskLock: Send + Sync {}

/// Why a lock was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("held by {note:?}")]
    Held {
        /// What the owner wrote into the file.
        note: String,
    },
    /// The file could not be created, locked or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A file in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// Its name. Names that are not UTF-8 are not ours and left out.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Whether the disk is full: a retry may succeed once there is room.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The system had no file descriptor or no memory left to open a file. Only opening fails like this, so
/// nothing was written or synced, and a retry may succeed once descriptors are free.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct OutOfDescriptors(io::Error);

/// Marks an error as [`OutOfDescriptors`], to tell it from a sync that failed for lack of memory.
fn out_of_descriptors(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), OutOfDescriptors(error))
}

/// Whether the error, or one of its causes, says that a file could not be opened because the process or the system
/// has no file descriptor or no memory left.
#[must_use]
pub fn is_out_of_descriptors(error: &(dyn Error + 'static)) -> bool {
    let is_marked =
        |error: &io::Error| error.get_ref().is_some_and(|it| it.is::<OutOfDescriptors>());
    std::iter::successors(Some(error), |&error| error.source())
        .any(|error| error.downcast_ref().is_some_and(is_marked))
}

/// An I/O error with its path.
#[derive(Debug)]
pub(crate) struct IoErrorAt {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// Adds the path to an I/O error.
pub(crate) fn io_at(path: &Path) -> impl FnOnce(io::Error) -> IoErrorAt + use<> {
    let path = path.to_owned();
    move |source| IoErrorAt { path, source }
}

/// Reads a small file.
pub(crate) fn read_whole(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = disk.open_read(path)?;
    let mut content = Vec::new();
    // The reported length may be wrong.
    io::Read::read_to_end(&mut io::Read::take(Stream::new(file, 0), bytes_max + 1), &mut content)?;
    if content.len() as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("more than the {bytes_max} bytes that are expected"),
        ));
    }
    Ok(content)
}

/// Replaces a small file atomically: a temporary file, synced, renamed, and the directory synced.
pub(crate) fn replace_whole(
    disk: &dyn Disk,
    dir: &Path,
    (temporary, name): (&str, &str),
    content: &[u8],
) -> io::Result<()> {
    let temporary = dir.join(temporary);
    remove_if_there(disk, &temporary)?;
    let mut file = disk.create(&temporary)?;
    file.write_at(0, content)?;
    file.sync_data()?;
    drop(file);
    disk.rename(&temporary, &dir.join(name))?;
    disk.sync_dir(dir)
}

/// Removes a file if it exists.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A sequential reader over a [`ReadFile`].
pub(crate) struct Stream {
    file: Box<dyn ReadFile>,
    offset: u64,
}

impl Stream {
    pub(crate) fn new(file: Box<dyn ReadFile>, offset: u64) -> Self {
        Stream { file, offset }
    }
}

impl io::Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// The directories of a server's files: the `version-2` directories of `dataDir` and `dataLogDir`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// Snapshots and epoch files.
    pub data: PathBuf,
    /// Txn logs; may be the same.
    pub log: PathBuf,
}

impl Dirs {
    /// The directories below the configured ones.
    #[must_use]
    pub fn below(data_dir: &Path, data_log_dir: &Path) -> Self {
        Dirs { data: data_dir.join("version-2"), log: data_log_dir.join("version-2") }
    }

    /// Creates both where they are missing.
    pub fn create(&self, disk: &dyn Disk) -> io::Result<()> {
        disk.create_dir(&self.data)?;
        disk.create_dir(&self.log)
    }
}

/// Bytes of the files in a directory, for the four-letter word `dirs`. A directory that does not exist
/// has none.
pub fn dir_bytes(disk: &dyn Disk, dir: &Path) -> io::Result<u64> {
    match disk.list(dir) {
        Ok(entries) => Ok(entries.iter().map(|entry| entry.bytes).sum()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

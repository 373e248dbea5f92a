//! A disk whose unreadable parts read as damage.
//!
//! In: any disk. Out: the same files; blocks that the device cannot read are filled with a byte that no log has there,
//! and noted. So one bad block costs what is in it, like any other damage, and not the whole file. Other errors (no
//! permission, no file descriptors, a missing file) are errors as before. Only for reading.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{DirEntry, Disk, DiskLock, LockError, ReadFile, WriteFile};

/// Bytes that are given up at a time.
const BLOCK_BYTES: u64 = 4096;
/// What unreadable bytes read as. As a length it is negative, and it is no padding.
const FILLING: u8 = 0xff;
/// Unreadable parts that are noted; reading goes on after more of them.
const NOTED_MAX: usize = 1000;

/// Whether the device or the file system could not read what is there.
#[must_use]
pub fn is_unreadable(error: &io::Error) -> bool {
    let errors = [Errno::IO, Errno::BADMSG, Errno::UCLEAN, Errno::NXIO, Errno::REMOTEIO];
    Errno::from_io_error(error).is_some_and(|error| errors.contains(&error))
}

/// A disk whose unreadable parts read as damage.
pub(crate) struct TolerantDisk<'a> {
    disk: &'a dyn Disk,
    noted: Noted,
}

type Noted = Arc<Mutex<Vec<Unreadable>>>;

/// A part of a file that cannot be read.
struct Unreadable {
    path: PathBuf,
    range: Range<u64>,
}

fn locked(noted: &Noted) -> MutexGuard<'_, Vec<Unreadable>> {
    noted.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> TolerantDisk<'a> {
    pub(crate) fn new(disk: &'a dyn Disk) -> Self {
        TolerantDisk { disk, noted: Arc::default() }
    }

    /// Whether something between these offsets was read and is unreadable.
    pub(crate) fn is_unreadable(&self, path: &Path, range: &Range<u64>) -> bool {
        let overlaps = |it: &Unreadable| {
            it.path == path && it.range.start < range.end && range.start < it.range.end
        };
        locked(&self.noted).iter().any(overlaps)
    }

    /// The length of a file that cannot be opened.
    fn listed_bytes(&self, path: &Path) -> u64 {
        let (dir, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
        let entries = dir.and_then(|dir| self.disk.list(dir).ok()).unwrap_or_default();
        let entry = entries.iter().find(|entry| Some(entry.name.as_str()) == name);
        entry.map_or(0, |entry| entry.bytes)
    }
}

impl Disk for TolerantDisk<'_> {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.disk.create(path)
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.disk.open_write(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        let opened = self.disk.open_read(path).and_then(|file| Ok((file.bytes()?, file)));
        let (bytes, file) = match opened {
            Ok((bytes, file)) => (bytes, Some(file)),
            // Not empty, so that it counts as damaged.
            Err(error) if is_unreadable(&error) => (self.listed_bytes(path).max(1), None),
            Err(error) => return Err(error),
        };
        let (path, noted) = (path.to_owned(), Arc::clone(&self.noted));
        Ok(Box::new(TolerantFile { file, bytes, path, noted }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_file(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn DiskLock>, LockError> {
        self.disk.lock(path, note)
    }

    fn lock_directories(&self, dirs: &[&Path]) -> Result<Vec<Box<dyn DiskLock>>, LockError> {
        self.disk.lock_directories(dirs)
    }
}

struct TolerantFile {
    /// `None`: it cannot be opened.
    file: Option<Box<dyn ReadFile>>,
    bytes: u64,
    path: PathBuf,
    noted: Noted,
}

impl TolerantFile {
    /// Reads a part of one block.
    fn read_block(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.as_ref().map(|file| file.read_at(offset, buffer));
        match read {
            Some(Err(error)) if is_unreadable(&error) => {}
            Some(read) => return read,
            None => {}
        }
        let end = self.bytes.min(offset + buffer.len() as u64);
        let count = usize::try_from(end.saturating_sub(offset)).unwrap_or(buffer.len());
        buffer[..count].fill(FILLING);
        self.note(offset..end);
        Ok(count)
    }

    fn note(&self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut noted = locked(&self.noted);
        let is_covered = |it: &Unreadable| {
            it.path == self.path && it.range.start <= range.start && range.start <= it.range.end
        };
        if let Some(found) = noted.iter_mut().rev().find(|it| is_covered(it)) {
            found.range.end = found.range.end.max(range.end);
        } else if noted.len() < NOTED_MAX {
            noted.push(Unreadable { path: self.path.clone(), range });
        }
    }
}

impl ReadFile for TolerantFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let whole = self.file.as_ref().map(|file| file.read_at(offset, buffer));
        match whole {
            Some(Err(error)) if is_unreadable(&error) => {}
            Some(read) => return read,
            None => {}
        }
        let (mut at, mut count) = (offset, 0);
        while count < buffer.len() {
            let block_end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
            let rest = usize::try_from(block_end - at).unwrap_or(buffer.len());
            let end = buffer.len().min(count + rest);
            let read = self.read_block(at, &mut buffer[count..end])?;
            if read == 0 {
                break;
            }
            count += read;
            at += read as u64;
        }
        Ok(count)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    fn read(disk: &TolerantDisk<'_>, offset: u64, count: usize) -> Vec<u8> {
        let file = disk.open_read(Path::new("/d/f")).unwrap();
        let mut buffer = vec![0; count];
        let read = file.read_at(offset, &mut buffer).unwrap();
        buffer.truncate(read);
        buffer
    }

    #[test]
    fn only_unreadable_blocks_are_lost() {
        let disk = MemoryDisk::new();
        let path = Path::new("/d/f");
        disk.put(path, vec![7; 3 * 4096 + 10]);
        disk.fail_reads(path, 5000..5001);
        disk.open_read(path).unwrap().read_at(4990, &mut [0; 20]).unwrap_err();
        let tolerant = TolerantDisk::new(&disk);
        let mut expected = vec![7; 3 * 4096 + 10];
        expected[4096..8192].fill(FILLING);
        assert_eq!(read(&tolerant, 0, 20_000), expected);
        assert_eq!(read(&tolerant, 12_000, 20_000), expected[12_000..]);
        assert!(tolerant.is_unreadable(path, &(8000..8001)));
        assert!(!tolerant.is_unreadable(path, &(8192..20_000)));
        assert!(!tolerant.is_unreadable(path, &(0..4096)));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_all_damage_and_a_missing_one_is_an_error() {
        let disk = MemoryDisk::new();
        let path = Path::new("/d/f");
        disk.put(path, vec![7; 5000]);
        disk.fail_open(path);
        let tolerant = TolerantDisk::new(&disk);
        assert_eq!(read(&tolerant, 100, 9000), vec![FILLING; 4900]);
        assert!(tolerant.is_unreadable(path, &(0..5000)));
        assert!(tolerant.open_read(Path::new("/d/g")).is_err());
        disk.set_openable(false);
        assert!(tolerant.open_read(path).is_err());
    }
}

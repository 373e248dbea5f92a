//! The operating system's disk.
//!
//! `sync_data` is `fdatasync`, `allocate` is `fallocate` and falls back to a sparse file where the
//! file system has no such thing. Everything is positional, so no file keeps a cursor.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation};

use super::{DirEntry, Disk, DiskLock, LockError, ReadFile, WriteFile, out_of_descriptors};

/// The operating system's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = opened(OpenOptions::new().write(true).create_new(true).open(path))?;
        Ok(Box::new(RealFile(file)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(RealFile(opened(OpenOptions::new().write(true).open(path))?)))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(RealFile(opened(File::open(path))?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in opened(fs::read_dir(dir))? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
                entries.push(DirEntry { name, bytes: metadata.len() });
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        match dir.parent() {
            Some(parent) if parent != Path::new("") => {
                self.create_dir(parent)?;
                fs::create_dir(dir)?;
                self.sync_dir(parent)
            }
            _ => fs::create_dir(dir),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        opened(File::open(dir))?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn DiskLock>, LockError> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(note.as_bytes())?;
                Ok(Box::new(RealLock { _file: file }))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(LockError::Held { note: io::read_to_string(&file)?.trim().to_owned() })
            }
            Err(error) => Err(LockError::Io(error.into())),
        }
    }
}

/// What came of opening a file. `ENOMEM` is recognized here and nowhere else: from a sync it would be final.
fn opened<T>(result: io::Result<T>) -> io::Result<T> {
    use rustix::io::Errno;
    result.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => out_of_descriptors(error),
        _ => error,
    })
}

/// The lock lives as long as the open file.
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

struct RealFile(File);

/// Whether a file system has reserved room.
#[derive(Debug, PartialEq, Eq)]
enum Reserved {
    Yes,
    NotSupported,
}

/// Reserves room. Reserving a lot takes time, in which a signal may arrive; that is no failure of the disk.
fn reserved(fallocate: impl FnMut() -> rustix::io::Result<()>) -> io::Result<Reserved> {
    match rustix::io::retry_on_intr(fallocate) {
        Ok(()) => Ok(Reserved::Yes),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(Reserved::NotSupported),
        Err(error) => Err(error.into()),
    }
}

impl WriteFile for RealFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        let from = self.0.metadata()?.len();
        let Some(more) = bytes.checked_sub(from).filter(|more| *more > 0) else {
            return Ok(());
        };
        let reserve = || rustix::fs::fallocate(&self.0, FallocateFlags::empty(), from, more);
        match reserved(reserve)? {
            Reserved::Yes => Ok(()),
            Reserved::NotSupported => self.0.set_len(bytes),
        }
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl ReadFile for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_grow_shrink_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        RealDisk.create_dir(&below).unwrap();
        let path = below.join("file");
        let mut file = RealDisk.create(&path).unwrap();
        file.allocate(8192).unwrap();
        file.allocate(100).unwrap();
        assert_eq!(file.bytes().unwrap(), 8192);
        file.write_at(10, b"ten").unwrap();
        file.set_len(14).unwrap();
        file.sync_data().unwrap();
        RealDisk.sync_dir(&below).unwrap();
        assert!(RealDisk.create(&path).is_err());
        let read = super::super::read_whole(&RealDisk, &path, 100).unwrap();
        assert_eq!(read, [[0; 10].as_slice(), b"ten\0"].concat());
        let entry = DirEntry { name: "file".to_owned(), bytes: 14 };
        assert_eq!(RealDisk.list(&below).unwrap(), [entry]);
        assert!(RealDisk.free_bytes(&below).unwrap() > 0);
    }

    /// An error here is final for the log, so a signal must not be one.
    #[test]
    fn an_interrupted_fallocate_is_tried_again() {
        use rustix::io::Errno;
        let check = |answers: &[Errno], expected: Option<Reserved>| {
            let mut answers = answers.iter();
            let result = reserved(|| answers.next().map_or(Ok(()), |error| Err(*error)));
            assert_eq!(result.ok(), expected);
            assert!(answers.next().is_none());
        };
        check(&[], Some(Reserved::Yes));
        check(&[Errno::INTR, Errno::INTR], Some(Reserved::Yes));
        check(&[Errno::INTR, Errno::OPNOTSUPP], Some(Reserved::NotSupported));
        check(&[Errno::INTR, Errno::NOSPC], None);
    }

    #[test]
    fn only_an_open_is_out_of_descriptors() {
        use rustix::io::Errno;
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            let error = opened::<()>(Err(errno.into())).unwrap_err();
            assert!(super::super::is_out_of_descriptors(&error));
            assert_eq!(error.to_string(), io::Error::from(errno).to_string());
            assert!(!super::super::is_out_of_descriptors(&io::Error::from(errno)));
        }
        let missing = opened::<()>(Err(Errno::NOENT.into())).unwrap_err();
        assert!(!super::super::is_out_of_descriptors(&missing));
    }

    #[test]
    fn a_lock_is_held_once_and_ends_with_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = RealDisk.lock(&path, "first").unwrap();
        match RealDisk.lock(&path, "second") {
            Err(LockError::Held { note }) => assert_eq!(note, "first"),
            _ => panic!("the lock is held"),
        }
        drop(lock);
        RealDisk.lock(&path, "third").unwrap();
    }
}

//! The operating system's disk.
//!
//! `sync_data` is `fdatasync`, `allocate` is `fallocate` and falls back to a sparse file where the
//! file system has no such thing. Everything is positional, so no file keeps a cursor.
//!
//! Symbolic links to files are files: they are listed, read, cut and written as what they point to, as in
//! Apache. Renaming and removing apply to the link itself. A link whose target cannot be reached is listed too,
//! so that opening it fails: a missing log must not look like one that never existed. A new file is never
//! created through a link, and neither is the lock file, which an administrator's tools may open where
//! the server's user can create links.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use super::{DirEntry, Disk, DiskLock, LockError, ReadFile, WriteFile, out_of_descriptors};

/// The operating system's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = opened(OpenOptions::new().write(true).create_new(true).open(path))?;
        Ok(Box::new(file))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(opened_at(path, OpenOptions::new().write(true).open(path))?))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(open_regular(path)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in opened(fs::read_dir(dir))? {
            let entry = entry?;
            let bytes = match fs::metadata(entry.path()) {
                Ok(metadata) if metadata.is_file() => metadata.len(),
                Ok(_) => continue,
                // A dangling link. (The type may need another system call, and the file may be gone by then.)
                Err(_) if entry.file_type().is_ok_and(|file_type| file_type.is_symlink()) => 0,
                // Removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(DirEntry { name, bytes });
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

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        open_regular(path)?.sync_data()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn DiskLock>, LockError> {
        let mut file = open_lock_file(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // A file with a second hard link may belong to another user, and is not overwritten.
                if file.metadata()?.nlink() == 1 {
                    file.set_len(0)?;
                    file.write_all(note.as_bytes())?;
                }
                Ok(Box::new(RealLock { _file: file }))
            }
            Err(Errno::WOULDBLOCK) => {
                Err(LockError::Held { note: io::read_to_string(&file)?.trim().to_owned() })
            }
            Err(error) => Err(LockError::Io(error.into())),
        }
    }

    fn lock_directories(&self, dirs: &[&Path]) -> Result<Vec<Box<dyn DiskLock>>, LockError> {
        let (mut locks, mut locked) = (Vec::<Box<dyn DiskLock>>::new(), Vec::new());
        for dir in dirs {
            let file = opened(File::open(dir))?;
            let metadata = file.metadata()?;
            let identity = (metadata.dev(), metadata.ino());
            if locked.contains(&identity) {
                continue;
            }
            // Other errors are of file systems that cannot lock what is open for reading (NFS). The lock file is locked
            // there all the same.
            let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            if lock == Err(Errno::WOULDBLOCK) {
                return Err(LockError::Held { note: String::new() });
            }
            locked.push(identity);
            locks.push(Box::new(RealLock { _file: file }));
        }
        Ok(locks)
    }
}

/// Converts the result of opening a file. `ENOMEM` is recognized only here: from a sync it would be final.
fn opened<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => out_of_descriptors(error),
        _ => error,
    })
}

/// Like [`opened`]. The error for a link names its target: a listing shows it as a file.
fn opened_at<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    opened(result).map_err(|error| match fs::read_link(path) {
        Ok(target) if !crate::is_out_of_descriptors(&error) => io::Error::new(
            error.kind(),
            format!("link to {}, which cannot be opened: {error}", target.display()),
        ),
        _ => error,
    })
}

/// Opens a regular file for reading. A FIFO would block until there is a writer, and a device may have no end.
fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flag(OFlags::NONBLOCK));
    let file = opened_at(path, options.open(path))?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

fn flag(flag: OFlags) -> i32 {
    i32::try_from(flag.bits()).expect("the flag is a small number")
}

/// Opens or creates the lock file, never through a symbolic link.
fn open_lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flag(OFlags::NOFOLLOW));
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => io::Error::other(
            "it is a link to a file that may belong to another user. Remove the link and try again",
        ),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

/// The lock lives as long as the open file.
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

/// Whether a file system has reserved or freed space.
#[derive(Debug, PartialEq, Eq)]
enum Reserved {
    Yes,
    NotSupported,
}

/// Reserves or frees space. A large reservation takes time, in which a signal may arrive; that is not a failure of the
/// disk.
fn reserved(fallocate: impl FnMut() -> rustix::io::Result<()>) -> io::Result<Reserved> {
    match rustix::io::retry_on_intr(fallocate) {
        Ok(()) => Ok(Reserved::Yes),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Reserved::NotSupported),
        Err(error) => Err(error.into()),
    }
}

impl WriteFile for File {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        let from = self.metadata()?.len();
        let Some(more) = bytes.checked_sub(from).filter(|more| *more > 0) else {
            return Ok(());
        };
        let reserve = || rustix::fs::fallocate(&*self, FallocateFlags::empty(), from, more);
        match reserved(reserve)? {
            Reserved::Yes => Ok(()),
            Reserved::NotSupported => File::set_len(self, bytes),
        }
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }

    fn release(&mut self, part: Range<u64>) -> io::Result<()> {
        let Some(bytes) = part.end.checked_sub(part.start).filter(|bytes| *bytes > 0) else {
            return Ok(());
        };
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        reserved(|| rustix::fs::fallocate(&*self, flags, part.start, bytes)).map(|_| ())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl ReadFile for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match FileExt::read_at(self, buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn drop_cached(&self, offset: u64, bytes: u64) {
        if let Some(bytes) = NonZeroU64::new(bytes) {
            // Advice only: where it has no effect, more is read from the cache.
            _ = rustix::fs::fadvise(self, offset, Some(bytes), Advice::DontNeed);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A FIFO without a writer blocks whoever opens it, and /dev/zero never ends.
    #[test]
    fn what_is_not_a_regular_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (fifo, zero) = (dir.path().join("fifo"), dir.path().join("zero"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        for path in [&*fifo, &*zero, dir.path()] {
            let read = super::super::read_whole(&RealDisk, path, 100);
            assert!(read.unwrap_err().to_string().contains("not a regular file"), "{path:?}");
            assert!(RealDisk.sync_file(path).is_err(), "{path:?}");
        }
    }

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

    /// What is released reads as zeros, also where the file system cannot free it, because only zeros are released.
    #[test]
    fn a_released_part_reads_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = RealDisk.create(&path).unwrap();
        file.allocate(64 << 10).unwrap();
        file.write_at(4000, b"before").unwrap();
        file.write_at(0xf000, b"behind").unwrap();
        let expected = fs::read(&path).unwrap();
        file.release(8192..0xf000).unwrap();
        file.release(0..0).unwrap();
        assert!(fs::read(&path).unwrap() == expected && expected.len() == 64 << 10);
    }

    /// An error here is final for the log, so a signal must not be one.
    #[test]
    fn an_interrupted_fallocate_is_tried_again() {
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

    /// Operators move logs to another disk and leave links.
    #[test]
    fn links_to_files_are_files() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (here, elsewhere) = (dir.path().join("here"), dir.path().join("elsewhere"));
        RealDisk.create_dir(&here).unwrap();
        RealDisk.create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "content").unwrap();
        symlink("../elsewhere/file", here.join("linked")).unwrap();
        symlink("../elsewhere", here.join("directory")).unwrap();
        symlink("../nowhere/file", here.join("dangling")).unwrap();
        symlink("loop", here.join("loop")).unwrap();
        let entry = |name: &str, bytes| DirEntry { name: name.to_owned(), bytes };
        let expected = [entry("dangling", 0), entry("linked", 7), entry("loop", 0)];
        assert_eq!(RealDisk.list(&here).unwrap(), expected);
        RealDisk.open_write(&here.join("linked")).unwrap().set_len(4).unwrap();
        assert_eq!(fs::read(elsewhere.join("file")).unwrap(), b"cont");
        let error = RealDisk.open_read(&here.join("dangling")).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("link to ../nowhere/file, which cannot be opened"));
        RealDisk.open_read(&here.join("loop")).err().unwrap();
        assert!(RealDisk.create(&here.join("dangling")).is_err());
        RealDisk.remove(&here.join("linked")).unwrap();
        assert!(elsewhere.join("file").exists());
    }

    #[test]
    fn a_lock_is_not_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("lock"), dir.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        let error = RealDisk.lock(&path, "note").err().unwrap();
        assert!(error.to_string().contains("is a link"), "{error}");
        fs::remove_file(&path).unwrap();
        // A copy of the directory that is made of second names must not keep the server from starting.
        fs::hard_link(&precious, &path).unwrap();
        let _lock = RealDisk.lock(&path, "note").unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }
}

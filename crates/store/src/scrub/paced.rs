//! The disk as a scrub sees it: read-only, at the host's pace, without the system's cache, and with the end of the
//! file that is being written where its last durable record ends.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{ScrubError, ScrubHost};
use crate::disk::{DirEntry, Disk, DiskLock, LockError, ReadFile, WriteFile};

/// The disk. Clones share everything but the end of the file.
#[derive(Clone)]
pub(super) struct PacedDisk {
    inner: Arc<dyn Disk>,
    host: Arc<dyn ScrubHost>,
    stopped: Arc<AtomicBool>,
    /// A file, and the offset where it ends for the reader.
    end: Option<(PathBuf, u64)>,
}

impl PacedDisk {
    pub(super) fn new(inner: Arc<dyn Disk>, host: Arc<dyn ScrubHost>) -> Self {
        PacedDisk { inner, host, stopped: Arc::default(), end: None }
    }

    /// The same disk, on which this file ends at an offset.
    pub(super) fn ending(&self, end: Option<(PathBuf, u64)>) -> Self {
        PacedDisk { end, ..self.clone() }
    }

    /// Fails if the host has ended the pass: then what looks like an error of the disk is none.
    pub(super) fn check_running(&self) -> Result<(), ScrubError> {
        if self.stopped.load(Ordering::Relaxed) { Err(ScrubError::Stopped) } else { Ok(()) }
    }
}

/// A file that is read at the host's pace.
struct PacedFile {
    inner: Box<dyn ReadFile>,
    host: Arc<dyn ScrubHost>,
    stopped: Arc<AtomicBool>,
    end: u64,
}

impl ReadFile for PacedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let rest = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(rest);
        let read = self.inner.read_at(offset, &mut buffer[..wanted])?;
        self.inner.drop_cached(offset, read as u64);
        if self.host.pace(read as u64) == ControlFlow::Break(()) {
            self.stopped.store(true, Ordering::Relaxed);
            return Err(stopped());
        }
        Ok(read)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.inner.bytes()?.min(self.end))
    }
}

fn stopped() -> io::Error {
    io::Error::other("the pass was ended")
}

fn read_only() -> io::Error {
    io::ErrorKind::ReadOnlyFilesystem.into()
}

impl Disk for PacedDisk {
    fn create(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        Err(read_only())
    }

    fn open_write(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        Err(read_only())
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        let inner = self.inner.open_read(path)?;
        inner.drop_cached(0, inner.bytes()?);
        let end = self.end.as_ref().filter(|(ending, _)| ending == path);
        Ok(Box::new(PacedFile {
            inner,
            host: Arc::clone(&self.host),
            stopped: Arc::clone(&self.stopped),
            end: end.map_or(u64::MAX, |(_, end)| *end),
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_file(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn lock(&self, _: &Path, _: &str) -> Result<Box<dyn DiskLock>, LockError> {
        Err(read_only().into())
    }

    fn lock_directories(&self, _: &[&Path]) -> Result<Vec<Box<dyn DiskLock>>, LockError> {
        Err(read_only().into())
    }
}

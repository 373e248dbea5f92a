//! All changes that the tools make on disk.
//!
//! The tools are run by an administrator in directories of the server's user, who can put links there. So they work
//! with that user's rights (`identity`). Also, a new file is created and never opened if it exists already, its
//! owner and mode are set through its descriptor before anything is in it, and no change follows a link in the last
//! part of a path.
//!
//! Files with data belong to the owner of the directory and have the mode of the files beside them, or are
//! for their owner alone. Only the super user can give files away; files that other users create are their own.
//!
//! In tests each change calls `faults` first, which can fail it, or fail it and all later ones, as a kill would.

#[cfg(test)]
pub(crate) mod faults;

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown, symlink,
};
use std::path::Path;

use anyhow::{Context, Result};
use herdsman_store::disk::{DirEntry, DiskLock, LockError, ReadFile, WriteFile};
use herdsman_store::{Disk, RealDisk};
use jiff::Timestamp;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::TempDir;

/// A file that only its owner may read.
const PRIVATE_FILE: u32 = 0o600;
/// The same for a directory.
const PRIVATE_DIR: u32 = 0o700;
/// The permission bits of a mode.
const PERMISSIONS: u32 = 0o777;

/// Called before each change.
#[cfg(not(test))]
fn before_change() -> io::Result<()> {
    Ok(())
}
#[cfg(test)]
use faults::before_change;

/// The current time, as part of a file name.
pub(crate) fn stamp() -> String {
    Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// A disk that creates files with a given owner and mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolDisk {
    /// User and group; `None` for those of this process.
    owner: Option<(u32, u32)>,
    file_mode: u32,
    dir_mode: u32,
}

impl ToolDisk {
    /// For files of the user who runs the tool.
    pub(crate) fn private() -> Self {
        ToolDisk { owner: None, file_mode: PRIVATE_FILE, dir_mode: PRIVATE_DIR }
    }

    /// For files in an existing directory: of the same owner, and with the mode of the file `like`.
    pub(crate) fn in_dir(dir: &Path, like: Option<&Path>) -> Result<Self> {
        let failed = || format!("cannot access {}", dir.display());
        let metadata = fs::metadata(dir).with_context(failed)?;
        let file_mode = match like {
            None => PRIVATE_FILE,
            Some(file) => permissions(&fs::metadata(file).with_context(failed)?),
        };
        let owner = Some((metadata.uid(), metadata.gid()));
        Ok(ToolDisk { owner, file_mode, dir_mode: permissions(&metadata) })
    }

    fn create_file(&self, path: &Path) -> io::Result<File> {
        before_change()?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(PRIVATE_FILE).open(path)?;
        self.set_owner_and_mode(&file, self.file_mode)?;
        Ok(file)
    }

    /// Sets the owner and mode of a file or directory that was just created.
    fn set_owner_and_mode(&self, file: &File, mode: u32) -> io::Result<()> {
        let metadata = file.metadata()?;
        if let Some((user, group)) = self.owner.filter(|it| *it != (metadata.uid(), metadata.gid()))
        {
            match fchown(file, Some(user), Some(group)) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                given => given?,
            }
        }
        if permissions(&metadata) != mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    /// Creates a directory that must not exist yet.
    pub(crate) fn make_dir(&self, dir: &Path) -> io::Result<()> {
        before_change()?;
        DirBuilder::new().mode(PRIVATE_DIR).create(dir)?;
        self.set_owner_and_mode(&open_unlinked(dir, OFlags::DIRECTORY)?, self.dir_mode)
    }

    /// Makes a hard link to a file, or a copy if the file system has no hard links. For a symbolic link, makes a second
    /// one to the same file. Does not sync the directory.
    pub(crate) fn keep(&self, from: &Path, to: &Path) -> io::Result<()> {
        let metadata = fs::symlink_metadata(from)?;
        if metadata.is_symlink() {
            let dir = from.parent().unwrap_or(Path::new("."));
            let target = std::path::absolute(dir.join(fs::read_link(from)?))?;
            before_change()?;
            return symlink(target, to);
        }
        before_change()?;
        if fs::hard_link(from, to).is_ok() {
            // A server that does not sync may have left content in memory only.
            return open_unlinked(to, OFlags::empty()).map_or(Ok(()), |file| file.sync_data());
        }
        let owner = Some((metadata.uid(), metadata.gid()));
        let like = ToolDisk { owner, file_mode: permissions(&metadata), ..*self };
        let mut target = like.create(to)?;
        let source = open_unlinked(from, OFlags::empty())?;
        copy_from(&source, 0..metadata.len(), &mut *target, 0)?;
        target.sync_data()
    }

    /// Renames a file, but does not replace one that was created in the meantime.
    pub(crate) fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        before_change()?;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system supports this.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
                if fs::symlink_metadata(to).is_ok() =>
            {
                Err(ErrorKind::AlreadyExists.into())
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(from, to),
            renamed => Ok(renamed?),
        }
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        before_change()?;
        fs::remove_dir(dir)
    }
}

/// Copies a part of a file.
pub(crate) fn copy_from(
    source: &File,
    part: std::ops::Range<u64>,
    target: &mut dyn WriteFile,
    mut at: u64,
) -> io::Result<()> {
    let mut chunk = vec![0; 256 << 10];
    let mut from = part.start;
    while from < part.end {
        let rest = usize::try_from(part.end - from).unwrap_or(chunk.len());
        let wanted = rest.min(chunk.len());
        let count = ReadFile::read_at(source, from, &mut chunk[..wanted])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        target.write_at(at, &chunk[..count])?;
        from += count as u64;
        at += count as u64;
    }
    Ok(())
}

fn permissions(metadata: &Metadata) -> u32 {
    metadata.mode() & PERMISSIONS
}

/// Opens the file at this path without following a link.
fn open_unlinked(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).expect("the flags are small numbers");
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

impl Disk for ToolDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(ToolFile(self.create_file(path)?)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        RealDisk.open_write(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        RealDisk.open_read(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        RealDisk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        before_change()?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        before_change()?;
        RealDisk.remove(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().filter(|parent| *parent != Path::new(""));
        let parent = parent.unwrap_or(Path::new("."));
        self.create_dir(parent)?;
        let like = fs::metadata(parent)?;
        let owner = Some((like.uid(), like.gid()));
        ToolDisk { owner, dir_mode: PRIVATE_DIR, ..*self }.make_dir(dir)?;
        self.sync_dir(parent)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        before_change()?;
        RealDisk.sync_dir(dir)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_file(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(dir)
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn DiskLock>, LockError> {
        before_change()?;
        RealDisk.lock(path, note)
    }

    fn lock_directories(&self, dirs: &[&Path]) -> Result<Vec<Box<dyn DiskLock>>, LockError> {
        RealDisk.lock_directories(dirs)
    }
}

/// A file that calls [`before_change`] for each change.
struct ToolFile(File);

impl WriteFile for ToolFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = before_change() {
            // An interrupted write leaves part of its bytes.
            let _ = WriteFile::write_at(&mut self.0, offset, &bytes[..bytes.len() / 2]);
            return Err(error);
        }
        WriteFile::write_at(&mut self.0, offset, bytes)
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        before_change()?;
        self.0.allocate(bytes)
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        before_change()?;
        WriteFile::set_len(&mut self.0, bytes)
    }

    fn release(&mut self, part: Range<u64>) -> io::Result<()> {
        before_change()?;
        self.0.release(part)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        before_change()?;
        WriteFile::sync_data(&mut self.0)
    }

    fn bytes(&self) -> io::Result<u64> {
        WriteFile::bytes(&self.0)
    }
}

/// A temporary directory with a random name, accessible to this user alone. Removed when this value is dropped.
pub(crate) struct ScratchDir(Option<TempDir>);

impl ScratchDir {
    pub(crate) fn new(prefix: &str, parent: &Path) -> io::Result<Self> {
        before_change()?;
        Ok(ScratchDir(Some(tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?)))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().expect("it is there until it is dropped").path()
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let (Some(dir), Err(_)) = (self.0.take(), before_change()) {
            // A killed process removes nothing.
            let _ = dir.keep();
        }
    }
}

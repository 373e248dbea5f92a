//! Keeps a copy of every file before it is changed or removed.
//!
//! In: files. Out: the same files in a directory `<label>-<time>`, durable when the call returns. A hard link
//! takes no space and cannot be half done; where there are no hard links, the file is copied.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use herdsman_store::Disk as _;

use crate::durable::{ToolDisk, stamp};

/// The directories with the kept files: one for each directory that they came from.
pub(crate) struct KeptFiles {
    disk: ToolDisk,
    /// The label and the time.
    name: String,
    /// Made so far.
    dirs: Vec<PathBuf>,
    /// Files in them.
    files: Vec<PathBuf>,
}

impl KeptFiles {
    pub(crate) fn new(label: &str, disk: ToolDisk) -> Self {
        KeptFiles {
            disk,
            name: format!("{label}-{}", stamp()),
            dirs: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The directories that were created.
    pub(crate) fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Keeps a file in a directory that is created in `below`.
    pub(crate) fn keep(&mut self, path: &Path, below: &Path) -> Result<()> {
        let dir = self.dir_in(below)?;
        let name = path.file_name().context("a file has a name")?;
        let failed = || format!("cannot save {} in {}", path.display(), dir.display());
        let kept = dir.join(name);
        self.files.push(kept.clone());
        self.disk.keep(path, &kept).with_context(failed)?;
        self.disk.sync_dir(&dir).with_context(failed)
    }

    /// Removes the kept files, because nothing was changed after all. What cannot be removed stays and does no harm.
    pub(crate) fn discard(&mut self) {
        for file in self.files.drain(..) {
            let _ = self.disk.remove(&file);
        }
        for dir in self.dirs.drain(..) {
            let _ = self.disk.remove_dir(&dir);
        }
    }

    fn dir_in(&mut self, below: &Path) -> Result<PathBuf> {
        let mut attempt = 1;
        loop {
            let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
            let dir = below.join(format!("{}{suffix}", self.name));
            if self.dirs.contains(&dir) {
                return Ok(dir);
            }
            let failed = || format!("cannot create {}", dir.display());
            match self.disk.make_dir(&dir) {
                Ok(()) => {
                    self.dirs.push(dir.clone());
                    self.disk.sync_dir(below).with_context(failed)?;
                    return Ok(dir);
                }
                // Of another run in the same second.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => attempt += 1,
                Err(error) => return Err(error).with_context(failed),
            }
        }
    }
}

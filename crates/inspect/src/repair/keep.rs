//! Keeps every file before it is changed or removed.
//!
//! In: files. Out: the same files in `repair-backup-<time>` beside `version-2`, durable before the caller
//! goes on. A hard link costs no room and cannot be half done; where there are none, the file is copied.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::durable::{give_to_owner_of, stamp, sync_dir};

/// Where files are kept, one directory for each directory that they came from.
pub(super) struct Keeper {
    stamp: String,
    /// Made so far.
    dirs: Vec<PathBuf>,
}

impl Keeper {
    pub(super) fn new() -> Self {
        Keeper { stamp: stamp(), dirs: Vec::new() }
    }

    /// The directories that were made.
    pub(super) fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Keeps a file of `version-2`, which lies in `below`.
    pub(super) fn keep(&mut self, path: &Path, below: &Path) -> Result<()> {
        let dir = self.dir_in(below)?;
        let name = path.file_name().context("a file has a name")?;
        let kept = dir.join(name);
        let failed = || format!("cannot keep {} in {}", path.display(), dir.display());
        if fs::hard_link(path, &kept).is_err() {
            fs::copy(path, &kept).with_context(failed)?;
            File::open(&kept).and_then(|file| file.sync_all()).with_context(failed)?;
        }
        sync_dir(&dir)
    }

    fn dir_in(&mut self, below: &Path) -> Result<PathBuf> {
        let mut attempt = 1;
        loop {
            let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
            let dir = below.join(format!("repair-backup-{}{suffix}", self.stamp));
            if self.dirs.contains(&dir) {
                return Ok(dir);
            }
            match fs::create_dir(&dir) {
                Ok(()) => {
                    give_to_owner_of(below, &dir)?;
                    sync_dir(below)?;
                    self.dirs.push(dir.clone());
                    return Ok(dir);
                }
                // Of another repair in the same second.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => attempt += 1,
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot make {}", dir.display()));
                }
            }
        }
    }
}

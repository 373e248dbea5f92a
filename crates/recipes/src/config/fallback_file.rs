//! The local file that keeps the last good configuration for a start without the service.
//!
//! It holds the node's data unchanged, so that an operator can read it. It is written to a temporary file in the same
//! directory, flushed and renamed: a reader finds the old content or the new one, even after a power failure.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// The file for the last good data.
#[derive(Clone, Debug)]
pub(super) struct FallbackFile {
    path: PathBuf,
}

impl FallbackFile {
    pub(super) fn new(path: PathBuf) -> Self {
        FallbackFile { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what an earlier run has written; `None` if there is no file.
    pub(super) async fn read(&self) -> io::Result<Option<Bytes>> {
        let path = self.path.clone();
        let content = spawn_blocking(move || fs::read(path)).await.map_err(io::Error::other)?;
        match content {
            Ok(content) => Ok(Some(content.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the content.
    pub(super) async fn write(&self, content: Bytes) -> io::Result<()> {
        let path = self.path.clone();
        spawn_blocking(move || replace(&path, &content)).await.map_err(io::Error::other)?
    }
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    // A unique name for each write: two processes may share the file.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", Uuid::new_v4().simple()));
    let temporary = directory.join(name);
    let written = write_flushed(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // It may not even exist; the first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    flush_directory(directory)
}

fn write_flushed(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Makes the rename itself durable, where directories can be opened.
fn flush_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

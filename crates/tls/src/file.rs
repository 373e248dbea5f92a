//! Reads small files and detects changes to them.
//!
//! A file is read whole, but only up to [`FILE_BYTES_MAX`], so that a wrong path (a device, a log) causes
//! an error and does not exhaust memory. The content is not interpreted here.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{StoreProblem, TlsError};
use crate::settings::Password;
use herdsman_secret::Secret;

/// The largest store or revocation list that is read. The largest in practice are revocation lists of a few
/// MB.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut content = Vec::new();
    open_regular(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content))
        .map_err(|source| TlsError::Unreadable { file: path.to_owned(), source })?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::TooLarge { file: path.to_owned() });
    }
    Ok(content)
}

/// Opens a regular file. Reading a pipe or a device could block forever.
fn open_regular(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    File::open(path)
}

/// Returns the password, if there is one; an empty one counts as none. Apache: `SecretUtils.readSecret`.
pub(crate) fn read_password(password: &Password) -> Result<Option<Secret>, TlsError> {
    let secret = match password {
        Password::None => return Ok(None),
        Password::Given(secret) => secret.clone(),
        Password::InFile(path) => {
            let mut text = String::from_utf8(read(path)?)
                .map_err(|_not_text| StoreProblem::NotText.in_file(path))?;
            let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
            if let Some(length) = line.map(str::len) {
                text.truncate(length);
            }
            Secret::new(text)
        }
    };
    Ok(Some(secret).filter(|secret| !secret.expose().is_empty()))
}

/// Metadata of a file. If two stamps are equal, the content is the same for all practical purposes: writing
/// changes a timestamp, and a file moved into place has a new inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    path: PathBuf,
    /// None while the file cannot be accessed.
    seen: Option<FileMetadata>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileMetadata {
    device_and_inode: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Returns the file's current stamp. Symbolic links are followed, so redirecting a link is a change.
    pub(crate) fn of(path: &Path) -> Self {
        let seen = std::fs::metadata(path).ok().map(|metadata| FileMetadata {
            device_and_inode: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        });
        Self { path: path.to_owned(), seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_file_loses_one_line_ending() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        for (content, password) in [
            ("tulip", "tulip"),
            ("tulip\n", "tulip"),
            ("tulip\r\n", "tulip"),
            ("tulip\n\n", "tulip\n"),
            (" tu lip ", " tu lip "),
            ("", ""),
            ("\n", ""),
        ] {
            std::fs::write(&path, content).unwrap();
            let read = read_password(&Password::InFile(path.clone())).unwrap();
            assert_eq!(read.as_ref().map_or("", Secret::expose), password, "{content:?}");
            assert_eq!(read.is_none(), password.is_empty());
        }
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        let error = read_password(&Password::InFile(path.clone())).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{}: not a password file: not UTF-8 text", path.display())
        );
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert_eq!(error, format!("cannot read {}: not a regular file", dir.path().display()));
        let missing = dir.path().join("missing");
        let error = read(&missing).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read {}: No such file", missing.display())));
    }

    #[test]
    fn a_stamp_changes_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let missing = FileStamp::of(&path);
        std::fs::write(&path, "one").unwrap();
        let first = FileStamp::of(&path);
        assert_ne!(missing, first);
        assert_eq!(first, FileStamp::of(&path));
        let other = dir.path().join("other");
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_ne!(first, FileStamp::of(&path));
    }
}

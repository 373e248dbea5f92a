//! Which directory of the archive belongs to a server's history.
//!
//! In: the archive's root, and the server's directories. Out: `ROOT/<server>/history-<n>/version-2`, which holds one
//! history and no other. The server's `version-2` and the one in the archive have the same random text in the file
//! `herdsman.history`. Without that file in the server's directory a new history begins: the directory is new, or an
//! operator has gone back to an earlier state ([`forget`]), after which the same zxids may name other txns. A new one
//! also begins if the archive is ahead of the server: then the server has lost txns, or its directory is an old copy.
//! A new history that would not have been necessary does no harm: it starts with the server's next snapshot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::Zxid;

use super::{Archive, ArchiveError, of_source};
use crate::disk::{Dirs, Disk, IoErrorAt, io_at, read_whole, remove_if_there, replace_whole};

/// The file with the history's name, in both directories.
pub const HISTORY_FILE: &str = "herdsman.history";
/// Its name while it is being written.
const TEMPORARY_FILE: &str = "herdsman.history.tmp";
/// Limit for its length.
const NAME_BYTES_MAX: u64 = 256;
/// Limit for the number of histories of one server.
const HISTORIES_MAX: u32 = 10_000;
/// Attempts to find a directory: one, and one with a new history.
const ATTEMPTS: usize = 2;

/// A server whose files are archived.
#[derive(Clone, Copy)]
pub struct ArchivedServer<'a> {
    /// Its disk.
    pub disk: &'a dyn Disk,
    /// Its directories.
    pub dirs: &'a Dirs,
    /// Its directory in the archive: its id in the ensemble, or `server`.
    pub name: &'a str,
    /// The last txn that it had when it started.
    pub last_zxid: Zxid,
}

/// Opens the archive of a server's history, and creates it if there is none. `new_name` returns a random text.
pub fn open(
    disk: &Arc<dyn Disk>,
    root: &Path,
    server: ArchivedServer<'_>,
    new_name: &mut dyn FnMut() -> String,
) -> Result<Archive, ArchiveError> {
    let base = root.join(server.name);
    for _ in 0..ATTEMPTS {
        let name = name_of(server.disk, server.dirs, new_name).map_err(of_source)?;
        let dir = find(&**disk, &base, &name)?;
        let mut archive = Archive::open(Arc::clone(disk), dir)?;
        let end = archive.end()?;
        if end.is_none_or(|end| end <= server.last_zxid) {
            return Ok(archive);
        }
        tracing::warn!(
            archive = %archive.dir().display(), end = %end.unwrap_or_default(), last = %server.last_zxid,
            "the archive is ahead of this server, which has lost txns or was set back: a new history begins"
        );
        forget(server.disk, server.dirs).map_err(of_source)?;
    }
    let source = io::Error::other("a new history has the name of an old one");
    Err(io_at(&base)(source).into())
}

/// Ends the server's history, durably: its next txns may have zxids that were used before.
pub(crate) fn forget(disk: &dyn Disk, dirs: &Dirs) -> Result<(), IoErrorAt> {
    let path = dirs.data.join(HISTORY_FILE);
    remove_if_there(disk, &path).map_err(io_at(&path))?;
    disk.sync_dir(&dirs.data).map_err(io_at(&dirs.data))
}

/// Like [`forget`], for tools that cut a log.
pub fn end_history(disk: &dyn Disk, dirs: &Dirs) -> io::Result<()> {
    forget(disk, dirs).map_err(|IoErrorAt { source, .. }| source)
}

/// The name of the server's history.
fn name_of(
    disk: &dyn Disk,
    dirs: &Dirs,
    new_name: &mut dyn FnMut() -> String,
) -> Result<String, IoErrorAt> {
    let path = dirs.data.join(HISTORY_FILE);
    match read_name(disk, &path) {
        Ok(Some(name)) => return Ok(name),
        Ok(None) => {}
        Err(error) => return Err(io_at(&path)(error)),
    }
    let name = new_name();
    let content = format!("{name}\n");
    let names = (TEMPORARY_FILE, HISTORY_FILE);
    replace_whole(disk, &dirs.data, names, content.as_bytes()).map_err(io_at(&path))?;
    Ok(name)
}

/// Finds the directory of a history, or creates it.
fn find(disk: &dyn Disk, base: &Path, name: &str) -> Result<PathBuf, ArchiveError> {
    for number in 1..=HISTORIES_MAX {
        let dir = base.join(format!("history-{number}")).join("version-2");
        let path = dir.join(HISTORY_FILE);
        // Not by listing the directory, which may be large.
        match read_name(disk, &path).map_err(io_at(&path))? {
            Some(found) if found == name => return Ok(dir),
            Some(_) => continue,
            None => {}
        }
        match disk.list(&dir) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if create(disk, &dir, name)? {
                    return Ok(dir);
                }
            }
            Err(error) => return Err(io_at(&dir)(error).into()),
        }
    }
    let source = io::Error::other(format!("there are {HISTORIES_MAX} histories already"));
    Err(io_at(base)(source).into())
}

/// Creates the directory of a history. Returns whether no other server has done so.
fn create(disk: &dyn Disk, dir: &Path, name: &str) -> Result<bool, ArchiveError> {
    disk.create_dir(dir).map_err(io_at(dir))?;
    let path = dir.join(HISTORY_FILE);
    let mut file = match disk.create(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(io_at(&path)(error).into()),
    };
    let written = file.write_at(0, format!("{name}\n").as_bytes());
    written.and_then(|()| file.sync_data()).map_err(io_at(&path))?;
    disk.sync_dir(dir).map_err(io_at(dir))?;
    Ok(true)
}

/// The name in a file; `None` if there is none, or no file.
fn read_name(disk: &dyn Disk, path: &Path) -> io::Result<Option<String>> {
    let content = match read_whole(disk, path, NAME_BYTES_MAX) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Ok(None),
        Err(error) => return Err(error),
    };
    let name = String::from_utf8_lossy(&content).trim().to_owned();
    Ok((!name.is_empty()).then_some(name))
}

//! What commands that write have in common: names in a directory made durable, moments in names, and files
//! that the server can still write when an administrator has made them.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    let sync = File::open(dir).and_then(|dir| dir.sync_all());
    sync.with_context(|| format!("cannot sync {}", dir.display()))
}

/// This moment, as part of a name.
pub(crate) fn stamp() -> String {
    Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Gives a new file or directory to the owner of another one. A repair by the super user must not leave
/// files that the server's own user cannot write; everybody else owns what he makes, and may not give it
/// away.
pub(crate) fn give_to_owner_of(like: &Path, path: &Path) -> Result<()> {
    let failed = || format!("cannot give {} to the owner of {}", path.display(), like.display());
    let (owner, ours) =
        (fs::metadata(like).with_context(failed)?, fs::metadata(path).with_context(failed)?);
    if (owner.uid(), owner.gid()) == (ours.uid(), ours.gid()) {
        return Ok(());
    }
    match chown(path, Some(owner.uid()), Some(owner.gid())) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        given => given.with_context(failed),
    }
}

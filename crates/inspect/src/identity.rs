//! Runs the tools with the rights of the server's user.
//!
//! The super user runs the tools, and the directories belong to the server's user, who can replace any file or
//! directory there by a link at any moment. So the tool takes the effective ids of that user before it works there: it
//! can then do nothing that this user could not do, wherever a path leads. What it creates belongs to that user.
//! Directories of the super user in which other users may write do not show who that user is, and are refused.
//!
//! The ids are those of the calling thread, as Linux keeps them; threads that it starts inherit them. Real and saved
//! ids stay, so that the server's user can neither trace nor signal the tool.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::process::{Gid, Uid, getegid, geteuid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::console::Console;
use crate::location::Location;

/// The group `nogroup`, for a directory whose group is that of the super user.
const NO_GROUP: u32 = 65534;
/// Mode bits: the group or all other users may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Only the owner of a file may rename or remove it.
const STICKY: u32 = 0o1000;

/// The rights of the server's user, until dropped.
pub(crate) struct OwnerRights {
    /// The group ids to restore; `None` if they were not changed.
    former: Option<(Gid, Vec<Gid>)>,
}

impl OwnerRights {
    /// Takes the rights of the owner of the directories, if this is the super user and they belong to another user.
    pub(crate) fn take(location: &Location) -> Result<Self> {
        if !geteuid().is_root() {
            return Ok(OwnerRights { former: None });
        }
        let places = places(location)?;
        match owners(&places).iter().collect::<Vec<_>>()[..] {
            [] => {
                refuse_shared(&places)?;
                Ok(OwnerRights { former: None })
            }
            [(user, group)] => Self::become_user(*user, *group)
                .with_context(|| format!("cannot switch to user {user}")),
            [(one, _), (other, _), ..] => bail!(
                "{} and {} belong to users {one} and {other}: give them to one user, or run this command as the user of the server. Nothing was changed",
                location.dirs.data.display(),
                location.dirs.log.display(),
            ),
        }
    }

    fn become_user(user: u32, group: u32) -> io::Result<Self> {
        let group = Gid::from_raw(if group == 0 { NO_GROUP } else { group });
        let rights = OwnerRights { former: Some((getegid(), getgroups()?)) };
        set_thread_groups(&[])?;
        set_thread_res_gid(None, group, None)?;
        // Last: without the user id of the super user the others cannot be changed.
        set_thread_res_uid(None, Uid::from_raw(user), None)?;
        Ok(rights)
    }
}

impl Drop for OwnerRights {
    fn drop(&mut self) {
        let Some((group, groups)) = self.former.take() else {
            return;
        };
        set_thread_res_uid(None, Uid::ROOT, None)
            .and_then(|()| set_thread_res_gid(None, group, None))
            .and_then(|()| set_thread_groups(&groups))
            .expect("the saved user id is that of the super user");
    }
}

/// Reports that the new files belong to the user who runs the tool, if that is neither the super user, who can chown
/// files, nor the owner of the directory. For a directory of root, the user of the server is not known.
pub(crate) fn report_other_owner(location: &Location, console: &mut Console<'_>) -> Result<()> {
    let dir = &location.dirs.data;
    let failed = || format!("cannot access {}", dir.display());
    let owner = fs::metadata(dir).with_context(failed)?.uid();
    let user = geteuid();
    if user.is_root() || owner == 0 || owner == user.as_raw() {
        return Ok(());
    }
    console.print(format_args!(
        "the new files in {} belong to user {}, and the directory to user {owner}: give them to the server's user (chown) before the server starts",
        dir.display(),
        user.as_raw()
    ))
}

/// The directories that the tool works in, or links in their place. A missing one is created in the last directory
/// that exists.
fn places(location: &Location) -> Result<Vec<(PathBuf, Metadata)>> {
    let mut places = Vec::new();
    for (dir, below) in
        [(&location.log_dir, &location.dirs.log), (&location.data_dir, &location.dirs.data)]
    {
        let full = std::path::absolute(dir)?;
        let there = full.ancestors().find(|dir| fs::symlink_metadata(dir).is_ok());
        for path in [there.unwrap_or(Path::new("/")), below] {
            let found = [fs::symlink_metadata(path), fs::metadata(path)];
            places.extend(found.into_iter().flatten().map(|metadata| (path.to_owned(), metadata)));
        }
    }
    Ok(places)
}

/// The users other than the super user to whom the directories belong, and a group of each.
fn owners(places: &[(PathBuf, Metadata)]) -> BTreeMap<u32, u32> {
    let all = places.iter().map(|(_, metadata)| (metadata.uid(), metadata.gid()));
    all.filter(|(user, _)| *user != 0).collect()
}

/// Refuses directories of the super user in which other users can replace a file of the super user by a link.
/// With the sticky bit they cannot.
fn refuse_shared(places: &[(PathBuf, Metadata)]) -> Result<()> {
    let is_shared = |metadata: &Metadata| {
        let mode = metadata.mode();
        metadata.is_dir() && mode & WRITABLE_BY_OTHERS != 0 && mode & STICKY == 0
    };
    match places.iter().find(|(_, metadata)| is_shared(metadata)) {
        None => Ok(()),
        Some((dir, _)) => bail!(
            "{} belongs to root and is writable by its group or by other users, who could make root write elsewhere. Run this command as the user of the server, give the directory to that user (chown), or make it writable by root alone (chmod go-w). Nothing was changed",
            dir.display()
        ),
    }
}

//! With whose rights the tools work in the directories of a server.
//!
//! The super user runs the tools, and the directories belong to the server's user, who can replace any file or
//! directory there by a link at any moment. So the tool takes the effective ids of that user before it works there: it
//! can then do nothing that this user could not do, wherever a path leads. What it creates belongs to that user.
//!
//! The ids are those of the calling thread, as Linux keeps them; threads that it starts inherit them. Real and saved
//! ids stay, so that the server's user can neither trace nor signal the tool.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::process::{Gid, Uid, getegid, geteuid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::location::Location;

/// The group of files without one, for a directory whose group is that of the super user.
const NO_GROUP: u32 = 65534;

/// Rights of the server's user, until dropped.
pub(crate) struct OwnerRights {
    /// The group ids to take back; `None` if they were not changed.
    former: Option<(Gid, Vec<Gid>)>,
}

impl OwnerRights {
    /// Takes the rights of the owner of the directories, if this is the super user and they belong to another one.
    pub(crate) fn take(location: &Location) -> Result<Self> {
        if !geteuid().is_root() {
            return Ok(OwnerRights { former: None });
        }
        let owners = owners(location)?;
        match owners.iter().collect::<Vec<_>>()[..] {
            [] => Ok(OwnerRights { former: None }),
            [(user, group)] => Self::become_user(*user, *group)
                .with_context(|| format!("cannot take the rights of user {user}")),
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

/// The users other than the super user to whom the directories belong, or links in their place, and a group of each.
fn owners(location: &Location) -> Result<BTreeMap<u32, u32>> {
    let mut owners = BTreeMap::new();
    let mut add = |metadata: Metadata| {
        if metadata.uid() != 0 {
            owners.insert(metadata.uid(), metadata.gid());
        }
    };
    for (dir, below) in
        [(&location.log_dir, &location.dirs.log), (&location.data_dir, &location.dirs.data)]
    {
        let full = std::path::absolute(dir)?;
        // What is missing is created in the last directory that is there.
        let there = full.ancestors().find(|dir| fs::symlink_metadata(dir).is_ok());
        for path in [there.unwrap_or(Path::new("/")), below] {
            let found = [fs::symlink_metadata(path), fs::metadata(path)];
            found.into_iter().flatten().for_each(&mut add);
        }
    }
    Ok(owners)
}

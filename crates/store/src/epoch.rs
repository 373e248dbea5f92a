//! The two epoch files: decimal text without a newline, in the directory of the snapshots.
//!
//! `acceptedEpoch` is the newest epoch that we promised to a prospective leader, `currentEpoch` the one
//! whose leader we have followed to the end of its synchronization. Both must be durable before the
//! ack that depends on them leaves, and on disk before in memory (ZOOKEEPER-2307). A fresh directory
//! gives 0 and 0.
//!
//! The order of a member's writes is: `acceptedEpoch`; then the leader's txns or its tree; then
//! `currentEpoch`; then the ack of NEWLEADER (ZOOKEEPER-4643). So after a crash
//! - `acceptedEpoch` ≥ `currentEpoch`, always;
//! - the log may be of a newer epoch than `currentEpoch`, up to `acceptedEpoch`. That is no contradiction:
//!   a txn or a tree of an epoch comes from its leader only, on top of everything that the epoch started from,
//!   so its presence shows what `currentEpoch` was about to become. It is written now;
//! - a missing file has been lost, unless this server has never been in an epoch: it is created again, and voting is
//!   suspended ([`crate::voting`]), since a promise may be forgotten;
//! - anything else means that the files are from different times, and a server that has forgotten what it
//!   promised could elect a second leader. It is refused.
//!
//! Apache: `QuorumPeer.readLongFromFile`, `loadDataBase`. It refuses the second case, unless
//! `currentEpoch.tmp` was left behind by the very crash; we take that file for the epoch too, so the
//! temporary names are Apache's. A temporary file that was not written completely is ignored.

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::{EPOCH_MAX, Zxid};

use crate::disk::{Dirs, Disk, read_whole, replace_whole};
use crate::voting::{self, VotingError};

/// Limit for a number with white space around it.
const FILE_BYTES_MAX: u64 = 64;

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochFile {
    /// `currentEpoch`.
    Current,
    /// `acceptedEpoch`.
    Accepted,
}

impl EpochFile {
    /// The file's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EpochFile::Current => "currentEpoch",
            EpochFile::Accepted => "acceptedEpoch",
        }
    }

    fn temporary_name(self) -> &'static str {
        match self {
            EpochFile::Current => "currentEpoch.tmp",
            EpochFile::Accepted => "acceptedEpoch.tmp",
        }
    }
}

/// The epochs that a server remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    /// The epoch that was followed last.
    pub current: u32,
    /// The epoch that was promised last.
    pub accepted: u32,
}

/// An error of the epoch files.
#[derive(Debug, thiserror::Error)]
pub enum EpochError {
    /// The disk failed.
    #[error("cannot read or write {path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file does not hold an epoch.
    #[error(
        "{path} holds {content:?}, which is not an epoch. Restore it from a backup; if all other servers of the ensemble are up, an empty data directory is safe too: this one then copies everything from them",
        path = path.display()
    )]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Its content.
        content: String,
    },
    /// An epoch that was promised or followed is never taken back.
    #[error("{path} says epoch {on_disk} and must not go back to {epoch}", path = path.display())]
    Backwards {
        /// Which file.
        path: PathBuf,
        /// The epoch in it.
        on_disk: u32,
        /// The epoch to be written.
        epoch: u32,
    },
    /// The log is ahead of the epoch.
    #[error(
        "{path} says epoch {current}, but the last txn is {last_zxid} of epoch {epoch}, which this server has never promised to follow. The epoch files are older than the log: restore both from the same backup as the log, or, in an ensemble that has a leader, move both version-2 directories aside and start with -Dzookeeper.db.autocreate=false: the server then copies everything from the leader",
        path = path.display(), epoch = last_zxid.epoch()
    )]
    BehindLog {
        /// Which file.
        path: PathBuf,
        /// The epoch in it.
        current: u32,
        /// The epoch of the log.
        last_zxid: Zxid,
    },
    /// A server follows only what it has promised to follow.
    #[error(
        "{path} says {accepted}, less than currentEpoch, which says {current}: one of the two is from another time. Restore both from one backup, or, in an ensemble that has a leader, move both version-2 directories aside and start with -Dzookeeper.db.autocreate=false: the server then copies everything from the leader",
        path = path.display()
    )]
    AcceptedBehindCurrent {
        /// The file `acceptedEpoch`.
        path: PathBuf,
        /// The epoch in it.
        accepted: u32,
        /// The epoch in `currentEpoch`.
        current: u32,
    },
}

impl From<VotingError> for EpochError {
    fn from(VotingError { path, source }: VotingError) -> Self {
        EpochError::Io { path, source }
    }
}

/// The last txn that this server is known to have had when it last started.
pub(crate) fn last_known(_disk: &dyn Disk, _dir: &Path) -> Option<Zxid> {
    None
}

/// Reads one of the files; `None` if it does not exist.
pub fn read_epoch(disk: &dyn Disk, dir: &Path, file: EpochFile) -> Result<Option<u32>, EpochError> {
    read_number(disk, &dir.join(file.name()))
}

/// Replaces one of the files, durably.
///
/// # Errors
/// The disk fails, or the file has a later epoch: it only ever rises.
pub fn write_epoch(
    disk: &dyn Disk,
    dir: &Path,
    file: EpochFile,
    epoch: u32,
) -> Result<(), EpochError> {
    if let Some(on_disk) = read_epoch(disk, dir, file)?.filter(|on_disk| *on_disk > epoch) {
        return Err(EpochError::Backwards { path: dir.join(file.name()), on_disk, epoch });
    }
    let names = (file.temporary_name(), file.name());
    replace_whole(disk, dir, names, epoch.to_string().as_bytes())
        .map_err(|source| EpochError::Io { path: dir.join(file.name()), source })
}

/// Reads both files when a server of an ensemble starts; `last_zxid` is the recovered tree's. A missing
/// file is created again; if this server has been in an epoch, it has forgotten what it promised and must not vote.
pub fn recover_epochs(disk: &dyn Disk, dirs: &Dirs, last_zxid: Zxid) -> Result<Epochs, EpochError> {
    let dir = &dirs.data;
    let found_current = read_epoch(disk, dir, EpochFile::Current)?;
    let found_accepted = read_epoch(disk, dir, EpochFile::Accepted)?;
    let current = current_epoch(disk, dir, (found_current, found_accepted), last_zxid)?;
    let accepted = found_accepted.unwrap_or(current);
    if accepted < current {
        return Err(EpochError::AcceptedBehindCurrent {
            path: dir.join(EpochFile::Accepted.name()),
            accepted,
            current,
        });
    }
    let missing = match (found_current, found_accepted) {
        (Some(_), Some(_)) => None,
        (None, None) => Some("currentEpoch and acceptedEpoch are missing"),
        (None, Some(_)) => Some("currentEpoch is missing"),
        (Some(_), None) => Some("acceptedEpoch is missing"),
    };
    if let Some(missing) = missing.filter(|_| accepted > 0) {
        let reason = format!("{missing}, but this server has been in epoch {accepted}");
        voting::suspend(disk, dirs, &reason)?;
    }
    for (file, found, epoch) in [
        (EpochFile::Accepted, found_accepted, accepted),
        (EpochFile::Current, found_current, current),
    ] {
        if found != Some(epoch) {
            write_epoch(disk, dir, file, epoch)?;
        }
    }
    Ok(Epochs { current, accepted })
}

/// The epoch that was followed last, if the files and the log agree.
fn current_epoch(
    disk: &dyn Disk,
    dir: &Path,
    (current, accepted): (Option<u32>, Option<u32>),
    last_zxid: Zxid,
) -> Result<u32, EpochError> {
    let log_epoch = last_zxid.epoch();
    let reaches_log = |epoch: &u32| *epoch >= log_epoch;
    let Some(current) = current else {
        return Ok(log_epoch);
    };
    if reaches_log(&current) {
        return Ok(current);
    }
    if accepted.is_some_and(|accepted| reaches_log(&accepted)) {
        return Ok(log_epoch);
    }
    let path = dir.join(EpochFile::Current.name());
    read_temporary(disk, dir)?.filter(reaches_log).ok_or(EpochError::BehindLog {
        path,
        current,
        last_zxid,
    })
}

/// The value that `currentEpoch` was about to get before a crash.
fn read_temporary(disk: &dyn Disk, dir: &Path) -> Result<Option<u32>, EpochError> {
    match read_number(disk, &dir.join(EpochFile::Current.temporary_name())) {
        Err(EpochError::Unreadable { .. }) => Ok(None),
        read => read,
    }
}

fn read_number(disk: &dyn Disk, path: &Path) -> Result<Option<u32>, EpochError> {
    let content = match read_whole(disk, path, FILE_BYTES_MAX) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(EpochError::Io { path: path.to_owned(), source });
        }
    };
    let text = String::from_utf8_lossy(&content);
    match text.trim().parse() {
        // No zxid could follow it.
        Ok(epoch) if epoch < EPOCH_MAX => Ok(Some(epoch)),
        _ => Err(EpochError::Unreadable { path: path.to_owned(), content: text.into_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use crate::testing::{dirs, disk};

    const DIR: &str = "/data/version-2";
    const LAST: Zxid = Zxid(3 << 32 | 7);

    /// Checks what recovery makes of these files, and the content of `currentEpoch` afterwards. A server that has lost
    /// a file does not vote.
    fn check(files: &[(&str, &str)], expected: Result<(u32, u32), &str>) {
        let (disk, dirs) = (disk(), dirs());
        let dir = &dirs.data;
        for (name, content) in files {
            disk.put(&dir.join(name), content.as_bytes().to_vec());
        }
        let is_there = |name| files.iter().any(|(file, _)| *file == name);
        match (recover_epochs(&disk, &dirs, LAST), expected) {
            (Ok(epochs), Ok((current, accepted))) => {
                assert_eq!((epochs.current, epochs.accepted), (current, accepted));
                disk.crash(|_| false);
                let durable = |file| read_epoch(&disk, dir, file).unwrap();
                assert_eq!(durable(EpochFile::Current), Some(current));
                assert_eq!(durable(EpochFile::Accepted), Some(accepted));
                let is_whole = is_there("currentEpoch") && is_there("acceptedEpoch");
                let reason = voting::suspended(&disk, &dirs).unwrap();
                assert_eq!(reason.is_none(), is_whole, "{files:?}: {reason:?}");
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{error}");
                assert_eq!(disk.list(dir).unwrap().len(), files.len(), "nothing was changed");
            }
            (found, expected) => panic!("{files:?}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn epochs_are_recovered() {
        check(&[], Ok((3, 3)));
        check(&[("currentEpoch", "3"), ("acceptedEpoch", "4")], Ok((3, 4)));
        check(&[("currentEpoch", "5\n"), ("acceptedEpoch", "5")], Ok((5, 5)));
        check(&[("currentEpoch", "2"), ("acceptedEpoch", "2")], Err("epoch 2"));
        check(&[("currentEpoch", "2")], Err("never promised"));
        for behind in ["1", "", "3x"] {
            check(
                &[("currentEpoch", "2"), ("currentEpoch.tmp", behind), ("acceptedEpoch", "2")],
                Err("older than the log"),
            );
        }
        // What Apache leaves when it crashes between writing and renaming.
        check(&[("currentEpoch", "2"), ("currentEpoch.tmp", "3")], Ok((3, 3)));
        // A later promise says nothing about whom we have followed.
        check(
            &[("currentEpoch", "3"), ("currentEpoch.tmp", "4"), ("acceptedEpoch", "4")],
            Ok((3, 4)),
        );
        check(&[("currentEpoch", "4")], Ok((4, 4)));
        check(&[("acceptedEpoch", "5")], Ok((3, 5)));
        check(&[("acceptedEpoch", "2")], Err("less than currentEpoch"));
        check(&[("currentEpoch", "4"), ("acceptedEpoch", "3")], Err("less than currentEpoch"));
        check(&[("currentEpoch", "")], Err("not an epoch"));
        check(&[("currentEpoch", "3x")], Err("currentEpoch holds"));
        check(&[("currentEpoch", "3"), ("acceptedEpoch", "-1")], Err("acceptedEpoch holds"));
    }

    /// The leader's txns are durable and the epoch is not yet: the crash that comes between the two
    /// must not keep a server from starting.
    #[test]
    fn a_crash_between_log_and_epoch_is_repaired() {
        check(&[("currentEpoch", "2"), ("acceptedEpoch", "3")], Ok((3, 3)));
        check(&[("currentEpoch", "1"), ("acceptedEpoch", "5")], Ok((3, 5)));
        check(
            &[("currentEpoch", "2"), ("currentEpoch.tmp", ""), ("acceptedEpoch", "3")],
            Ok((3, 3)),
        );
    }

    /// Nor has a standalone server, whose txns are all of epoch 0: both vote.
    #[test]
    fn a_fresh_server_has_promised_nothing() {
        for last in [Zxid::ZERO, Zxid(77)] {
            let (disk, dirs) = (disk(), dirs());
            for _ in 0..2 {
                assert_eq!(recover_epochs(&disk, &dirs, last).unwrap(), Epochs::default());
                disk.crash(|_| false);
                assert_eq!(voting::suspended(&disk, &dirs).unwrap(), None);
            }
            // The crash may have come between the two files.
            disk.remove(&dirs.data.join("currentEpoch")).unwrap();
            assert_eq!(recover_epochs(&disk, &dirs, last).unwrap(), Epochs::default());
            assert_eq!(voting::suspended(&disk, &dirs).unwrap(), None);
        }
    }

    /// Files are made anew only once it is durable that this server must not vote.
    #[test]
    fn a_crash_never_leaves_new_files_and_a_vote() {
        for power in 0..12 {
            let (disk, dirs) = (disk(), dirs());
            disk.cut_power_after(power);
            let recovered = recover_epochs(&disk, &dirs, LAST);
            disk.crash(|_| true);
            let is_made = |file| read_epoch(&disk, &dirs.data, file).unwrap().is_some();
            if is_made(EpochFile::Current) || is_made(EpochFile::Accepted) {
                assert!(voting::suspended(&disk, &dirs).unwrap().is_some(), "{power}");
            }
            assert!(recovered.is_err() || is_made(EpochFile::Current), "{power}");
            recover_epochs(&disk, &dirs, LAST).unwrap();
            assert!(voting::suspended(&disk, &dirs).unwrap().is_some(), "{power}");
        }
    }

    #[test]
    fn a_crash_leaves_the_old_epoch_or_the_new_one() {
        for power in 0..6 {
            for survivors in 0..8 {
                let (disk, dir) = (MemoryDisk::new(), Path::new(DIR));
                disk.create_dir(dir).unwrap();
                write_epoch(&disk, dir, EpochFile::Current, 7).unwrap();
                disk.cut_power_after(power);
                let written = write_epoch(&disk, dir, EpochFile::Current, 8).is_ok();
                let mut asked = 0;
                disk.crash(|_| {
                    asked += 1;
                    asked <= survivors
                });
                let epoch = read_epoch(&disk, dir, EpochFile::Current).unwrap().unwrap();
                assert!(epoch == 8 || epoch == 7 && !written, "{epoch}, {power}, {survivors}");
            }
        }
    }

    #[test]
    fn an_epoch_never_goes_back() {
        let (disk, dir) = (MemoryDisk::new(), Path::new(DIR));
        disk.create_dir(dir).unwrap();
        for file in [EpochFile::Accepted, EpochFile::Current] {
            for (epoch, expected) in [(6, 6), (0, 6), (7, 7), (5, 7), (7, 7)] {
                let written = write_epoch(&disk, dir, file, epoch);
                assert_eq!(written.is_ok(), epoch == expected, "{written:?}");
                assert_eq!(read_epoch(&disk, dir, file).unwrap(), Some(expected));
            }
        }
    }

    #[test]
    fn an_epoch_whose_sync_failed_is_not_there() {
        let (disk, dir) = (MemoryDisk::new(), Path::new(DIR));
        disk.create_dir(dir).unwrap();
        write_epoch(&disk, dir, EpochFile::Current, 7).unwrap();
        disk.fail_sync(0);
        assert!(write_epoch(&disk, dir, EpochFile::Current, 8).is_err());
        disk.crash(|_| true);
        assert_eq!(read_epoch(&disk, dir, EpochFile::Current).unwrap(), Some(7));
    }
}

//! The two epoch files: decimal text without a newline, in the directory of the snapshots.
//!
//! `acceptedEpoch` is the newest epoch that we promised to a would-be leader, `currentEpoch` the one
//! whose leader we have followed to the end of its synchronization. Both must be durable before the
//! ack that depends on them leaves, and on disk before in memory (ZOOKEEPER-2307).
//!
//! Apache: `QuorumPeer.readLongFromFile`, `loadDataBase`; the temporary names are Apache's too, because
//! one of them means something: if the log is of a newer epoch than `currentEpoch` and
//! `currentEpoch.tmp` is there, the crash came between the two, and the temporary file is right.

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::Zxid;

use crate::disk::{Disk, read_whole, replace_whole};

/// No number is longer, not even with white space around it.
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
    fn name(self) -> &'static str {
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
    /// Followed.
    pub current: u32,
    /// Promised.
    pub accepted: u32,
}

/// Why the epochs are not known.
#[derive(Debug, thiserror::Error)]
pub enum EpochError {
    /// The disk failed.
    #[error("cannot read or write {path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds no epoch.
    #[error(
        "{path} holds {content:?}, which is not an epoch. Restore it from a backup; if all other servers of the ensemble are up, an empty data directory is safe too: this one then takes everything from them",
        path = path.display()
    )]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What it holds.
        content: String,
    },
    /// The log is ahead of the epoch.
    #[error(
        "{path} says epoch {current}, but the last txn is {last_zxid} of epoch {epoch}. The file is older than the log: restore it from the same backup as the log",
        path = path.display(), epoch = last_zxid.epoch()
    )]
    BehindLog {
        /// Which file.
        path: PathBuf,
        /// What it says.
        current: u32,
        /// What the log says.
        last_zxid: Zxid,
    },
    /// A server follows only what it has promised to follow.
    #[error(
        "{path} says {accepted}, less than currentEpoch, which says {current}: one of the two comes from another time. Restore both from one backup",
        path = path.display()
    )]
    AcceptedBehindCurrent {
        /// The file `acceptedEpoch`.
        path: PathBuf,
        /// What it says.
        accepted: u32,
        /// What the other one says.
        current: u32,
    },
}

/// Reads one of the files; `None` if there is none.
pub fn read_epoch(disk: &dyn Disk, dir: &Path, file: EpochFile) -> Result<Option<u32>, EpochError> {
    read_number(disk, &dir.join(file.name()))
}

/// Replaces one of the files, durably.
pub fn write_epoch(
    disk: &dyn Disk,
    dir: &Path,
    file: EpochFile,
    epoch: u32,
) -> Result<(), EpochError> {
    let names = (file.temporary_name(), file.name());
    replace_whole(disk, dir, names, epoch.to_string().as_bytes())
        .map_err(|source| EpochError::Io { path: dir.join(file.name()), source })
}

/// Reads both files when a server of an ensemble starts. A missing one is made from the log.
pub fn recover_epochs(disk: &dyn Disk, dir: &Path, last_zxid: Zxid) -> Result<Epochs, EpochError> {
    let log_epoch = last_zxid.epoch();
    let mut current = read_or_make(disk, dir, EpochFile::Current, log_epoch)?;
    if log_epoch > current {
        let temporary = dir.join(EpochFile::Current.temporary_name());
        match read_number(disk, &temporary)? {
            Some(epoch) if epoch >= log_epoch => {
                write_epoch(disk, dir, EpochFile::Current, epoch)?;
                current = epoch;
            }
            _ => {
                return Err(EpochError::BehindLog {
                    path: dir.join(EpochFile::Current.name()),
                    current,
                    last_zxid,
                });
            }
        }
    }
    let accepted = read_or_make(disk, dir, EpochFile::Accepted, log_epoch)?;
    if accepted < current {
        return Err(EpochError::AcceptedBehindCurrent {
            path: dir.join(EpochFile::Accepted.name()),
            accepted,
            current,
        });
    }
    Ok(Epochs { current, accepted })
}

fn read_or_make(
    disk: &dyn Disk,
    dir: &Path,
    file: EpochFile,
    epoch: u32,
) -> Result<u32, EpochError> {
    if let Some(epoch) = read_epoch(disk, dir, file)? {
        return Ok(epoch);
    }
    write_epoch(disk, dir, file, epoch)?;
    Ok(epoch)
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
        Ok(epoch) => Ok(Some(epoch)),
        Err(_) => Err(EpochError::Unreadable { path: path.to_owned(), content: text.into_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    const DIR: &str = "/data/version-2";
    const LAST: Zxid = Zxid(3 << 32 | 7);

    /// What recovery says to these files, and what `currentEpoch` holds afterwards.
    fn check(files: &[(&str, &str)], expected: Result<(u32, u32), &str>) {
        let (disk, dir) = (MemoryDisk::new(), Path::new(DIR));
        disk.create_dir(dir).unwrap();
        for (name, content) in files {
            disk.put(&dir.join(name), content.as_bytes().to_vec());
        }
        match (recover_epochs(&disk, dir, LAST), expected) {
            (Ok(epochs), Ok((current, accepted))) => {
                assert_eq!((epochs.current, epochs.accepted), (current, accepted));
                disk.crash(|_| false);
                let durable = |file| read_epoch(&disk, dir, file).unwrap();
                assert_eq!(durable(EpochFile::Current), Some(current));
                assert_eq!(durable(EpochFile::Accepted), Some(accepted));
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{error}");
            }
            (found, expected) => panic!("{files:?}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn epochs_are_recovered() {
        check(&[], Ok((3, 3)));
        check(&[("currentEpoch", "3"), ("acceptedEpoch", "4")], Ok((3, 4)));
        check(&[("currentEpoch", "5\n"), ("acceptedEpoch", "5")], Ok((5, 5)));
        check(&[("currentEpoch", "2"), ("acceptedEpoch", "3")], Err("epoch 2"));
        check(
            &[("currentEpoch", "2"), ("currentEpoch.tmp", "3"), ("acceptedEpoch", "3")],
            Ok((3, 3)),
        );
        check(
            &[("currentEpoch", "2"), ("currentEpoch.tmp", "1"), ("acceptedEpoch", "3")],
            Err("older than the log"),
        );
        check(&[("currentEpoch", "4")], Err("less than currentEpoch"));
        check(&[("currentEpoch", "")], Err("not an epoch"));
        check(&[("currentEpoch", "3x")], Err("currentEpoch holds"));
        check(&[("currentEpoch", "3"), ("acceptedEpoch", "-1")], Err("acceptedEpoch holds"));
    }

    #[test]
    fn a_crash_leaves_the_old_epoch_or_the_new_one() {
        for survivors in 0..8 {
            let (disk, dir) = (MemoryDisk::new(), Path::new(DIR));
            disk.create_dir(dir).unwrap();
            write_epoch(&disk, dir, EpochFile::Current, 7).unwrap();
            disk.fail_sync(0);
            assert!(write_epoch(&disk, dir, EpochFile::Current, 8).is_err());
            let mut asked = 0;
            disk.crash(|_| {
                asked += 1;
                asked <= survivors
            });
            assert_eq!(read_epoch(&disk, dir, EpochFile::Current).unwrap(), Some(7));
        }
    }
}

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
//! - a missing or unreadable file is restored from its copy (`herdsman.epochs`, see [`copies`]). Without a copy it has
//!   been lost, unless this server has never been in an epoch: it is created again, and voting is suspended
//!   ([`crate::voting`]), since a promise may be forgotten;
//! - a number that is smaller than its copy has been damaged, or is older, also after a crash between the two: the copy
//!   counts. If `acceptedEpoch` is larger, Apache has run here: then the copy is older, and does not count. If
//!   `currentEpoch` is larger, and the log has no txn of that epoch, Apache may have run here, or a bit was flipped:
//!   then voting is suspended;
//! - anything else means that one of the files is damaged, or that they are from different times: a server that has
//!   forgotten what it promised could elect a second leader. So voting is suspended, and the epochs are those that the
//!   log shows. A `currentEpoch` that is larger than `acceptedEpoch` is not believed: if it was damaged, a server that
//!   took it for its promise could never join a leader again.
//!
//! Apache: `QuorumPeer.readLongFromFile`, `loadDataBase`. It refuses the second case, unless
//! `currentEpoch.tmp` was left behind by the very crash; we take that file for the epoch too, so the
//! temporary names are Apache's. A temporary file that was not written completely is ignored.

mod copies;

use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::{EPOCH_MAX, Zxid};

use crate::disk::{Dirs, Disk, is_unreadable, read_whole, replace_whole};
use crate::voting::{self, VotingError};
pub(crate) use copies::remove_copies;
pub use copies::{COPIES_FILE, OpenLog};
use copies::{EpochCopy, read_copies, write_copies};

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
}

impl From<VotingError> for EpochError {
    fn from(VotingError { path, source }: VotingError) -> Self {
        EpochError::Io { path, source }
    }
}

/// Reads one of the files; `None` if it does not exist.
pub fn read_epoch(disk: &dyn Disk, dir: &Path, file: EpochFile) -> Result<Option<u32>, EpochError> {
    read_number(disk, &dir.join(file.name()))
}

/// The epoch in the copy of one of the files, if there is a copy.
#[must_use]
pub fn copied_epoch(disk: &dyn Disk, dir: &Path, file: EpochFile) -> Option<u32> {
    read_copies(disk, dir).map(|copy| copy.epoch(file))
}

/// What the copies of the epochs say about the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownLog {
    /// A txn that was durable here, if one is known: the log may not end before it.
    pub last: Option<Zxid>,
    /// The file that was begun last.
    pub open: Option<OpenLog>,
}

/// What is known about the log of a server. Nothing, if Apache may have changed it since.
pub(crate) fn known_log(disk: &dyn Disk, dir: &Path) -> KnownLog {
    let accepted = read_epoch(disk, dir, EpochFile::Accepted).ok().flatten();
    let copy = read_copies(disk, dir)
        .filter(|copy| accepted.is_none_or(|accepted| accepted <= copy.accepted));
    copy.map_or(KnownLog::default(), |copy| KnownLog {
        last: Some(copy.last_zxid).filter(|last| last.counter() > 0),
        open: copy.open_log,
    })
}

/// Records a log file with durable txns, durably; `bytes` is its length if it has a table. Nothing is recorded for a
/// server without copies of its epochs, which was never a member of an ensemble.
pub(crate) fn note_new_log(
    disk: &dyn Disk,
    dir: &Path,
    first: Zxid,
    bytes: Option<u64>,
) -> io::Result<()> {
    let Some(copy) = read_copies(disk, dir) else { return Ok(()) };
    let open_log = bytes.map(|bytes| OpenLog { first, bytes });
    write_copies(disk, dir, EpochCopy { last_zxid: copy.last_zxid.max(first), open_log, ..copy })
}

/// Forgets, durably, how long the open log file is, before it is made shorter and keeps no table.
pub(crate) fn forget_open_log(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    match read_copies(disk, dir).filter(|copy| copy.open_log.is_some()) {
        Some(copy) => write_copies(disk, dir, EpochCopy { open_log: None, ..copy }),
        None => Ok(()),
    }
}

/// Records, durably, that log files were written again, which are on the disk and contain this txn.
pub(crate) fn note_rewritten_log(disk: &dyn Disk, dir: &Path, contained: Zxid) -> io::Result<()> {
    match read_copies(disk, dir) {
        Some(copy) => {
            let last_zxid = copy.last_zxid.max(contained);
            write_copies(disk, dir, EpochCopy { last_zxid, open_log: None, ..copy })
        }
        None => Ok(()),
    }
}

/// Lowers what is known about the log, durably, before txns after `last_zxid` are given up.
pub fn lower_last_known(disk: &dyn Disk, dir: &Path, last_zxid: Zxid) -> io::Result<()> {
    match read_copies(disk, dir) {
        Some(copy) => {
            let last_zxid = copy.last_zxid.min(last_zxid);
            write_copies(disk, dir, EpochCopy { last_zxid, open_log: None, ..copy })
        }
        None => Ok(()),
    }
}

/// Replaces one of the files and its copy, durably.
///
/// # Errors
/// The disk fails, or the file has a later epoch: it only ever rises.
pub fn write_epoch(
    disk: &dyn Disk,
    dir: &Path,
    file: EpochFile,
    epoch: u32,
) -> Result<(), EpochError> {
    let accepted = find_epoch(disk, dir, EpochFile::Accepted)?;
    let copy = valid_copy(disk, dir, accepted);
    let found = match find_epoch(disk, dir, file)? {
        Found::Unreadable => copy.map(|copy| copy.epoch(file)),
        found => found.epoch(),
    };
    if let Some(on_disk) = found.filter(|on_disk| *on_disk > epoch) {
        return Err(EpochError::Backwards { path: dir.join(file.name()), on_disk, epoch });
    }
    // A start makes the copy. Without it, the other epoch may be unknown.
    if let Some(copy) = copy {
        let copy = match file {
            EpochFile::Accepted => EpochCopy { accepted: epoch, ..copy },
            EpochFile::Current => {
                EpochCopy { accepted: copy.accepted.max(epoch), current: epoch, ..copy }
            }
        };
        put_copies(disk, dir, copy)?;
    }
    put_epoch(disk, dir, file, epoch)
}

fn put_epoch(disk: &dyn Disk, dir: &Path, file: EpochFile, epoch: u32) -> Result<(), EpochError> {
    let names = (file.temporary_name(), file.name());
    replace_whole(disk, dir, names, epoch.to_string().as_bytes())
        .map_err(|source| EpochError::Io { path: dir.join(file.name()), source })
}

fn put_copies(disk: &dyn Disk, dir: &Path, copy: EpochCopy) -> Result<(), EpochError> {
    write_copies(disk, dir, copy)
        .map_err(|source| EpochError::Io { path: dir.join(COPIES_FILE), source })
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Epoch(u32),
    Missing,
    Unreadable,
}

impl Found {
    fn epoch(self) -> Option<u32> {
        match self {
            Found::Epoch(epoch) => Some(epoch),
            Found::Missing | Found::Unreadable => None,
        }
    }
}

/// The copy of both epochs. If Apache has run here, its files are newer.
fn valid_copy(disk: &dyn Disk, dir: &Path, accepted: Found) -> Option<EpochCopy> {
    let is_valid =
        |copy: &EpochCopy| accepted.epoch().is_none_or(|accepted| accepted <= copy.accepted);
    read_copies(disk, dir).filter(is_valid)
}

fn find_epoch(disk: &dyn Disk, dir: &Path, file: EpochFile) -> Result<Found, EpochError> {
    match read_epoch(disk, dir, file) {
        Ok(epoch) => Ok(epoch.map_or(Found::Missing, Found::Epoch)),
        Err(EpochError::Unreadable { .. }) => Ok(Found::Unreadable),
        Err(EpochError::Io { source, .. })
            if is_unreadable(&source) || source.kind() == io::ErrorKind::FileTooLarge =>
        {
            Ok(Found::Unreadable)
        }
        Err(error) => Err(error),
    }
}

/// Reads both files when a server of an ensemble starts; `last_zxid` is the recovered tree's. A missing or damaged
/// file is restored from its copy. Without a copy it is created again; then a server that has been in an epoch has
/// forgotten what it promised, and must not vote. Nor must one whose files contradict each other or the log.
pub fn recover_epochs(disk: &dyn Disk, dirs: &Dirs, last_zxid: Zxid) -> Result<Epochs, EpochError> {
    let dir = &dirs.data;
    let found_current = find_epoch(disk, dir, EpochFile::Current)?;
    let found_accepted = find_epoch(disk, dir, EpochFile::Accepted)?;
    let copy = valid_copy(disk, dir, found_accepted);
    let accepted = copy.map(|copy| copy.accepted).or(found_accepted.epoch());
    let current = match copy {
        // A server follows the last epoch that it has accepted, so any other number has been damaged.
        Some(copy) => {
            let is_possible = |current: &u32| [copy.current, copy.accepted].contains(current);
            found_current.epoch().filter(is_possible).or(Some(copy.current))
        }
        None => found_current.epoch(),
    };
    let followed = current_epoch(disk, dir, (current, accepted), last_zxid)?;
    let is_promised = accepted.is_none_or(|accepted| accepted >= followed.epoch);
    let current = if is_promised { followed.epoch } else { last_zxid.epoch() };
    let accepted = accepted.unwrap_or(current).max(current);
    let contradiction = match (followed.is_shown, is_promised) {
        (false, _) => Some("the epoch files are older than the log"),
        (true, false) => Some("acceptedEpoch is less than currentEpoch"),
        (true, true) => None,
    };
    let lost = match copy {
        None => lost_file((found_current, found_accepted), accepted),
        Some(_) => None,
    };
    if let Some(lost) = lost.or(contradiction) {
        let reason = format!("{lost}, but this server has been in epoch {accepted}");
        voting::suspend(disk, dirs, &reason)?;
    } else if let Some(copy) = copy
        && copy.current < current
        && last_zxid.epoch() < current
    {
        // Apache has run here and has followed the epoch; or a bit was flipped, and then this server would be elected
        // although others have followed later epochs than it has. The log may show which.
        let path = dir.join(EpochFile::Current.name());
        let reason = format!("{} says {current}, and its copy {}", path.display(), copy.current);
        voting::suspend(disk, dirs, &reason)?;
    }
    for (file, found, epoch) in [
        (EpochFile::Accepted, found_accepted, accepted),
        (EpochFile::Current, found_current, current),
    ] {
        if found != Found::Epoch(epoch) {
            if copy.is_some() {
                let path = dir.join(file.name());
                tracing::warn!(path = %path.display(), epoch, "restored an epoch from its copy");
            }
            put_epoch(disk, dir, file, epoch)?;
        }
    }
    let last_zxid = copy.map_or(last_zxid, |copy| copy.last_zxid.max(last_zxid));
    // What was begun before is read now, and ends there.
    put_copies(disk, dir, EpochCopy { accepted, current, last_zxid, open_log: None })?;
    Ok(Epochs { current, accepted })
}

/// What is lost of the files, if something is.
fn lost_file((current, accepted): (Found, Found), epoch: u32) -> Option<&'static str> {
    match (current, accepted) {
        (Found::Unreadable, _) => Some("currentEpoch is damaged"),
        (_, Found::Unreadable) => Some("acceptedEpoch is damaged"),
        _ if epoch == 0 => None,
        (Found::Epoch(_), Found::Epoch(_)) => None,
        (Found::Missing, Found::Missing) => Some("currentEpoch and acceptedEpoch are missing"),
        (Found::Missing, Found::Epoch(_)) => Some("currentEpoch is missing"),
        (Found::Epoch(_), Found::Missing) => Some("acceptedEpoch is missing"),
    }
}

/// The epoch that was followed last.
struct Followed {
    epoch: u32,
    /// The files show it, or are lost; otherwise only the log does.
    is_shown: bool,
}

/// The epoch that was followed last: that of the log, if the files say less.
fn current_epoch(
    disk: &dyn Disk,
    dir: &Path,
    (current, accepted): (Option<u32>, Option<u32>),
    last_zxid: Zxid,
) -> Result<Followed, EpochError> {
    let log_epoch = last_zxid.epoch();
    let reaches_log = |epoch: &u32| *epoch >= log_epoch;
    let shown = |epoch| Followed { epoch, is_shown: true };
    let Some(current) = current else {
        return Ok(shown(log_epoch));
    };
    if reaches_log(&current) {
        return Ok(shown(current));
    }
    if accepted.is_some_and(|accepted| reaches_log(&accepted)) {
        return Ok(shown(log_epoch));
    }
    let written = read_temporary(disk, dir)?.filter(reaches_log);
    Ok(written.map_or(Followed { epoch: log_epoch, is_shown: false }, shown))
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
#[path = "epoch/tests.rs"]
mod tests;

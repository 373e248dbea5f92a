//! File names: `log.<zxid>`, `snapshot.<zxid>`, `snapshot.<zxid>.gz`, `snapshot.<zxid>.snappy`, where
//! the zxid is lower-case hex without padding.
//!
//! Apache: `Util.getZxidFromName`, which also takes `log.5.bak` for a log. We do not: a copy that an
//! operator made is not data. Files that we keep ourselves start with another word
//! ([`TEMPORARY`], [`INSTALLING`], [`DAMAGED`]), so that Apache does not take it for data either.

use std::path::{Path, PathBuf};

use herdsman_proto::Zxid;

use crate::disk::{DirEntry, Disk};

/// The prefix of a file that is not complete yet.
pub const TEMPORARY: &str = "tmp.";
/// The prefix of a snapshot that replaces everything else, and of the epoch files that belong to it; see
/// [`crate::install`].
pub const INSTALLING: &str = "install.";
/// Not a log: while this file is in the directory of the logs, Apache refuses to start; see [`crate::replace`]. The
/// name is that of the latest possible log, so Apache reads it whatever else there is.
pub const GUARD: &str = "log.7fffffffffffffff";
/// The prefix of files that the operator has given up.
pub const DAMAGED: &str = "damaged.";

/// The compression of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compression {
    /// Not compressed.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// snappy-java's stream format.
    Snappy,
}

impl Compression {
    fn suffix(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Snappy => ".snappy",
        }
    }
}

/// A snapshot file, known by its name. Orders by zxid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    /// The last txn that was applied when the snapshot was begun.
    pub zxid: Zxid,
    /// Its compression.
    pub compression: Compression,
}

impl SnapshotName {
    /// Reads a file name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("snapshot.")?;
        let (zxid, compression) = match rest.split_once('.') {
            None => (rest, Compression::None),
            Some((zxid, "gz")) => (zxid, Compression::Gzip),
            Some((zxid, "snappy")) => (zxid, Compression::Snappy),
            Some(_) => return None,
        };
        Some(SnapshotName { zxid: parse_zxid(zxid)?, compression })
    }

    /// The file name.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("snapshot.{:x}{}", self.zxid.0, self.compression.suffix())
    }

    /// Its name while it is being written.
    #[must_use]
    pub fn temporary_name(self) -> String {
        format!("{TEMPORARY}{}", self.file_name())
    }

    /// Its name while it replaces everything else.
    #[must_use]
    pub fn installing_name(self) -> String {
        format!("{INSTALLING}{}", self.file_name())
    }

    /// The file in its directory.
    #[must_use]
    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.file_name())
    }
}

/// A log file, known by its name. Orders by zxid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogName {
    /// Its first txn.
    pub zxid: Zxid,
}

impl LogName {
    /// Reads a file name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let zxid = parse_zxid(name.strip_prefix("log.")?)?;
        Some(LogName { zxid })
    }

    /// The file name.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("log.{:x}", self.zxid.0)
    }

    /// The file in its directory.
    #[must_use]
    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.file_name())
    }
}

/// Reads hex as Java does: either case, leading zeros allowed, nothing negative.
fn parse_zxid(hex: &str) -> Option<Zxid> {
    if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    i64::from_str_radix(hex, 16).ok().map(Zxid)
}

/// Whether Apache reads a file as a log or a snapshot: it checks only the first two parts between dots.
#[must_use]
pub fn is_read_by_apache(name: &str) -> bool {
    let mut parts = name.split('.');
    let (kind, zxid) = (parts.next(), parts.next());
    matches!(kind, Some("log" | "snapshot"))
        && zxid.is_some_and(|zxid| i64::from_str_radix(zxid, 16).is_ok())
}

/// The snapshots in a directory, oldest first.
pub fn list_snapshots(disk: &dyn Disk, dir: &Path) -> std::io::Result<Vec<SnapshotName>> {
    list(disk, dir, snapshot_of)
}

/// The logs in a directory, oldest first.
pub fn list_logs(disk: &dyn Disk, dir: &Path) -> std::io::Result<Vec<LogName>> {
    list(disk, dir, log_of)
}

/// The snapshot that this entry of a directory is.
pub(crate) fn snapshot_of(entry: &DirEntry) -> Option<SnapshotName> {
    let name = SnapshotName::parse(&entry.name)?;
    (name.file_name() == entry.name).then_some(name)
}

/// The log that this entry of a directory is.
pub(crate) fn log_of(entry: &DirEntry) -> Option<LogName> {
    let name = LogName::parse(&entry.name)?;
    (name.file_name() == entry.name && entry.name != GUARD).then_some(name)
}

/// The logs in a directory that were renamed because they are damaged, oldest first. Nothing reads them, but their
/// names prove that txns existed.
pub fn list_damaged_logs(disk: &dyn Disk, dir: &Path) -> std::io::Result<Vec<LogName>> {
    list(disk, dir, |entry| LogName::parse(entry.name.strip_prefix(DAMAGED)?))
}

fn list<T: Ord>(
    disk: &dyn Disk,
    dir: &Path,
    parse: impl Fn(&DirEntry) -> Option<T>,
) -> std::io::Result<Vec<T>> {
    let mut names: Vec<T> = disk.list(dir)?.iter().filter_map(parse).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_written() {
        let check = |name: &str, expected: Option<(i64, Compression)>| {
            let parsed = SnapshotName::parse(name);
            assert_eq!(parsed.map(|n| (n.zxid.0, n.compression)), expected);
            if let Some(parsed) = parsed {
                assert_eq!(parsed.file_name(), name);
            }
        };
        check("snapshot.0", Some((0, Compression::None)));
        check("snapshot.1f.gz", Some((0x1f, Compression::Gzip)));
        check("snapshot.300000007.snappy", Some((0x3_0000_0007, Compression::Snappy)));
        for name in [
            "snapshot",
            "snapshot.",
            "snapshot.x",
            "snapshot.-1",
            "snapshot.+1",
            "snapshot.1.tmp",
            "snapshot.1.gz.tmp",
            "tmp.snapshot.1",
            "log.1",
            "snapshot.fffffffffffffffff",
        ] {
            check(name, None);
        }
        assert_eq!(LogName::parse("log.ff"), Some(LogName { zxid: Zxid(0xff) }));
        assert_eq!(LogName::parse("log.ff.bak"), None);
        assert_eq!(LogName::parse("log"), None);
    }

    #[test]
    fn apache_reads_more_names() {
        for name in ["log.5", "log.5.bak", "snapshot.99.bak", "snapshot.1f.gz", "log.0F"] {
            assert!(is_read_by_apache(name), "{name}");
        }
        for name in ["log", "log.", "log.bak.5", "tmp.log.5", "install.snapshot.5", "logs.5"] {
            assert!(!is_read_by_apache(name), "{name}");
        }
    }

    #[test]
    fn lists_are_sorted_by_number_not_by_text() {
        let disk = crate::disk::MemoryDisk::new();
        for name in ["log.10", "log.9", "log.100", "snapshot.2", "myid", "log.0f", GUARD] {
            disk.put(&Path::new("/d").join(name), Vec::new());
        }
        let logs = list_logs(&disk, Path::new("/d")).unwrap();
        let zxids: Vec<i64> = logs.iter().map(|log| log.zxid.0).collect();
        assert_eq!(zxids, [9, 0x10, 0x100]);
        assert_eq!(list_snapshots(&disk, Path::new("/d")).unwrap().len(), 1);
    }
}

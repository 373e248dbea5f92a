//! Removes snapshots and logs that no recovery needs.
//!
//! Kept: the newest N snapshots that look complete, and every log file that may hold a txn after the oldest of
//! them. So recovery may find the newest N-1 snapshots damaged and still return the whole state. A snapshot that
//! does not look complete, or that a scrub has found damaged, does not count: it is neither kept as one of the N
//! nor a reason to remove anything older (ZOOKEEPER-3231). With fewer than N complete ones nothing is removed. Nor
//! is a log file that is being sent to a learner, or will be sent after a tree.
//!
//! What was put aside as damaged (`damaged.log.<zxid>…`, `damaged.snapshot.<zxid>…`) goes with the files that are older
//! than all snapshots that stay: by then nobody looks into it any more.
//!
//! Apache: `PurgeTxnLog`.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use herdsman_proto::Zxid;

use crate::disk::{Dirs, Disk, is_out_of_descriptors};
use crate::names::{DAMAGED, INSTALLING, LogName, SnapshotName, list_logs, list_snapshots};
use crate::snapshot::reader::looks_whole;

/// The fewest snapshots that Apache lets an operator keep; a smaller number counts as this one.
pub const SNAPSHOTS_KEPT_MIN: usize = 3;

/// A snapshot that a purge may keep or remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: SnapshotName,
    /// Whether a quick check says that it can be recovered from.
    pub whole: bool,
}

/// The files to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgePlan {
    /// Snapshots.
    pub snapshots: Vec<SnapshotName>,
    /// Logs.
    pub logs: Vec<LogName>,
}

/// Decides what to remove, from names alone. Learners need the txns after `needed_after`.
#[must_use]
pub fn plan_purge(
    snapshots: &[Candidate],
    logs: &[LogName],
    keep: usize,
    needed_after: Option<Zxid>,
) -> PurgePlan {
    let mut whole: Vec<Zxid> = snapshots
        .iter()
        .filter(|snapshot| snapshot.whole)
        .map(|snapshot| snapshot.name.zxid)
        .collect();
    whole.sort();
    whole.dedup();
    let keep = keep.max(1);
    let Some(oldest_kept) = whole.len().checked_sub(keep).map(|index| whole[index]) else {
        return PurgePlan::default();
    };
    // The file that starts at or before the oldest kept snapshot may also have txns after it.
    let logs_after = needed_after.map_or(oldest_kept, |needed| needed.min(oldest_kept));
    let first_log = logs.iter().map(|log| log.zxid).filter(|zxid| *zxid <= logs_after).max();
    PurgePlan {
        snapshots: snapshots
            .iter()
            .map(|snapshot| snapshot.name)
            // The snapshots beside a log file that stays show whether it has a gap.
            .filter(|name| name.zxid < logs_after)
            .collect(),
        logs: logs.iter().copied().filter(|log| Some(log.zxid) < first_log).collect(),
    }
}

/// Checks the files and decides what to remove. Changes nothing; the server may be running.
pub fn plan_purge_of(
    disk: &dyn Disk,
    dirs: &Dirs,
    keep: usize,
    needed_after: Option<Zxid>,
) -> io::Result<PurgePlan> {
    plan_purge_knowing(disk, dirs, keep, needed_after, &BTreeSet::new())
}

/// The same, if some snapshots are known to be damaged.
fn plan_purge_knowing(
    disk: &dyn Disk,
    dirs: &Dirs,
    keep: usize,
    needed_after: Option<Zxid>,
    damaged: &BTreeSet<SnapshotName>,
) -> io::Result<PurgePlan> {
    let mut snapshots = Vec::new();
    for name in list_snapshots(disk, &dirs.data)? {
        if damaged.contains(&name) {
            snapshots.push(Candidate { name, whole: false });
            continue;
        }
        let whole = match looks_whole(disk, &dirs.data, name) {
            Err(error) if is_out_of_descriptors(&error) => return Err(error),
            // One snapshot that cannot be read must not keep all others from being purged.
            looked => looked.unwrap_or(false),
        };
        snapshots.push(Candidate { name, whole });
    }
    let logs = list_logs(disk, &dirs.log)?;
    Ok(plan_purge(&snapshots, &logs, keep.max(SNAPSHOTS_KEPT_MIN), needed_after))
}

/// Plans a purge and carries it out, oldest files first. Returns what was removed.
pub fn purge(
    disk: &dyn Disk,
    dirs: &Dirs,
    keep: usize,
    needed_after: Option<Zxid>,
) -> io::Result<Vec<PathBuf>> {
    purge_knowing(disk, dirs, keep, needed_after, &BTreeSet::new())
}

/// Like [`purge`], on a server that knows that some snapshots are damaged although they look complete.
pub fn purge_knowing(
    disk: &dyn Disk,
    dirs: &Dirs,
    keep: usize,
    needed_after: Option<Zxid>,
    damaged: &BTreeSet<SnapshotName>,
) -> io::Result<Vec<PathBuf>> {
    let plan = plan_purge_knowing(disk, dirs, keep, needed_after, damaged)?;
    let mut removed = Vec::new();
    let snapshot_paths = plan.snapshots.iter().map(|name| name.path(&dirs.data));
    let log_paths = plan.logs.iter().map(|name| name.path(&dirs.log));
    // Snapshots first: a snapshot without its logs is useless, logs without a snapshot only waste space.
    for path in snapshot_paths.chain(log_paths) {
        remove(disk, &path)?;
        removed.push(path);
    }
    if !removed.is_empty() {
        for path in damaged_before(disk, dirs)? {
            remove(disk, &path)?;
            removed.push(path);
        }
    }
    Ok(removed)
}

/// Files that were put aside as damaged, and are older than all snapshots.
fn damaged_before(disk: &dyn Disk, dirs: &Dirs) -> io::Result<Vec<PathBuf>> {
    let snapshots = list_snapshots(disk, &dirs.data)?;
    let Some(oldest) = snapshots.first().map(|name| name.zxid) else { return Ok(Vec::new()) };
    let mut paths = Vec::new();
    for dir in if dirs.data == dirs.log { vec![&dirs.data] } else { vec![&dirs.data, &dirs.log] } {
        let entries = disk.list(dir)?;
        let is_old = |name: &str| damaged_zxid(name).is_some_and(|zxid| zxid < oldest);
        let old = entries.iter().filter(|entry| is_old(&entry.name));
        paths.extend(old.map(|entry| dir.join(&entry.name)));
    }
    Ok(paths)
}

/// The zxid in the name of a file that was put aside as damaged.
fn damaged_zxid(name: &str) -> Option<Zxid> {
    let name = name.strip_prefix(DAMAGED)?;
    let name = name.strip_prefix(INSTALLING).unwrap_or(name);
    let (kind, rest) = name.split_once('.')?;
    let zxid = rest.split('.').next()?;
    match kind {
        "log" => LogName::parse(&format!("log.{zxid}")).map(|name| name.zxid),
        "snapshot" => SnapshotName::parse(&format!("snapshot.{zxid}")).map(|name| name.zxid),
        _ => None,
    }
}

fn remove(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    tracing::info!(path = %path.display(), "purging");
    crate::disk::remove_if_there(disk, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Compression;

    /// Snapshots as zxids, negative ones incomplete; what is removed, as zxids.
    fn check(snapshots: &[i64], logs: &[i64], keep: usize, gone: (&[i64], &[i64])) {
        check_needed(snapshots, logs, (keep, None), gone);
    }

    fn check_needed(
        snapshots: &[i64],
        logs: &[i64],
        (keep, needed_after): (usize, Option<i64>),
        gone: (&[i64], &[i64]),
    ) {
        let candidates: Vec<Candidate> = snapshots
            .iter()
            .map(|zxid| Candidate {
                name: SnapshotName { zxid: Zxid(zxid.abs()), compression: Compression::None },
                whole: *zxid >= 0,
            })
            .collect();
        let logs: Vec<LogName> = logs.iter().map(|zxid| LogName { zxid: Zxid(*zxid) }).collect();
        let plan = plan_purge(&candidates, &logs, keep, needed_after.map(Zxid));
        let zxids: Vec<i64> = plan.snapshots.iter().map(|name| name.zxid.0).collect();
        assert_eq!(zxids, gone.0, "snapshots of {snapshots:?}, keep {keep}");
        let zxids: Vec<i64> = plan.logs.iter().map(|name| name.zxid.0).collect();
        assert_eq!(zxids, gone.1, "logs of {snapshots:?}, keep {keep}");
    }

    #[test]
    fn what_is_removed() {
        check(&[], &[1, 5], 3, (&[], &[]));
        check(&[0, 10, 20], &[1, 11, 21], 3, (&[], &[]));
        check(&[0, 10, 20, 30], &[1, 11, 21, 31], 3, (&[0], &[]));
        check(&[0, 10, 20, 30, 40], &[1, 11, 21, 31, 41], 3, (&[0, 10], &[1]));
        // A log that spans several snapshots stays while one of them needs it.
        check(&[10, 20, 30, 40, 50], &[1, 45], 3, (&[10, 20], &[]));
        check(&[10, 20, 30, 40, 50], &[1, 15, 45], 3, (&[10, 20], &[1]));
        // Damaged ones do not count, and are removed only if they are older than everything that is kept.
        check(&[10, 20, -30, 40, -50], &[1, 11, 41], 3, (&[], &[]));
        check(&[-5, 10, 20, -30, 40, -50], &[1, 9, 41], 3, (&[5], &[1]));
        check(&[-10, -20, -30, -40], &[1], 3, (&[], &[]));
        // The newest complete one always stays.
        check(&[10, 20], &[1, 11, 21], 0, (&[10], &[1]));
        // Two of one zxid with different compression count as one.
        check(&[10, 10, 20, 30], &[11], 3, (&[], &[]));
        // No log is old enough to matter.
        check(&[10, 20, 30, 40], &[50], 3, (&[10], &[]));
    }

    #[test]
    fn a_snapshot_that_cannot_be_opened_does_not_stop_a_purge() {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::below(root.path(), root.path());
        dirs.create(&crate::RealDisk).unwrap();
        let missing = root.path().join("missing");
        let link = dirs.data.join("snapshot.5");
        std::os::unix::fs::symlink(missing, &link).unwrap();
        let plan = plan_purge_of(&crate::RealDisk, &dirs, 3, None).unwrap();
        assert_eq!(plan, PurgePlan::default());
    }

    /// Bit rot in the middle of a snapshot does not show at its ends.
    #[test]
    fn a_snapshot_that_is_known_to_be_damaged_does_not_count() {
        use crate::testing::*;
        let disk = disk();
        for txns in [0, 2, 4, 6] {
            snapshot(&disk, &tree_of(&creates(1..=txns)));
        }
        write_entries(&disk, Zxid(0), &creates(1..=6));
        let name = |zxid| SnapshotName { zxid: Zxid(zxid), compression: Compression::None };
        let removed = |damaged: &[i64]| {
            let damaged = damaged.iter().map(|zxid| name(*zxid)).collect();
            purge_knowing(&disk, &dirs(), 3, None, &damaged).unwrap()
        };
        assert_eq!(removed(&[4]), Vec::<PathBuf>::new());
        assert_eq!(removed(&[]), [name(0).path(dir())]);
        snapshot(&disk, &tree_of(&creates(1..=8)));
        assert_eq!(removed(&[4]), Vec::<PathBuf>::new());
        assert_eq!(removed(&[2]), [name(2).path(dir())]);
    }

    #[test]
    fn what_is_being_sent_stays() {
        let (snapshots, logs) = ([10, 20, 30, 40, 50], [1, 11, 21, 31, 41]);
        check_needed(&snapshots, &logs, (3, None), (&[10, 20], &[1, 11]));
        check_needed(&snapshots, &logs, (3, Some(15)), (&[10], &[1]));
        check_needed(&snapshots, &logs, (3, Some(5)), (&[], &[]));
        check_needed(&snapshots, &logs, (3, Some(45)), (&[10, 20], &[1, 11]));
    }

    /// What was put aside stays as long as something older does.
    #[test]
    fn what_was_put_aside_goes_with_older_files() {
        use crate::testing::{creates, dir, dirs, disk, names, snapshot, tree_of};
        let disk = disk();
        for last in [2, 5, 9, 12] {
            snapshot(&disk, &tree_of(&creates(1..=last)));
        }
        for name in [
            "damaged.log.1.from.16",
            "damaged.log.4",
            "damaged.log.5.from.16",
            "damaged.snapshot.3.gz",
            "damaged.install.snapshot.4",
            "damaged.snapshot.7",
            "damaged.notes",
            "damaged.log.x",
        ] {
            disk.put(&dir().join(name), vec![1]);
        }
        let removed = purge(&disk, &dirs(), 3, None).unwrap();
        assert_eq!(removed.len(), 5, "{removed:?}");
        let expected = [
            "damaged.log.5.from.16",
            "damaged.log.x",
            "damaged.notes",
            "damaged.snapshot.7",
            "snapshot.5",
            "snapshot.9",
            "snapshot.c",
        ];
        assert_eq!(names(&disk), expected);
        assert!(purge(&disk, &dirs(), 3, None).unwrap().is_empty());
    }
}

//! Removes the oldest files of an archive, so that every point after a given time can still be restored.
//!
//! The log file in which that time falls stays, with all later ones, and with the newest two snapshots that were begun
//! before it: the older of the two was finished before the newer one began, so it certainly shows nothing later, and
//! the newer one may be damaged. Everything older goes, snapshots first.

use herdsman_proto::txn::Entry;

use super::{Archive, ArchiveError, gap_name};
use crate::disk::{io_at, remove_if_there};
use crate::log::record::RecordReader;
use crate::log::walk::files_needed;
use crate::names::{LogName, SnapshotName};

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchivePurge {
    /// Snapshots.
    pub snapshots: usize,
    /// Log files.
    pub logs: usize,
}

impl Archive {
    /// Removes what no restore to a time after `time_ms` needs.
    pub fn purge_before(&mut self, time_ms: i64) -> Result<ArchivePurge, ArchiveError> {
        let listing = self.take_listing()?;
        let logs: Vec<LogName> = listing.logs.iter().copied().collect();
        let Some(first_kept) = self.last_begun_before(&logs, time_ms)? else {
            return Ok(ArchivePurge::default());
        };
        let older: Vec<SnapshotName> =
            listing.snapshots.iter().copied().filter(|it| it.zxid < first_kept.zxid).collect();
        let Some(base) = older.len().checked_sub(2).map(|index| older[index]) else {
            return Ok(ArchivePurge::default());
        };
        let needed = files_needed(&logs, base.zxid).first().copied();
        let mut purged = ArchivePurge::default();
        for snapshot in older.iter().filter(|it| it.zxid < base.zxid) {
            self.remove(&snapshot.file_name())?;
            purged.snapshots += 1;
        }
        for log in logs.iter().filter(|log| Some(**log) < needed) {
            self.remove(&log.file_name())?;
            purged.logs += 1;
        }
        for end in listing.gaps.iter().filter(|end| **end < base.zxid) {
            self.remove(&gap_name(*end))?;
        }
        Ok(purged)
    }

    /// The last log file of those that begin not later than a time; the next one begins later.
    fn last_begun_before(
        &self,
        logs: &[LogName],
        time_ms: i64,
    ) -> Result<Option<LogName>, ArchiveError> {
        let mut last = None;
        for &name in logs {
            let begun_ms = self.first_time_ms(name)?;
            if begun_ms.is_some_and(|begun_ms| begun_ms > time_ms) {
                return Ok(last);
            }
            last = Some(name);
        }
        Ok(last)
    }

    /// The time of the first txn in a log file; `None` if it is damaged.
    fn first_time_ms(&self, name: LogName) -> Result<Option<i64>, ArchiveError> {
        let path = name.path(&self.dir);
        let mut reader = RecordReader::open(&*self.disk, &path).map_err(io_at(&path))?;
        let record = reader.next_record().map_err(io_at(&path))?;
        let entry = record.and_then(|record| Entry::decode(record.payload).ok());
        Ok(entry.map(|entry| entry.header.time_ms))
    }

    fn remove(&mut self, name: &str) -> Result<(), ArchiveError> {
        let path = self.dir.join(name);
        remove_if_there(&*self.disk, &path).map_err(io_at(&path))?;
        Ok(())
    }
}

//! The damaged files that are known of.
//!
//! In: reports of passes. Out: what is new in them, for the log; the numbers for the metrics; the snapshots that a
//! purge must not count.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use herdsman_store::{DataFile, Finding, ScrubReport, ScrubScope, SnapshotName};
use parking_lot::Mutex;

/// Snapshots that are known to be damaged. Clones are the same set.
#[derive(Clone, Debug, Default)]
pub struct DamagedSnapshots(Arc<Mutex<BTreeSet<SnapshotName>>>);

impl DamagedSnapshots {
    /// A copy of the set.
    #[must_use]
    pub fn get(&self) -> BTreeSet<SnapshotName> {
        self.0.lock().clone()
    }

    fn set(&self, names: BTreeSet<SnapshotName>) {
        *self.0.lock() = names;
    }
}

/// The damaged files that passes have found and that are still there.
#[derive(Debug, Default)]
pub(super) struct KnownDamage {
    files: BTreeMap<DataFile, Finding>,
    snapshots: DamagedSnapshots,
}

impl KnownDamage {
    pub(super) fn new(snapshots: DamagedSnapshots) -> Self {
        KnownDamage { files: BTreeMap::new(), snapshots }
    }

    /// Takes over what a pass has found. Returns what was not known: another file or another place in one, or one
    /// that a start needs now.
    pub(super) fn update(&mut self, report: &ScrubReport, scope: ScrubScope) -> Vec<Finding> {
        let is_known = |finding: &Finding| {
            self.files.get(&finding.file).is_some_and(|known| {
                known.offset == finding.offset && (finding.is_covered || !known.is_covered)
            })
        };
        let mut news = report.findings.clone();
        news.retain(|finding| !is_known(finding));
        match scope {
            ScrubScope::All => self.files.clear(),
            // A pass over the newest files says nothing about others, except that a start does without them.
            ScrubScope::NeededAtStart => {
                let is_valid = |file: &DataFile| match file {
                    DataFile::Snapshot(name) => report.valid.contains(name),
                    DataFile::Log(_) => false,
                };
                self.files.retain(|file, _| !is_valid(file));
                if !report.wants_snapshot() {
                    self.files.values_mut().for_each(|finding| finding.is_covered = true);
                }
            }
        }
        self.files.extend(report.findings.iter().map(|finding| (finding.file, finding.clone())));
        self.publish();
        news
    }

    /// Forgets files that are gone, unless a start would need them.
    pub(super) fn retain(&mut self, is_there: impl Fn(DataFile) -> bool) {
        self.files.retain(|file, finding| !finding.is_covered || is_there(*file));
        self.publish();
    }

    /// How many files are damaged, and how many of them a start would need.
    pub(super) fn counts(&self) -> (u64, u64) {
        let needed = self.files.values().filter(|finding| !finding.is_covered).count();
        (self.files.len() as u64, needed as u64)
    }

    fn snapshots(&self) -> BTreeSet<SnapshotName> {
        let name = |file: &DataFile| match file {
            DataFile::Snapshot(name) => Some(*name),
            DataFile::Log(_) => None,
        };
        self.files.keys().filter_map(name).collect()
    }

    fn publish(&self) {
        self.snapshots.set(self.snapshots());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::Zxid;
    use herdsman_store::{Compression, LogName};

    fn log(zxid: i64) -> DataFile {
        DataFile::Log(LogName { zxid: Zxid(zxid) })
    }

    fn snapshot_name(zxid: i64) -> SnapshotName {
        SnapshotName { zxid: Zxid(zxid), compression: Compression::None }
    }

    fn snapshot(zxid: i64) -> DataFile {
        DataFile::Snapshot(snapshot_name(zxid))
    }

    fn finding(file: DataFile, offset: u64, is_covered: bool) -> Finding {
        let (path, what) = ("/file".into(), "rot".to_owned());
        Finding { file, path, offset, what, places: 1, between: None, is_covered }
    }

    fn report(findings: &[Finding], valid: &[i64]) -> ScrubReport {
        let valid = valid.iter().map(|zxid| snapshot_name(*zxid)).collect();
        ScrubReport { findings: findings.to_vec(), valid, ..ScrubReport::default() }
    }

    #[test]
    fn what_is_known_is_no_news() {
        let mut known = KnownDamage::default();
        let (needed, old) = (finding(log(9), 50, false), finding(log(1), 20, true));
        let found = report(&[needed, old], &[5]);
        let all = ScrubScope::All;
        assert_eq!(known.update(&found, all).len(), 2);
        assert_eq!(known.update(&found, all), []);
        assert_eq!(known.counts(), (2, 1));
        // Covered now; another place; needed again.
        assert_eq!(known.update(&report(&[finding(log(9), 50, true)], &[5]), all), []);
        assert_eq!(known.counts(), (1, 0));
        assert_eq!(known.update(&report(&[finding(log(9), 40, true)], &[5]), all).len(), 1);
        assert_eq!(known.update(&report(&[finding(log(9), 40, false)], &[5]), all).len(), 1);
        assert_eq!(known.update(&report(&[], &[5]), all), []);
        assert_eq!(known.counts(), (0, 0));
    }

    #[test]
    fn a_pass_over_the_newest_files_keeps_what_is_known_of_others() {
        let mut known = KnownDamage::default();
        let found = [finding(log(1), 20, true), finding(snapshot(5), 7, false)];
        known.update(&report(&found, &[]), ScrubScope::All);
        assert_eq!(known.counts(), (2, 1));
        let needed = ScrubScope::NeededAtStart;
        known.update(&report(&[], &[8]), needed);
        assert_eq!(known.counts(), (2, 0));
        // It was written again.
        known.update(&report(&[], &[5]), needed);
        assert_eq!(known.counts(), (1, 0));
        known.retain(|file| file != log(1));
        assert_eq!(known.counts(), (0, 0));
    }

    #[test]
    fn a_purge_learns_of_damaged_snapshots() {
        let shared = DamagedSnapshots::default();
        let mut known = KnownDamage::new(shared.clone());
        let found = [finding(log(1), 20, true), finding(snapshot(5), 7, false)];
        known.update(&report(&found, &[]), ScrubScope::All);
        assert_eq!(shared.get(), BTreeSet::from([snapshot_name(5)]));
        known.retain(|_| false);
        assert_eq!(known.counts(), (1, 1), "a start needs it");
        known.update(&report(&[], &[8]), ScrubScope::NeededAtStart);
        known.retain(|_| false);
        assert!(shared.get().is_empty());
    }
}

//! What the next purge would delete, for the log and for `herdsman server --check`.
//!
//! In: the files as they are now, which are only looked at. Out: a line that says what goes and when. It matters
//! where a server takes over a directory from Apache's, which keeps every file unless it is told otherwise.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::time::Duration;

use herdsman_store::{Dirs, Disk, LogName, PurgePlan, SnapshotName, plan_purge_of};
use tracing::{info, warn};

use super::SnapshotSettings;
use herdsman_config::Purge;

/// What the next purge would delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeForecast {
    purge: Purge,
    snapshots: Part,
    logs: Part,
}

/// How many files of a kind go, how many there are, and how large the former are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    going: usize,
    all: usize,
    bytes: u64,
}

impl Part {
    fn add(&mut self, going: bool, bytes: u64) {
        self.all += 1;
        if going {
            self.going += 1;
            self.bytes += bytes;
        }
    }
}

impl PurgeForecast {
    /// Looks at the files.
    ///
    /// # Errors
    /// A directory or a snapshot cannot be read.
    pub fn of(disk: &dyn Disk, dirs: &Dirs, purge: Purge) -> io::Result<Self> {
        let PurgePlan { snapshots, logs } =
            plan_purge_of(disk, dirs, purge.snapshots_kept as usize, None)?;
        let mut forecast =
            PurgeForecast { purge, snapshots: Part::default(), logs: Part::default() };
        let snapshots: BTreeSet<SnapshotName> = snapshots.into_iter().collect();
        let logs: BTreeSet<LogName> = logs.into_iter().collect();
        for entry in disk.list(&dirs.data)? {
            if let Some(name) = SnapshotName::parse(&entry.name) {
                forecast.snapshots.add(snapshots.contains(&name), entry.bytes);
            }
        }
        for entry in disk.list(&dirs.log)? {
            if let Some(name) = LogName::parse(&entry.name) {
                forecast.logs.add(logs.contains(&name), entry.bytes);
            }
        }
        Ok(forecast)
    }

    /// Whether files would go that nobody has asked to delete: Apache would keep them.
    #[must_use]
    pub fn is_surprising(&self) -> bool {
        self.purge.is_default && self.snapshots.going + self.logs.going > 0
    }
}

impl fmt::Display for PurgeForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PurgeForecast { purge, snapshots, logs } = self;
        let (interval, kept) = (in_words(purge.interval()), purge.snapshots_kept);
        if snapshots.going + logs.going == 0 {
            write!(
                f,
                "old snapshots and logs are deleted every {interval}; nothing to delete now"
            )?;
        } else {
            let bytes = snapshots.bytes + logs.bytes;
            write!(
                f,
                "the first purge, {interval} after the start, will delete {} of {} snapshots and \
                 {} of {} logs ({bytes} bytes)",
                snapshots.going, snapshots.all, logs.going, logs.all
            )?;
        }
        write!(f, "; the newest {kept} snapshots and the logs after them are kept")?;
        if purge.is_default {
            f.write_str(". autopurge.purgeInterval is not set: Apache would keep all files; set it to 0 to keep them")?;
        }
        Ok(())
    }
}

/// Says at the start what will go, before anything goes.
pub(super) fn announce(settings: &SnapshotSettings) {
    let Some(purge) = settings.purge else { return };
    match PurgeForecast::of(&*settings.disk, &settings.dirs, purge) {
        Ok(forecast) if forecast.is_surprising() => warn!("{forecast}"),
        Ok(forecast) => info!("{forecast}"),
        Err(failure) => warn!(
            "cannot list the files that the next purge would delete: {failure}; check the permissions of dataDir and dataLogDir"
        ),
    }
}

fn in_words(interval: Duration) -> String {
    const UNITS: [(u128, &str); 4] =
        [(86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let ms = interval.as_millis();
    let unit = UNITS.into_iter().find(|(unit_ms, _)| ms >= *unit_ms && ms.is_multiple_of(*unit_ms));
    unit.map_or_else(|| format!("{ms} ms"), |(unit_ms, name)| format!("{} {name}", ms / unit_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(is_default: bool, going: usize) -> PurgeForecast {
        let part = |all| Part { going, all, bytes: 100 * going as u64 };
        let purge = Purge { interval_ms: 3_600_000, snapshots_kept: 3, is_default };
        PurgeForecast { purge, snapshots: part(6), logs: part(7) }
    }

    #[test]
    fn the_line_says_what_goes_when_and_how_to_keep_it() {
        let surprising = forecast(true, 3);
        assert!(surprising.is_surprising());
        assert_eq!(
            surprising.to_string(),
            "the first purge, 1 h after the start, will delete 3 of 6 snapshots and 3 of 7 logs (600 bytes); the \
             newest 3 snapshots and the logs after them are kept. autopurge.purgeInterval is not set: Apache would \
             keep all files; set it to 0 to keep them"
        );
        assert!(!forecast(true, 0).is_surprising() && !forecast(false, 3).is_surprising());
        assert_eq!(
            forecast(false, 0).to_string(),
            "old snapshots and logs are deleted every 1 h; nothing to delete now; the newest 3 snapshots and the \
             logs after them are kept"
        );
    }

    #[test]
    fn intervals_have_the_largest_unit_that_fits() {
        let shown = [500, 90_000, 120_000, 3_600_000, 172_800_000]
            .map(|ms| in_words(Duration::from_millis(ms)));
        assert_eq!(shown, ["500 ms", "90 s", "2 min", "1 h", "2 days"]);
    }
}

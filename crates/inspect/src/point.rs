//! Builds the state as of a point in time from an archive, for `restore --at` and `backup --at`.
//!
//! In: a point (a zxid, a time, or `latest`) and the directory of one history, as `herdsman.archiveDir` or any copy of
//! a server's logs and snapshots has it. Out: the tree as of that point, or the reason why it cannot be built. Nothing
//! is changed. What a time stands for is defined in [`herdsman_store::archive`].

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use herdsman_proto::Zxid;
use herdsman_store::archive::{TimeCut, TxnPoint, last_txn_point, survey};
use herdsman_store::names::{LogName, SnapshotName};
use herdsman_store::{Dirs, Progress, RealDisk, RecoverOptions, load_as_of};

use crate::console::Console;
use crate::inspect::time::{parse_moment, parse_zxid};
use crate::location::VERSION_DIR;
use crate::progress::Meter;
use crate::show::time_text;
use crate::snapshot_file::{LoadedSnapshot, tree_options};

/// A point in time, and the archive that it is in.
#[derive(Args, Clone, Debug)]
pub(crate) struct PointArguments {
    /// Use the state as of this point: 0x and a zxid, a time such as 2026-11-15T19:37:46Z, a duration before now such
    /// as 90m, or latest.
    #[arg(long, value_name = "POINT", value_parser = parse_point, requires = "from")]
    at: Option<Point>,
    /// The archive: a directory with the logs and snapshots of one history.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Start from this snapshot, such as a backup, and not from one in the archive.
    #[arg(long, value_name = "FILE", requires = "at")]
    base: Option<PathBuf>,
}

/// A point in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Txn(Zxid),
    Time(i64),
    Latest,
}

fn parse_point(text: &str) -> Result<Point, String> {
    if text == "latest" {
        return Ok(Point::Latest);
    }
    if text.starts_with("0x") || text.starts_with("0X") {
        return parse_zxid(text).map(Point::Txn);
    }
    let expected = |_| {
        "0x and a zxid, latest, or a time such as 2026-11-15, 2026-11-15T19:37:46Z, or 90m for 90 minutes ago"
            .to_owned()
    };
    parse_moment(text).map(Point::Time).map_err(expected)
}

impl fmt::Display for PointArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(Point::Txn(zxid)) => write!(f, "txn {zxid}")?,
            Some(Point::Time(ms)) => write!(f, "{}", time_text(ms))?,
            Some(Point::Latest) | None => write!(f, "the latest point")?,
        }
        match &self.from {
            Some(from) => write!(f, " of {}", from.display()),
            None => Ok(()),
        }
    }
}

impl PointArguments {
    /// Whether an archive was given.
    pub(crate) fn is_archive(&self) -> bool {
        self.from.is_some()
    }

    /// The directories of histories at or below the given one.
    pub(crate) fn histories(&self) -> Result<Vec<PathBuf>> {
        let from = self.from.as_deref().context("give the archive with --from")?;
        let found = histories(from).with_context(|| format!("cannot read {}", from.display()))?;
        if found.is_empty() {
            bail!("{} has no logs or snapshots, and no history-1/{VERSION_DIR}", from.display());
        }
        Ok(found)
    }

    /// Builds the tree as of the point.
    pub(crate) fn load(&self, console: &mut Console<'_>) -> Result<LoadedSnapshot> {
        let Some(at) = self.at else {
            bail!("give a point with --at, or list the points of the archive with --list");
        };
        let dir = self.history()?;
        let zxid = match at {
            Point::Txn(zxid) => zxid,
            Point::Latest => latest(&dir)?.zxid,
            Point::Time(ms) => txn_at(&dir, ms, console)?.zxid,
        };
        let dirs = Dirs { data: dir.clone(), log: dir };
        // A digest that does not match means that txns are missing, or are of another history.
        let options = RecoverOptions { tree: tree_options(), ..RecoverOptions::default() };
        let mut meter = Meter::of_bytes(console, "reading the archive", 0);
        let mut progress = |progress: Progress<'_>| {
            if let Progress::Snapshot { bytes, .. } = progress {
                meter.set(bytes);
            }
        };
        let base = self.base.as_deref();
        let loaded = load_as_of(&RealDisk, &dirs, zxid, base, &options, &mut progress)?;
        drop(meter);
        for damaged in &loaded.damaged_snapshots {
            console.note(format_args!("{damaged}; an older one was used, nothing is missing"));
        }
        Ok(LoadedSnapshot::of_tree(loaded.tree))
    }

    /// The directory of the one history that is meant.
    fn history(&self) -> Result<PathBuf> {
        let found = self.histories()?;
        let [dir] = &found[..] else {
            let dirs: Vec<String> = found.iter().map(|dir| dir.display().to_string()).collect();
            bail!(
                "there are {} histories, and zxids of one mean nothing in another: give one of them with --from (--list shows what they hold): {}",
                found.len(),
                dirs.join(", ")
            );
        };
        Ok(dir.clone())
    }
}

/// Finds directories with logs or snapshots: this one, its `version-2`, or the `version-2` of directories up to two
/// levels down.
fn histories(from: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if has_files(from)? {
        return Ok(vec![from.to_owned()]);
    }
    let mut rest = vec![(from.to_owned(), 0)];
    while let Some((dir, depth)) = rest.pop() {
        let below = dir.join(VERSION_DIR);
        if below.is_dir() {
            if has_files(&below)? {
                found.push(below);
            }
            continue;
        }
        if depth == 2 {
            continue;
        }
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                rest.push((entry.path(), depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn has_files(dir: &Path) -> std::io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let is_file =
            |name: &str| LogName::parse(name).is_some() || SnapshotName::parse(name).is_some();
        if name.to_str().is_some_and(is_file) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The last txn in the logs.
fn latest(dir: &Path) -> Result<TxnPoint> {
    let last = last_txn_point(&RealDisk, dir);
    let last = last.with_context(|| format!("cannot read {}", dir.display()))?;
    last.with_context(|| format!("{} has no txn logs", dir.display()))
}

/// The last txn before the first one whose time is later.
fn txn_at(dir: &Path, ms: i64, console: &mut Console<'_>) -> Result<TxnPoint> {
    let found = survey(&RealDisk, dir, Some(ms));
    let found = found.with_context(|| format!("cannot read {}", dir.display()))?;
    let Some(end) = found.last() else {
        bail!("{} has no txn logs", dir.display());
    };
    let Some(TimeCut { last, next, is_in_hole, clock_went_back }) = found.cut else {
        bail!(
            "no txn in the archive is later than {}: it ends with {}. --at latest uses that one",
            time_text(ms),
            txn_text(end)
        );
    };
    let Some(last) = last else {
        bail!("{} is before the first txn in the archive, {}", time_text(ms), txn_text(next));
    };
    if is_in_hole {
        bail!(
            "txns are missing in the archive at {}: between {} and {}",
            time_text(ms),
            txn_text(last),
            txn_text(next)
        );
    }
    console.note(format_args!(
        "the last txn at {} is {}; the next one is {}",
        time_text(ms),
        txn_text(last),
        txn_text(next)
    ));
    if clock_went_back {
        console.note(
            "a clock went back: later txns have times before the given one, and are not included. To include them, give the zxid of the last one",
        );
    }
    Ok(last)
}

/// A txn with its time.
pub(crate) fn txn_text(txn: TxnPoint) -> String {
    format!("txn {} of {}", txn.zxid, time_text(txn.time_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read() {
        assert_eq!(parse_point("latest"), Ok(Point::Latest));
        assert_eq!(parse_point("0x100000002"), Ok(Point::Txn(Zxid(0x1_0000_0002))));
        assert_eq!(parse_point("1970-01-02T00:00:00Z"), Ok(Point::Time(86_400_000)));
        assert!(parse_point("17").unwrap_err().contains("0x and a zxid"));
        assert!(parse_point("0xg").is_err());
    }
}

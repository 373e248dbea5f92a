//! Replays the whole history on disk and compares the tree's digest with every recorded
//! digest.
//!
//! In: the snapshots that can be used and the logs. Out: findings. Replay starts from the *oldest*
//! snapshot, not from the newest as a server's start does, so that every txn with a digest is compared
//! and every later snapshot is compared with what the log makes of the one before it. Where txns are
//! missing it continues from the next snapshot after the gap.

use std::path::Path;

use anyhow::Result;
use herdsman_proto::Zxid;
use herdsman_proto::txn::{Entry, TxnDigest};
use herdsman_store::Dirs;
use herdsman_store::names::LogName;
use herdsman_tree::Tree;

use super::Verdict;
use super::snapshot::GoodSnapshot;
use crate::console::Console;
use crate::log_file::{LogItem, read_log};
use crate::progress::Meter;
use crate::show::counted;
use crate::snapshot_file::{read_parts, tree_options};

/// The maximum number of listed mismatches.
const MISMATCHES_LISTED_MAX: usize = 10;

/// Replays, and reports mismatches.
pub(super) fn verify_digests(
    dirs: &Dirs,
    snapshots: &[GoodSnapshot],
    logs: &[LogName],
    verdict: &mut Verdict,
    console: &Console<'_>,
) -> Result<()> {
    let mut replay = Replay::new(dirs, snapshots);
    let paths: Vec<_> = logs.iter().map(|log| log.path(&dirs.log)).collect();
    let size = |path: &std::path::PathBuf| std::fs::metadata(path).map_or(0, |data| data.len());
    let mut meter = Meter::of_bytes(console, "replaying", paths.iter().map(size).sum());
    if let Some(first) = snapshots.first() {
        replay.start_from(*first)?;
    }
    let mut done = 0;
    for path in &paths {
        let totals = read_log(path, &mut |piece| {
            if let LogItem::Txn { entry, offset } = piece {
                meter.set(done + offset);
                replay.txn(entry)?;
            }
            Ok(())
        })?;
        done += totals.file_bytes;
    }
    replay.report(verdict);
    Ok(())
}

struct Replay<'a> {
    dirs: &'a Dirs,
    snapshots: &'a [GoodSnapshot],
    /// The tree, and the txn up to which it may be ahead of the log.
    state: Option<(Tree, Zxid)>,
    /// There is a gap that no snapshot covers.
    is_lost: bool,
    txns: u64,
    compared: u64,
    snapshots_compared: u64,
    mismatches: Vec<String>,
    mismatches_more: u64,
    holes: Vec<(Zxid, Zxid, Option<Zxid>)>,
    /// The txns before and after the first new epoch since the last digest that matched: zxids do not show a hole
    /// between them.
    new_epoch: Option<(Zxid, Zxid)>,
}

impl<'a> Replay<'a> {
    fn new(dirs: &'a Dirs, snapshots: &'a [GoodSnapshot]) -> Self {
        Replay {
            dirs,
            snapshots,
            state: None,
            is_lost: false,
            txns: 0,
            compared: 0,
            snapshots_compared: 0,
            mismatches: Vec::new(),
            mismatches_more: 0,
            holes: Vec::new(),
            new_epoch: None,
        }
    }

    /// Starts from the tree of a snapshot, as of the txn that names it.
    fn start_from(&mut self, snapshot: GoodSnapshot) -> Result<()> {
        let path = snapshot.name.path(&self.dirs.data);
        self.state = Some(load_named(&path, snapshot.name.zxid)?);
        Ok(())
    }

    fn txn(&mut self, entry: &Entry) -> Result<()> {
        let zxid = entry.header.zxid;
        if self.is_lost {
            return Ok(());
        }
        let Some((tree, _)) = &self.state else {
            return self.first_txn(entry);
        };
        let last = tree.last_zxid();
        if zxid <= last {
            return Ok(());
        }
        if !last.is_continued_by(zxid) {
            self.step_over_gap(last, zxid)?;
            return self.txn_again(entry);
        }
        self.apply(entry);
        Ok(())
    }

    /// Without any snapshot, the log must start at the very beginning.
    fn first_txn(&mut self, entry: &Entry) -> Result<()> {
        self.is_lost = entry.header.zxid.counter() != 1;
        if !self.is_lost {
            self.state = Some((Tree::new(tree_options()), Zxid::ZERO));
            self.apply(entry);
        }
        Ok(())
    }

    /// Continues from the first snapshot after a gap.
    fn step_over_gap(&mut self, last: Zxid, next: Zxid) -> Result<()> {
        let bridges = |snapshot: &&GoodSnapshot| {
            let zxid = snapshot.name.zxid;
            zxid > last && (zxid >= next || zxid.is_continued_by(next))
        };
        let bridge = self.snapshots.iter().find(bridges).copied();
        self.holes.push((last, next, bridge.map(|snapshot| snapshot.name.zxid)));
        match bridge {
            Some(snapshot) => self.start_from(snapshot),
            None => {
                self.is_lost = true;
                Ok(())
            }
        }
    }

    /// Applies the txn after a gap to the tree of the snapshot that covers the gap.
    fn txn_again(&mut self, entry: &Entry) -> Result<()> {
        let last = self.state.as_ref().map(|(tree, _)| tree.last_zxid());
        match last {
            Some(last) if !self.is_lost && last.is_continued_by(entry.header.zxid) => {
                self.apply(entry);
            }
            _ => {}
        }
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) {
        let Some((tree, fuzzy_until)) = &mut self.state else {
            return;
        };
        let last = tree.last_zxid();
        if last > Zxid::ZERO && entry.header.zxid.epoch() > last.epoch() {
            self.new_epoch.get_or_insert((last, entry.header.zxid));
        }
        tree.replay(entry);
        self.txns += 1;
        let (zxid, found) = (tree.last_zxid(), tree.digest());
        if zxid < *fuzzy_until {
            return;
        }
        let digest = entry.digest.filter(|digest| digest.version == TxnDigest::VERSION);
        if let Some(digest) = digest {
            self.compared += 1;
            self.compare("the txn", zxid, digest.tree_digest, found);
        }
        let witnesses = self.snapshots.iter().filter_map(|snapshot| snapshot.trailer.digest);
        for digest in
            witnesses.filter(|digest| digest.zxid == zxid && digest.version == TxnDigest::VERSION)
        {
            self.snapshots_compared += 1;
            self.compare("the snapshot", zxid, digest.digest, found);
        }
    }

    fn compare(&mut self, whose: &str, zxid: Zxid, expected: i64, found: i64) {
        if expected == found {
            self.new_epoch = None;
            return;
        }
        if self.mismatches.len() == MISMATCHES_LISTED_MAX {
            self.mismatches_more += 1;
            return;
        }
        let text = format!("after txn {zxid} {whose} says {expected}, replay gives {found}");
        self.mismatches.push(text);
    }

    fn report(&self, verdict: &mut Verdict) {
        for (last, next, bridge) in &self.holes {
            let text = format!("txns are missing between {last} and {next}");
            match bridge {
                Some(zxid) => {
                    verdict.note("replay", format!("{text}; snapshot {zxid} covers them"));
                }
                None => verdict.problem(
                    "replay",
                    format!("{text}, and no snapshot covers them: what follows cannot be used"),
                ),
            }
        }
        if let Some((last, next)) = self.new_epoch {
            verdict.note(
                "epochs",
                format!("no digest after txn {next} shows that nothing is missing between it and {last}: zxids start again in a new epoch"),
            );
        }
        for text in &self.mismatches {
            verdict.problem("digests", text);
        }
        if self.mismatches_more > 0 {
            verdict
                .problem("digests", format!("and {} more that do not match", self.mismatches_more));
        }
        let text = format!(
            "{} replayed; compared with the digests of {} and {}",
            counted(self.txns, "txn"),
            counted(self.compared, "txn"),
            counted(self.snapshots_compared, "snapshot")
        );
        if self.mismatches.is_empty() && self.compared > 0 {
            verdict.ok("digests", text);
        } else {
            verdict.note("digests", text);
        }
    }
}

/// Loads a snapshot as of the txn that names it. Also returns the txn up to which it may be ahead of the log.
fn load_named(path: &Path, zxid: Zxid) -> Result<(Tree, Zxid)> {
    let mut loader = herdsman_tree::Loader::new(tree_options());
    let summary = read_parts(path, &mut loader, &mut |_| {})?;
    let fuzzy_until = summary.trailer.fuzzy_until(zxid).max(loader.newest_effect());
    Ok((loader.finish(zxid)?, fuzzy_until))
}

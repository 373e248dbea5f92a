//! Verifies a whole data directory: each file, all of them together, and what a server
//! that starts from it would report.

use anyhow::{Context, Result};
use herdsman_proto::Zxid;
use herdsman_store::names::{GUARD, INSTALLING, TEMPORARY, list_logs, list_snapshots};
use herdsman_store::recover::{RecoveryPlan, load};
use herdsman_store::{
    Disk, EpochFile, OnDigestMismatch, RealDisk, RecoverError, RecoverOptions, Recovered,
    copied_epoch, read_epoch, replace, voting,
};

use super::Verdict;
use super::log::{LogCheck, check_log};
use super::replay::verify_digests;
use super::snapshot::verify_snapshot;
use crate::console::Console;
use crate::location::Location;
use crate::snapshot_file::tree_options;

/// The description of a file that was being written when its writer was stopped.
const UNFINISHED: &str = "is unfinished; it is not read, and the next start removes it";

/// The options for loading a directory that is only inspected.
pub(crate) fn load_options() -> RecoverOptions {
    let on_mismatch = OnDigestMismatch::Report;
    RecoverOptions { tree: tree_options(), on_mismatch, ..RecoverOptions::default() }
}

/// Verifies everything. `missing_log` says why the logs must be elsewhere; then it is not known what a server would
/// start with.
pub(crate) fn verify_data_dir(
    location: &Location,
    missing_log: Option<String>,
    verdict: &mut Verdict,
    console: &Console<'_>,
) -> Result<()> {
    let dirs = &location.dirs;
    let cannot_list = |dir: &std::path::Path| format!("cannot list {}", dir.display());
    let names = list_snapshots(&RealDisk, &dirs.data).with_context(|| cannot_list(&dirs.data))?;
    let logs = list_logs(&RealDisk, &dirs.log).with_context(|| cannot_list(&dirs.log))?;
    let mut snapshots = Vec::new();
    for name in &names {
        match verify_snapshot(&name.path(&dirs.data), verdict, console) {
            Ok(good) => snapshots.extend(good),
            // In a data directory, a file with a snapshot's name counts as a snapshot, whatever its content.
            Err(error) => verdict.problem(&name.file_name(), format!("{error:#}")),
        }
    }
    let mut checks: Vec<LogCheck> = Vec::new();
    for log in &logs {
        let before = checks.iter().rev().find_map(|check| check.totals.last);
        match check_log(&log.path(&dirs.log), before, console) {
            Ok(check) => checks.push(check),
            Err(error) => verdict.problem(&log.file_name(), format!("{error:#}")),
        }
    }
    let covered = snapshots.last().map_or(Zxid::ZERO, |snapshot| snapshot.name.zxid);
    for (index, check) in checks.iter().enumerate() {
        check.report(checks.get(index + 1), covered, verdict);
    }
    if checks.len() == logs.len() {
        verify_digests(dirs, &snapshots, &logs, verdict, console)?;
    }
    let is_pending = report_leftovers(location, verdict)?;
    if let Some(reason) = voting::suspended(&RealDisk, dirs)? {
        verdict.note(voting::SUSPENDED_FILE, format!("the server does not vote: {reason}"));
    }
    let last = match missing_log {
        Some(reason) => {
            verdict.problem("logs", reason);
            None
        }
        None => report_start(load(&RealDisk, dirs, &load_options(), &mut |_| {}), verdict),
    };
    // Epochs of a state that is being replaced say nothing about the new one.
    if !is_pending {
        report_epochs(location, last, verdict);
    }
    Ok(())
}

/// Reports the result of a server's start. Returns the last txn.
fn report_start(
    loaded: Result<(Recovered, RecoveryPlan), RecoverError>,
    verdict: &mut Verdict,
) -> Option<Zxid> {
    match loaded {
        Ok((recovered, _)) if recovered.fresh => {
            verdict.note("start", "no files: a server would start empty");
            None
        }
        Ok((recovered, _)) => {
            let last = recovered.tree.last_zxid();
            let nodes = recovered.tree.node_count();
            if let Some(mismatch) = recovered.digest_mismatch.filter(|it| it.healed_by.is_none()) {
                verdict.problem("start", format!("a server refuses to start: {mismatch}"));
                return Some(last);
            }
            verdict.ok("start", format!("a server starts with {nodes} znodes as of txn {last}"));
            Some(last)
        }
        Err(error) => {
            verdict.problem("start", format!("a server refuses to start: {error}"));
            None
        }
    }
}

/// Reports files that a crash has left. Returns whether a new tree is replacing all other files.
fn report_leftovers(location: &Location, verdict: &mut Verdict) -> Result<bool> {
    let dirs = &location.dirs;
    let is_pending = !matches!(replace::pending(&RealDisk, dirs), Ok(None));
    for entry in RealDisk.list(&dirs.data)? {
        if entry.name.starts_with(TEMPORARY) || (entry.name.starts_with(INSTALLING) && !is_pending)
        {
            verdict.note(&entry.name, UNFINISHED);
        } else if entry.name.starts_with(INSTALLING) {
            verdict.note(
                &entry.name,
                "a leader's tree or a restore is replacing all other files; the next start finishes this",
            );
        }
    }
    let logs = RealDisk.list(&dirs.log)?;
    if dirs.log != dirs.data {
        for entry in logs.iter().filter(|entry| entry.name.starts_with(TEMPORARY)) {
            verdict.note(&entry.name, UNFINISHED);
        }
    }
    if logs.iter().any(|entry| entry.name == GUARD) {
        verdict.note(GUARD, "is not a log: it keeps Apache from starting until a restore is finished or abandoned, and the next start of Herdsman removes it");
    }
    Ok(is_pending)
}

/// Reports the two epoch files, which only members of an ensemble have.
fn report_epochs(location: &Location, last: Option<Zxid>, verdict: &mut Verdict) {
    let data = &location.dirs.data;
    let mut read =
        |file| match (read_epoch(&RealDisk, data, file), copied_epoch(&RealDisk, data, file)) {
            (Ok(epoch), _) => epoch,
            (Err(error), Some(copy)) => {
                verdict.problem(
                    "epochs",
                    format!(
                        "{error}. It has a copy, {copy}, from which the next start restores it"
                    ),
                );
                None
            }
            (Err(error), None) => {
                verdict.problem("epochs", error.to_string());
                None
            }
        };
    let (current, accepted) = (read(EpochFile::Current), read(EpochFile::Accepted));
    let (Some(current), Some(accepted)) = (current, accepted) else {
        return;
    };
    let of_log = last.map_or(0, Zxid::epoch);
    if accepted < current {
        verdict.problem(
            "epochs",
            format!("acceptedEpoch says {accepted}, less than currentEpoch, which says {current}"),
        );
    } else if of_log > accepted {
        verdict.problem(
            "epochs",
            format!("the last txn is of epoch {of_log}, but acceptedEpoch says {accepted}: the epoch files are older than the log"),
        );
    } else {
        verdict.ok("epochs", format!("currentEpoch {current}, acceptedEpoch {accepted}"));
    }
}

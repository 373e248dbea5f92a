//! Finds out what a server that starts from a directory would refuse, and which repair helps.

use anyhow::Result;
use herdsman_proto::Zxid;
use herdsman_store::log::walk::{LogEnd, TrailingBytes};
use herdsman_store::names::list_logs;
use herdsman_store::recover::{RecoveryPlan, load};
use herdsman_store::{RealDisk, RecoverError, Recovered};

use crate::console::{Console, Outcome};
use crate::location::Location;
use crate::show::clean;
use crate::verify::data_dir::load_options;

/// The result of loading a directory as a server would.
pub(super) struct Diagnosis {
    pub(super) loaded: Result<(Recovered, RecoveryPlan), RecoverError>,
    /// The logs seem to begin with the very first txn, so no snapshot is needed.
    pub(super) logs_are_complete: bool,
}

impl Diagnosis {
    pub(super) fn of(location: &Location) -> Self {
        Diagnosis {
            loaded: load(&RealDisk, &location.dirs, &load_options(), &mut |_| {}),
            logs_are_complete: logs_are_complete(location),
        }
    }

    /// Prints the problems, and the commands that would repair them.
    pub(super) fn print(&self, location: &Location, console: &mut Console<'_>) -> Result<Outcome> {
        let command = |action: &str| {
            let mut command = format!("herdsman repair {}", shell_quoted(location));
            command.push(' ');
            command.push_str(action);
            command
        };
        let findings = self.findings();
        if findings.is_empty() {
            console.print(self.sound_text())?;
            console.print(
                "Nothing needs to be repaired. For a closer check, run herdsman inspect data-dir --verify",
            )?;
            return Ok(Outcome::Sound);
        }
        for Finding { what, offers } in &findings {
            console.print(what)?;
            for (action, effect) in offers {
                console.print(format_args!("\n  {}\n      {effect}", command(action)))?;
            }
        }
        console.print("\nNothing was changed")?;
        Ok(Outcome::Problems)
    }

    fn sound_text(&self) -> String {
        match &self.loaded {
            Ok((recovered, _)) if recovered.fresh => {
                "There are no snapshots and no logs: a server starts empty".to_owned()
            }
            Ok((recovered, _)) => format!(
                "A server starts from this with {} znodes as of txn {}",
                recovered.tree.node_count(),
                recovered.tree.last_zxid()
            ),
            Err(error) => error.to_string(),
        }
    }

    fn findings(&self) -> Vec<Finding> {
        match &self.loaded {
            Ok((recovered, plan)) => {
                let findings =
                    [torn(&plan.log), damaged_snapshots(recovered), wrong_digest(recovered)];
                findings.into_iter().flatten().collect()
            }
            Err(error) => vec![self.refusal(error)],
        }
    }

    /// The reason why a server would refuse to start.
    fn refusal(&self, error: &RecoverError) -> Finding {
        let what = format!("A server refuses to start from this: {error}");
        let offers = match error {
            RecoverError::Log { source, .. } => {
                source.last_good().map(loss_offers).unwrap_or_default()
            }
            RecoverError::LogLost { last, .. } => vec![(
                "--accept-loss".to_owned(),
                format!("continues without the txns after {last}: they are lost"),
            )],
            RecoverError::LogTooShort { last, .. } => vec![(
                "--accept-loss".to_owned(),
                format!(
                    "continues with the snapshot as it is. Txns after {last} that it contains only in part are lost in part"
                ),
            )],
            RecoverError::NoSnapshot { .. } | RecoverError::SnapshotsDamaged { .. }
                if self.logs_are_complete =>
            {
                vec![(
                    "--rebuild-snapshot".to_owned(),
                    "writes a snapshot from the logs alone: they go back to the first txn"
                        .to_owned(),
                )]
            }
            _ => Vec::new(),
        };
        let what = if offers.is_empty() { format!("{what}\nNo repair can help") } else { what };
        Finding { what, offers }
    }
}

/// A problem and the possible repairs: each action with its effect.
struct Finding {
    what: String,
    offers: Vec<(String, String)>,
}

fn torn(walked: &LogEnd) -> Option<Finding> {
    let is_torn = walked.tail.as_ref().is_some_and(|tail| tail.rest == TrailingBytes::Torn);
    if !is_torn && walked.empty.is_empty() {
        return None;
    }
    let what = match walked.tail.as_ref().filter(|_| is_torn) {
        Some(tail) => format!(
            "{} ends at offset {} with a write that was never completed. The next start of a server cuts it off by itself",
            tail.name.file_name(),
            tail.good_bytes
        ),
        None => {
            "The log ends with a file without txns. The next start of a server removes it by itself"
                .to_owned()
        }
    };
    let effect = format!(
        "does the same now; txn {} stays the last one, and nothing is lost",
        walked.last_zxid
    );
    Some(Finding { what, offers: vec![("--cut-torn-tail".to_owned(), effect)] })
}

fn damaged_snapshots(recovered: &Recovered) -> Option<Finding> {
    if recovered.damaged_snapshots.is_empty() {
        return None;
    }
    let errors: Vec<String> =
        recovered.damaged_snapshots.iter().map(|error| clean(&error.to_string())).collect();
    let what =
        format!("{}. A server starts from an older one and loses nothing", errors.join("; "));
    let last = recovered.tree.last_zxid();
    let effect = format!(
        "writes snapshot {last} from the older one and the logs, and removes the damaged ones"
    );
    Some(Finding { what, offers: vec![("--rebuild-snapshot".to_owned(), effect)] })
}

/// A tree whose digest is not the one in the files.
fn wrong_digest(recovered: &Recovered) -> Option<Finding> {
    let mismatch = recovered.digest_mismatch?;
    let used = recovered.snapshot.as_ref().filter(|used| used.name.zxid == mismatch.zxid);
    let Some(snapshot) = used else {
        if mismatch.healed_by.is_some() {
            return None;
        }
        let what = format!(
            "A server refuses to start from this: {mismatch}. Txns are missing before it. No repair can help: restore a backup, or let the server take everything from the leader of its ensemble"
        );
        return Some(Finding { what, offers: Vec::new() });
    };
    let what = format!(
        "{} records digest {:x}, but its znodes have digest {:x}. {}",
        snapshot.name.file_name(),
        mismatch.expected,
        mismatch.found,
        match mismatch.healed_by {
            Some(_) => "A server starts from it, since the digests of later txns fit",
            None => "A server refuses to start from it",
        }
    );
    let effect = "writes a new one from an older one that you trust (herdsman inspect data-dir --verify shows which are valid) and the logs";
    Some(Finding { what, offers: vec![("--rebuild-snapshot=OLDER".to_owned(), effect.to_owned())] })
}

fn loss_offers(last_good: Zxid) -> Vec<(String, String)> {
    vec![
        (
            "--from DIR".to_owned(),
            "takes the txns that are damaged or missing from another member's files, or from a copy of these. Nothing is lost".to_owned(),
        ),
        (
            "--accept-loss".to_owned(),
            format!("goes back to txn {last_good}: all later txns are given up. The result is a state that existed"),
        ),
        (
            "--accept-loss=damaged-only".to_owned(),
            "gives up only the txns that are damaged or missing and keeps later ones. More is kept, but as a state that never existed; clients may see inconsistent data".to_owned(),
        ),
    ]
}

/// Whether the first log starts at a server's very first txn: counter 1 of the epoch of a standalone server or of
/// an ensemble's first leader. A later epoch also starts with 1, but then earlier ones are missing.
fn logs_are_complete(location: &Location) -> bool {
    let logs = list_logs(&RealDisk, &location.dirs.log).unwrap_or_default();
    logs.first().is_some_and(|log| log.zxid.counter() == 1 && log.zxid.epoch() <= 1)
}

/// The directories as quoted arguments for a shell.
fn shell_quoted(location: &Location) -> String {
    let quote = |path: &std::path::Path| {
        let text = path.display().to_string();
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
        if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
    };
    let mut text = quote(&location.data_dir);
    if location.log_dir != location.data_dir {
        text.push_str(&format!(" --log-dir {}", quote(&location.log_dir)));
    }
    text
}

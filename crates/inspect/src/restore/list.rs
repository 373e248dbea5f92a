//! `restore --list`: the points that can be restored from an archive.
//!
//! Each log and each snapshot is read to its end, so what is listed can be read, at least now.

use std::path::Path;

use anyhow::{Context, Result};
use herdsman_proto::Zxid;
use herdsman_store::RealDisk;
use herdsman_store::archive::{Span, Survey, fuzzy_end, survey};

use crate::console::{Console, Outcome};
use crate::point::{PointArguments, txn_text};
use crate::show::{clean, counted};

impl PointArguments {
    /// Lists the points of every history. Damage and holes are problems.
    pub(super) fn list(&self, console: &mut Console<'_>) -> Result<Outcome> {
        let mut outcome = Outcome::Sound;
        for dir in self.histories()? {
            if list_history(&dir, console)? == Outcome::Problems {
                outcome = Outcome::Problems;
            }
        }
        Ok(outcome)
    }
}

fn list_history(dir: &Path, console: &mut Console<'_>) -> Result<Outcome> {
    let found = survey(&RealDisk, dir, None);
    let found = found.with_context(|| format!("cannot read {}", dir.display()))?;
    let (ends, damaged) = read_snapshots(dir, &found);
    console.print(format_args!(
        "{}: {}, {}",
        clean(&dir.display().to_string()),
        counted(found.spans.iter().map(|span| span.txns).sum(), "txn"),
        counted(found.snapshots.len() as u64, "snapshot"),
    ))?;
    let mut holes = found.holes();
    for span in &found.spans {
        console.print(span_text(&found, span, &ends))?;
        if let Some(hole) = holes.next() {
            console.print(format_args!(
                "  missing  txns between {} and {}",
                txn_text(hole.after),
                txn_text(hole.before)
            ))?;
        }
    }
    let files = found.damaged.iter().map(|(path, why)| format!("{}: {why}", path.display()));
    let files: Vec<String> = files.chain(damaged).collect();
    for file in &files {
        console.print(format_args!("  damaged  {}", clean(file)))?;
    }
    let is_whole = files.is_empty() && found.spans.len() <= 1;
    Ok(if is_whole { Outcome::Sound } else { Outcome::Problems })
}

/// The last txn of which each intact snapshot shows an effect, and what is wrong with the others.
fn read_snapshots(dir: &Path, found: &Survey) -> (Vec<Zxid>, Vec<String>) {
    let (mut ends, mut damaged) = (Vec::new(), Vec::new());
    for &name in &found.snapshots {
        match fuzzy_end(&RealDisk, dir, name) {
            Ok(end) => ends.extend(end),
            Err(error) => damaged.push(error.to_string()),
        }
    }
    (ends, damaged)
}

fn span_text(found: &Survey, span: &Span, ends: &[Zxid]) -> String {
    let last = txn_text(span.last);
    match found.first_point(span, ends) {
        Some(first) if first < span.first.zxid => {
            format!("  points   from txn {first}, before {}, to {last}", txn_text(span.first))
        }
        Some(first) => format!("  points   from txn {first} to {last}"),
        None => format!(
            "  no point from {} to {last}: there is no snapshot to start from",
            txn_text(span.first)
        ),
    }
}

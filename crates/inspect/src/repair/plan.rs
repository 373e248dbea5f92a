//! The plan of a repair, made before anything is changed.
//!
//! In: the requested action and the files. Out: a [`RepairPlan`], which can be printed and carried out.
//! Steps are ordered so that a crash between two of them leaves a directory that a server either starts
//! from with the same state or refuses, and that can be repaired again.

use anyhow::Result;
use herdsman_store::log::walk::{LogTail, TrailingBytes};
use herdsman_store::{RecoverError, Recovered};

use super::diagnosis::Diagnosis;
use super::loss::{accept_damaged_only, accept_later, accept_short_log};
use super::rebuild::{rebuild_from, rebuild_snapshot};
use super::steps::RepairStep;
use super::{Action, Loss};
use crate::console::Console;
use crate::location::Location;

/// The maximum number of lost txns that are listed.
const LOST_LISTED_MAX: usize = 50;

/// The steps of a repair and their consequences.
#[derive(Default)]
pub(super) struct RepairPlan {
    pub(super) steps: Vec<RepairStep>,
    /// What is lost, a line each.
    pub(super) lost: Vec<String>,
    /// Printed if there is nothing to do.
    pub(super) remark: String,
}

impl RepairPlan {
    /// Makes a plan. Fails if the requested action is not possible here.
    pub(super) fn make(action: &Action, location: &Location) -> Result<Self> {
        let diagnosis = Diagnosis::of(location);
        match action {
            Action::CutTornTail => cut_torn_tail(diagnosis, location),
            Action::RebuildSnapshot => rebuild_snapshot(diagnosis, location),
            Action::RebuildSnapshotFrom(older) => rebuild_from(older, location),
            Action::AcceptLoss(loss) => accept_loss(diagnosis, *loss, location),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub(super) fn print(&self, console: &mut Console<'_>) -> Result<()> {
        if self.is_empty() {
            return console.print(&self.remark);
        }
        console.print("What will be done:")?;
        for step in &self.steps {
            console.print(format_args!("  {step}"))?;
        }
        if self.lost.is_empty() {
            return console.print("No txn is lost");
        }
        console.print("What is lost:")?;
        for line in self.lost.iter().take(LOST_LISTED_MAX) {
            console.print(format_args!("  {line}"))?;
        }
        match self.lost.len().saturating_sub(LOST_LISTED_MAX) {
            0 => Ok(()),
            more => console.print(format_args!(
                "  and {more} more: herdsman inspect log shows them, here and later in the backup"
            )),
        }
    }
}

fn cut_torn_tail(diagnosis: Diagnosis, location: &Location) -> Result<RepairPlan> {
    let (_, start) = diagnosis.loaded.map_err(|error| not_first(&error))?;
    let walked = start.log;
    let mut plan = RepairPlan {
        remark: "There is no torn tail: nothing to do".to_owned(),
        ..RepairPlan::default()
    };
    let tails =
        walked.tail.iter().filter(|tail| tail.rest == TrailingBytes::Torn).chain(&walked.empty);
    plan.steps.extend(tails.map(|tail| end_after_records(tail, location)));
    Ok(plan)
}

/// Cuts a file after its last record; removes a file without records.
#[expect(clippy::single_range_in_vec_init, reason = "one part is kept, and it is a range")]
pub(super) fn end_after_records(tail: &LogTail, location: &Location) -> RepairStep {
    let path = tail.name.path(&location.dirs.log);
    if tail.records == 0 {
        return RepairStep::Remove { path, why: "it has no txns".to_owned() };
    }
    RepairStep::Rewrite { path, kept: vec![herdsman_store::log::HEADER_BYTES..tail.good_bytes] }
}

/// The error for a repair that another one has to precede.
pub(super) fn not_first(error: &RecoverError) -> anyhow::Error {
    anyhow::anyhow!(
        "this repair does not help here. Run the command without an action to see which one would. {error}. Nothing was changed"
    )
}

fn accept_loss(diagnosis: Diagnosis, loss: Loss, location: &Location) -> Result<RepairPlan> {
    let error = match diagnosis.loaded {
        Ok((recovered, _)) => return Ok(nothing_lost(&recovered)),
        Err(error) => error,
    };
    match (&error, loss) {
        (RecoverError::LogTooShort { last, .. }, _) => accept_short_log(*last, location),
        (RecoverError::LogLost { known, last, .. }, _) => Ok(RepairPlan {
            lost: vec![format!("txns after {last}, at least up to {known}")],
            ..RepairPlan::default()
        }),
        (RecoverError::Log { source, .. }, Loss::Later) => match source.last_good() {
            Some(last_good) => accept_later(last_good, location),
            None => Err(not_first(&error)),
        },
        (RecoverError::Log { source, .. }, Loss::DamagedOnly) => match source.last_good() {
            Some(last_good) => accept_damaged_only(last_good, source, location),
            None => Err(not_first(&error)),
        },
        _ => Err(not_first(&error)),
    }
}

fn nothing_lost(recovered: &Recovered) -> RepairPlan {
    let remark = format!(
        "A server starts from this with {} znodes as of txn {}: there is no loss to accept",
        recovered.tree.node_count(),
        recovered.tree.last_zxid()
    );
    RepairPlan { remark, ..RepairPlan::default() }
}

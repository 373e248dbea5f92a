//! `herdsman repair`: diagnoses a data directory and lists the possible repairs with their effects; then, if
//! requested, carries out exactly one of them.
//!
//! In: a directory of a server that does not run. Out: files that a server starts from, and a backup of
//! every file that was changed or removed. What a server repairs at its start (a torn tail, unfinished files)
//! can be repaired here too; what it refuses to decide (damage, missing txns) the operator decides here. Missing txns
//! can be taken from the files of other servers.
//!
//! Steps: diagnose, plan, show the plan, ask, back up, change, verify. A plan is made and shown before
//! anything is touched, and each change is a new file that is synced and renamed.

mod diagnosis;
mod from;
mod loss;
mod plan;
mod rebuild;
mod steps;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use herdsman_proto::Zxid;
use herdsman_store::archive::history::end_history;
use herdsman_store::{EpochFile, RealDisk, lower_last_known, read_epoch, voting};

use crate::console::{Console, EXIT_CODES_OF_CHANGES, Outcome};
use crate::durable::ToolDisk;
use crate::identity::{OwnerRights, report_other_owner};
use crate::location::{DirArguments, Location};
use crate::pending::finish_pending;
use crate::verify::Verdict;
use crate::verify::data_dir::verify_data_dir;

use diagnosis::Diagnosis;
use from::FromResult;
use plan::RepairPlan;

/// Diagnose a data directory, or repair it.
///
/// Without an action nothing is changed. The server must be stopped. Every file that is changed or
/// removed is kept in a directory repair-backup-TIME beside version-2.
#[derive(Args, Debug)]
#[command(after_help = help())]
pub struct RepairArguments {
    #[command(flatten)]
    dir: DirArguments,
    #[command(flatten)]
    action: ActionArguments,
    /// Only print what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation. Required if there is no terminal.
    #[arg(long, short)]
    yes: bool,
}

/// The action; at most one.
#[derive(Args, Debug)]
#[group(multiple = false)]
struct ActionArguments {
    /// Cut off an incomplete write that a crash left at the end of the log. No acknowledged txn is lost.
    #[arg(long)]
    cut_torn_tail: bool,
    /// Give up txns that are damaged or missing, and list them.
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "later")]
    accept_loss: Option<Loss>,
    /// Write a new snapshot from an older one and the logs, in the place of damaged ones. The older
    /// one can be named, as in --rebuild-snapshot=snapshot.5400; then all later ones are replaced.
    #[arg(long, value_name = "OLDER", num_args = 0..=1, require_equals = true)]
    rebuild_snapshot: Option<Option<String>>,
    /// Take damaged or missing txns from the files of another member of the ensemble, or from a copy of these files.
    /// DIR is a dataDir, a dataLogDir, or a version-2 directory; of Apache, too. May be given several times.
    #[arg(long, value_name = "DIR")]
    from: Vec<PathBuf>,
}

/// Which txns are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loss {
    /// The damaged txn and all later ones: the result is a state that existed.
    Later,
    /// Only the damaged or missing txns: more is kept, but as a state that never existed.
    DamagedOnly,
}

/// The requested action.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    CutTornTail,
    AcceptLoss(Loss),
    /// From the newest usable snapshot.
    RebuildSnapshot,
    /// From this snapshot.
    RebuildSnapshotFrom(String),
}

fn help() -> String {
    format!(
        "\
Examples:
  herdsman repair /var/lib/zookeeper                        diagnose, and list repairs
  herdsman repair /var/lib/zookeeper --from /mnt/zk2/data --dry-run
  herdsman repair /var/lib/zookeeper --accept-loss --dry-run
  herdsman repair /var/lib/zookeeper --accept-loss --yes

In an ensemble whose other members are up, it is better to start with an empty version-2 directory and
-Dzookeeper.db.autocreate=false: the server then copies everything from them, and does not vote before that.

{EXIT_CODES_OF_CHANGES}"
    )
}

/// Suspends voting: a member of an ensemble that gives up txns must not vote until a leader has brought it up to date.
/// This must be durable before anything is given up.
fn suspend_voting(location: &Location, disk: &ToolDisk, console: &mut Console<'_>) -> Result<()> {
    let data = &location.dirs.data;
    // What comes after the loss must not continue the archive of what came before.
    end_history(disk, &location.dirs)?;
    // Only members have an epoch file, also one that is damaged.
    let has_epoch = !matches!(read_epoch(&RealDisk, data, EpochFile::Accepted), Ok(None | Some(0)));
    let is_member = location.data_dir.join("myid").exists() || has_epoch;
    if !is_member {
        return Ok(());
    }
    voting::suspend(disk, &location.dirs, "txns were given up by herdsman repair")?;
    console.print(format_args!(
        "this is a member of an ensemble: it will not vote until a leader has brought it up to date. If the whole ensemble starts from this state, create the empty file {} first",
        location.data_dir.join(voting::INITIALIZE_FILE).display()
    ))
}

/// Notes that txns may be given up.
fn give_up_rest(location: &Location, disk: &ToolDisk, console: &mut Console<'_>) -> Result<()> {
    suspend_voting(location, disk, console)?;
    // Txns that are given up on purpose are not missing.
    lower_last_known(disk, &location.dirs.data, Zxid::ZERO)?;
    Ok(())
}

/// Verifies the directory after a repair. If there are no logs, the repair had to remove them.
fn verified(location: &Location, console: &mut Console<'_>) -> Result<Outcome> {
    let mut verdict = Verdict::default();
    verify_data_dir(location, None, &mut verdict, console)?;
    verdict.print(false, console)
}

impl ActionArguments {
    fn action(&self) -> Option<Action> {
        match &self.rebuild_snapshot {
            Some(None) => Some(Action::RebuildSnapshot),
            Some(Some(older)) => Some(Action::RebuildSnapshotFrom(older.clone())),
            None if self.cut_torn_tail => Some(Action::CutTornTail),
            None => self.accept_loss.map(Action::AcceptLoss),
        }
    }
}

impl RepairArguments {
    /// Runs the command on the given console.
    pub fn execute(&self, console: &mut Console<'_>) -> Result<Outcome> {
        let location = self.dir.locate()?;
        let action = self.action.action();
        if action.is_none() && self.action.from.is_empty() {
            if let Some(reason) = location.missing_log()? {
                console.note(format_args!("{reason}. Without the log there is no diagnosis"));
                return Ok(Outcome::Problems);
            }
            return Diagnosis::of(&location).print(&location, console);
        }
        let _rights = if self.dry_run { None } else { Some(OwnerRights::take(&location)?) };
        location.refuse_missing_log()?;
        let disk = location.disk()?;
        // Lock before anything is read: it must not change until it is repaired.
        let _lock = if self.dry_run { None } else { Some(location.lock()?) };
        if !self.dry_run && finish_pending(&location, &disk, console)?.is_some() {
            console.print(
                "the files that this repair was for have been replaced: nothing else was done",
            )?;
            return verified(&location, console);
        }
        let Some(action) = action else {
            return self.repair_from(&location, disk, console);
        };
        let plan = RepairPlan::make(&action, &location)?;
        plan.print(console)?;
        if plan.is_empty() {
            return Ok(Outcome::Sound);
        }
        if self.dry_run {
            console.print("nothing was changed: this was a dry run")?;
            return Ok(Outcome::Sound);
        }
        if !self.confirmed(console)? {
            console.print("nothing was changed")?;
            return Ok(Outcome::Problems);
        }
        console.set_changed("the repair continues");
        if !plan.lost.is_empty() {
            give_up_rest(&location, &disk, console)?;
        }
        plan.carry_out(&location, disk, console)?;
        report_other_owner(&location, console)?;
        verified(&location, console)
    }

    /// Takes what is missing from other directories.
    fn repair_from(
        &self,
        location: &Location,
        disk: ToolDisk,
        console: &mut Console<'_>,
    ) -> Result<Outcome> {
        let plan = match from::plan(&self.action.from, location)? {
            FromResult::Nothing(diagnosis) => return diagnosis.print(location, console),
            FromResult::Plan(plan) => plan,
        };
        plan.print(console)?;
        if plan.is_empty() {
            console.print("nothing was changed")?;
            return Ok(Outcome::Problems);
        }
        if self.dry_run {
            console.print("nothing was changed: this was a dry run")?;
            return Ok(from::outcome(plan.is_complete(), Outcome::Sound));
        }
        if !self.confirmed(console)? {
            console.print("nothing was changed")?;
            return Ok(Outcome::Problems);
        }
        console.set_changed("the repair continues");
        if plan.ends_as_a_source() {
            give_up_rest(location, &disk, console)?;
        }
        plan.carry_out(location, disk, console)?;
        report_other_owner(location, console)?;
        Ok(from::outcome(plan.is_complete(), verified(location, console)?))
    }

    fn confirmed(&self, console: &mut Console<'_>) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !console.can_ask() {
            bail!(
                "no terminal to ask for confirmation: use --yes to repair, or --dry-run to see what would be done. Nothing was changed"
            );
        }
        console.ask("Proceed?")
    }
}

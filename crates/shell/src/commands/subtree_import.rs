//! `import`: creates a subtree from lines of JSON.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::Run;
use super::subtree_failure::writing_bar;
use crate::failure::Failure;
use crate::format::printable;
use crate::shell::Shell;
use crate::subtree::apply::{self, Progress};
use crate::subtree::file::{Completeness, ExportFile};
use crate::subtree::human;
use crate::subtree::import::{
    AclChoice, Ephemerals, Existing, ImportOptions, Plan, PlanCounts, plan,
};

/// Create the znodes of a file written by `export`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  import app.jsonl                   to the path that was exported
  import app.jsonl /copy --dry-run   show what would happen at /copy
  import app.jsonl --overwrite       also change existing znodes that differ
The whole file and all existing znodes are checked before anything is changed. Missing znodes above the target \
are created. Nothing is ever deleted. An interrupted --overwrite may leave one znode unreadable; run the same \
import again, or setAcl, to make it readable again.")]
pub(crate) struct Import {
    /// The file; - for standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: String,
    /// The root of the subtree; by default the path that was exported.
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Show what would happen, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Change existing znodes that differ.
    #[arg(long, conflicts_with = "skip_existing")]
    overwrite: bool,
    /// Skip existing znodes that differ.
    #[arg(long)]
    skip_existing: bool,
    /// Which ACLs new znodes get.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = AclWord::Keep)]
    acl: AclWord,
    /// What to do with ephemerals, which cannot have their sessions back.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = EphemeralsWord::Skip)]
    ephemerals: EphemeralsWord,
    /// Accept a file that is truncated, or has added or missing lines.
    #[arg(long)]
    partial: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AclWord {
    /// The ACLs of the file.
    Keep,
    /// All permissions for everyone.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EphemeralsWord {
    /// Skip them.
    Skip,
    /// Create persistent znodes.
    AsPersistent,
}

impl Run for Import {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let file = self.open(shell).await?;
        let completeness =
            if self.partial { Completeness::Partial } else { Completeness::Required };
        let outline = file.check(completeness).await?;
        let target = self.path.clone().unwrap_or_else(|| outline.header.root.clone());
        let client = shell.client()?.clone();
        let options = self.options();
        let plan = plan(&client, &file, &outline, &target, options).await?;
        if self.dry_run {
            report(shell, &plan, Tense::Would)?;
            return match plan.counts.conflict {
                0 => Ok(()),
                _ => Err(Failure::Answer(1)),
            };
        }
        refuse_conflicts(shell, &plan)?;
        if plan.counts.update > 0 {
            let update = human::count(plan.counts.update, "znode");
            shell.confirm(&format!("This changes {update} at {target}. Continue?")).await?;
        }
        let bar = writing_bar(&shell.output, outline.znodes);
        let so_far = Arc::new(Mutex::new(Progress::default()));
        report_on_interrupt(shell, &so_far);
        let done = apply::import(&client, &file, &plan, options, |progress| {
            bar.set_position(progress.read);
            *so_far.lock().unwrap_or_else(PoisonError::into_inner) = progress;
        });
        let done = done.await;
        bar.finish_and_clear();
        done?;
        if let Some(warning) = plan.sequence_numbers.warning(&client).await {
            shell.output.note(warning);
        }
        report(shell, &plan, Tense::Did)
    }
}

impl Import {
    async fn open(&self, shell: &mut Shell) -> Result<ExportFile, Failure> {
        if self.file != "-" {
            return Ok(ExportFile::open(Path::new(&self.file))?);
        }
        let Some(input) = shell.take_input() else {
            let text = "standard input is used for commands, or was already read: name a file";
            return Err(Failure::failed(text));
        };
        let spooled =
            tokio::task::spawn_blocking(move || ExportFile::spool("standard input", input)).await;
        Ok(spooled.map_err(|error| Failure::failed(format!("standard input: {error}")))??)
    }

    fn options(&self) -> ImportOptions {
        ImportOptions {
            existing: match (self.overwrite, self.skip_existing) {
                (true, _) => Existing::Overwrite,
                (_, true) => Existing::Skip,
                _ => Existing::Conflict,
            },
            acl: match self.acl {
                AclWord::Keep => AclChoice::Keep,
                AclWord::Open => AclChoice::Open,
            },
            ephemerals: match self.ephemerals {
                EphemeralsWord::Skip => Ephemerals::Skip,
                EphemeralsWord::AsPersistent => Ephemerals::AsPersistent,
            },
        }
    }
}

fn report_on_interrupt(shell: &mut Shell, so_far: &Arc<Mutex<Progress>>) {
    let so_far = Arc::clone(so_far);
    shell.on_interrupt(move || {
        let so_far = so_far.lock().unwrap_or_else(PoisonError::into_inner);
        let written = human::count(so_far.written, "znode");
        let mut text = format!(
            "at least {written} written; run the same import again to write the rest (with --skip-existing, if \
             you may not read the written ones)"
        );
        if let Some(path) = &so_far.replacing {
            text += &format!(
                "; until then the ACL of {} may allow no client to read it (setAcl makes it readable \
                 again)",
                printable(path)
            );
        }
        Some(text)
    });
}

/// Prints the conflicts on standard error, and fails if there are any.
fn refuse_conflicts(shell: &mut Shell, plan: &Plan) -> Result<(), Failure> {
    if plan.counts.conflict == 0 {
        return Ok(());
    }
    note_conflicts(shell, plan);
    let conflicts = human::count(plan.counts.conflict, "conflict");
    let first = plan.conflicts.first().map_or("", |conflict| conflict.path.as_str());
    Err(Failure::failed(format!(
        "{conflicts} with existing znodes, first {first}; nothing was changed (use --overwrite \
         or --skip-existing)"
    )))
}

fn note_conflicts(shell: &mut Shell, plan: &Plan) {
    for conflict in &plan.conflicts {
        let path = printable(&conflict.path);
        let line =
            format!("line {}: {path} exists and differs in {}", conflict.line, conflict.differs);
        shell.output.note(line);
    }
}

/// Whether the import was only planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tense {
    Would,
    Did,
}

fn report(shell: &mut Shell, plan: &Plan, tense: Tense) -> Result<(), Failure> {
    let PlanCounts { create, update, equal, skip, ephemerals, conflict } = plan.counts;
    if shell.output.is_json() {
        return shell.output.json(&json!({
            "target": plan.target, "dry_run": tense == Tense::Would, "create": create,
            "update": update, "equal": equal, "skip": skip, "ephemerals_left_out": ephemerals,
            "conflict": conflict,
            "conflicts": plan.conflicts.iter().map(|conflict| json!({
                "line": conflict.line, "path": conflict.path, "differs": conflict.differs,
            })).collect::<Vec<_>>(),
        }));
    }
    note_conflicts(shell, plan);
    let path = printable(&plan.target);
    let (created, updated) = match tense {
        Tense::Would => ("would create", "would update"),
        Tense::Did => ("created", "updated"),
    };
    let mut line = format!("{path}: {created} {create}, {updated} {update}, {equal} equal");
    for (count, what) in [
        (skip, "different or unreadable and skipped"),
        (ephemerals, "ephemerals skipped"),
        (conflict, "in conflict: the import would stop and change nothing"),
    ] {
        if count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    shell.output.say(line)
}

//! `copy` and `move`: copies or moves a subtree within an ensemble.

use clap::Args;
use herdsman_client::Client;
use serde_json::json;

use super::Run;
use super::subtree_failure::{Count, HintFlags, writing_bar};
use crate::failure::Failure;
use crate::format::printable;
use crate::shell::Shell;
use crate::subtree::copy::{Extent, Moved, Survey, TargetPolicy, copy, move_subtree, survey};
use crate::subtree::human;

/// Copy a znode, or a subtree with -r, to a path that does not exist.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  copy /app/config /app/config.old
  copy -r /app /backup/app --dry-run
Data, ACLs and types are kept, versions start again from 0. Ephemerals are rejected: they belong to sessions. \
Nothing is overwritten. --resume finishes an interrupted copy: znodes that already exist in the target must be \
equal; other znodes in the target are left as they are.")]
pub(crate) struct Copy {
    #[command(flatten)]
    paths: Paths,
    /// Include everything below it.
    #[arg(short = 'r', long)]
    recursive: bool,
}

/// Move a subtree to a path that does not exist.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  move /app/old /app/new
  move /app /archive/app --dry-run
Up to 500 znodes and 256 KiB move in one transaction. A larger subtree is copied and then deleted; --resume \
finishes an interrupted move. Nothing is deleted that the target does not have: if another client changes the \
source meanwhile, the move stops and reports it. It needs permission to create and delete children of every \
parent, and a session that can create ephemerals. Ephemerals are rejected.")]
pub(crate) struct Move {
    #[command(flatten)]
    paths: Paths,
}

#[derive(Args, Debug)]
struct Paths {
    /// The znode.
    #[arg(value_name = "SRC")]
    source: String,
    /// Its new path; the parent must exist.
    #[arg(value_name = "DST")]
    target: String,
    /// Show what would happen, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Continue an interrupted copy or move.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    hints: HintFlags,
}

impl Run for Copy {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let extent = if self.recursive { Extent::Subtree } else { Extent::Leaf };
        let hints = self.paths.hints.hints()?;
        let Some(survey) = self.paths.survey(shell, extent, "copy").await? else {
            return Ok(());
        };
        let client = shell.client()?.clone();
        let bar = writing_bar(&shell.output, survey.znodes);
        let written = Count::default();
        report_copied_on_interrupt(shell, &survey.target, &written);
        let copied = copy(&client, &survey, &hints, |so_far| {
            bar.set_position(so_far.read);
            written.set(so_far.written);
        });
        let copied = copied.await;
        bar.finish_and_clear();
        let copied = copied?;
        warn_of_numbers(shell, &client, &survey).await;
        if shell.output.is_json() {
            return shell.output.json(&json!({
                "source": survey.source, "target": survey.target, "copied": copied,
            }));
        }
        let target = printable(&survey.target);
        shell.output.say(format!("copied {} to {target}", human::count(copied, "znode")))
    }
}

impl Run for Move {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let hints = self.paths.hints.hints()?;
        if self.paths.resume && self.paths.is_moved(shell).await? {
            return Err(Failure::failed(format!(
                "{} does not exist; nothing was moved (a move that is already complete looks the \
                 same)",
                self.paths.source
            )));
        }
        let Some(survey) = self.paths.survey(shell, Extent::Subtree, "move").await? else {
            return Ok(());
        };
        let client = shell.client()?.clone();
        let bar = writing_bar(&shell.output, survey.znodes);
        let (written, deleted) = (Count::default(), Count::default());
        report_moved_on_interrupt(shell, &survey, &written, &deleted);
        let moved = move_subtree(&client, &survey, &hints, |so_far| {
            bar.set_position(so_far.read);
            written.set(so_far.written);
            deleted.set(so_far.deleted);
        });
        let moved = moved.await;
        bar.finish_and_clear();
        let moved = moved?;
        warn_of_numbers(shell, &client, &survey).await;
        self.paths.say_moved(shell, moved)
    }
}

async fn warn_of_numbers(shell: &mut Shell, client: &Client, survey: &Survey) {
    if let Some(warning) = survey.sequence_numbers.warning(client).await {
        shell.output.note(warning);
    }
}

fn report_copied_on_interrupt(shell: &mut Shell, target: &str, written: &Count) {
    let (target, written) = (printable(target).into_owned(), written.clone());
    shell.on_interrupt(move || {
        let written = human::count(written.get(), "znode");
        Some(format!("at least {written} written to {target}; --resume continues"))
    });
}

fn report_moved_on_interrupt(shell: &mut Shell, survey: &Survey, written: &Count, deleted: &Count) {
    let source = printable(&survey.source).into_owned();
    let target = printable(&survey.target).into_owned();
    let (written, deleted) = (written.clone(), deleted.clone());
    shell.on_interrupt(move || {
        let written = human::count(written.get(), "znode");
        let deleted = human::count(deleted.get(), "znode");
        Some(format!(
            "at least {written} written to {target} and {deleted} deleted from {source}; nothing is \
             lost, --resume continues"
        ))
    });
}

impl Paths {
    /// Whether only the target exists: a move was completed and its reply lost, or the source has
    /// another path.
    async fn is_moved(&self, shell: &Shell) -> Result<bool, Failure> {
        let client = shell.client()?;
        let (source, target) = (client.exists(&self.source), client.exists(&self.target));
        Ok(source.await?.is_none() && target.await?.is_some())
    }

    fn say_moved(&self, shell: &mut Shell, moved: Moved) -> Result<(), Failure> {
        if shell.output.is_json() {
            return shell.output.json(&json!({
                "source": self.source, "target": self.target, "moved": moved.znodes,
                "atomic": moved.is_atomic,
            }));
        }
        let how = if moved.is_atomic { ", in one transaction" } else { "" };
        let target = printable(&self.target);
        let moved = human::count(moved.znodes, "znode");
        shell.output.say(format!("moved {moved} to {target}{how}"))
    }

    /// Plans the work and asks the user to confirm. `None` if the plan was all that was requested.
    async fn survey(
        &self,
        shell: &mut Shell,
        extent: Extent,
        verb: &str,
    ) -> Result<Option<Survey>, Failure> {
        let policy = if self.resume { TargetPolicy::Resume } else { TargetPolicy::New };
        let survey = survey(shell.client()?, &self.source, &self.target, extent, policy).await?;
        let Survey { source, target, znodes, bytes, .. } = &survey;
        let what = format!(
            "{verb} {}, {}, from {} to {}",
            human::count(*znodes, "znode"),
            human::size(*bytes),
            printable(source),
            printable(target)
        );
        if self.dry_run {
            match shell.output.is_json() {
                true => shell.output.json(&json!({
                    "source": source, "target": target, "znodes": znodes, "bytes": bytes,
                    "dry_run": true,
                }))?,
                false => shell.output.say(format!("would {what}"))?,
            }
            return Ok(None);
        }
        shell.confirm(&format!("This would {what}. Continue?")).await?;
        Ok(Some(survey))
    }
}

//! `copy` and `move`: a subtree to another place of the same ensemble.

use clap::Args;
use serde_json::json;

use super::Run;
use super::subtree_failure::{HintFlags, writing_bar};
use crate::failure::Failure;
use crate::format::printable;
use crate::shell::Shell;
use crate::subtree::copy::{Extent, Moved, Survey, copy, move_subtree, survey};
use crate::subtree::human;

/// Copy a znode, or a subtree with -r, to a place where there is none.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  copy /app/config /app/config.old
  copy -r /app /backup/app --dry-run
Data, ACLs and types are kept, versions begin again. Ephemerals are refused: they belong to sessions.")]
pub(crate) struct Copy {
    #[command(flatten)]
    places: Places,
    /// Everything below it as well.
    #[arg(short = 'r', long)]
    recursive: bool,
}

/// Move a subtree to a place where there is none.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  move /app/old /app/new
  move /app /archive/app --dry-run
Up to 500 znodes and 256 KiB move in one transaction. A larger subtree is copied and then deleted; if \
it is changed meanwhile, the move stops and says so. Ephemerals are refused.")]
pub(crate) struct Move {
    #[command(flatten)]
    places: Places,
}

#[derive(Args, Debug)]
struct Places {
    /// The znode.
    #[arg(value_name = "SRC")]
    source: String,
    /// Its new path; its parent exists.
    #[arg(value_name = "DST")]
    target: String,
    /// Say what would happen, and change nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    hints: HintFlags,
}

impl Run for Copy {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let extent = if self.recursive { Extent::Subtree } else { Extent::Leaf };
        let hints = self.places.hints.hints()?;
        let Some(survey) = self.places.survey(shell, extent, "copy").await? else {
            return Ok(());
        };
        let client = shell.client()?.clone();
        let bar = writing_bar(&shell.output, survey.znodes);
        let copied = copy(&client, &survey, &hints, |done| bar.set_position(done)).await;
        bar.finish_and_clear();
        let copied = copied?;
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
        let hints = self.places.hints.hints()?;
        let Some(survey) = self.places.survey(shell, Extent::Subtree, "move").await? else {
            return Ok(());
        };
        let client = shell.client()?.clone();
        let bar = writing_bar(&shell.output, survey.znodes);
        let moved = move_subtree(&client, &survey, &hints, |done| bar.set_position(done)).await;
        bar.finish_and_clear();
        let is_atomic = moved? == Moved::AtOnce;
        if shell.output.is_json() {
            return shell.output.json(&json!({
                "source": survey.source, "target": survey.target, "moved": survey.znodes,
                "atomic": is_atomic,
            }));
        }
        let moved = human::count(survey.znodes, "znode");
        let target = printable(&survey.target);
        let how = if is_atomic { ", in one transaction" } else { "" };
        shell.output.say(format!("moved {moved} to {target}{how}"))
    }
}

impl Places {
    /// What there is to do; `None` if that was all that was asked. On a terminal, the user agrees.
    async fn survey(
        &self,
        shell: &mut Shell,
        extent: Extent,
        verb: &str,
    ) -> Result<Option<Survey>, Failure> {
        let survey = survey(shell.client()?, &self.source, &self.target, extent).await?;
        let Survey { source, target, znodes, bytes } = &survey;
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
        shell.confirm(&format!("This would {what}. Go on?")).await?;
        Ok(Some(survey))
    }
}

//! `herdsman recipe partition`: divides items among processes.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use herdsman_client::Client;
use herdsman_recipes::Partitioner;
use herdsman_recipes::partitioner::Update;

use super::item_commands::ItemCommands;
use super::outcome::{Interrupted, Outcome};
use super::output::print_line;
use super::{process_name, release, seconds};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe partition /shards s1 s2 s3 s4      # a second terminal takes half of them
  herdsman recipe partition /shards s1 s2 s3 s4 --id node-2 --settle 0.1
  herdsman recipe partition /shards s1 s2 s3 s4 -- sh -c './serve.sh $HERDSMAN_ITEM'";

/// Divide items among processes, so that each item has one owner, until Ctrl-C.
///
/// Each line of output is about one item: + means that this process owns it now, followed by a fencing token that
/// increases from owner to owner; - means that it was released to another member; ! means that it was lost because the
/// session ended or the owner's node was deleted.
///
/// The command runs for each item that this process owns. It gets the item in HERDSMAN_ITEM and the token in
/// HERDSMAN_FENCING_TOKEN. Before an item is released, and when it is lost, the command gets SIGTERM, and SIGKILL if it
/// has not ended ten seconds later. Without a command an item is released when its line is printed.
#[derive(Args)]
pub(super) struct Arguments {
    /// Path of the group that divides the items.
    path: String,
    /// The items, the same for all members.
    #[arg(required = true, value_name = "ITEM")]
    items: Vec<String>,
    /// Name of this member; by default the host name and the process id.
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// After a member has joined or left, wait until there has been no other such change for this time.
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    settle: Duration,
    /// A command to run for each owned item.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let id = arguments.id.clone().unwrap_or_else(process_name);
    let options = Partitioner::of(zk, &arguments.path, &id, &arguments.items);
    let mut partitioner = tokio::select! {
        joined = options.settle(arguments.settle).join() => joined?,
        () = interrupted.wait() => return Ok(Outcome::Interrupted),
    };
    print_line(format_args!("{id} has joined {}; Ctrl-C leaves it", arguments.path))?;
    let mut commands = ItemCommands::new(&arguments.command);
    let outcome = divide(&mut partitioner, &mut commands, interrupted).await;
    commands.end_all().await;
    if release(partitioner.leave()).await.is_some() {
        print_line(format_args!("{id} has left"))?;
    }
    outcome
}

async fn divide(
    partitioner: &mut Partitioner,
    commands: &mut ItemCommands<'_>,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    loop {
        tokio::select! {
            update = partitioner.next() => match update {
                Some(update) => {
                    if let Some(outcome) = apply(update, commands).await? {
                        return Ok(outcome);
                    }
                }
                None => return Ok(Outcome::Lost),
            },
            ended = commands.one_ended() => print_line(ended)?,
            () = interrupted.wait() => return Ok(Outcome::Done),
        }
    }
}

/// Applies an update; returns an outcome if the command cannot be run.
async fn apply(update: Update, commands: &mut ItemCommands<'_>) -> Result<Option<Outcome>> {
    match update {
        Update::Acquired(items) => {
            for owned in items {
                print_line(format_args!("+ {} {}", owned.item, owned.token))?;
                if let Err(error) = commands.start(&owned.item, owned.token) {
                    eprintln!("herdsman: {error:#}");
                    return Ok(Some(Outcome::CommandNotRun));
                }
            }
        }
        Update::Release(release) => {
            commands.end(release.items()).await;
            release.items().try_for_each(|item| print_line(format_args!("- {item}")))?;
            release.confirm();
        }
        Update::Lost(items) => {
            items.iter().try_for_each(|item| print_line(format_args!("! {item}")))?;
            commands.end(items.iter().map(String::as_str)).await;
        }
        other => print_line(format_args!("{other:?}"))?,
    }
    Ok(None)
}

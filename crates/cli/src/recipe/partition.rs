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
use super::output::say;
use super::{give_up, process_name, seconds};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe partition /shards s1 s2 s3 s4      # a second terminal takes half of them
  herdsman recipe partition /shards s1 s2 s3 s4 --id node-2 --settle 0.1
  herdsman recipe partition /shards s1 s2 s3 s4 -- sh -c './serve.sh $HERDSMAN_ITEM'";

/// Divide items among processes, so that each has one owner, until Ctrl-C.
///
/// Each line is one item: + is ours from now on, with a fencing token that grows from owner to owner; - is given to
/// another member; ! is lost, because the session has ended or the owner's node was deleted.
///
/// A command runs for each item that is ours. It finds the item in HERDSMAN_ITEM and the token in
/// HERDSMAN_FENCING_TOKEN. Before an item is given away, and when it is lost, the command gets SIGTERM, and SIGKILL if
/// that does not end it in ten seconds. Without a command an item is given away when its line is printed.
#[derive(Args)]
pub(super) struct Arguments {
    /// Where the items are divided.
    path: String,
    /// The items, the same for all members.
    #[arg(required = true, value_name = "ITEM")]
    items: Vec<String>,
    /// Who we are; by default the host's name and the process's id.
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// After members came or went, wait until there was no other such change for this time.
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    settle: Duration,
    /// A command to run for each item while it is ours.
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
    say(format_args!("{id} divides {}; Ctrl-C leaves", arguments.path))?;
    let mut commands = ItemCommands::new(&arguments.command);
    let outcome = divide(&mut partitioner, &mut commands, interrupted).await;
    commands.end_all().await;
    if give_up(partitioner.leave()).await.is_some() {
        say(format_args!("{id} has left"))?;
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
                    if let Some(outcome) = follow(update, commands).await? {
                        return Ok(outcome);
                    }
                }
                None => return Ok(Outcome::Lost),
            },
            ended = commands.one_ended() => say(ended)?,
            () = interrupted.wait() => return Ok(Outcome::Done),
        }
    }
}

/// Does what the update says; an outcome if it cannot be done.
async fn follow(update: Update, commands: &mut ItemCommands<'_>) -> Result<Option<Outcome>> {
    match update {
        Update::Acquired(items) => {
            for owned in items {
                say(format_args!("+ {} {}", owned.item, owned.token))?;
                if let Err(error) = commands.start(&owned.item, owned.token) {
                    eprintln!("herdsman: {error:#}");
                    return Ok(Some(Outcome::CommandNotRun));
                }
            }
        }
        Update::Release(release) => {
            commands.end(release.items()).await;
            release.items().try_for_each(|item| say(format_args!("- {item}")))?;
            release.confirm();
        }
        Update::Lost(items) => {
            items.iter().try_for_each(|item| say(format_args!("! {item}")))?;
            commands.end(items.iter().map(String::as_str)).await;
        }
        other => say(format_args!("{other:?}"))?,
    }
    Ok(None)
}

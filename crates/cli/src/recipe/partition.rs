//! `herdsman recipe partition`: divides items among processes.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use herdsman_client::Client;
use herdsman_recipes::partitioner::{Partitioner, Update};

use super::outcome::{Interrupted, Outcome};
use super::output::say;
use super::{give_up, process_name, seconds};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe partition /shards s1 s2 s3 s4              # the same in another terminal takes half of them
  herdsman recipe partition /shards s1 s2 s3 s4 --id node-2 --settle 0.1";

/// Divide items among all who run this with the same items, so that no item ever has two owners, until Ctrl-C.
///
/// Each line is one item: + is ours from now on, with a fencing token that grows from owner to owner; - is given to
/// another member; ! is lost, because the session has ended or the owner's node was deleted.
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
    loop {
        tokio::select! {
            update = partitioner.next() => match update {
                Some(update) => show(update)?,
                None => return Ok(Outcome::Lost),
            },
            () = interrupted.wait() => break,
        }
    }
    if give_up(partitioner.leave()).await.is_some() {
        say(format_args!("{id} has left"))?;
    }
    Ok(Outcome::Done)
}

/// Prints the update. Whoever reads the lines has to stop by itself: released items go at once.
fn show(update: Update) -> Result<()> {
    match update {
        Update::Acquired(items) => {
            items.iter().try_for_each(|owned| say(format_args!("+ {} {}", owned.item, owned.token)))
        }
        Update::Release(release) => {
            release.items().try_for_each(|item| say(format_args!("- {item}")))?;
            release.confirm();
            Ok(())
        }
        Update::Lost(items) => items.iter().try_for_each(|item| say(format_args!("! {item}"))),
        other => say(format_args!("{other:?}")),
    }
}

//! `herdsman recipe group`: joins a group of processes, or shows its members.

use anyhow::Result;
use clap::{Args, Subcommand};
use herdsman_client::Client;
use herdsman_recipes::Group;
use herdsman_recipes::membership::{Change, Member};
use herdsman_recipes::persistent_node::OnForeignNode;

use super::give_up;
use super::outcome::{Interrupted, Outcome, help};
use super::output::{one_line, say};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe group join /cluster node-1 --data 10.0.0.1:7000    # until Ctrl-C
  herdsman recipe group members /cluster
  herdsman recipe group members /cluster --watch     # + joined, ~ changed, - left";

/// Join a group, or show who is in it.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Join a group, and stay in it until Ctrl-C. If another session has the id, waits until it has left.
    #[command(after_help = help(EXAMPLES))]
    Join {
        /// The group's path.
        path: String,
        /// The member's id: the name of its node.
        id: String,
        /// What others read about the member.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        data: String,
    },
    /// Print the members, each with its data.
    #[command(after_help = help(EXAMPLES))]
    Members {
        /// The group's path.
        path: String,
        /// Go on and print who joins (+), changes (~) and leaves (-), until Ctrl-C.
        #[arg(long)]
        watch: bool,
    },
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    match &arguments.action {
        Action::Join { path, id, data } => join(zk, path, id, data, interrupted).await,
        Action::Members { path, watch: true } => watch(zk, path, interrupted).await,
        Action::Members { path, watch: false } => interrupted.or(list(zk, path)).await,
    }
}

async fn join(
    zk: &Client,
    path: &str,
    id: &str,
    data: &str,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    // Two terminals with one id must not remove each other for ever.
    let group = Group::new(zk, path)?.on_foreign_node(OnForeignNode::Wait);
    let membership = tokio::select! {
        joined = group.join(id, data.to_owned()) => joined?,
        () = interrupted.wait() => return Ok(Outcome::Interrupted),
    };
    say(format_args!("joined {path} as {id}; Ctrl-C leaves it"))?;
    interrupted.wait().await;
    if let Some(left) = give_up(membership.leave()).await {
        left?;
        say(format_args!("left {path}"))?;
    }
    Ok(Outcome::Done)
}

async fn list(zk: &Client, path: &str) -> Result<Outcome> {
    let members = Group::new(zk, path)?.observe().await?.snapshot();
    for member in members.values() {
        say(describe(member))?;
    }
    if members.is_empty() {
        eprintln!("herdsman: nobody is in {path}");
        return Ok(Outcome::Negative);
    }
    Ok(Outcome::Done)
}

async fn watch(zk: &Client, path: &str, interrupted: &mut Interrupted) -> Result<Outcome> {
    let members = Group::new(zk, path)?.observe().await?;
    // Nothing is awaited in between, so nothing changes in between.
    let mut changes = members.changes();
    for member in members.snapshot().values() {
        say(format_args!("+ {}", describe(member)))?;
    }
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = interrupted.wait() => return Ok(Outcome::Done),
        };
        match change {
            Some(Change::Joined(member)) => say(format_args!("+ {}", describe(&member)))?,
            Some(Change::Changed(member)) => say(format_args!("~ {}", describe(&member)))?,
            Some(Change::Left(member)) => say(format_args!("- {}", describe(&member)))?,
            None => return Ok(Outcome::Lost),
        }
    }
}

fn describe(member: &Member) -> String {
    format!("{} {}", member.id, one_line(&member.data)).trim_end().to_owned()
}

//! `herdsman recipe group`: joins a group of processes, or shows its members.

use anyhow::Result;
use clap::{Args, Subcommand};
use herdsman_client::Client;
use herdsman_recipes::Group;
use herdsman_recipes::membership::{Change, Member};
use herdsman_recipes::persistent_node::OnForeignNode;

use super::outcome::{Interrupted, Outcome, help};
use super::output::{one_line, print_line};
use super::release;

pub(super) const EXAMPLES: &str = "\
  herdsman recipe group join /cluster node-1 --data 10.0.0.1:7000    # until Ctrl-C
  herdsman recipe group members /cluster
  herdsman recipe group members /cluster --watch     # + joined, ~ changed, - left";

/// Join a group, or show its members.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Join a group, and stay in it until Ctrl-C. If another session has the id, wait until it has left.
    #[command(after_help = help(EXAMPLES))]
    Join {
        /// The group's path.
        path: String,
        /// The member's id: the name of its node.
        id: String,
        /// Data of the member, shown to other clients.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        data: String,
    },
    /// Print the members, each with its data.
    #[command(after_help = help(EXAMPLES))]
    Members {
        /// The group's path.
        path: String,
        /// Keep printing members that join (+), change (~) and leave (-), until Ctrl-C.
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
    // Otherwise two processes with the same id would remove each other's node forever.
    let group = Group::new(zk, path)?.on_foreign_node(OnForeignNode::Wait);
    let membership = tokio::select! {
        joined = group.join(id, data.to_owned()) => joined?,
        () = interrupted.wait() => return Ok(Outcome::Interrupted),
    };
    print_line(format_args!("joined {path} as {id}; Ctrl-C leaves it"))?;
    interrupted.wait().await;
    if let Some(left) = release(membership.leave()).await {
        left?;
        print_line(format_args!("left {path}"))?;
    }
    Ok(Outcome::Done)
}

async fn list(zk: &Client, path: &str) -> Result<Outcome> {
    let members = Group::new(zk, path)?.observe().await?.snapshot();
    for member in members.values() {
        print_line(describe(member))?;
    }
    if members.is_empty() {
        eprintln!("herdsman: {path} has no members");
        return Ok(Outcome::Negative);
    }
    Ok(Outcome::Done)
}

async fn watch(zk: &Client, path: &str, interrupted: &mut Interrupted) -> Result<Outcome> {
    let members = Group::new(zk, path)?.observe().await?;
    // There is no await between the two calls, so no change is missed.
    let mut changes = members.changes();
    for member in members.snapshot().values() {
        print_line(format_args!("+ {}", describe(member)))?;
    }
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = interrupted.wait() => return Ok(Outcome::Done),
        };
        match change {
            Some(Change::Joined(member)) => print_line(format_args!("+ {}", describe(&member)))?,
            Some(Change::Changed(member)) => print_line(format_args!("~ {}", describe(&member)))?,
            Some(Change::Left(member)) => print_line(format_args!("- {}", describe(&member)))?,
            None => return Ok(Outcome::Lost),
        }
    }
}

fn describe(member: &Member) -> String {
    format!("{} {}", member.id, one_line(&member.data)).trim_end().to_owned()
}

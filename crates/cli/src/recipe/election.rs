//! `herdsman recipe election`: takes part in an election, or observes it.

use std::ffi::OsString;

use anyhow::Result;
use clap::Args;
use herdsman_client::Client;
use herdsman_recipes::election::{Candidate, Election};
use herdsman_recipes::{Error, HoldOptions, Leadership, LostWhen};

use super::command::run_while;
use super::outcome::{Interrupted, Outcome};
use super::output::print_line;
use super::release;

pub(super) const EXAMPLES: &str = "\
  herdsman recipe election /leader --id a              # leads until Ctrl-C
  herdsman recipe election /leader --id b -- ./lead.sh
  herdsman recipe election /leader --observe           # the leader, and every change";

/// Take part in an election and lead, for a command or until Ctrl-C; or observe it.
///
/// The command gets the fencing token, a number that increases from leader to leader, in HERDSMAN_FENCING_TOKEN. When
/// the leadership is lost while the command runs, the command gets SIGTERM, and SIGKILL if it has not ended ten seconds
/// later.
#[derive(Args)]
pub(super) struct Arguments {
    /// The election's path.
    path: String,
    /// Name of this candidate; by default the process id.
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Only show the leader, and every change.
    #[arg(long, conflicts_with_all = ["id", "command"])]
    observe: bool,
    /// A command to run while leading; without one, leads until Ctrl-C.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let id = arguments.id.clone().unwrap_or_else(|| std::process::id().to_string());
    let election = Election::new(zk, &arguments.path, &id)?
        .options(&HoldOptions::new().lost_when(LostWhen::SessionTimedOut));
    if arguments.observe {
        return observe(&election, interrupted).await;
    }
    print_line(format_args!("{id} is a candidate"))?;
    let leadership = tokio::select! {
        elected = election.campaign() => elected?,
        () = interrupted.wait() => return Ok(Outcome::Interrupted),
    };
    print_line(format_args!("{id} leads with token {}", leadership.token()))?;
    let outcome = lead(&leadership, &arguments.command, interrupted).await?;
    if outcome == Outcome::Lost {
        return Ok(outcome);
    }
    match release(leadership.resign()).await {
        Some(Ok(())) => print_line(format_args!("{id} has resigned"))?,
        Some(Err(Error::Lost)) => eprintln!("herdsman: {id} was no longer the leader"),
        Some(Err(error)) => return Err(error.into()),
        None => {}
    }
    Ok(outcome)
}

async fn lead(
    leadership: &Leadership,
    command: &[OsString],
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    if !command.is_empty() {
        let environment = [("HERDSMAN_FENCING_TOKEN", leadership.token().to_string())];
        return run_while(command, &environment, leadership.lost(), interrupted).await;
    }
    tokio::select! {
        () = leadership.lost() => {
            eprintln!("herdsman: leadership lost");
            Ok(Outcome::Lost)
        }
        () = interrupted.wait() => Ok(Outcome::Done),
    }
}

async fn observe(election: &Election, interrupted: &mut Interrupted) -> Result<Outcome> {
    let mut leaders = election.observe();
    loop {
        tokio::select! {
            leader = leaders.next() => match leader {
                Some(leader) => show(leader.as_ref())?,
                None => return Ok(Outcome::Lost),
            },
            () = interrupted.wait() => return Ok(Outcome::Done),
        }
    }
}

fn show(leader: Option<&Candidate>) -> Result<()> {
    match leader {
        Some(Candidate { id, token, session, .. }) => {
            print_line(format_args!("{id} leads with token {token} (session {session})"))
        }
        None => print_line("no leader"),
    }
}

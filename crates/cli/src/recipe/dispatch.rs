//! `herdsman recipe dispatch`: sends a message to many clients, which carry it out and acknowledge it.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use herdsman_client::Client;
use herdsman_recipes::messaging::{Answer, Dispatched};
use herdsman_recipes::{CommandClient, Dispatcher};

use super::handler::{Failed, HandlerArguments};
use super::outcome::{Interrupted, Outcome, help};
use super::output::{one_line, say};
use super::{passed, seconds};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe dispatch receive /fleet node-1 -- sh -c 'read line; echo did $line'
  herdsman recipe dispatch clients /fleet
  herdsman recipe dispatch send /fleet reload --timeout 10
  herdsman recipe dispatch send /fleet reload --to node-1 --to node-2";

/// Send a message to many clients that carry it out and answer; or be one of them.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Send a message, and print each client's answer.
    ///
    /// Exits with 0 when all have done it, and with 3 if one has failed or has not answered in time, or nobody is
    /// there.
    #[command(after_help = help(EXAMPLES))]
    Send {
        /// Where the clients are.
        path: String,
        /// The message.
        message: String,
        /// For this client, which gets it later if it is away; can be given several times. Without it, for all who
        /// are there.
        #[arg(long, value_name = "ID")]
        to: Vec<String>,
        /// Give up after waiting for this time. Without it, waits also for those who have left.
        #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
        timeout: Option<Duration>,
    },
    /// Run a command for each message, one after the other, until Ctrl-C. Its output is the answer.
    ///
    /// A message that was not acknowledged, because of Ctrl-C for example, is carried out again when the client comes
    /// back. If another session has the id, waits until it has left.
    #[command(after_help = help(EXAMPLES))]
    Receive {
        /// Where the clients are.
        path: String,
        /// Which client this is.
        id: String,
        #[command(flatten)]
        handler: HandlerArguments,
    },
    /// Print which clients are there.
    #[command(after_help = help(EXAMPLES))]
    Clients {
        /// Where the clients are.
        path: String,
    },
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    match &arguments.action {
        Action::Send { path, message, to, timeout } => {
            interrupted.or(send(&Dispatcher::new(zk, path)?, message, to, *timeout)).await
        }
        Action::Receive { path, id, handler } => receive(zk, path, id, handler, interrupted).await,
        Action::Clients { path } => interrupted.or(list(zk, path)).await,
    }
}

async fn send(
    dispatcher: &Dispatcher,
    message: &str,
    to: &[String],
    timeout: Option<Duration>,
) -> Result<Outcome> {
    let mut dispatched = match to {
        [] => dispatcher.dispatch(message.to_owned()).await?,
        to => dispatcher.dispatch_to(to.iter().map(String::as_str), message.to_owned()).await?,
    };
    if dispatched.missing().is_empty() {
        eprintln!("herdsman: no client is there to receive it");
        return Ok(Outcome::Negative);
    }
    let mut all_done = true;
    let mut late = std::pin::pin!(passed(timeout));
    loop {
        let answer = tokio::select! {
            answer = dispatched.next() => answer,
            () = &mut late => return Ok(give_up_on(&dispatched)),
        };
        match answer.transpose()? {
            Some(answer) => all_done &= show(answer)?,
            None => return Ok(if all_done { Outcome::Done } else { Outcome::Negative }),
        }
    }
}

fn give_up_on(dispatched: &Dispatched) -> Outcome {
    eprintln!("herdsman: no answer in the time given from {}", dispatched.missing().join(", "));
    Outcome::Negative
}

/// Prints an answer; false if the client has failed.
fn show(answer: Answer) -> Result<bool> {
    match answer {
        Answer::Acked(ack) => match ack.outcome {
            Ok(text) => {
                let line = format!("{}: {}", ack.client, one_line(&text));
                say(line.trim_end()).map(|()| true)
            }
            Err(reason) => {
                let reason = one_line(reason.as_bytes());
                say(format_args!("{} failed: {reason}", ack.client)).map(|()| false)
            }
        },
        // It may come back and answer.
        Answer::Left { client } => {
            say(format_args!("{client} has left without an answer")).map(|()| true)
        }
        other => say(format_args!("{other:?}")).map(|()| true),
    }
}

async fn receive(
    zk: &Client,
    path: &str,
    id: &str,
    arguments: &HandlerArguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let client = tokio::select! {
        joined = CommandClient::join(zk, path, id) => joined?,
        () = interrupted.wait() => return Ok(Outcome::Interrupted),
    };
    say(format_args!("{id} receives from {path}; Ctrl-C ends it"))?;
    let (handler, handling) = arguments.start();
    let work = client.run(move |command| {
        let handler = handler.clone();
        async move {
            let (id, data) = (command.id().to_string(), command.payload().clone());
            let environment = [("HERDSMAN_MESSAGE_ID", id.clone())];
            let outcome = handler.run(format!("message {id}"), data, &environment).await;
            outcome.map_err(|(Failed::Command(reason) | Failed::Data(reason))| reason)
        }
    });
    handling.until_interrupted(work, interrupted).await
}

async fn list(zk: &Client, path: &str) -> Result<Outcome> {
    let clients = Dispatcher::new(zk, path)?.clients().await?;
    for client in &clients {
        say(client)?;
    }
    if clients.is_empty() {
        eprintln!("herdsman: no client is at {path}");
        return Ok(Outcome::Negative);
    }
    Ok(Outcome::Done)
}

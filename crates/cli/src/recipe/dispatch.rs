//! `herdsman recipe dispatch`: sends a message to many clients, which process it and reply.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use herdsman_client::Client;
use herdsman_recipes::messaging::{Answer, Dispatched};
use herdsman_recipes::{CommandClient, Dispatcher};

use super::handler::{Failed, HandlerArguments};
use super::outcome::{Interrupted, Outcome, help};
use super::output::{one_line, print_line};
use super::{seconds, timed_out};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe dispatch receive /fleet node-1 -- sh -c 'read line; echo did $line'
  herdsman recipe dispatch clients /fleet
  herdsman recipe dispatch send /fleet reload --timeout 10
  herdsman recipe dispatch send /fleet reload --to node-1 --to node-2";

/// Send a message to many clients that process it and reply; or be one of these clients.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Send a message, and print each client's reply.
    ///
    /// Exits with 0 when all clients have succeeded, and with 3 if one has failed or has not replied in time, or if no
    /// client is connected.
    #[command(after_help = help(EXAMPLES))]
    Send {
        /// Path below which the clients are.
        path: String,
        /// The message.
        message: String,
        /// Send the message to this client, which gets it later if it is not connected; can be given several times.
        /// Without it, the message is sent to all connected clients.
        #[arg(long, value_name = "ID")]
        to: Vec<String>,
        /// Give up after this time. Without it, the command also waits for clients that have left.
        #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
        timeout: Option<Duration>,
    },
    /// Run a command for each message, one after the other, until Ctrl-C. Its output is the reply.
    ///
    /// A message that was not acknowledged, because of Ctrl-C for example, is processed again when the client
    /// reconnects. If another session has the id, this command waits until that session has left.
    #[command(after_help = help(EXAMPLES))]
    Receive {
        /// Path below which the clients are.
        path: String,
        /// Id of this client.
        id: String,
        #[command(flatten)]
        handler: HandlerArguments,
    },
    /// Print the connected clients.
    #[command(after_help = help(EXAMPLES))]
    Clients {
        /// Path below which the clients are.
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
        eprintln!("herdsman: no client is connected to receive the message");
        return Ok(Outcome::Negative);
    }
    let mut all_done = true;
    let mut late = std::pin::pin!(timed_out(timeout));
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
    eprintln!("herdsman: timed out waiting for a reply from {}", dispatched.missing().join(", "));
    Outcome::Negative
}

/// Prints a reply; returns false if the client has failed.
fn show(answer: Answer) -> Result<bool> {
    match answer {
        Answer::Acked(ack) => match ack.outcome {
            Ok(text) => {
                let line = format!("{}: {}", ack.client, one_line(&text));
                print_line(line.trim_end()).map(|()| true)
            }
            Err(reason) => {
                let reason = one_line(reason.as_bytes());
                print_line(format_args!("{} failed: {reason}", ack.client)).map(|()| false)
            }
        },
        // It may reconnect and reply.
        Answer::Left { client } => {
            print_line(format_args!("{client} disconnected without a reply")).map(|()| true)
        }
        other => print_line(format_args!("{other:?}")).map(|()| true),
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
    print_line(format_args!("{id} receives messages from {path}; Ctrl-C stops it"))?;
    let (handler, supervisor) = arguments.start();
    let work = client.run(move |command| {
        let handler = handler.clone();
        async move {
            let (id, data) = (command.id().to_string(), command.payload().clone());
            let environment = [("HERDSMAN_MESSAGE_ID", id.clone())];
            let outcome = handler.run(format!("message {id}"), data, &environment).await;
            outcome.map_err(|(Failed::Command(reason) | Failed::Data(reason))| reason)
        }
    });
    supervisor.until_interrupted(work, interrupted).await
}

async fn list(zk: &Client, path: &str) -> Result<Outcome> {
    let clients = Dispatcher::new(zk, path)?.clients().await?;
    for client in &clients {
        print_line(client)?;
    }
    if clients.is_empty() {
        eprintln!("herdsman: no clients are connected at {path}");
        return Ok(Outcome::Negative);
    }
    Ok(Outcome::Done)
}

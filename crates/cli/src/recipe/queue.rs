//! `herdsman recipe queue`: puts items into a queue and takes them out.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use herdsman_client::Client;
use herdsman_recipes::queue::Queue;

use super::input::lines_of_stdin;
use super::outcome::{Interrupted, Outcome, help};
use super::output::{print_bytes, print_line};
use super::{seconds, timed_out};

pub(super) const EXAMPLES: &str = "\
  herdsman recipe queue put /queue one two
  herdsman recipe queue put /queue < items.txt
  herdsman recipe queue take /queue --count 2 --timeout 10
  herdsman recipe queue peek /queue
  herdsman recipe queue length /queue";

/// Put items into a queue, take them out, or look at the queue.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Put items at the end of the queue; without items, each line of standard input is one.
    #[command(after_help = help(EXAMPLES))]
    Put {
        /// The queue's path.
        path: String,
        /// The items.
        items: Vec<String>,
    },
    /// Take items from the front of the queue, waiting for them, and print them.
    #[command(after_help = help(EXAMPLES))]
    Take {
        /// The queue's path.
        path: String,
        /// Number of items.
        #[arg(long, short = 'c', default_value = "1", value_name = "NUMBER")]
        count: usize,
        /// Give up after this time without an item.
        #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
        timeout: Option<Duration>,
    },
    /// Print the item at the front and leave it there.
    #[command(after_help = help(EXAMPLES))]
    Peek {
        /// The queue's path.
        path: String,
    },
    /// Print the number of items.
    #[command(after_help = help(EXAMPLES))]
    Length {
        /// The queue's path.
        path: String,
    },
}

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    interrupted.or(act(zk, &arguments.action)).await
}

async fn act(zk: &Client, action: &Action) -> Result<Outcome> {
    match action {
        Action::Put { path, items } => put(&Queue::new(zk, path)?, items).await,
        Action::Take { path, count, timeout } => {
            take(&Queue::new(zk, path)?, *count, *timeout).await
        }
        Action::Peek { path } => match Queue::new(zk, path)?.peek().await? {
            Some(item) => print_bytes(&item).map(|()| Outcome::Done),
            None => Ok(empty(path)),
        },
        Action::Length { path } => {
            print_line(Queue::new(zk, path)?.len().await?)?;
            Ok(Outcome::Done)
        }
    }
}

fn empty(path: &str) -> Outcome {
    eprintln!("herdsman: {path} is empty");
    Outcome::Negative
}

async fn put(queue: &Queue, items: &[String]) -> Result<Outcome> {
    if !items.is_empty() {
        for item in items {
            queue.offer(item.clone()).await?;
        }
        return Ok(Outcome::Done);
    }
    let mut lines = lines_of_stdin();
    while let Some(line) = lines.recv().await {
        queue.offer(line.context("reading standard input")?).await?;
    }
    Ok(Outcome::Done)
}

async fn take(queue: &Queue, count: usize, timeout: Option<Duration>) -> Result<Outcome> {
    for _ in 0..count {
        let taken = tokio::select! {
            taken = queue.take() => taken?,
            () = timed_out(timeout) => return Ok(empty(queue.path())),
        };
        print_bytes(&taken)?;
    }
    Ok(Outcome::Done)
}

//! `herdsman recipe counter`: a number that many processes change.

use anyhow::Result;
use clap::{Args, Subcommand};
use herdsman_client::Client;
use herdsman_recipes::AtomicLong;

use super::outcome::{Interrupted, Outcome, help};
use super::output::say;

pub(super) const EXAMPLES: &str = "\
  herdsman recipe counter add /stats/visits            # adds 1 and prints the sum
  herdsman recipe counter add /stats/visits -5
  herdsman recipe counter get /stats/visits
  herdsman recipe counter set /stats/visits 0
  herdsman recipe counter compare-and-set /stats/visits 0 100";

/// Read or change a number that many processes share.
///
/// The node holds 8 bytes, as that of Curator's DistributedAtomicLong does. A counter that does not exist is 0.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print the number.
    #[command(after_help = help(EXAMPLES))]
    Get {
        /// The counter's path.
        path: String,
    },
    /// Add to the number, exactly once, and print the sum. Sums wrap around.
    #[command(after_help = help(EXAMPLES))]
    Add {
        /// The counter's path.
        path: String,
        /// What to add.
        #[arg(value_name = "NUMBER", default_value = "1", allow_negative_numbers = true)]
        number: i64,
    },
    /// Replace the number, whatever it is, and print the new one.
    #[command(after_help = help(EXAMPLES))]
    Set {
        /// The counter's path.
        path: String,
        /// The new number.
        #[arg(value_name = "NUMBER", allow_negative_numbers = true)]
        number: i64,
    },
    /// Replace the number only if it is the expected one, and print the new one; else exit with 3.
    #[command(after_help = help(EXAMPLES))]
    CompareAndSet {
        /// The counter's path.
        path: String,
        /// What the number must be.
        #[arg(value_name = "EXPECTED", allow_negative_numbers = true)]
        expected: i64,
        /// The new number.
        #[arg(value_name = "NUMBER", allow_negative_numbers = true)]
        number: i64,
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
    let number = match action {
        Action::Get { path } => AtomicLong::new(zk, path).get().await?,
        // A script cannot find out what came of a reply that was lost.
        Action::Add { path, number } => {
            AtomicLong::new(zk, path).add_exactly_once(*number).await?.after
        }
        Action::Set { path, number } => {
            AtomicLong::new(zk, path).set(*number).await?;
            *number
        }
        Action::CompareAndSet { path, expected, number } => {
            if !AtomicLong::new(zk, path).compare_and_set(*expected, *number).await? {
                eprintln!("herdsman: {path} is not {expected}; nothing was changed");
                return Ok(Outcome::Negative);
            }
            *number
        }
    };
    say(number)?;
    Ok(Outcome::Done)
}

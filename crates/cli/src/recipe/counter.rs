//! `herdsman recipe counter`: a number shared by many processes.

use anyhow::Result;
use clap::{Args, Subcommand};
use herdsman_client::Client;
use herdsman_recipes::AtomicLong;

use super::outcome::{Interrupted, Outcome, help};
use super::output::print_line;

pub(super) const EXAMPLES: &str = "\
  herdsman recipe counter add /stats/visits            # adds 1 and prints the sum
  herdsman recipe counter add /stats/visits -5
  herdsman recipe counter get /stats/visits
  herdsman recipe counter set /stats/visits 0
  herdsman recipe counter compare-and-set /stats/visits 0 100";

/// Read or change a number that many processes share.
///
/// The node contains 8 bytes, like that of Curator's DistributedAtomicLong. A counter that does not exist is 0.
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
        /// The number to add.
        #[arg(value_name = "NUMBER", default_value = "1", allow_negative_numbers = true)]
        number: i64,
    },
    /// Set the number unconditionally, and print the new one.
    #[command(after_help = help(EXAMPLES))]
    Set {
        /// The counter's path.
        path: String,
        /// The new number.
        #[arg(value_name = "NUMBER", allow_negative_numbers = true)]
        number: i64,
    },
    /// Set the number if it has the expected value, and print the new one; else exit with 3.
    #[command(after_help = help(EXAMPLES))]
    CompareAndSet {
        /// The counter's path.
        path: String,
        /// The expected value.
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
        // A script could not find out whether an addition whose reply was lost has taken effect.
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
    print_line(number)?;
    Ok(Outcome::Done)
}

//! The one binary, `herdsman`.

mod ensemble;
mod recipe;
mod server;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A coordination service that speaks Apache ZooKeeper's protocols and formats.
#[derive(Parser)]
#[command(name = "herdsman", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Server(server::Arguments),
    Recipe(recipe::Arguments),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Server(arguments) => server::run(&arguments),
        Command::Recipe(arguments) => recipe::run(arguments),
    }
}

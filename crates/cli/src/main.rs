//! The one binary, `herdsman`.

mod admin;
mod ensemble;
mod generate;
mod health;
mod log_queue;
mod logging;
mod recipe;
mod server;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use herdsman_inspect::{BackupArguments, InspectArguments, RepairArguments, RestoreArguments};

/// A coordination service that speaks Apache ZooKeeper's protocols and formats.
#[derive(Parser)]
#[command(name = "herdsman", version, propagate_version = true)]
#[command(after_help = "\
Start here:
  herdsman server                run a server on 127.0.0.1:2181, with a console on http://127.0.0.1:8080
  herdsman shell                 open a shell on that server
  herdsman server --ensemble 3   run three servers, to see elections and failover")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Server(server::Arguments),
    Shell(herdsman_shell::Arguments),
    Inspect(InspectArguments),
    Repair(RepairArguments),
    Backup(BackupArguments),
    Restore(RestoreArguments),
    Recipe(recipe::Arguments),
    Bench(herdsman_bench::Arguments),
    Health(health::Arguments),
    Completions(generate::CompletionsArguments),
    Man(generate::ManArguments),
}

fn main() -> ExitCode {
    let arguments = herdsman_shell::modernized(std::env::args_os());
    match Arguments::parse_from(arguments).command {
        Command::Server(arguments) => server::run(&arguments),
        Command::Shell(arguments) => herdsman_shell::run(&arguments),
        Command::Inspect(arguments) => herdsman_inspect::run_inspect(&arguments),
        Command::Repair(arguments) => herdsman_inspect::run_repair(&arguments),
        Command::Backup(arguments) => herdsman_inspect::run_backup(&arguments),
        Command::Restore(arguments) => herdsman_inspect::run_restore(&arguments),
        Command::Recipe(arguments) => recipe::run(arguments),
        Command::Bench(arguments) => herdsman_bench::run(&arguments),
        Command::Health(arguments) => health::run(&arguments),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Man(arguments) => generate::man(&arguments),
    }
}

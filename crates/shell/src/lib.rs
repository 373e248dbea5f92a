//! `herdsman shell`: a shell for the znodes of Herdsman and of Apache ZooKeeper 3.5 and newer.
//!
//! In: a command on the command line, commands line by line from a pipe, or a user at a terminal.
//! Out: text as `zkCli` prints it, or JSON for scripts, and an exit code: 0 success, 1 the command
//! failed, 2 invalid usage.
//!
//! How a line is processed: [`words`] splits it, [`commands`] parses it by the one description
//! (clap's) from which help, hints and completion are also made, and the command runs on the
//! [`shell::Shell`], which owns the connection, the watches and the output. Nothing here speaks the
//! protocol; that is the task of `herdsman-client`.
//!
//! Apache: `ZooKeeperMain` and the package `cli`.

mod arguments;
mod argv;
mod ask;
mod commands;
mod connection;
mod failure;
pub(crate) mod format;
mod interactive;
mod interrupts;
mod output;
mod protection;
mod reachability;
mod run;
mod shell;
mod streams;
pub mod subtree;
mod usage;
mod watches;
mod words;

pub use arguments::{Arguments, ColorChoice};
pub use argv::modernized;
pub use commands::command;
pub use protection::{ProtectionArguments, ProtectionError};
pub use reachability::connect_with_note;
pub use run::{run, run_with};
pub use streams::Streams;

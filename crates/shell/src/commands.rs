//! All commands of the shell, described once.
//!
//! In: the words of a line. Out: a [`Command`] that is ready to run, or one line that says what is
//! wrong with it. The description is clap's; `help`, hints, completion and the docs are also made
//! from [`command`], so that they cannot disagree.
//!
//! To add a command: add a file with its arguments, which implement [`Run`], and a line in the table
//! below.

use std::sync::OnceLock;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::failure::Failure;
use crate::shell::Shell;
use crate::usage;

mod about;
mod acl;
mod auth;
mod create;
mod delete;
mod deleteall;
mod get;
mod help;
mod history;
mod ls;
mod membership;
mod nearest;
mod quota;
mod session;
mod set;
mod stat;
mod subtree_copy;
mod subtree_diff;
mod subtree_du;
mod subtree_edit;
mod subtree_export;
mod subtree_failure;
mod subtree_find;
mod subtree_import;
mod subtree_tree;
mod subtree_watch;
mod sync;
mod watch;

pub(crate) use session::close_session;

/// A command with its arguments.
pub(crate) trait Run {
    /// Runs the command.
    async fn run(self, shell: &mut Shell) -> Result<(), Failure>;
}

macro_rules! commands {
    ($($(#[$attribute:meta])* $variant:ident($arguments:ty) = $name:literal,)*) => {
        /// A command of the shell.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$attribute])* #[command(name = $name)] $variant($arguments),)*
        }

        impl Command {
            /// Runs the command.
            pub(crate) async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
                match self {
                    $(Command::$variant(arguments) => Box::pin(arguments.run(shell)).await,)*
                }
            }
        }
    };
}

commands! {
    Ls(ls::Ls) = "ls",
    Get(get::Get) = "get",
    Stat(stat::Stat) = "stat",
    Create(create::Create) = "create",
    Set(set::Set) = "set",
    Delete(delete::Delete) = "delete",
    DeleteAll(deleteall::DeleteAll) = "deleteall",
    GetAcl(acl::GetAcl) = "getAcl",
    SetAcl(acl::SetAcl) = "setAcl",
    AddAuth(auth::AddAuth) = "addauth",
    WhoAmI(auth::WhoAmI) = "whoami",
    AddWatch(watch::AddWatch) = "addWatch",
    RemoveWatches(watch::RemoveWatches) = "removewatches",
    PrintWatches(watch::PrintWatches) = "printwatches",
    SetQuota(quota::SetQuota) = "setquota",
    ListQuota(quota::ListQuota) = "listquota",
    DelQuota(quota::DelQuota) = "delquota",
    GetEphemerals(stat::GetEphemerals) = "getEphemerals",
    GetAllChildrenNumber(stat::GetAllChildrenNumber) = "getAllChildrenNumber",
    Tree(subtree_tree::Tree) = "tree",
    Find(subtree_find::Find) = "find",
    Du(subtree_du::Du) = "du",
    Export(subtree_export::Export) = "export",
    Import(subtree_import::Import) = "import",
    Diff(subtree_diff::DiffSubtrees) = "diff",
    Watch(subtree_watch::WatchSubtree) = "watch",
    Edit(subtree_edit::Edit) = "edit",
    Copy(subtree_copy::Copy) = "copy",
    Move(subtree_copy::Move) = "move",
    Sync(sync::Sync) = "sync",
    Config(membership::Config) = "config",
    Reconfig(membership::Reconfig) = "reconfig",
    Connect(session::Connect) = "connect",
    Close(session::Close) = "close",
    #[command(alias = "exit")]
    Quit(session::Quit) = "quit",
    History(history::History) = "history",
    Redo(history::Redo) = "redo",
    Help(help::Help) = "help",
    Version(about::Version) = "version",
    #[command(hide = true)]
    Ls2(ls::Ls2) = "ls2",
    #[command(hide = true)]
    Rmr(deleteall::Rmr) = "rmr",
}

/// A line of input.
#[derive(Debug, Parser)]
#[command(
    name = "herdsman shell",
    no_binary_name = true,
    disable_help_subcommand = true,
    about = "The commands of the shell"
)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// The longest word that is compared with the names of commands.
const NAME_BYTES_MAX: usize = 64;

/// All commands of the shell, for documents and completions.
#[must_use]
pub fn command() -> clap::Command {
    Line::command()
}

/// [`command`], built once.
pub(crate) fn description() -> &'static clap::Command {
    static DESCRIPTION: OnceLock<clap::Command> = OnceLock::new();
    DESCRIPTION.get_or_init(|| {
        let mut command = command();
        command.build();
        command
    })
}

/// A parsed line.
#[derive(Debug)]
pub(crate) enum Parsed {
    Command(Box<Command>),
    /// `ls --help`: the text to print.
    Help(String),
}

impl Parsed {
    /// Whether it needs a connection.
    pub(crate) fn needs_server(&self) -> bool {
        match self {
            Parsed::Help(_) => false,
            Parsed::Command(command) => {
                !matches!(**command, Command::Help(_) | Command::Version(_) | Command::Quit(_))
            }
        }
    }
}

/// Parses the words of a line, of which there is at least one.
pub(crate) fn parse(words: &[String]) -> Result<Parsed, Failure> {
    let Some((name, arguments)) = words.split_first() else {
        return Err(Failure::usage("no command; try `help`"));
    };
    let known = usage::find(name);
    if known.is_none() && name.len() > NAME_BYTES_MAX {
        let letters = name.chars().count();
        return Err(Failure::usage(format!(
            "no command has a name of {letters} letters; `help` lists the commands"
        )));
    }
    let name = known.map_or(name.as_str(), clap::Command::get_name);
    let arguments = arguments.iter().map(|word| with_two_dashes(known, word));
    match Line::try_parse_from(std::iter::once(name.to_owned()).chain(arguments)) {
        Ok(line) => Ok(Parsed::Command(Box::new(line.command))),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            Ok(Parsed::Help(known.map_or_else(|| error.render().to_string(), usage::help)))
        }
        Err(error) => Err(Failure::usage(in_one_line(&error, known, name))),
    }
}

/// Adds the second dash to long flags: zkCli writes them with one, as in `-members` and `-add`.
fn with_two_dashes(command: Option<&clap::Command>, word: &str) -> String {
    let is_long = |flag: &str| {
        flag.len() > 1
            && command.is_some_and(|command| {
                command.get_arguments().any(|argument| argument.get_long() == Some(flag))
            })
    };
    match word.strip_prefix('-') {
        Some(flag) if is_long(flag) => format!("-{word}"),
        _ => word.to_owned(),
    }
}

/// Shortens clap's error, which has several lines, to one line.
fn in_one_line(error: &clap::Error, command: Option<&clap::Command>, name: &str) -> String {
    let Some(command) = command else {
        return match nearest::command_like(name) {
            Some(nearest) => format!("unknown command {name:?}; did you mean `{nearest}`?"),
            None => format!("unknown command {name:?}; `help` lists the commands"),
        };
    };
    let text = error.render().to_string();
    let first = text.lines().take_while(|line| !line.trim().is_empty());
    let message = first.map(str::trim).collect::<Vec<_>>().join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    format!("{name}: {message}; usage: {}", usage::of(command))
}

#[cfg(test)]
mod tests;

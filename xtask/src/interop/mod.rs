//! Tests with real ZooKeeper programs against a real server. Each suite takes the server under test
//! as a parameter, so that the suite itself can be checked with Apache's server before it tests
//! Herdsman.

mod admin;
mod c;
mod configurations;
mod console;
mod crash;
mod curator;
mod differential;
mod disk;
mod kazoo;
mod kerberos;
mod mixed;
mod recipes;
mod secured;
mod shell;
mod zkcli;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::server::Program;

/// A suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Seeded random requests get the same replies as from Apache 3.9.5.
    Differential,
    /// The same with two ensembles, with sessions that move between servers.
    DifferentialEnsemble,
    /// Apache 3.9.5 and the server open each other's data directories.
    Disk,
    /// kill -9 under load loses no acknowledged write.
    Crash,
    /// Ensembles of both kinds of server, and a rolling replacement.
    Mixed,
    /// TLS and SASL, with Apache's clients and beside Apache's servers.
    Secured,
    /// Logins with Kerberos, in a separate realm.
    Kerberos,
    /// The admin server responds as Apache's does; each restores the other's snapshots.
    Admin,
    /// The C client: a program of ours and cli_mt.
    C,
    /// Apache's zkCli prints the same as against Apache's server.
    Zkcli,
    /// `herdsman shell` prints what zkCli prints.
    Shell,
    /// Curator's recipes.
    Curator,
    /// kazoo's own test suite.
    Kazoo,
    /// kazoo's tests that need an ensemble of three.
    KazooEnsemble,
    /// Our recipes, Curator's, ZooKeeper's own and kazoo's contend for the same paths.
    Recipes,
    /// The console in a real browser, against three servers of this source.
    Console,
}

/// Runs one suite against one server program. Arguments are for the program that the suite runs.
pub fn run(
    suite: Suite,
    program: Program,
    seconds: Option<u64>,
    arguments: &[String],
) -> Result<()> {
    ensure!(seconds.is_none() || suite == Suite::Recipes, "--seconds is for the suite recipes");
    let takes_arguments = matches!(suite, Suite::Differential | Suite::DifferentialEnsemble);
    ensure!(arguments.is_empty() || takes_arguments, "{suite:?} takes no arguments");
    program.ensure_here()?;
    match suite {
        Suite::Differential => differential::run(program, arguments),
        Suite::DifferentialEnsemble => differential::run_ensemble(program, arguments),
        Suite::Disk => disk::run(program),
        Suite::Crash => crash::run(program),
        Suite::Mixed => mixed::run(program),
        Suite::Secured => secured::run(program),
        Suite::Kerberos => kerberos::run(program),
        Suite::Admin => admin::run(program),
        Suite::C => c::run(program),
        Suite::Zkcli => zkcli::run(program),
        Suite::Shell => shell::run(program),
        Suite::Curator => curator::run(program),
        Suite::Kazoo => kazoo::run(program),
        Suite::KazooEnsemble => kazoo::run_ensemble(program),
        Suite::Recipes => recipes::run(program, seconds),
        Suite::Console => console::run(program),
    }
}

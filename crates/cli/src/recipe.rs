//! `herdsman recipe`: the recipes as commands, to try out from two terminals or to use in scripts.
//!
//! In: arguments. Out: lines on standard output that report what happens, and an exit code for scripts. Ctrl-C releases
//! what is held, waits until the server has confirmed that, and ends the command.

mod barrier;
mod command;
mod config;
mod counter;
mod discovery;
mod dispatch;
mod election;
mod group;
mod handler;
mod holding;
mod id;
mod input;
mod item_commands;
mod lock;
mod locks;
mod master_worker;
mod monitor;
mod outcome;
mod output;
mod partition;
mod queue;
mod semaphore;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use herdsman_client::Client;
use herdsman_shell::{ProtectionArguments, ProtectionError, connect_with_note};

use outcome::{Interrupted, Outcome, help};
use output::OutputClosed;

const EXAMPLES: &str = "\
  herdsman recipe lock /locks/deploy -- ./deploy.sh
  herdsman recipe queue put /queue one two
  HERDSMAN_SERVERS=zk1:2181,zk2:2181/app herdsman recipe queue take /queue";

/// Use coordination recipes: locks, elections, barriers, queues, counters, groups, configuration, tasks and more.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct Arguments {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    recipe: Recipe,
}

#[derive(Args)]
#[command(next_help_heading = "Connection")]
struct Connection {
    /// Connect string: `host:port,host:port/chroot`.
    #[arg(
        long,
        short,
        visible_alias = "server",
        global = true,
        env = "HERDSMAN_SERVERS",
        default_value = "127.0.0.1:2181",
        value_name = "SERVERS"
    )]
    servers: String,
    /// Session timeout; after it, the servers release what this command holds.
    #[arg(long, global = true, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    session_timeout: Duration,
    /// Give up if no server accepts the session within this time.
    #[arg(long, global = true, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    connect_timeout: Duration,
    #[command(flatten)]
    protection: ProtectionArguments,
}

#[derive(Subcommand)]
enum Recipe {
    #[command(after_help = help(lock::EXAMPLES))]
    Lock(lock::Arguments),
    #[command(after_help = help(locks::EXAMPLES))]
    Locks(locks::Arguments),
    #[command(after_help = help(election::EXAMPLES))]
    Election(election::Arguments),
    #[command(after_help = help(barrier::EXAMPLES))]
    Barrier(barrier::Arguments),
    #[command(after_help = help(queue::EXAMPLES))]
    Queue(queue::Arguments),
    #[command(after_help = help(config::WATCH_EXAMPLES))]
    WatchConfig(config::WatchArguments),
    #[command(after_help = help(config::PUBLISH_EXAMPLES))]
    PublishConfig(config::PublishArguments),
    #[command(after_help = help(discovery::REGISTER_EXAMPLES))]
    Register(discovery::RegisterArguments),
    #[command(after_help = help(discovery::DISCOVER_EXAMPLES))]
    Discover(discovery::DiscoverArguments),
    #[command(after_help = help(id::EXAMPLES))]
    Id(id::Arguments),
    #[command(after_help = help(counter::EXAMPLES))]
    Counter(counter::Arguments),
    #[command(after_help = help(semaphore::EXAMPLES))]
    Semaphore(semaphore::Arguments),
    #[command(after_help = help(group::EXAMPLES))]
    Group(group::Arguments),
    #[command(after_help = help(monitor::EXAMPLES))]
    Monitor(monitor::Arguments),
    #[command(after_help = help(partition::EXAMPLES))]
    Partition(partition::Arguments),
    #[command(after_help = help(dispatch::EXAMPLES))]
    Dispatch(dispatch::Arguments),
    #[command(after_help = help(master_worker::MASTER_EXAMPLES))]
    Master(master_worker::MasterArguments),
    #[command(after_help = help(master_worker::WORKER_EXAMPLES))]
    Worker(master_worker::WorkerArguments),
    #[command(after_help = help(master_worker::SUBMIT_EXAMPLES))]
    Submit(master_worker::SubmitArguments),
}

/// Runs one recipe.
pub fn run(arguments: Arguments) -> ExitCode {
    match run_to_end(arguments) {
        Ok(outcome) => outcome.exit_code(),
        Err(error) if error.is::<OutputClosed>() => Outcome::OutputClosed.exit_code(),
        Err(error) => {
            eprintln!("herdsman: {error:#}");
            // Flags that exclude each other, or a file that they name cannot be used.
            let is_usage = error.is::<ProtectionError>();
            if is_usage { ExitCode::from(WRONG_USAGE) } else { ExitCode::FAILURE }
        }
    }
}

/// The exit code of clap for wrong usage.
const WRONG_USAGE: u8 = 2;

fn run_to_end(arguments: Arguments) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let mut interrupted = Interrupted::listen()?;
        let connected = tokio::select! {
            connected = arguments.connection.open() => connected?,
            () = interrupted.wait() => return Ok(Outcome::Interrupted),
        };
        let outcome = arguments.recipe.run(&connected, &mut interrupted).await;
        // What is held is released with the session; if the server cannot be reached, after the session timeout.
        let closed = tokio::time::timeout(CLOSE_MAX, connected.close()).await;
        if !matches!(closed, Ok(Ok(()))) {
            eprintln!(
                "herdsman: the server did not confirm the end of the session; it will expire after its timeout"
            );
        }
        outcome
    })
}

/// How long to wait for the server to confirm the end of the session.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Waits for `work`, which releases something, but no longer than [`CLOSE_MAX`]: the end of the session releases it
/// anyway.
async fn release<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(CLOSE_MAX, work).await.ok()
}

impl Connection {
    async fn open(&self) -> Result<Client> {
        let options = Client::options()
            .session_timeout(self.session_timeout)
            .connect_timeout(self.connect_timeout);
        let options = self.protection.apply(options)?;
        let note = |line| eprintln!("herdsman: {line}");
        let connecting = connect_with_note(options, &self.servers, self.connect_timeout, note);
        connecting.await.with_context(|| format!("cannot connect to {}", self.servers))
    }
}

impl Recipe {
    async fn run(self, zk: &Client, interrupted: &mut Interrupted) -> Result<Outcome> {
        match self {
            Recipe::Lock(arguments) => lock::run(zk, &arguments, interrupted).await,
            Recipe::Locks(arguments) => interrupted.or(locks::run(zk, &arguments)).await,
            Recipe::Election(arguments) => election::run(zk, &arguments, interrupted).await,
            Recipe::Barrier(arguments) => barrier::run(zk, &arguments, interrupted).await,
            Recipe::Queue(arguments) => queue::run(zk, &arguments, interrupted).await,
            Recipe::WatchConfig(arguments) => config::watch(zk, &arguments, interrupted).await,
            Recipe::PublishConfig(arguments) => {
                interrupted.or(config::publish(zk, &arguments)).await
            }
            Recipe::Register(arguments) => discovery::register(zk, &arguments, interrupted).await,
            Recipe::Discover(arguments) => discovery::discover(zk, &arguments, interrupted).await,
            Recipe::Id(arguments) => id::run(zk, &arguments, interrupted).await,
            Recipe::Counter(arguments) => counter::run(zk, &arguments, interrupted).await,
            Recipe::Semaphore(arguments) => semaphore::run(zk, &arguments, interrupted).await,
            Recipe::Group(arguments) => group::run(zk, &arguments, interrupted).await,
            Recipe::Monitor(arguments) => monitor::run(zk, &arguments, interrupted).await,
            Recipe::Partition(arguments) => partition::run(zk, &arguments, interrupted).await,
            Recipe::Dispatch(arguments) => dispatch::run(zk, &arguments, interrupted).await,
            Recipe::Master(arguments) => master_worker::master(zk, &arguments, interrupted).await,
            Recipe::Worker(arguments) => master_worker::worker(zk, &arguments, interrupted).await,
            Recipe::Submit(arguments) => master_worker::submit(zk, &arguments, interrupted).await,
        }
    }
}

/// Resolves after this time; without a limit, never.
async fn timed_out(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// Parses a time in seconds, with or without a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.parse().map_err(|_| "expected a number of seconds, for example 2.5".to_owned())?;
    Duration::try_from_secs_f64(number)
        .map_err(|_| "the time must not be negative or too large".to_owned())
}

/// Parses a time of more than 0 seconds.
pub(crate) fn positive_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("the time must be more than 0 seconds".to_owned()),
        time => Ok(time),
    }
}

/// Returns a unique name for this process: the host's name and the process id.
fn process_name() -> String {
    // The standard library has no function for the host name; Linux provides it as a file.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "localhost" } else { host };
    format!("{host}-{}", std::process::id())
}

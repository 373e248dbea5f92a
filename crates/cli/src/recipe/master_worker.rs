//! `herdsman recipe master`, `worker` and `submit`: tasks that a master assigns to workers.

use std::num::{NonZeroU32, NonZeroUsize};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Args;
use herdsman_client::Client;
use herdsman_recipes::master_worker::{Ending, Failure, Role, Task, TaskId};
use herdsman_recipes::{Master, Submitter, Worker};

use super::handler::{Failed, Handler, HandlerArguments};
use super::input::all_of_stdin;
use super::outcome::{Interrupted, Outcome};
use super::output::{one_line, print_line, write_out};
use super::{process_name, seconds, timed_out};

pub(super) const MASTER_EXAMPLES: &str = "\
  herdsman recipe master /jobs               # a second one is on standby
  herdsman recipe master /jobs --attempts 5";

pub(super) const WORKER_EXAMPLES: &str = "\
  herdsman recipe worker /jobs -- tr a-z A-Z
  herdsman recipe worker /jobs --concurrency 4 --as-argument -- ./convert.sh";

pub(super) const SUBMIT_EXAMPLES: &str = "\
  herdsman recipe submit /jobs hello                     # prints the result: HELLO
  herdsman recipe submit /jobs --timeout 60 < input.txt
  herdsman recipe submit /jobs hello --key greeting --no-wait
  herdsman recipe submit /jobs hello --key greeting      # the same task: waits for its result";

/// Assign tasks to workers, until Ctrl-C.
///
/// Of several masters one is active, and the others are on standby.
#[derive(Args)]
pub(super) struct MasterArguments {
    /// Path below which the tasks are.
    path: String,
    /// Name of this master, shown to other clients; by default the host name and the process id.
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Number of attempts after which a task has failed.
    #[arg(long, default_value = "3", value_name = "NUMBER")]
    attempts: NonZeroU32,
}

/// Execute tasks, until Ctrl-C: run a command for each, whose output is the result.
///
/// The command gets the task's id in HERDSMAN_TASK_ID, the number of the attempt in HERDSMAN_TASK_ATTEMPT, and in
/// HERDSMAN_FENCING_TOKEN a number that increases from attempt to attempt. A task may be executed more than once, but
/// has one result. When the task is cancelled or assigned to another worker, the command gets SIGTERM, and SIGKILL if
/// it has not ended ten seconds later. After Ctrl-C other workers get the unfinished tasks.
#[derive(Args)]
pub(super) struct WorkerArguments {
    /// Path below which the tasks are.
    path: String,
    /// Unique name of this worker; by default the host name and the process id.
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Number of tasks executed at the same time.
    #[arg(long, short = 'c', default_value = "1", value_name = "NUMBER")]
    concurrency: NonZeroUsize,
    #[command(flatten)]
    handler: HandlerArguments,
}

/// Submit a task, wait until it has ended, and print its result.
///
/// Exits with 3 if the task has failed, was cancelled, or has not ended in time. The task continues even if this
/// command ends.
#[derive(Args)]
pub(super) struct SubmitArguments {
    /// Path below which the tasks are.
    path: String,
    /// The task's data; without it, all of standard input.
    data: Option<String>,
    /// Submit the task only if there is none with this key; else wait for the existing one.
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// Stop waiting after this time.
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Do not wait for the result; print the task's id.
    #[arg(long, short = 'n', conflicts_with = "timeout")]
    no_wait: bool,
}

pub(super) async fn master(
    zk: &Client,
    arguments: &MasterArguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let id = arguments.id.clone().unwrap_or_else(process_name);
    let master = Master::new(zk, &arguments.path)?;
    let master = master.id(&id).attempts_max(arguments.attempts.get());
    let mut roles = master.roles();
    let mut run = pin!(master.run());
    loop {
        tokio::select! {
            // Roles first, so that "on standby" is printed before "active".
            biased;
            () = interrupted.wait() => return Ok(Outcome::Done),
            Some(role) = roles.next() => match role {
                Role::Active => print_line(format_args!("{id} is the active master of {}", arguments.path))?,
                _ => print_line(format_args!("{id} is a standby master of {}", arguments.path))?,
            },
            ended = &mut run => return Ok(ended.map(|()| Outcome::Lost)?),
        }
    }
}

pub(super) async fn worker(
    zk: &Client,
    arguments: &WorkerArguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let id = arguments.id.clone().unwrap_or_else(process_name);
    let worker = Worker::new(zk, &arguments.path, &id)?.concurrency(arguments.concurrency.get());
    print_line(format_args!("{id} executes tasks of {}; Ctrl-C stops it", arguments.path))?;
    let (handler, supervisor) = arguments.handler.start();
    let work = worker.run(move |task| {
        let handler = handler.clone();
        async move { carry_out(&handler, &task).await }
    });
    supervisor.until_interrupted(work, interrupted).await
}

async fn carry_out(handler: &Handler, task: &Task) -> Result<Vec<u8>, Failure> {
    let environment = [
        ("HERDSMAN_TASK_ID", task.id().to_string()),
        ("HERDSMAN_TASK_ATTEMPT", task.attempt().to_string()),
        ("HERDSMAN_FENCING_TOKEN", task.token().to_string()),
    ];
    let name = format!("task {}", task.id());
    let outcome = handler.run(name, task.payload().clone(), &environment).await;
    outcome.map_err(|failed| match failed {
        Failed::Command(reason) => Failure::transient(reason),
        Failed::Data(reason) => Failure::permanent(reason),
    })
}

/// How much of standard input is read: more than a task may contain, so that the recipe reports the error.
const DATA_BYTES_MAX: u64 = 1_000_000;

pub(super) async fn submit(
    zk: &Client,
    arguments: &SubmitArguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let submitter = Submitter::new(zk, &arguments.path)?;
    interrupted.or(submit_and_wait(&submitter, arguments)).await
}

async fn submit_and_wait(submitter: &Submitter, arguments: &SubmitArguments) -> Result<Outcome> {
    let data = match &arguments.data {
        Some(data) => Bytes::from(data.clone()),
        None => all_of_stdin(DATA_BYTES_MAX).await.context("reading standard input")?.into(),
    };
    let task = match &arguments.key {
        Some(key) => submitter.submit_once(key, data).await?,
        None => submitter.submit(data).await?,
    };
    if arguments.no_wait {
        print_line(&task)?;
        return Ok(Outcome::Done);
    }
    let ending = tokio::select! {
        ending = submitter.result(&task) => ending?,
        () = timed_out(arguments.timeout) => {
            eprintln!("herdsman: timed out waiting for task {task}, which continues");
            return Ok(Outcome::Negative);
        }
    };
    show_ending(&task, ending)
}

fn show_ending(task: &TaskId, ending: Ending) -> Result<Outcome> {
    match ending {
        Ending::Done(result) => write_out(&result).map(|()| Outcome::Done),
        Ending::Failed { reason } => {
            eprintln!("herdsman: task {task} failed: {}", one_line(reason.as_bytes()));
            Ok(Outcome::Negative)
        }
        Ending::Cancelled => {
            eprintln!("herdsman: task {task} was cancelled");
            Ok(Outcome::Negative)
        }
        other => {
            eprintln!("herdsman: task {task} ended: {other:?}");
            Ok(Outcome::Negative)
        }
    }
}

//! Submits tasks, waits for their results, cancels them.
//!
//! In: payloads. Out: ids and endings. Every write is one step of [`steps`](super::steps) and is repeated until its
//! outcome is known.

use bytes::Bytes;
use herdsman_client::{Client, Op};
use serde::Serialize;

use super::follow;
use super::nodes::{Paths, State, Versioned};
use super::steps::{self, TaskNodes};
use super::task::{Ending, TaskId, TaskStatus};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::messaging::envelope::{from_json, user_json};
use crate::retrying::{is_overtaken, may_succeed_later, retrying};

/// The maximum size of a payload and of a result: less than a znode's limit, so that a step of the task that moves it
/// fits into one request.
pub(super) const BYTES_MAX: usize = 1_000_000;
/// Tasks that may wait or run at once, by default.
const BACKLOG_MAX: usize = 10_000;
/// Submits, follows and cancels tasks. Cheap to clone.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::master_worker::{Ending, Submitter, TaskState};
///
/// let submitter = Submitter::new(&zk, "/jobs")?;
/// let task = submitter.submit_once("invoice-17", "17").await?;
/// // Submitted again, for example by a program that was restarted: still one task.
/// assert_eq!(submitter.submit_once("invoice-17", "17").await?, task);
/// assert_eq!(submitter.status(&task).await?.state, TaskState::Waiting);
/// assert_eq!(submitter.cancel(&task).await?, Ending::Cancelled);
/// submitter.forget(&task).await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Submitter {
    client: Client,
    paths: Paths,
    backlog_max: usize,
}

impl Submitter {
    /// Creates a submitter for the masters and workers at `root`. They need not be running yet.
    pub fn new(client: &Client, root: &str) -> Result<Self> {
        let client = retrying(client);
        Ok(Submitter { paths: Paths::new(root)?, client, backlog_max: BACKLOG_MAX })
    }

    /// Sets how many tasks may wait or run; with more, submissions fail with [`Error::Full`]. Default 10,000.
    /// Submitters that submit at the same moment may exceed it by their number.
    #[must_use]
    pub fn backlog_max(mut self, tasks: usize) -> Self {
        self.backlog_max = tasks;
        self
    }

    /// Submits a task of at most 1,000,000 bytes, exactly once, whatever happens to the connection. If this future is
    /// dropped, it is unknown whether the task was submitted.
    pub async fn submit(&self, payload: impl Into<Bytes>) -> Result<TaskId> {
        self.submit_as(TaskId::unique(), payload.into()).await
    }

    /// Like [`Submitter::submit`], with a value as JSON.
    pub async fn submit_json(&self, payload: &impl Serialize) -> Result<TaskId> {
        self.submit(user_json(payload)?).await
    }

    /// Submits a task unless there is one with the same key that waits, runs, or has ended and was not forgotten. Its
    /// id follows from the key.
    pub async fn submit_once(&self, key: &str, payload: impl Into<Bytes>) -> Result<TaskId> {
        self.submit_as(TaskId::from_key(key)?, payload.into()).await
    }

    async fn submit_as(&self, task: TaskId, payload: Bytes) -> Result<TaskId> {
        if payload.len() > BYTES_MAX {
            let text = format!(
                "a payload of {} bytes is too large, the limit is {BYTES_MAX}",
                payload.len()
            );
            return Err(Error::invalid(text));
        }
        self.check_backlog(&task).await?;
        loop {
            let ops = steps::submit(&self.paths, &task, payload.clone());
            match self.client.transaction(ops).await {
                Ok(_) => return Ok(task),
                // Created by an attempt whose reply was lost, or by another submitter with the same key.
                Err(error) if error.is_node_exists() => return Ok(task),
                Err(error) if error.is_no_node() => {
                    self.paths.make(&self.client).await?;
                }
                Err(error) if may_succeed_later(&self.client, &error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn check_backlog(&self, task: &TaskId) -> Result<()> {
        let tasks = self.client.exists(&self.paths.tasks()).await?;
        let waiting = tasks.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0));
        let is_full = waiting >= self.backlog_max;
        // A task that has been submitted already does not add to the backlog.
        if is_full && self.client.exists(&self.paths.status(task)).await?.is_none() {
            return Err(Error::Full { limit: self.backlog_max });
        }
        Ok(())
    }

    /// Waits until the task has ended. Fails with [`NoNode`](herdsman_client::ErrorKind::NoNode) if there is no such
    /// task, or it was forgotten. Costs one watch while it waits. Cancel-safe.
    pub async fn result(&self, task: &TaskId) -> Result<Ending> {
        let path = self.paths.result(task);
        loop {
            let (stat, watch) = self.client.exists(&path).watch().await?;
            if stat.is_none() {
                // Fails if there never was or is no longer such a task.
                let known = self.client.get(&self.paths.status(task)).await;
                let is_over = self.client.exists(&path).await?.is_some();
                if !is_over {
                    known?;
                    // Whatever ended the watch, read again.
                    match watch.await {
                        Err(error) if !may_succeed_later(&self.client, &error) => {
                            return Err(error.into());
                        }
                        _ => continue,
                    }
                }
            }
            return self.ending(task).await;
        }
    }

    /// Cancels the task and returns how it ended: [`Ending::Cancelled`], unless it had ended before. A worker that
    /// runs it stops, and can no longer report a result.
    pub async fn cancel(&self, task: &TaskId) -> Result<Ending> {
        loop {
            let now = self.read_status(task).await?;
            if now.status.state.is_final() {
                return self.ending(task).await;
            }
            let task_nodes = self.task_nodes(task, &now).await?;
            let cancel = steps::end(&self.paths, task, &now, &task_nodes, &Ending::Cancelled);
            self.try_step(cancel).await?;
        }
    }

    /// Deletes the result of an ended task and all that is left of it. If the task has not ended, deletes nothing and
    /// fails with [`Error::InvalidArgument`]. Succeeds if the task does not exist.
    pub async fn forget(&self, task: &TaskId) -> Result<()> {
        loop {
            let now = match self.read_status(task).await {
                Err(error) if error.is_no_node() => return Ok(()),
                now => now?,
            };
            if !now.status.state.is_final() {
                return Err(Error::invalid(format!("task {task} has not ended; cancel it first")));
            }
            let has_dead_letter = self.client.exists(&self.paths.dead(task)).await?.is_some();
            self.try_step(steps::forget(&self.paths, task, &now, has_dead_letter)).await?;
        }
    }

    /// Returns the status of the task.
    pub async fn status(&self, task: &TaskId) -> Result<TaskStatus> {
        follow::read_status(&self.client, &self.paths, task).await
    }

    /// Returns the status of the task, now and whenever it changes or the worker reports progress, until the task has
    /// ended. A slow reader sees only the latest. The stream ends after an error, for example that there is no such
    /// task.
    pub fn follow(&self, task: &TaskId) -> Events<Result<TaskStatus>> {
        follow::follow(self.client.clone(), self.paths.clone(), task.clone())
    }

    async fn read_status(&self, task: &TaskId) -> Result<Versioned> {
        let path = self.paths.status(task);
        let node = self.client.get(&path).await?;
        Ok(Versioned { status: from_json(&path, &node.data)?, version: node.stat.version })
    }

    async fn ending(&self, task: &TaskId) -> Result<Ending> {
        let path = self.paths.result(task);
        Ending::decode(&path, &self.client.get(&path).await?.data)
    }

    async fn task_nodes(&self, task: &TaskId, now: &Versioned) -> Result<TaskNodes> {
        let has_assignment = match &now.status.state {
            State::Assigned { worker, nonce, .. } => {
                self.client.exists(&self.paths.assignment(worker, task, nonce)).await?.is_some()
            }
            _ => false,
        };
        let payload = self.client.exists(&self.paths.task(task)).await?.map(|_| Bytes::new());
        Ok(TaskNodes { has_assignment, payload })
    }

    /// Sends the writes of a step. Fails only if reading again cannot help.
    async fn try_step(&self, ops: Vec<Op>) -> Result<()> {
        match self.client.transaction(ops).await {
            Err(error) if is_overtaken(&error) || may_succeed_later(&self.client, &error) => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }
}

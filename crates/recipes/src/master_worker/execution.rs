//! One attempt at a task, from the assignment to its end.
//!
//! In: a name in the worker's directory of assignments. Out: the task has ended, waits again, or is no longer
//! assigned to this worker; in each case by one transaction. Dropping the attempt drops the work at its current await
//! point and writes nothing.

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Fenced, Op, Zxid};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::nodes::{Assignment, AssignmentName, Paths};
use super::steps::{self, TaskNodes};
use super::submitter::BYTES_MAX;
use super::task::{Ending, Failure};
use super::worker::{Task, Work};
use crate::messaging::Progress;
use crate::messaging::envelope::{from_json, to_json};

/// What happened to the assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempted {
    /// It does not exist any more.
    Settled,
    /// This worker is not to carry it out, as far as it could see.
    Left,
}

/// An assignment as it was read.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) assignment: Assignment,
    /// A number that grows from attempt to attempt.
    pub(super) token: u64,
    /// Writes only while the assignment exists and the status is unchanged since the assignment, so that no write of
    /// this attempt counts for the next one, or for another task with the same key.
    pub(super) fenced: Fenced,
}

/// The maximum length of the stored reason of a failure.
const REASON_CHARS_MAX: usize = 4000;

#[derive(Debug)]
pub(super) struct Execution {
    /// The client, bound to the session of the worker's registration.
    pub(super) client: Client,
    pub(super) paths: Paths,
    pub(super) worker: String,
    pub(super) incarnation: i64,
    pub(super) name: AssignmentName,
    pub(super) progress_interval: Duration,
}

impl Execution {
    pub(super) async fn run(self, work: Work) -> Attempted {
        let path = self.path();
        let assignment = match self.client.get(&path).await {
            Ok(node) => from_json::<Assignment>(&path, &node.data)
                .map(|assignment| self.attempt(assignment, node.stat.czxid)),
            Err(error) if error.is_no_node() => return Attempted::Settled,
            Err(error) => Err(error.into()),
        };
        let attempt = match assignment {
            Ok(attempt) if attempt.assignment.incarnation == self.incarnation => attempt,
            // Meant for the worker that had this name before; the master takes it back.
            Ok(_) => return Attempted::Left,
            Err(error) => {
                tracing::warn!(%error, "not an assignment; ignored");
                return Attempted::Left;
            }
        };
        let payload = match self.client.get(&self.paths.task(&self.name.task)).await {
            Ok(node) => Some(node.data),
            Err(error) if error.is_no_node() => None,
            Err(_) => return Attempted::Left,
        };
        let outcome = match &payload {
            Some(payload) => self.work(&attempt, payload.clone(), work).await,
            None => Err(Failure::permanent("the payload is missing")),
        };
        self.conclude(&attempt.assignment, payload, outcome).await
    }

    fn path(&self) -> String {
        self.paths.assignment(&self.worker, &self.name.task, &self.name.nonce)
    }

    fn attempt(&self, assignment: Assignment, czxid: Zxid) -> Attempt {
        let status = self.client.fenced_by(&self.paths.status(&self.name.task));
        let fenced = status.at_version(assignment.status_version).and(&self.path());
        let token = u64::try_from(czxid.0).unwrap_or_default();
        Attempt { assignment, token, fenced }
    }

    /// Runs the handler, and writes the progress that it reports.
    async fn work(&self, attempt: &Attempt, payload: Bytes, work: Work) -> Result<Bytes, Failure> {
        let (reports, reported) = watch::channel(None);
        // Dropped when the attempt has ended, in whatever way.
        let (_going_on, over) = watch::channel(());
        let task = Task::new(
            self.name.task.clone(),
            payload,
            attempt,
            self.client.session(),
            reports,
            over,
        );
        // A separate task, because a handler that panics must not end the worker.
        let mut handler = JoinSet::new();
        handler.spawn(work(task));
        let joined = tokio::select! {
            joined = handler.join_next() => joined,
            () = self.write_progress(attempt, reported) => None,
        };
        match joined {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => Err(Failure::transient(format!("the handler died: {error}"))),
            None => Err(Failure::transient("the handler did not run")),
        }
    }

    /// Writes progress. Never returns.
    async fn write_progress(
        &self,
        attempt: &Attempt,
        mut reported: watch::Receiver<Option<Progress>>,
    ) {
        let path = self.path();
        while reported.changed().await.is_ok() {
            let progress = reported.borrow_and_update().clone();
            let data = to_json(&Assignment { progress, ..attempt.assignment.clone() });
            if let Err(error) = attempt.fenced.set(&path, data).await {
                // The next report supersedes this one, or the assignment was deleted and may have been replaced.
                tracing::debug!(%error, "progress was not reported");
            }
            sleep(self.progress_interval).await;
        }
        // The handler has dropped its task and keeps running.
        std::future::pending::<()>().await;
    }

    async fn conclude(
        &self,
        assignment: &Assignment,
        payload: Option<Bytes>,
        outcome: Result<Bytes, Failure>,
    ) -> Attempted {
        let task_nodes = TaskNodes { has_assignment: true, payload };
        let AssignmentName { task, nonce } = &self.name;
        let now = assignment.status(&self.worker, nonce);
        let end = |ending| steps::end(&self.paths, task, &now, &task_nodes, &ending);
        let fail = |reason: &str| end(Ending::Failed { reason: shorten(reason) });
        self.commit(match &outcome {
            Ok(result) if result.len() > BYTES_MAX => {
                fail(&format!("a result of {} bytes is too large", result.len()))
            }
            Ok(result) => end(Ending::Done(result.clone())),
            Err(Failure::Transient(reason)) if assignment.attempt < assignment.attempts_max => {
                tracing::debug!(%task, reason, "the task was handed back");
                steps::hand_back(&self.paths, task, &now, &task_nodes)
            }
            Err(failure) => fail(failure.reason()),
        })
        .await
    }

    /// Commits the end of an attempt, and repeats that until the outcome is known: after a lost reply the second
    /// attempt finds that the assignment was deleted, or succeeds in place of the first.
    async fn commit(&self, ops: Vec<Op>) -> Attempted {
        loop {
            let error = match self.client.transaction(ops.clone()).await {
                Ok(_) => return Attempted::Settled,
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::SessionExpired => return Attempted::Left,
                _ if error.is_retriable() => {}
                ErrorKind::NoNode | ErrorKind::BadVersion => return Attempted::Left,
                _ => {
                    tracing::error!(task = %self.name.task, %error, "the end of a task was rejected");
                    return Attempted::Left;
                }
            }
        }
    }
}

fn shorten(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}

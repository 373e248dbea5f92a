//! The status of one task, as a value and as a stream.
//!
//! In: the status node, and while the task is assigned its assignment, where the worker writes its progress. Out: the
//! current status, then each change. Costs two watches while it is followed.

use herdsman_client::{Client, Node, Watch};
use tokio::sync::watch;

use super::nodes::{Assignment, Paths, State, Status};
use super::task::{TaskId, TaskStatus};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::messaging::envelope::from_json;
use crate::retrying::may_succeed_later;

/// Reads the status once.
pub(super) async fn read_status(
    client: &Client,
    paths: &Paths,
    task: &TaskId,
) -> Result<TaskStatus> {
    let path = paths.status(task);
    let status = decode(&path, &client.get(&path).await?)?;
    let Some(assignment) = assignment_path(paths, task, &status) else {
        return Ok(shown(&status, None));
    };
    match client.get(&assignment).await {
        Ok(node) => Ok(shown(&status, Some((&assignment, &node)))),
        Err(error) if error.is_no_node() => Ok(shown(&status, None)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the status of the task, and each change until it has ended. The stream ends after an error, for example
/// that there is no such task.
pub(super) fn follow(client: Client, paths: Paths, task: TaskId) -> Events<Result<TaskStatus>> {
    let (sender, latest) = watch::channel(None);
    client.clone().spawn(async move {
        let follower = Follower { client, paths, task, sender: &sender };
        tokio::select! {
            followed = follower.follow() => if let Err(error) = followed {
                sender.send_replace(Some(Err(error)));
            },
            () = sender.closed() => {}
        }
    });
    Events::of_latest(latest, |status| status)
}

struct Follower<'t> {
    client: Client,
    paths: Paths,
    task: TaskId,
    sender: &'t watch::Sender<Option<Result<TaskStatus>>>,
}

impl Follower<'_> {
    async fn follow(&self) -> Result<()> {
        loop {
            let path = self.paths.status(&self.task);
            let (node, changed) = self.client.get(&path).watch().await?;
            let status = decode(&path, &node)?;
            if status.state.is_final() {
                self.send_if_new(shown(&status, None));
                return Ok(());
            }
            match assignment_path(&self.paths, &self.task, &status) {
                Some(assignment) => self.follow_attempt(&status, &assignment, changed).await?,
                None => {
                    self.send_if_new(shown(&status, None));
                    self.continue_after(changed.await)?;
                }
            }
        }
    }

    /// Follows the progress until the status changes.
    async fn follow_attempt(
        &self,
        status: &Status,
        path: &str,
        mut status_changed: Watch,
    ) -> Result<()> {
        loop {
            let (node, changed) = match self.client.get(path).watch().await {
                // The attempt has ended, and the status has changed with it.
                Err(error) if error.is_no_node() => {
                    return self.continue_after(status_changed.await);
                }
                read => read?,
            };
            self.send_if_new(shown(status, Some((path, &node))));
            tokio::select! {
                event = &mut status_changed => return self.continue_after(event),
                event = changed => self.continue_after(event)?,
            }
        }
    }

    /// Continues after the end of a session if another one follows.
    fn continue_after<T>(&self, event: herdsman_client::Result<T>) -> Result<()> {
        match event {
            Err(error) if may_succeed_later(&self.client, &error) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    fn send_if_new(&self, status: TaskStatus) {
        let read = Some(Ok::<_, Error>(status));
        self.sender.send_if_modified(|latest| {
            let is_new = *latest != read;
            *latest = read;
            is_new
        });
    }
}

fn decode(path: &str, node: &Node) -> Result<Status> {
    from_json(path, &node.data)
}

fn assignment_path(paths: &Paths, task: &TaskId, status: &Status) -> Option<String> {
    match &status.state {
        State::Assigned { worker, nonce, .. } => Some(paths.assignment(worker, task, nonce)),
        _ => None,
    }
}

fn shown(status: &Status, assignment: Option<(&str, &Node)>) -> TaskStatus {
    let assignment =
        assignment.and_then(|(path, node)| from_json::<Assignment>(path, &node.data).ok());
    let progress = assignment.and_then(|assignment| assignment.progress);
    TaskStatus { state: status.state.shown(), attempts: status.attempts, progress }
}

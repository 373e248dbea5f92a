//! The nodes of master–worker: their paths and their data. See the parent module for the layout.

use bytes::Bytes;
use herdsman_client::{Client, Lifetime};
use serde::{Deserialize, Serialize};

use super::task::{Ending, TaskId, TaskState};
use crate::error::Result;
use crate::messaging::Progress;
use crate::messaging::envelope::{decode_envelope, encode_envelope};
use crate::path;
use crate::retrying::may_succeed_later;

/// The paths of the nodes.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    root: String,
}

impl Paths {
    pub(super) fn new(root: &str) -> Result<Self> {
        path::check_below_root("master–worker", root)?;
        Ok(Paths { root: root.to_owned() })
    }

    pub(super) fn masters(&self) -> String {
        format!("{}/master", self.root)
    }

    pub(super) fn workers(&self) -> String {
        format!("{}/workers", self.root)
    }

    pub(super) fn worker(&self, worker: &str) -> String {
        format!("{}/workers/{worker}", self.root)
    }

    pub(super) fn tasks(&self) -> String {
        format!("{}/tasks", self.root)
    }

    pub(super) fn task(&self, task: &TaskId) -> String {
        format!("{}/tasks/{task}", self.root)
    }

    pub(super) fn statuses(&self) -> String {
        format!("{}/status", self.root)
    }

    pub(super) fn status(&self, task: &TaskId) -> String {
        format!("{}/status/{task}", self.root)
    }

    pub(super) fn assignments(&self, worker: &str) -> String {
        format!("{}/assign/{worker}", self.root)
    }

    pub(super) fn assignment(&self, worker: &str, task: &TaskId, nonce: &str) -> String {
        format!("{}/assign/{worker}/{task}@{nonce}", self.root)
    }

    pub(super) fn result(&self, task: &TaskId) -> String {
        format!("{}/results/{task}", self.root)
    }

    pub(super) fn dead(&self, task: &TaskId) -> String {
        format!("{}/dead/{task}", self.root)
    }

    /// Creates all directories that are missing.
    pub(super) async fn make(&self, client: &Client) -> herdsman_client::Result<()> {
        for directory in ["tasks", "status", "workers", "assign", "results", "dead"] {
            let path = format!("{}/{directory}", self.root);
            loop {
                match client.ensure(&path, Lifetime::Persistent).await {
                    // Creating it twice does no harm.
                    Err(error) if may_succeed_later(client, &error) => {}
                    made => break made?,
                }
            }
        }
        Ok(())
    }
}

/// The data of `status/<task>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Status {
    #[serde(flatten)]
    pub(super) state: State,
    pub(super) attempts: u32,
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum State {
    Waiting,
    Assigned { worker: String, incarnation: i64, nonce: String },
    Done,
    Failed,
    Cancelled,
}

impl State {
    pub(super) fn shown(&self) -> TaskState {
        match self {
            State::Waiting => TaskState::Waiting,
            State::Assigned { worker, .. } => TaskState::Assigned { worker: worker.clone() },
            State::Done => TaskState::Done,
            State::Failed => TaskState::Failed,
            State::Cancelled => TaskState::Cancelled,
        }
    }

    pub(super) fn is_final(&self) -> bool {
        matches!(self, State::Done | State::Failed | State::Cancelled)
    }
}

/// A status, and the version of the node that held it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Versioned {
    pub(super) status: Status,
    pub(super) version: i32,
}

/// The data of `workers/<worker>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkerRecord {
    /// How many tasks it takes at once.
    pub(super) limit: usize,
    /// Distinguishes this registration from all others.
    #[serde(default)]
    pub(super) nonce: String,
}

/// The name of an assignment. No other assignment has the same, not even of the same task to the same worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AssignmentName {
    pub(super) task: TaskId,
    /// The same value is in the status as long as the task is assigned.
    pub(super) nonce: String,
}

impl AssignmentName {
    /// Parses a name; `None` for names that do not belong to the recipe.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (task, nonce) = name.rsplit_once('@')?;
        Some(AssignmentName { task: task.parse().ok()?, nonce: nonce.to_owned() })
    }
}

/// The data of `assign/<worker>/<task>@<nonce>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Assignment {
    /// The number of this attempt, from 1.
    pub(super) attempt: u32,
    /// How many attempts there will be at most.
    pub(super) attempts_max: u32,
    /// The czxid of the registration of the worker that it is for.
    pub(super) incarnation: i64,
    /// The version of the status after the assignment.
    pub(super) status_version: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<Progress>,
}

impl Assignment {
    /// Returns the status that was written together with the assignment.
    pub(super) fn status(&self, worker: &str, nonce: &str) -> Versioned {
        let (worker, nonce) = (worker.to_owned(), nonce.to_owned());
        let state = State::Assigned { worker, incarnation: self.incarnation, nonce };
        let status = Status { state, attempts: self.attempt };
        Versioned { status, version: self.status_version }
    }
}

/// The first line of `results/<task>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum ResultHeader {
    Done,
    Failed { reason: String },
    Cancelled,
}

impl Ending {
    pub(super) fn encode(&self) -> Bytes {
        match self {
            Ending::Done(result) => encode_envelope(&ResultHeader::Done, result),
            Ending::Failed { reason } => {
                encode_envelope(&ResultHeader::Failed { reason: reason.clone() }, &[])
            }
            Ending::Cancelled => encode_envelope(&ResultHeader::Cancelled, &[]),
        }
    }

    pub(super) fn decode(path: &str, data: &Bytes) -> Result<Self> {
        let (header, body) = decode_envelope(path, data)?;
        Ok(match header {
            ResultHeader::Done => Ending::Done(body),
            ResultHeader::Failed { reason } => Ending::Failed { reason },
            ResultHeader::Cancelled => Ending::Cancelled,
        })
    }

    pub(super) fn state_record(&self) -> State {
        match self.state() {
            TaskState::Done => State::Done,
            TaskState::Failed => State::Failed,
            _ => State::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messaging::envelope::{from_json, to_json};

    #[test]
    fn records_look_as_documented() {
        let state = State::Assigned { worker: "w1".into(), incarnation: 42, nonce: "n".into() };
        let status = Status { state, attempts: 1 };
        let json = to_json(&status);
        let text =
            r#"{"state":"assigned","worker":"w1","incarnation":42,"nonce":"n","attempts":1}"#;
        assert_eq!(json, text);
        assert_eq!(from_json::<Status>("/a", &json), Ok(status));
        let record = WorkerRecord { limit: 4, nonce: "n".to_owned() };
        assert_eq!(to_json(&record), r#"{"limit":4,"nonce":"n"}"#);
        assert_eq!(from_json::<WorkerRecord>("/a", br#"{"limit":4}"#).unwrap().limit, 4);
        assert_eq!(Ending::Done("x".into()).encode(), "{\"outcome\":\"done\"}\nx");
    }

    #[test]
    fn names_of_assignments_are_read_back() {
        let paths = Paths::new("/mw").unwrap();
        let task: TaskId = "key-a@b".parse().unwrap();
        let path = paths.assignment("w", &task, "n");
        let name = path.strip_prefix("/mw/assign/w/").unwrap();
        let nonce = "n".to_owned();
        assert_eq!(AssignmentName::parse(name), Some(AssignmentName { task, nonce }));
        assert_eq!(AssignmentName::parse("readme"), None);
    }

    #[test]
    fn endings_are_read_back() {
        for ending in [
            Ending::Done(Bytes::from_static(b"\n\0")),
            Ending::Failed { reason: "no\ndisk".into() },
            Ending::Cancelled,
        ] {
            assert_eq!(Ending::decode("/a", &ending.encode()), Ok(ending));
        }
    }
}

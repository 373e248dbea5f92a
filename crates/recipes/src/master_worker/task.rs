//! Tasks as submitters and workers see them.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::messaging::Progress;
use crate::messaging::envelope::from_json;

/// The maximum length of a task's key.
const KEY_BYTES_MAX: usize = 200;

/// A task's name in the tree.
///
/// ```
/// use herdsman_recipes::master_worker::TaskId;
///
/// let id = TaskId::from_key("invoice-17")?;
/// assert_eq!(id.to_string(), "key-invoice-17");
/// assert_eq!(id.to_string().parse::<TaskId>()?, id);
/// assert!("a/b".parse::<TaskId>().is_err());
/// # Ok::<_, herdsman_recipes::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(String);

impl TaskId {
    /// Creates a unique id.
    pub(super) fn unique() -> Self {
        TaskId(Uuid::now_v7().to_string())
    }

    /// Returns the id of every task that is submitted with this key: at most 200 bytes, without `/` or control
    /// characters.
    pub fn from_key(key: &str) -> Result<Self> {
        if key.is_empty() {
            return Err(Error::invalid("a task's key must not be empty"));
        }
        format!("key-{key}").parse()
    }

    /// Returns the name of the task's node.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TaskId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_allowed = |c: char| c != '/' && !c.is_control() && !is_private(c);
        let is_name = !matches!(text, "" | "." | "..") && text.chars().all(is_allowed);
        if !is_name || text.len() > KEY_BYTES_MAX + "key-".len() {
            return Err(Error::invalid(format!("{text:?} cannot be the id of a task")));
        }
        Ok(TaskId(text.to_owned()))
    }
}

/// Returns whether servers reject paths with this character: private characters and specials. (They also reject
/// surrogates, which Rust's strings cannot contain.)
fn is_private(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a task ended. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It was done, with this result.
    Done(Bytes),
    /// It was given up. Its payload is in the directory `dead`.
    Failed {
        /// Why the last attempt failed.
        reason: String,
    },
    /// It was cancelled.
    Cancelled,
}

impl Ending {
    /// Returns the result as JSON; [`Error::Codec`] if the task was not done or its result is not such a value.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let reason = match self {
            Ending::Done(result) => return from_json("the result of a task", result),
            Ending::Failed { reason } => format!("the task failed: {reason}"),
            Ending::Cancelled => "the task was cancelled".to_owned(),
        };
        Err(Error::Codec { path: "the result of a task".to_owned(), reason })
    }

    pub(super) fn state(&self) -> TaskState {
        match self {
            Ending::Done(_) => TaskState::Done,
            Ending::Failed { .. } => TaskState::Failed,
            Ending::Cancelled => TaskState::Cancelled,
        }
    }
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It waits for a worker.
    Waiting,
    /// It is assigned to a worker.
    Assigned {
        /// The id of the worker.
        worker: String,
    },
    /// It was done.
    Done,
    /// It was given up.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl TaskState {
    /// Returns whether no other state can follow.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, TaskState::Done | TaskState::Failed | TaskState::Cancelled)
    }
}

/// The status of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskStatus {
    /// Its state.
    pub state: TaskState,
    /// How often it was assigned to a worker so far.
    pub attempts: u32,
    /// The latest progress report of its worker.
    pub progress: Option<Progress>,
}

/// Why an attempt at a task failed.
///
/// Any error that a handler returns with `?` is transient, except [`Error::Codec`] and [`Error::InvalidArgument`]: a
/// payload that cannot be decoded cannot be decoded by another attempt either.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// Another attempt may succeed; there is one unless this was the last.
    Transient(String),
    /// No attempt can succeed.
    Permanent(String),
}

impl Failure {
    /// Creates a failure after which another attempt may succeed.
    #[must_use]
    pub fn transient(reason: impl fmt::Display) -> Self {
        Failure::Transient(reason.to_string())
    }

    /// Creates a failure after which no attempt can succeed.
    #[must_use]
    pub fn permanent(reason: impl fmt::Display) -> Self {
        Failure::Permanent(reason.to_string())
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Failure::Transient(reason) | Failure::Permanent(reason) => reason,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Codec { .. } | Error::InvalidArgument(_) => Failure::permanent(error),
            _ => Failure::transient(error),
        }
    }
}

impl From<herdsman_client::Error> for Failure {
    fn from(error: herdsman_client::Error) -> Self {
        Failure::transient(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_no_node_can_have_are_refused() {
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        for key in ["", "a/b", "a\0", "a\u{e000}", "a\n", long.as_str()] {
            assert!(TaskId::from_key(key).is_err(), "{key:?}");
        }
        for text in ["", ".", ".."] {
            assert!(text.parse::<TaskId>().is_err(), "{text:?}");
        }
        assert!(TaskId::from_key(&long[1..]).is_ok());
    }

    #[test]
    fn a_payload_that_cannot_be_read_is_not_tried_again() {
        let unreadable = Error::Codec { path: "/a".to_owned(), reason: "no JSON".to_owned() };
        assert!(matches!(Failure::from(unreadable), Failure::Permanent(_)));
        assert!(matches!(Failure::from(Error::TimedOut), Failure::Transient(_)));
    }

    #[test]
    fn an_ending_without_result_has_no_json() {
        assert_eq!(Ending::Done("7".into()).json(), Ok(7));
        assert!(Ending::Done("x".into()).json::<u32>().is_err());
        let error = Ending::Failed { reason: "no disk".into() }.json::<u32>().unwrap_err();
        assert!(error.to_string().contains("no disk"), "{error}");
    }
}

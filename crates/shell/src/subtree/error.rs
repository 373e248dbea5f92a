//! Errors of operations on subtrees. Each is one line that says what to do.

use std::io;
use std::path::PathBuf;

use herdsman_client::{Error, ErrorKind};

/// Result of an operation on a subtree.
pub type Result<T, E = SubtreeError> = std::result::Result<T, E>;

/// Why an operation on a subtree failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubtreeError {
    /// The server returned an error, or could not be reached.
    #[error(transparent)]
    Client(#[from] Error),
    /// The ACL does not let us read a znode.
    #[error("{0} may not be read: log in with addauth")]
    Unreadable(String),
    /// A pattern, a duration or another argument is invalid. The text says what is valid.
    #[error("{0}")]
    Mistake(String),
    /// The request is rejected. The text says why, and what to do instead.
    #[error("{0}")]
    Refused(String),
    /// A znode is not as it was when it was read. It was not changed by us.
    #[error("{0} was changed by another client meanwhile")]
    Changed(String),
    /// A copy is no longer as it was written or compared. The source was not deleted.
    #[error("the copy {0} was changed by another client meanwhile")]
    CopyChanged(String),
    /// A file cannot be opened, read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A line of an export file is invalid.
    #[error("{file}, line {line}: {fault}")]
    BadLine {
        /// Name of the file.
        file: String,
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        fault: String,
    },
    /// A write failed; earlier ones may have succeeded.
    #[error("stopped at {path}: {}; {written} znodes were written before that", stop_reason(.source))]
    Stopped {
        /// The znode that could not be written.
        path: String,
        /// Why.
        source: Error,
        /// Znodes that were written before.
        written: u64,
    },
    /// The output cannot be written.
    #[error("writing the output: {0}")]
    Output(#[source] io::Error),
}

impl SubtreeError {
    /// An invalid argument.
    pub fn mistake(why: impl Into<String>) -> Self {
        SubtreeError::Mistake(why.into())
    }

    /// A rejected request, and why.
    pub fn refused(why: impl Into<String>) -> Self {
        SubtreeError::Refused(why.into())
    }

    /// Whether the reader has closed the output, as in `find / | head`.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, SubtreeError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The reason without the path, which is already part of the message.
fn stop_reason(error: &Error) -> String {
    match error.outcome() {
        herdsman_client::Outcome::Unknown => {
            format!("{} (it may nevertheless have been written, with its batch)", error.kind())
        }
        _ => match error.kind() {
            ErrorKind::BadVersion => "another client has changed it meanwhile".to_owned(),
            ErrorKind::NoAuth => "not allowed by the ACL: log in with addauth".to_owned(),
            ErrorKind::Unimplemented => {
                "the server does not offer this (znodes with a time to live need its \
                 extendedTypesEnabled)"
                    .to_owned()
            }
            kind => kind.to_string(),
        },
    }
}

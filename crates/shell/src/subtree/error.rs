//! What can go wrong with a subtree, each in one line that says what to do.

use std::io;
use std::path::PathBuf;

use herdsman_client::{Error, ErrorKind};

/// Result of work on a subtree.
pub type Result<T, E = SubtreeError> = std::result::Result<T, E>;

/// Why work on a subtree ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubtreeError {
    /// The server, or the way to it.
    #[error(transparent)]
    Client(#[from] Error),
    /// The ACL does not let us read a znode.
    #[error("{0} may not be read: log in with addauth")]
    Unreadable(String),
    /// A pattern, a duration or another argument makes no sense. The text says what would.
    #[error("{0}")]
    Mistake(String),
    /// What is asked for must not be done. The text says why, and what to do instead.
    #[error("{0}")]
    Refused(String),
    /// A znode is not what it was when it was read. Nothing was done to it.
    #[error("{0} was changed by another client meanwhile")]
    Changed(String),
    /// A copy is not the znode that was written or compared. The source was not deleted.
    #[error("the copy {0} was changed by another client meanwhile")]
    CopyChanged(String),
    /// A file cannot be opened, read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line of an export file cannot be used.
    #[error("{file}, line {line}: {fault}")]
    BadLine {
        /// Name of the file.
        file: String,
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        fault: String,
    },
    /// A write failed after others had been done.
    #[error("stopped at {path}: {}; {written} znodes were written before it", stop_reason(.source))]
    Stopped {
        /// The znode that could not be written.
        path: String,
        /// Why.
        source: Error,
        /// Znodes that were written before.
        written: u64,
    },
    /// Whoever takes the output does not take it any more.
    #[error("writing the output: {0}")]
    Output(#[source] io::Error),
}

impl SubtreeError {
    /// An argument that makes no sense, and what would.
    pub fn mistake(why: impl Into<String>) -> Self {
        SubtreeError::Mistake(why.into())
    }

    /// Something that will not be done, and why.
    pub fn refused(why: impl Into<String>) -> Self {
        SubtreeError::Refused(why.into())
    }

    /// Nobody reads the output any more, as in `find / | head`.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, SubtreeError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The error's own text names the request and the path; here the path is said already.
fn stop_reason(error: &Error) -> String {
    match error.outcome() {
        herdsman_client::Outcome::Unknown => {
            format!("{} (it may have been written all the same, with its batch)", error.kind())
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

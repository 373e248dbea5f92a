//! Errors of recipes.

use herdsman_client::{ErrorKind, Outcome};

/// The result of a recipe.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a recipe failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation failed; [`herdsman_client::Error::outcome`] says whether it happened.
    #[error(transparent)]
    Client(#[from] herdsman_client::Error),
    /// An argument is invalid. Nothing was done.
    #[error("{0}")]
    InvalidArgument(String),
    /// The time limit has passed. Nodes that were created on the way are deleted again.
    #[error("timed out")]
    TimedOut,
    /// The hold was lost: the session ended, or the node was deleted.
    #[error("lost: the session ended or the node was deleted")]
    Lost,
    /// The limit is reached.
    #[error("full: the limit is {limit}")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// There is nothing to take.
    #[error("there is nothing to take")]
    Empty,
    /// A znode's data is not in the format of the recipe.
    #[error("{path}: the data cannot be read: {reason}")]
    Codec {
        /// The znode.
        path: String,
        /// What is wrong with its data.
        reason: String,
    },
    /// The aliases of a name do not lead to a bound name.
    #[error("the name {name} cannot be resolved: {reason}")]
    Unresolvable {
        /// The name that was looked up.
        name: String,
        /// What is wrong with its aliases.
        reason: String,
    },
    /// The state of the clock does not allow an id.
    #[error(transparent)]
    Snowflake(#[from] crate::snowflake::SnowflakeError),
}

impl Error {
    /// Creates an error for an invalid argument.
    #[must_use]
    pub fn invalid(text: impl Into<String>) -> Self {
        Error::InvalidArgument(text.into())
    }

    /// Returns whether the operation was applied in spite of the error.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Error::Client(error) => error.outcome(),
            _ => Outcome::NotApplied,
        }
    }

    /// Returns the kind of the client's error, if it is one.
    #[must_use]
    pub fn client_kind(&self) -> Option<&ErrorKind> {
        match self {
            Error::Client(error) => Some(error.kind()),
            _ => None,
        }
    }
}

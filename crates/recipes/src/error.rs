//! What can go wrong with a recipe.

use herdsman_client::{ErrorKind, Outcome};

/// Result of a recipe.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a recipe could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation failed; [`herdsman_client::Error::outcome`] says whether it happened.
    #[error(transparent)]
    Client(#[from] herdsman_client::Error),
    /// An argument makes no sense. Nothing was done.
    #[error("{0}")]
    InvalidArgument(String),
    /// The time given was not enough. What had been made on the way is removed again.
    #[error("timed out")]
    TimedOut,
    /// What was held is held no longer: the session ended, or somebody deleted the node.
    #[error("lost: the session ended or the node was deleted")]
    Lost,
    /// There is no room.
    #[error("full: the limit is {limit}")]
    Full {
        /// How much there is room for.
        limit: usize,
    },
    /// There is nothing to take.
    #[error("there is nothing to take")]
    Empty,
    /// A znode's data is not what the recipe expects.
    #[error("{path}: the data cannot be read: {reason}")]
    Codec {
        /// The znode.
        path: String,
        /// What is wrong with its data.
        reason: String,
    },
    /// Aliases lead from a name to no end.
    #[error("the name {name} cannot be resolved: {reason}")]
    Unresolvable {
        /// The name that was looked up.
        name: String,
        /// What is wrong with its aliases.
        reason: String,
    },
    /// The clock does not allow an id.
    #[error(transparent)]
    Snowflake(#[from] crate::snowflake::SnowflakeError),
}

impl Error {
    /// An argument that makes no sense.
    #[must_use]
    pub fn invalid(text: impl Into<String>) -> Self {
        Error::InvalidArgument(text.into())
    }

    /// Whether it happened all the same.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Error::Client(error) => error.outcome(),
            _ => Outcome::NotApplied,
        }
    }

    /// The kind of a client's error.
    #[must_use]
    pub fn client_kind(&self) -> Option<&ErrorKind> {
        match self {
            Error::Client(error) => Some(error.kind()),
            _ => None,
        }
    }
}

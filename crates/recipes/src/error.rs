//! Errors of recipes.

use herdsman_client::{ErrorKind, Optional, Outcome};

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

    /// Returns the path of the failed operation or of the unreadable data, if it is known.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Error::Client(error) => error.path(),
            Error::Codec { path, .. } => Some(path),
            _ => None,
        }
    }

    /// A znode does not exist: [`ErrorKind::NoNode`]. For reads where that is not a failure, [`Optional`] makes `None`
    /// of it:
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let server = herdsman_testing::TestServer::start();
    /// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
    /// use herdsman_client::Optional;
    ///
    /// let limit = async { Ok::<_, herdsman_recipes::Error>(zk.get("/app/limit").await?.data) };
    /// assert_eq!(limit.await.optional()?, None);
    /// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn is_no_node(&self) -> bool {
        self.client_kind() == Some(&ErrorKind::NoNode)
    }

    /// The session has expired: [`ErrorKind::SessionExpired`].
    #[must_use]
    pub fn is_session_expired(&self) -> bool {
        self.client_kind() == Some(&ErrorKind::SessionExpired)
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

impl<T> Optional<Error> for Result<T> {
    type Output = T;

    fn optional(self) -> Result<Option<T>> {
        match self {
            Err(error) if error.is_no_node() => Ok(None),
            found => found.map(Some),
        }
    }
}

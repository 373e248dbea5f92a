//! Errors, and whether the failed operation was applied.
//!
//! After a failure a caller must be able to find out whether the operation was applied. Every
//! [`Error`] says so with an [`Outcome`]; a connection that was lost between request and reply is
//! [`Outcome::Unknown`], and nothing in this crate hides that.

use std::fmt;
use std::sync::Arc;

use herdsman_proto::{DecodeError, ErrorCode, OpCode};

/// Result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whether a failed operation changed the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The operation was applied, although there is an error to report.
    Applied,
    /// The operation was not applied and will not be.
    NotApplied,
    /// The operation may have been applied, or may still be: the request was sent and the reply is missing.
    Unknown,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The znode does not exist.
    #[error("the znode does not exist")]
    NoNode,
    /// The znode exists already.
    #[error("the znode exists already")]
    NodeExists,
    /// The znode's version is not the expected one.
    #[error("the version is not the expected one")]
    BadVersion,
    /// The znode has children.
    #[error("the znode has children")]
    NotEmpty,
    /// An ephemeral znode cannot have children.
    #[error("the parent is ephemeral and cannot have children")]
    NoChildrenForEphemerals,
    /// The ACL does not allow it.
    #[error("not allowed by the ACL")]
    NoAuth,
    /// The ACL of the request is empty or contains an id that is not valid in its scheme.
    #[error("the ACL is not valid")]
    InvalidAcl,
    /// The server refused the credentials; the session is over.
    #[error("authentication failed")]
    AuthFailed,
    /// A hard quota would be exceeded.
    #[error("the quota would be exceeded")]
    QuotaExceeded,
    /// The server is read-only at present.
    #[error("the server is read-only")]
    ReadOnly,
    /// The watch does not exist.
    #[error("the watch does not exist")]
    NoWatcher,
    /// The session is attached to another server.
    #[error("the session has moved to another server")]
    SessionMoved,
    /// The session is over: its ephemeral znodes and watches are deleted.
    #[error("the session has expired")]
    SessionExpired,
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
    /// The lock or leadership that guards the write is no longer held.
    #[error("the lock or leadership that guards this write is no longer held")]
    Deposed,
    /// The connection was lost, or there was none for a whole session timeout.
    #[error("the connection was lost")]
    ConnectionLoss,
    /// No server could be reached in time; the text describes the last attempt.
    #[error("no server could be reached: {0}")]
    ConnectFailed(String),
    /// The files of the TLS settings cannot be used; the text says which and why.
    #[error("TLS: {0}")]
    Tls(String),
    /// The deadline of the call was exceeded.
    #[error("the deadline was exceeded")]
    DeadlineExceeded,
    /// The maximum number of requests is in flight, and the caller did not want to wait.
    #[error("too many requests are in flight")]
    Busy,
    /// The server dropped the request because it was overloaded.
    #[error("the server is overloaded")]
    Throttled,
    /// The path violates the rules for znode paths.
    #[error("the path is not valid: {0}")]
    InvalidPath(String),
    /// An argument is not valid; the text says which.
    #[error("{0}")]
    InvalidArgument(String),
    /// The request, or its reply, is larger than this client allows.
    #[error("a request or reply of {bytes} bytes exceeds the limit of {limit} bytes")]
    TooLarge {
        /// Encoded size.
        bytes: usize,
        /// Largest size allowed.
        limit: usize,
    },
    /// The server does not know the operation, or it is disabled.
    #[error("the server does not support this operation, or it is disabled")]
    Unimplemented,
    /// Local sessions cannot own ephemerals.
    #[error("the session is local to its server and cannot own ephemerals")]
    EphemeralOnLocalSession,
    /// The reconfiguration was refused.
    #[error("the reconfiguration was refused: {0:?}")]
    Reconfig(ErrorCode),
    /// The data of a znode cannot be decoded; the text says why. Only typed reads decode data.
    #[error("the data cannot be decoded: {0}")]
    InvalidData(String),
    /// A reply could not be decoded.
    #[error("the reply cannot be decoded: {0}")]
    Protocol(DecodeError),
    /// Any other error code of the server.
    #[error("the server replied with error {0}")]
    Server(i32),
}

/// A failed operation: the reason, the znode, and whether it was applied.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_client::Outcome;
///
/// match zk.create("/once", "").await {
///     Ok(created) => println!("created {}", created.path),
///     Err(error) if error.is_node_exists() => println!("another client was faster"),
///     // The reply was lost: check whether the znode exists.
///     Err(error) if error.outcome() == Outcome::Unknown => drop(zk.exists("/once").await?),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    outcome: Outcome,
    op: &'static str,
    path: Option<Box<str>>,
    /// Boxed, because most errors have no details.
    details: Option<Box<Details>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Details {
    failed_op: Option<usize>,
    reason: Option<String>,
    source: Option<Source>,
}

/// The error of another library that led to this one.
#[derive(Clone, Debug)]
struct Source(Arc<dyn std::error::Error + Send + Sync>);

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for Source {}

impl Error {
    /// Creates an error of an operation that was not applied.
    #[must_use]
    pub fn not_applied(kind: ErrorKind) -> Self {
        Error::new(kind, Outcome::NotApplied)
    }

    /// Creates an error of an operation that may have been applied.
    #[must_use]
    pub fn unknown(kind: ErrorKind) -> Self {
        Error::new(kind, Outcome::Unknown)
    }

    /// Creates the error for an argument that is not valid.
    #[must_use]
    pub fn invalid_argument(text: impl Into<String>) -> Self {
        Error::not_applied(ErrorKind::InvalidArgument(text.into()))
    }

    pub(crate) fn new(kind: ErrorKind, outcome: Outcome) -> Self {
        Error { kind, outcome, op: "", path: None, details: None }
    }

    /// Adds the operation and its path, unless the error has them already. Some operations have no path.
    pub(crate) fn at(self, op: OpCode, path: &str) -> Self {
        self.at_named(op.name(), path)
    }

    /// Like [`Error::at`], for names that are not operations of the protocol.
    pub(crate) fn at_named(mut self, op: &'static str, path: &str) -> Self {
        if self.op.is_empty() {
            self.op = op;
            self.path = (!path.is_empty()).then(|| path.into());
        }
        self
    }

    pub(crate) fn with_failed_op(mut self, index: impl Into<Option<usize>>) -> Self {
        let failed_op = index.into();
        if failed_op.is_some() || self.details.is_some() {
            self.details.get_or_insert_default().failed_op = failed_op;
        }
        self
    }

    /// Adds a reason.
    pub(crate) fn because(mut self, reason: Option<&str>) -> Self {
        if let Some(reason) = reason {
            self.details.get_or_insert_default().reason = Some(reason.to_owned());
        }
        self
    }

    /// Adds the error of another library that led to this one.
    #[cfg(feature = "json")]
    pub(crate) fn caused_by(
        mut self,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        self.details.get_or_insert_default().source = Some(Source(Arc::new(source)));
        self
    }

    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns why the operation failed.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns whether the operation was applied.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Returns the path of the operation, if it has one; of a transaction, that of the write that failed.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Returns the index of the operation of a transaction that failed, counted from 0.
    #[must_use]
    pub fn failed_op(&self) -> Option<usize> {
        self.details.as_ref()?.failed_op
    }

    /// The znode does not exist: [`ErrorKind::NoNode`]. See [`Optional`] for reads where that is not a
    /// failure.
    #[must_use]
    pub fn is_no_node(&self) -> bool {
        self.kind == ErrorKind::NoNode
    }

    /// The znode exists already: [`ErrorKind::NodeExists`].
    #[must_use]
    pub fn is_node_exists(&self) -> bool {
        self.kind == ErrorKind::NodeExists
    }

    /// The version is not the expected one: [`ErrorKind::BadVersion`].
    #[must_use]
    pub fn is_bad_version(&self) -> bool {
        self.kind == ErrorKind::BadVersion
    }

    /// The znode has children: [`ErrorKind::NotEmpty`].
    #[must_use]
    pub fn is_not_empty(&self) -> bool {
        self.kind == ErrorKind::NotEmpty
    }

    /// The ACL does not allow it: [`ErrorKind::NoAuth`].
    #[must_use]
    pub fn is_no_auth(&self) -> bool {
        self.kind == ErrorKind::NoAuth
    }

    /// The session has expired: [`ErrorKind::SessionExpired`].
    #[must_use]
    pub fn is_session_expired(&self) -> bool {
        self.kind == ErrorKind::SessionExpired
    }

    /// The client was closed: [`ErrorKind::Closed`].
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind == ErrorKind::Closed
    }

    /// The connection was lost: [`ErrorKind::ConnectionLoss`].
    #[must_use]
    pub fn is_connection_loss(&self) -> bool {
        self.kind == ErrorKind::ConnectionLoss
    }

    /// The deadline of the call passed: [`ErrorKind::DeadlineExceeded`].
    #[must_use]
    pub fn is_deadline_exceeded(&self) -> bool {
        self.kind == ErrorKind::DeadlineExceeded
    }

    /// The lock or leadership that guards the write is no longer held: [`ErrorKind::Deposed`].
    #[must_use]
    pub fn is_deposed(&self) -> bool {
        self.kind == ErrorKind::Deposed
    }

    /// The same call may succeed later, because the call itself is valid. Whether it is *safe* to
    /// repeat it depends on [`Error::outcome`] and on the operation.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::ConnectionLoss
                | ErrorKind::SessionMoved
                | ErrorKind::SessionExpired
                | ErrorKind::Throttled
                | ErrorKind::Busy
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} {path}: ", self.op)?,
            None if !self.op.is_empty() => write!(f, "{}: ", self.op)?,
            None => {}
        }
        write!(f, "{}", self.kind)?;
        if let Some(reason) = self.details.as_ref().and_then(|details| details.reason.as_ref()) {
            write!(f, ": {reason}")?;
        }
        if let Some(index) = self.failed_op() {
            write!(f, " (operation {index} of the transaction)")?;
        }
        match self.outcome {
            Outcome::Unknown => write!(f, " (it may have been applied)"),
            Outcome::Applied => write!(f, " (it was applied)"),
            Outcome::NotApplied => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Protocol(error) => Some(error),
            _ => {
                let source = self.details.as_ref()?.source.as_ref()?;
                Some(&*source.0)
            }
        }
    }
}

/// Turns "the znode does not exist" into `None`, for results of reads, and of recipes with their own errors.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_client::Optional;
///
/// let limit = zk.get("/app/limit").await.optional()?;
/// assert_eq!(limit, None);
/// # Ok(()) }
/// ```
pub trait Optional<E = Error> {
    /// What is read.
    type Output;

    /// `Ok(None)` if the znode does not exist.
    ///
    /// # Errors
    /// Every failure of another kind than [`ErrorKind::NoNode`].
    fn optional(self) -> Result<Option<Self::Output>, E>;
}

impl<T> Optional for Result<T> {
    type Output = T;

    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(output) => Ok(Some(output)),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl ErrorKind {
    /// Returns the kind for an error code of a reply.
    pub(crate) fn from_code(code: i32) -> Self {
        let Some(known) = ErrorCode::from_code(code) else {
            return ErrorKind::Server(code);
        };
        match known {
            ErrorCode::NoNode => ErrorKind::NoNode,
            ErrorCode::NodeExists => ErrorKind::NodeExists,
            ErrorCode::BadVersion => ErrorKind::BadVersion,
            ErrorCode::NotEmpty => ErrorKind::NotEmpty,
            ErrorCode::NoChildrenForEphemerals => ErrorKind::NoChildrenForEphemerals,
            ErrorCode::NoAuth => ErrorKind::NoAuth,
            ErrorCode::InvalidAcl => ErrorKind::InvalidAcl,
            ErrorCode::AuthFailed => ErrorKind::AuthFailed,
            ErrorCode::QuotaExceeded => ErrorKind::QuotaExceeded,
            ErrorCode::NotReadOnly => ErrorKind::ReadOnly,
            ErrorCode::NoWatcher => ErrorKind::NoWatcher,
            ErrorCode::SessionMoved => ErrorKind::SessionMoved,
            ErrorCode::SessionExpired => ErrorKind::SessionExpired,
            ErrorCode::ConnectionLoss => ErrorKind::ConnectionLoss,
            ErrorCode::ThrottledOp => ErrorKind::Throttled,
            ErrorCode::Unimplemented => ErrorKind::Unimplemented,
            ErrorCode::EphemeralOnLocalSession => ErrorKind::EphemeralOnLocalSession,
            ErrorCode::ReconfigInProgress
            | ErrorCode::NewConfigNoQuorum
            | ErrorCode::ReconfigDisabled => ErrorKind::Reconfig(known),
            ErrorCode::BadArguments => {
                ErrorKind::InvalidArgument("the server refused an argument".into())
            }
            _ => ErrorKind::Server(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_operation_path_and_outcome() {
        let error = Error::unknown(ErrorKind::ConnectionLoss).at(OpCode::Create2, "/a");
        assert_eq!(
            error.to_string(),
            "create2 /a: the connection was lost (it may have been applied)"
        );
        let error = Error::not_applied(ErrorKind::NoNode).at(OpCode::Multi, "/a").with_failed_op(2);
        assert_eq!(
            error.to_string(),
            "multi /a: the znode does not exist (operation 2 of the transaction)"
        );
        let error = Error::not_applied(ErrorKind::ConnectionLoss).at(OpCode::WhoAmI, "");
        assert_eq!(error.to_string(), "whoAmI: the connection was lost");
        assert_eq!(error.path(), None);
    }

    #[test]
    fn the_first_location_is_kept() {
        let error = Error::not_applied(ErrorKind::NoNode).at(OpCode::GetData, "/a");
        assert_eq!(
            error.at(OpCode::Create2, "/b").to_string(),
            "getData /a: the znode does not exist"
        );
        let error = Error::not_applied(ErrorKind::Closed).at(OpCode::WhoAmI, "");
        assert_eq!(error.at(OpCode::Create2, "/b").to_string(), "whoAmI: the client is closed");
    }

    #[test]
    fn each_kind_has_its_own_method() {
        type Predicate = fn(&Error) -> bool;
        let questions: [(Predicate, ErrorKind); 10] = [
            (Error::is_no_node, ErrorKind::NoNode),
            (Error::is_node_exists, ErrorKind::NodeExists),
            (Error::is_bad_version, ErrorKind::BadVersion),
            (Error::is_not_empty, ErrorKind::NotEmpty),
            (Error::is_no_auth, ErrorKind::NoAuth),
            (Error::is_session_expired, ErrorKind::SessionExpired),
            (Error::is_closed, ErrorKind::Closed),
            (Error::is_connection_loss, ErrorKind::ConnectionLoss),
            (Error::is_deadline_exceeded, ErrorKind::DeadlineExceeded),
            (Error::is_deposed, ErrorKind::Deposed),
        ];
        for (at, (question, _)) in questions.iter().enumerate() {
            for (other, (_, kind)) in questions.iter().enumerate() {
                assert_eq!(question(&Error::unknown(kind.clone())), at == other, "{at}: {kind}");
            }
        }
    }

    #[test]
    fn only_a_missing_znode_is_optional() {
        assert_eq!(Ok(1).optional(), Ok(Some(1)));
        let missing: Result<u8> = Err(Error::not_applied(ErrorKind::NoNode));
        assert_eq!(missing.optional(), Ok(None));
        let refused = Error::not_applied(ErrorKind::NoAuth);
        assert_eq!(Err::<u8, _>(refused.clone()).optional(), Err(refused));
    }

    #[test]
    fn every_code_of_the_protocol_has_a_kind() {
        for code in ErrorCode::ALL {
            let shown = ErrorKind::from_code(code.code()).to_string();
            assert!(!shown.is_empty());
        }
        assert_eq!(ErrorKind::from_code(-9999), ErrorKind::Server(-9999));
    }
}

//! Error responses of REST: a status, the name of the error, a sentence.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use herdsman_client::{ErrorKind, Outcome};
use herdsman_proto::ErrorCode;
use serde::Serialize;
use serde_json::{Map, Value};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The status of the response.
    pub status: StatusCode,
    /// One word for programs: Apache's name for errors of the tree (`NoNode`, `BadVersion`).
    pub error: String,
    /// One sentence for users.
    pub message: String,
    /// The path of the znode.
    pub path: Option<String>,
    /// Further fields of the response.
    pub details: Map<String, Value>,
}

impl ApiError {
    /// An error of the admin server itself.
    pub fn new(status: StatusCode, error: &str, message: impl Into<String>) -> Self {
        ApiError {
            status,
            error: error.to_owned(),
            message: message.into(),
            path: None,
            details: Map::new(),
        }
    }

    /// The request is invalid.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// A limit on concurrent work is reached.
    pub fn too_many(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooMany", message)
    }

    /// The server does not serve clients at this moment.
    #[must_use]
    pub fn not_serving() -> Self {
        let message = "the server is not serving clients: it has no leader, or it is stopping";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "NotServing", message)
    }

    /// An error of the tree for a path.
    #[must_use]
    pub fn refused(code: ErrorCode, path: &str) -> Self {
        let (status, message) = explain(code);
        Self::new(status, &format!("{code:?}"), message).at(path)
    }

    /// Adds the path of the znode.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    /// Adds a field to the response.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        self.details.insert(field.to_owned(), value);
        self
    }
}

fn explain(code: ErrorCode) -> (StatusCode, &'static str) {
    match code {
        ErrorCode::NoNode => (StatusCode::NOT_FOUND, "the znode does not exist"),
        ErrorCode::NoAuth => (StatusCode::FORBIDDEN, "the ACL does not allow this"),
        ErrorCode::BadVersion => {
            (StatusCode::CONFLICT, "the version does not match: it was changed meanwhile")
        }
        ErrorCode::NodeExists => (StatusCode::CONFLICT, "the znode already exists"),
        ErrorCode::NotEmpty => (StatusCode::CONFLICT, "the znode has children"),
        ErrorCode::BadArguments => {
            (StatusCode::BAD_REQUEST, "the path or an argument is not valid")
        }
        ErrorCode::InvalidAcl => (StatusCode::BAD_REQUEST, "the ACL is not valid"),
        ErrorCode::QuotaExceeded => (StatusCode::FORBIDDEN, "a quota would be exceeded"),
        ErrorCode::NoChildrenForEphemerals => {
            (StatusCode::CONFLICT, "an ephemeral znode cannot have children")
        }
        _ => (StatusCode::BAD_GATEWAY, "the server rejected the request"),
    }
}

/// The response for a failed request of a session of the client port.
impl From<herdsman_client::Error> for ApiError {
    fn from(error: herdsman_client::Error) -> Self {
        let answer = of_outcome(error.outcome(), error.kind());
        match error.path() {
            Some(path) => answer.at(path),
            None => answer,
        }
    }
}

fn of_outcome(outcome: Outcome, kind: &ErrorKind) -> ApiError {
    match outcome {
        Outcome::Unknown => ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Unknown",
            "the reply was lost: the write may have been applied; check before you retry",
        ),
        Outcome::Applied => ApiError::new(
            StatusCode::BAD_GATEWAY,
            "Applied",
            format!("the write was applied, but its result cannot be shown: {kind}"),
        ),
        Outcome::NotApplied => of_kind(kind),
    }
}

fn of_kind(kind: &ErrorKind) -> ApiError {
    let code = match kind {
        ErrorKind::NoNode => ErrorCode::NoNode,
        ErrorKind::NodeExists => ErrorCode::NodeExists,
        ErrorKind::BadVersion => ErrorCode::BadVersion,
        ErrorKind::NotEmpty => ErrorCode::NotEmpty,
        ErrorKind::NoChildrenForEphemerals => ErrorCode::NoChildrenForEphemerals,
        ErrorKind::NoAuth => ErrorCode::NoAuth,
        ErrorKind::InvalidAcl => ErrorCode::InvalidAcl,
        ErrorKind::QuotaExceeded => ErrorCode::QuotaExceeded,
        other => return of_other_kind(other),
    };
    let (status, message) = explain(code);
    ApiError::new(status, &format!("{code:?}"), message)
}

/// Errors that are not about the znode but about the request or the connection to the server.
fn of_other_kind(kind: &ErrorKind) -> ApiError {
    let (status, error) = match kind {
        ErrorKind::InvalidPath(_) | ErrorKind::InvalidArgument(_) => {
            (StatusCode::BAD_REQUEST, "BadArguments")
        }
        ErrorKind::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "TooLarge"),
        ErrorKind::Throttled | ErrorKind::Busy => (StatusCode::TOO_MANY_REQUESTS, "TooMany"),
        ErrorKind::Unimplemented => (StatusCode::NOT_IMPLEMENTED, "Unimplemented"),
        ErrorKind::AuthFailed => (StatusCode::FORBIDDEN, "AuthFailed"),
        ErrorKind::ReadOnly => (StatusCode::SERVICE_UNAVAILABLE, "ReadOnly"),
        ErrorKind::ConnectionLoss
        | ErrorKind::ConnectFailed(_)
        | ErrorKind::DeadlineExceeded
        | ErrorKind::SessionExpired
        | ErrorKind::SessionMoved
        | ErrorKind::Closed => (StatusCode::SERVICE_UNAVAILABLE, "NotServing"),
        _ => (StatusCode::BAD_GATEWAY, "Server"),
    };
    ApiError::new(status, error, kind.to_string())
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let ApiError { status, error, message, path, details } = self;
        let mut body = Map::new();
        body.insert("error".to_owned(), error.into());
        body.insert("message".to_owned(), message.into());
        if let Some(path) = path {
            body.insert("path".to_owned(), path.into());
        }
        body.extend(details);
        (status, Json(body)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use herdsman_client::Error;

    use super::*;

    #[test]
    fn each_error_of_a_session_has_its_status() {
        let rows = [
            (404, "NoNode", ErrorKind::NoNode),
            (409, "NodeExists", ErrorKind::NodeExists),
            (409, "BadVersion", ErrorKind::BadVersion),
            (409, "NotEmpty", ErrorKind::NotEmpty),
            (409, "NoChildrenForEphemerals", ErrorKind::NoChildrenForEphemerals),
            (403, "NoAuth", ErrorKind::NoAuth),
            (403, "AuthFailed", ErrorKind::AuthFailed),
            (403, "QuotaExceeded", ErrorKind::QuotaExceeded),
            (400, "InvalidAcl", ErrorKind::InvalidAcl),
            (400, "BadArguments", ErrorKind::InvalidPath("x".to_owned())),
            (413, "TooLarge", ErrorKind::TooLarge { bytes: 2, limit: 1 }),
            (429, "TooMany", ErrorKind::Throttled),
            (501, "Unimplemented", ErrorKind::Unimplemented),
            (502, "Server", ErrorKind::Server(-9)),
            (503, "ReadOnly", ErrorKind::ReadOnly),
            (503, "NotServing", ErrorKind::ConnectFailed("refused".to_owned())),
            (503, "NotServing", ErrorKind::DeadlineExceeded),
            (503, "NotServing", ErrorKind::SessionExpired),
        ];
        for (status, name, kind) in rows {
            let answer = ApiError::from(Error::not_applied(kind.clone()));
            assert_eq!((answer.status.as_u16(), answer.error.as_str()), (status, name), "{kind:?}");
            assert!(!answer.message.is_empty());
        }
    }

    #[test]
    fn an_applied_write_is_not_reported_as_rejected() {
        for kind in [ErrorKind::ConnectionLoss, ErrorKind::TooLarge { bytes: 2, limit: 1 }] {
            let answer = of_outcome(Outcome::Applied, &kind);
            assert_eq!((answer.status.as_u16(), answer.error.as_str()), (502, "Applied"));
            assert!(answer.message.starts_with("the write was applied"), "{}", answer.message);
        }
    }

    #[test]
    fn a_lost_reply_says_that_the_write_may_have_been_applied() {
        for kind in [ErrorKind::ConnectionLoss, ErrorKind::DeadlineExceeded] {
            let answer = ApiError::from(Error::unknown(kind));
            assert_eq!((answer.status.as_u16(), answer.error.as_str()), (504, "Unknown"));
            assert!(answer.message.contains("may have been applied"));
        }
    }
}

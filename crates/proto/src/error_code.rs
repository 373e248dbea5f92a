//! Error codes of the client protocol, as values: a user's mistake is a reply, not a failure.

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// The error of a request, for the client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        #[error("{self:?} ({})", *self as i32)]
        #[repr(i32)]
        pub enum ErrorCode { $($(#[$doc])* $name = $code,)* }

        impl ErrorCode {
            /// Every code, for tables and tests.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$name),*];
        }
    };
}

error_codes! {
    /// The server cannot do its work, for example because its disk failed.
    SystemError = -1,
    /// An operation of a failed multi after the one that failed.
    RuntimeInconsistency = -2,
    /// Data that contradicts itself.
    DataInconsistency = -3,
    /// Client side: the connection broke.
    ConnectionLoss = -4,
    /// The request could not be decoded.
    MarshallingError = -5,
    /// The operation is not known, or not enabled.
    Unimplemented = -6,
    /// Client side: no reply in time.
    OperationTimeout = -7,
    /// An argument breaks the rules, most often a path.
    BadArguments = -8,
    /// No such session on this server.
    UnknownSession = -12,
    /// A reconfiguration whose new members have no connected quorum.
    NewConfigNoQuorum = -13,
    /// Another reconfiguration is still in progress.
    ReconfigInProgress = -14,
    /// The znode does not exist.
    NoNode = -101,
    /// The ACL does not allow it.
    NoAuth = -102,
    /// The version is not the expected one.
    BadVersion = -103,
    /// Ephemeral znodes have no children.
    NoChildrenForEphemerals = -108,
    /// The znode exists already.
    NodeExists = -110,
    /// The znode has children.
    NotEmpty = -111,
    /// The session has expired.
    SessionExpired = -112,
    /// Client side: bad callback.
    InvalidCallback = -113,
    /// The ACL is empty or has an id that its scheme rejects.
    InvalidAcl = -114,
    /// The credentials are wrong.
    AuthFailed = -115,
    /// The session has moved to another server.
    SessionMoved = -118,
    /// A write sent to a read-only server.
    NotReadOnly = -119,
    /// Local sessions own no ephemerals.
    EphemeralOnLocalSession = -120,
    /// No such watch.
    NoWatcher = -121,
    /// Client side: the request timed out.
    RequestTimeout = -122,
    /// Reconfiguration is disabled.
    ReconfigDisabled = -123,
    /// The server requires authentication first.
    SessionClosedRequireAuth = -124,
    /// A hard quota would be exceeded.
    QuotaExceeded = -125,
    /// The request waited too long and was dropped.
    ThrottledOp = -127,
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> i32 {
        self as i32
    }

    /// The code for a number on the wire or in a log.
    #[must_use]
    pub fn from_code(code: i32) -> Option<ErrorCode> {
        ErrorCode::ALL.iter().copied().find(|known| known.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_number() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(code.code()), Some(code));
        }
        assert_eq!(ErrorCode::from_code(0), None);
    }
}

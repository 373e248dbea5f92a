//! Why an exchange ended without a login.

use herdsman_gssapi::GssapiError;

use crate::kerberos::{BadName, NoRule};

/// Why an exchange failed. It explains the problem in the log of the side that found it; the peer only
/// learns that the login failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// The token is longer than the mechanism allows.
    #[error("token of {bytes} bytes; at most {bytes_max} are allowed")]
    TokenTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The token is not a list of directives.
    #[error("token is not a list of directives: {0}")]
    Malformed(&'static str),
    /// A mandatory directive is missing.
    #[error("directive `{0}` is missing")]
    Missing(&'static str),
    /// A directive that may occur once is repeated.
    #[error("directive `{0}` occurs more than once")]
    Repeated(&'static str),
    /// The text is not in the agreed encoding.
    #[error("directive `{0}` is not UTF-8")]
    NotUtf8(&'static str),
    /// The value of a directive does not match this exchange.
    #[error("directive `{directive}` must be `{expected}`")]
    Unacceptable {
        /// The directive.
        directive: &'static str,
        /// The expected value.
        expected: String,
    },
    /// A response to a different challenge: a replay, or a mix-up.
    #[error("directive `nonce` is not the one of this exchange")]
    OtherNonce,
    /// The peer requires a layer that protects what follows the login.
    #[error(
        "only qop `auth` is supported, not `auth-int` or `auth-conf`: protect the connection with TLS"
    )]
    Protection,
    /// The user does not exist or the password is wrong; the message does not reveal which.
    #[error("user {user:?} or the password is wrong")]
    WrongCredentials {
        /// The claimed name, truncated if it is long.
        user: String,
    },
    /// An authenticated user asks to act as another user.
    #[error("user {user:?} may not act as another user (directive `authzid`)")]
    OtherIdentity {
        /// The user, truncated if the name is long.
        user: String,
    },
    /// The server's encoding cannot express our user name or password.
    #[error(
        "the server does not offer UTF-8, and the user name or password contains characters outside ISO 8859-1"
    )]
    BeyondLatin1,
    /// The server accepted the login without proving that it knows the password.
    #[error("the server did not prove that it knows the password (directive `rspauth`)")]
    UnprovenServer,
    /// The client uses DIGEST-MD5, but the server is configured for Kerberos.
    #[error("the client sent no Kerberos ticket; it probably tried to log in with a password")]
    NoTicket,
    /// The messages about layers after a Kerberos login do not follow RFC 4752.
    #[error("malformed message about protection layers")]
    MalformedLayers,
    /// Kerberos itself failed.
    #[error(transparent)]
    Gssapi(#[from] GssapiError),
    /// The principal's name has an unsupported form.
    #[error(transparent)]
    BadPrincipal(#[from] BadName),
    /// No rule maps the principal to a name.
    #[error(transparent)]
    NoRule(#[from] NoRule),
    /// The principal is not a server of this ensemble.
    #[error(
        "{principal} is not a member: a server's principal is name/host@REALM with the host of a member"
    )]
    NoMember {
        /// The principal, truncated if it is long.
        principal: String,
    },
    /// A token was received after the exchange had ended, with or without success.
    #[error("the exchange has ended; a new login needs a new exchange")]
    Finished,
}

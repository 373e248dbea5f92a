//! Why an exchange ends without a login.

use herdsman_gssapi::GssapiError;

use crate::kerberos::{BadName, NoRule};

/// Why an exchange failed. It says what is wrong for the log of the side that found it; the peer is told
/// no more than that the login failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// Mechanisms limit their tokens.
    #[error("token of {bytes} bytes; at most {bytes_max} are allowed")]
    TokenTooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        bytes_max: usize,
    },
    /// A token that no directives can be read from.
    #[error("token is not a list of directives: {0}")]
    Malformed(&'static str),
    /// A directive that must be there is not.
    #[error("directive `{0}` is missing")]
    Missing(&'static str),
    /// A directive that may occur once occurs again.
    #[error("directive `{0}` occurs more than once")]
    Repeated(&'static str),
    /// Text that is not in the encoding that was agreed on.
    #[error("directive `{0}` is not UTF-8")]
    NotUtf8(&'static str),
    /// A directive with a value that does not fit this exchange.
    #[error("directive `{directive}` must be `{expected}`")]
    Unacceptable {
        /// Which.
        directive: &'static str,
        /// What would have been accepted.
        expected: String,
    },
    /// An answer to another challenge than ours: a replay, or a mix-up.
    #[error("directive `nonce` is not the one of this exchange")]
    OtherNonce,
    /// The peer insists on a layer that protects what follows the login.
    #[error(
        "only qop `auth` is spoken, not `auth-int` or `auth-conf`: protect the connection with TLS"
    )]
    Protection,
    /// No such user, or not their password; which of the two is not told.
    #[error("user {user:?} or the password is wrong")]
    WrongCredentials {
        /// The name that was claimed, cut if it is long.
        user: String,
    },
    /// The user was proven and asks to act as another one.
    #[error("user {user:?} may not act as somebody else (directive `authzid`)")]
    OtherIdentity {
        /// Who asked, cut if it is long.
        user: String,
    },
    /// The server cannot take our user name or password.
    #[error(
        "the server does not offer UTF-8, and the user name or password has characters beyond ISO 8859-1"
    )]
    BeyondLatin1,
    /// The server accepted the login without knowing the password.
    #[error("the server does not prove that it knows the password (directive `rspauth`)")]
    UnprovenServer,
    /// The client speaks DIGEST-MD5, and the server is set up for Kerberos.
    #[error("the client shows no Kerberos ticket; it wants to log in with a password, most likely")]
    NoTicket,
    /// The messages about layers behind a Kerberos login are not as RFC 4752 has them.
    #[error("the message about protection layers cannot be read")]
    MalformedLayers,
    /// Kerberos itself failed.
    #[error(transparent)]
    Gssapi(#[from] GssapiError),
    /// A principal with a name that nobody can have here.
    #[error(transparent)]
    BadPrincipal(#[from] BadName),
    /// A principal that the rules have no name for.
    #[error(transparent)]
    NoRule(#[from] NoRule),
    /// A principal that is no server of this ensemble.
    #[error("{principal} is no member: servers are name/host@REALM with the host of a member")]
    NoMember {
        /// Who, cut if it is long.
        principal: String,
    },
    /// A token came after the exchange had ended, well or not.
    #[error("the exchange is over; a new login starts a new one")]
    Over,
}

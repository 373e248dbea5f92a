//! Kerberos, through the system's GSSAPI library (RFC 2743, RFC 4121).
//!
//! In: the location of keys or tickets, and the peer's tokens. Out: tokens to send, and finally a context
//! in which both sides share a key and at least one is authenticated. `herdsman-sasl` builds SASL on top of
//! it.
//!
//! Without the cargo feature `kerberos` there is no library, and the types here have no values:
//! [`Acceptor::new`] and [`Initiator::new`] return an error that names the feature. Other crates therefore
//! need no conditional compilation.
//!
//! Keys and tickets are read again for each login, so a replaced key table takes effect at once, and no
//! thread has to renew tickets. The process's environment is neither read nor changed here; but the library
//! itself reads `krb5.conf` (or the file in `KRB5_CONFIG`) and, where no file is given, `KRB5_KTNAME` and
//! `KRB5CCNAME`. Apache: `Login`, around the JDK's `Krb5LoginModule`.

#[cfg(not(feature = "kerberos"))]
mod absent;
#[cfg(feature = "kerberos")]
mod linked;

use std::path::PathBuf;

#[cfg(not(feature = "kerberos"))]
pub use absent::{Acceptor, Initiator, default_realm};
#[cfg(feature = "kerberos")]
pub use linked::{Acceptor, Initiator, default_realm};

/// Why there is no context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GssapiError {
    /// The library is not part of this build.
    #[error("this build has no Kerberos support: build it with `cargo build --features kerberos`")]
    NotBuilt,
    /// No server of the realm answers; a later attempt may succeed.
    #[error("{problem}: {reason}")]
    KdcUnreachable {
        /// What failed.
        problem: &'static str,
        /// The library's error.
        reason: String,
    },
    /// Any other failure.
    #[error("{problem}: {reason}")]
    Failed {
        /// What failed.
        problem: &'static str,
        /// The library's error.
        reason: String,
    },
}

/// Progress of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Send this token to the peer and wait for its answer.
    Continue(Vec<u8>),
    /// The context is established. There may be a last token for the peer.
    Established(Option<Vec<u8>>),
}

/// One side of a context.
pub trait SecurityContext {
    /// Processes the peer's next token, which is empty for an initiator's first step.
    fn step(&mut self, token: &[u8]) -> Result<Progress, GssapiError>;

    /// Protects a message from modification, without encrypting it.
    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssapiError>;

    /// Returns the content of a message that the peer wrapped.
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, GssapiError>;
}

/// The accepting side of a context.
pub trait AcceptingContext: SecurityContext {
    /// The authenticated peer, as the library writes it: `name/host@REALM`, with a backslash before a
    /// separator that is part of a name.
    fn initiator(&mut self) -> Result<String, GssapiError>;
}

/// The keys of an acceptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptorKeys {
    /// The principal, as `name/host@REALM`.
    pub principal: String,
    /// The file with its keys; the system's default if none is given.
    pub key_table: Option<PathBuf>,
}

/// The credentials of an initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitiatorKeys {
    /// Keys with which tickets are obtained.
    KeyTable {
        /// The principal.
        principal: String,
        /// The file; the system's default for clients if none is given.
        file: Option<PathBuf>,
    },
    /// Existing tickets, as obtained by `kinit`.
    TicketCache {
        /// The principal; any if none is given.
        principal: Option<String>,
        /// The file; the user's default if none is given.
        file: Option<PathBuf>,
    },
}

//! Kerberos, as the system's GSSAPI library speaks it (RFC 2743, RFC 4121).
//!
//! In: where keys or tickets are, and tokens that a peer sent. Out: tokens to send, and in the end a context
//! in which both sides know a key, and one of them or both who the other is. What SASL makes of that is in
//! `herdsman-sasl`.
//!
//! Without the cargo feature `kerberos` there is no library, and nothing can be made of the types here:
//! [`Acceptor::new`] and [`Initiator::new`] say which feature to build with. So no other crate has to ask.
//!
//! Keys and tickets are looked for anew for each login, so a key table that was replaced is in use at once
//! and there is no thread that renews tickets. Nothing is taken from or put into the process's environment;
//! but the library itself reads `krb5.conf` (or what `KRB5_CONFIG` names) and, where no file is named here,
//! `KRB5_KTNAME` and `KRB5CCNAME`. Apache: `Login`, around the JDK's `Krb5LoginModule`.

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
    /// The library is not part of this program.
    #[error("this build does not speak Kerberos: build it with `cargo build --features kerberos`")]
    NotBuilt,
    /// No server of the realm answers, so that the next try may go better.
    #[error("{doing}: {reason}")]
    KdcUnreachable {
        /// What was tried.
        doing: &'static str,
        /// What the library says.
        reason: String,
    },
    /// Anything else.
    #[error("{doing}: {reason}")]
    Failed {
        /// What was tried.
        doing: &'static str,
        /// What the library says.
        reason: String,
    },
}

/// How far a context has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The peer gets this token and has to answer.
    Continue(Vec<u8>),
    /// It stands. There may be a last token for the peer.
    Established(Option<Vec<u8>>),
}

/// One side of a context.
pub trait SecurityContext {
    /// Takes the peer's next token; that of an initiator's first step is empty.
    fn step(&mut self, token: &[u8]) -> Result<Progress, GssapiError>;

    /// A message that the peer can tell from a forgery. It can be read by everybody.
    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssapiError>;

    /// What the peer wrapped.
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, GssapiError>;
}

/// The side that is logged in to.
pub trait AcceptingContext: SecurityContext {
    /// Who has logged in, as the library writes it: `name/host@REALM`, with a backslash before a separator
    /// that is part of a name.
    fn initiator(&mut self) -> Result<String, GssapiError>;
}

/// The keys of one who is logged in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptorKeys {
    /// Who that is, as `name/host@REALM`.
    pub principal: String,
    /// The file with its keys; the system's own if there is none.
    pub key_table: Option<PathBuf>,
}

/// What one who logs in has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitiatorKeys {
    /// Keys with which tickets are got.
    KeyTable {
        /// Whose.
        principal: String,
        /// The file; the system's own for clients if there is none.
        file: Option<PathBuf>,
    },
    /// Tickets that somebody else got, as `kinit` does.
    TicketCache {
        /// Whose, if that matters.
        principal: Option<String>,
        /// The file; the user's usual one if there is none.
        file: Option<PathBuf>,
    },
}

//! The steps of an exchange, whatever the mechanism, and the name that it proves.

use std::fmt;

use herdsman_gssapi::{Acceptor, Initiator};

use crate::{SaslError, digest_md5, gssapi};

/// How many characters of a claimed name an error repeats.
const SHOWN_NAME_CHARS_MAX: usize = 64;

/// What a server does after a token.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerStep {
    /// Sends this and waits for the client's next token.
    Challenge(Vec<u8>),
    /// Accepts the client.
    Accepted(Accepted),
}

/// A successful login.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The authenticated user.
    pub id: AuthorizedId,
    /// The last token to send. With DIGEST-MD5 it proves to the client that the server knows the password;
    /// with GSSAPI it is empty, since everything is already proven.
    pub token: Vec<u8>,
}

/// What a client does after a token.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// Sends this and waits for the server's next token.
    Response(Vec<u8>),
    /// Is logged in and has authenticated the server.
    Accepted,
}

/// An authenticated name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuthorizedId(String);

impl AuthorizedId {
    /// Creates it; the caller has checked the proof.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        AuthorizedId(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for AuthorizedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Truncates a claimed name for an error.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(SHOWN_NAME_CHARS_MAX).collect()
}

/// The server's side of one login, for the configured mechanism.
#[derive(Debug)]
pub enum ServerLogin {
    /// With a password.
    Digest(digest_md5::Server),
    /// With Kerberos.
    Gssapi(gssapi::Server<Acceptor>),
}

impl ServerLogin {
    /// Processes the client's next token. This needs no network: with Kerberos, the client's ticket is
    /// verified with a key from a file.
    pub fn step(&mut self, token: &[u8]) -> Result<ServerStep, SaslError> {
        match self {
            ServerLogin::Digest(login) => login.step(token),
            ServerLogin::Gssapi(login) => login.step(token),
        }
    }
}

/// The client's side of one login.
#[derive(Debug)]
pub enum ClientLogin {
    /// With a password.
    Digest(digest_md5::Client),
    /// With Kerberos.
    Gssapi(gssapi::Client<Initiator>),
}

impl ClientLogin {
    /// Returns the first token to send. With Kerberos this and each step may block on servers of the realm:
    /// an asynchronous caller runs them on a thread that may block.
    pub fn open(&mut self) -> Result<Vec<u8>, SaslError> {
        match self {
            ClientLogin::Digest(_) => Ok(digest_md5::Client::OPENING.to_vec()),
            ClientLogin::Gssapi(login) => login.open(),
        }
    }

    /// Processes the server's next token. The last one accompanies the server's message that the login
    /// succeeded, and may be empty.
    pub fn step(&mut self, token: &[u8]) -> Result<ClientStep, SaslError> {
        match self {
            ClientLogin::Digest(login) => login.step(token),
            ClientLogin::Gssapi(login) => login.step(token),
        }
    }
}

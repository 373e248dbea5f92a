//! What an exchange of tokens is made of, whatever the mechanism: steps, and the name that is proven.

use std::fmt;

use herdsman_gssapi::{Acceptor, Initiator};

use crate::{SaslError, digest_md5, gssapi};

/// How much of a claimed name an error repeats.
const SHOWN_NAME_CHARS_MAX: usize = 64;

/// What a server does with a token.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerStep {
    /// Sends this and awaits the client's next token.
    Challenge(Vec<u8>),
    /// Lets the client in.
    Accepted(Accepted),
}

/// A login that succeeded.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Who logged in.
    pub id: AuthorizedId,
    /// The last token to send. With DIGEST-MD5 it proves to the client that the server knows the
    /// password, too; with GSSAPI it is empty, all being proven.
    pub token: Vec<u8>,
}

/// What a client does with a token.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// Sends this and awaits the server's next token.
    Response(Vec<u8>),
    /// Is in, and knows that the server is the one it means.
    Accepted,
}

/// A name that was proven.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuthorizedId(String);

impl AuthorizedId {
    /// Whoever calls this has seen the proof.
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

/// As much of a claimed name as an error may repeat.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(SHOWN_NAME_CHARS_MAX).collect()
}

/// One login, seen from the server, by the mechanism that it is set up for.
#[derive(Debug)]
pub enum ServerLogin {
    /// With a password.
    Digest(digest_md5::Server),
    /// With Kerberos.
    Gssapi(gssapi::Server<Acceptor>),
}

impl ServerLogin {
    /// Takes the client's next token. Nobody else is asked: with Kerberos, the client's ticket is judged
    /// by a file with keys.
    pub fn step(&mut self, token: &[u8]) -> Result<ServerStep, SaslError> {
        match self {
            ServerLogin::Digest(login) => login.step(token),
            ServerLogin::Gssapi(login) => login.step(token),
        }
    }
}

/// One login, seen from the client.
#[derive(Debug)]
pub enum ClientLogin {
    /// With a password.
    Digest(digest_md5::Client),
    /// With Kerberos.
    Gssapi(gssapi::Client<Initiator>),
}

impl ClientLogin {
    /// What is sent first. With Kerberos this may wait for servers of the realm: an asynchronous caller
    /// gives it, and each step, a thread where that is allowed.
    pub fn open(&mut self) -> Result<Vec<u8>, SaslError> {
        match self {
            ClientLogin::Digest(_) => Ok(digest_md5::Client::OPENING.to_vec()),
            ClientLogin::Gssapi(login) => login.open(),
        }
    }

    /// Takes the server's next token. The last one is what came with the server's word that the login
    /// has succeeded, and may be empty.
    pub fn step(&mut self, token: &[u8]) -> Result<ClientStep, SaslError> {
        match self {
            ClientLogin::Digest(login) => login.step(token),
            ClientLogin::Gssapi(login) => login.step(token),
        }
    }
}

//! SASL's DIGEST-MD5 (RFC 2831), both sides, as the JDK's `com.sun.security.sasl.digest` speaks it.
//!
//! ```text
//! client                                                              server
//!   | (an empty token; ZooKeeper's way to say "log me in")              |
//!   |------------------------------------------------------------------>|
//!   | realm="zk-sasl-md5",nonce="…",charset=utf-8,algorithm=md5-sess    |
//!   |<------------------------------------------------------------------|
//!   | charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="…",       |
//!   |   nc=00000001,cnonce="…",digest-uri="zookeeper/zk-sasl-md5",      |
//!   |   response=<client's proof>,qop=auth                              |
//!   |------------------------------------------------------------------>|
//!   | rspauth=<server's proof>                                          |
//!   |<------------------------------------------------------------------|
//! ```
//!
//! Each side is a machine that is stepped with the peer's tokens: [`Server`] and [`Client`]. Any failure
//! is final, as in the JDK: a new login takes a new machine and a new nonce.
//!
//! What is deliberately not here: layers that protect what follows the login (`auth-int`, `auth-conf`; TLS
//! does that better), and "subsequent authentication" with a remembered nonce. A client that tries the
//! latter (Cyrus does) gets a new challenge, as RFC 2831 section 2.2 wants it.
//!
//! MD5 is what the protocol fixes. It is no protection against somebody who records a login and guesses
//! passwords at leisure: use it behind TLS or on a network that is trusted.

mod client;
mod directives;
mod proof;
mod server;

use std::borrow::Cow;

use crate::SaslError;

pub use client::{Client, ClientSettings};
pub use server::{Server, ServerSettings};

pub use crate::exchange::{Accepted, ClientStep, ServerStep};

/// The longest challenge that a client takes (RFC 2831, section 2.1.1).
pub const CHALLENGE_BYTES_MAX: usize = 2048;
/// The longest response that a server takes (RFC 2831, section 2.1.2).
pub const RESPONSE_BYTES_MAX: usize = 4096;

/// RFC 2831 lets a client use a nonce again and count; here each is used once.
const NONCE_COUNT: &str = "00000001";
const CHARSET: &str = "utf-8";
const ALGORITHM: &str = "md5-sess";
const QOP: &str = "auth";

/// What a client logs in to. Both sides have to name the same, so that a login to one service is no use
/// at another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    protocol: Cow<'static, str>,
    server_name: Cow<'static, str>,
}

impl Service {
    /// A server's client port. Apache hard-wires the same name for every server.
    pub const CLIENT_PORT: Service =
        Service { protocol: Cow::Borrowed("zookeeper"), server_name: Cow::Borrowed("zk-sasl-md5") };
    /// The ports that servers connect to each other on.
    pub const QUORUM: Service = Service {
        protocol: Cow::Borrowed("zookeeper-quorum"),
        server_name: Cow::Borrowed("zk-quorum-sasl-md5"),
    };

    /// Another service.
    pub fn new(
        protocol: impl Into<Cow<'static, str>>,
        server_name: impl Into<Cow<'static, str>>,
    ) -> Self {
        Service { protocol: protocol.into(), server_name: server_name.into() }
    }

    /// The one realm that the server offers: as in the JDK, its own name.
    fn realm(&self) -> &str {
        &self.server_name
    }

    fn digest_uri(&self) -> String {
        format!("{}/{}", self.protocol, self.server_name)
    }
}

/// A value that no exchange before had. It is sent in the clear, but who can foretell it can replay old
/// answers or prepare tables of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    /// How much randomness a nonce takes.
    pub const RANDOM_BYTES: usize = 24;

    /// A nonce of bytes that a cryptographic source drew for this exchange alone.
    #[must_use]
    pub fn from_random(random: [u8; Self::RANDOM_BYTES]) -> Self {
        Nonce(hex::encode(random))
    }

    /// The nonce of an exchange that was recorded, to play it again in a test.
    #[must_use]
    pub fn recorded(text: &str) -> Self {
        Nonce(text.to_string())
    }

    fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

fn check_length(token: &[u8], bytes_max: usize) -> Result<(), SaslError> {
    let bytes = token.len();
    if bytes > bytes_max { Err(SaslError::TokenTooLong { bytes, bytes_max }) } else { Ok(()) }
}

//! SASL's DIGEST-MD5 (RFC 2831), both sides, compatible with the JDK's `com.sun.security.sasl.digest`.
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
//! Each side is a state machine that is stepped with the peer's tokens: [`Server`] and [`Client`]. Any
//! failure is final, as in the JDK: a new login needs a new machine and a new nonce.
//!
//! Deliberately not here: layers that protect what follows the login (`auth-int`, `auth-conf`; TLS does
//! that better), and "subsequent authentication" with a remembered nonce. A client that tries the latter
//! (Cyrus does) gets a new challenge, as RFC 2831 section 2.2 requires.
//!
//! The protocol prescribes MD5. It gives no protection from an attacker who records a login and guesses
//! passwords offline: use it behind TLS or on a trusted network.

mod client;
mod directives;
mod proof;
mod server;

use std::borrow::Cow;

use crate::SaslError;

pub use client::{Client, ClientSettings};
pub use server::{Server, ServerSettings};

pub use crate::exchange::{Accepted, ClientStep, ServerStep};

/// The longest challenge that a client accepts (RFC 2831, section 2.1.1).
pub const CHALLENGE_BYTES_MAX: usize = 2048;
/// The longest response that a server accepts (RFC 2831, section 2.1.2).
pub const RESPONSE_BYTES_MAX: usize = 4096;

/// RFC 2831 lets a client reuse a nonce and count the uses; here each is used once.
const NONCE_COUNT: &str = "00000001";
const CHARSET: &str = "utf-8";
const ALGORITHM: &str = "md5-sess";
const QOP: &str = "auth";

/// The service that a client logs in to. Both sides must use the same one, so that a login to one service
/// cannot be used at another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    protocol: Cow<'static, str>,
    server_name: Cow<'static, str>,
}

impl Service {
    /// A server's client port. Apache hard-codes the same name for every server.
    pub const CLIENT_PORT: Service =
        Service { protocol: Cow::Borrowed("zookeeper"), server_name: Cow::Borrowed("zk-sasl-md5") };
    /// The ports for connections between servers.
    pub const QUORUM: Service = Service {
        protocol: Cow::Borrowed("zookeeper-quorum"),
        server_name: Cow::Borrowed("zk-quorum-sasl-md5"),
    };

    /// Any other service.
    pub fn new(
        protocol: impl Into<Cow<'static, str>>,
        server_name: impl Into<Cow<'static, str>>,
    ) -> Self {
        Service { protocol: protocol.into(), server_name: server_name.into() }
    }

    /// The only realm that the server offers: as in the JDK, its own name.
    fn realm(&self) -> &str {
        &self.server_name
    }

    fn digest_uri(&self) -> String {
        format!("{}/{}", self.protocol, self.server_name)
    }
}

/// A value that no earlier exchange used. It is sent in the clear, but an attacker who can predict it could
/// replay old responses or precompute tables of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    /// The number of random bytes in a nonce.
    pub const RANDOM_BYTES: usize = 24;

    /// Makes a nonce from bytes that a cryptographic source generated for this exchange alone.
    #[must_use]
    pub fn from_random(random: [u8; Self::RANDOM_BYTES]) -> Self {
        Nonce(hex::encode(random))
    }

    /// Returns the nonce of a recorded exchange, to replay it in a test.
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

//! SASL's GSSAPI (RFC 4752), both sides, as the JDK's `com.sun.security.sasl.gsskerb` speaks it.
//!
//! ```text
//! client                                                              server
//!   | a ticket for the service, and a proof that it is the client's     |
//!   |------------------------------------------------------------------>|
//!   | a proof that the server has the service's key (if it was asked)   |
//!   |<------------------------------------------------------------------|
//!   | (an empty token)                                                  |
//!   |------------------------------------------------------------------>|
//!   | wrapped: which layers there are to protect what follows: none     |
//!   |<------------------------------------------------------------------|
//!   | wrapped: none it is, and whom the client wants to be              |
//!   |------------------------------------------------------------------>|
//!   | (in ZooKeeper's protocols, the word that it has succeeded)        |
//!   |<------------------------------------------------------------------|
//! ```
//!
//! Each side is a machine around a [`SecurityContext`], which makes and judges the tickets; here is what
//! SASL adds. Our client always asks for the server's proof. Apache's does not, so that two of the tokens
//! above are missing. Any failure is final.
//!
//! What is deliberately not here: layers that protect what follows the login (TLS does that better), and
//! channel bindings, which ZooKeeper's clients do not send.

mod client;
mod layer;
mod server;

pub use client::Client;
pub use herdsman_gssapi::{
    AcceptingContext, Acceptor, AcceptorKeys, GssapiError, Initiator, InitiatorKeys, Progress,
    SecurityContext, default_realm,
};
pub use server::{Admission, Server};

use crate::SaslError;

/// The longest token that either side takes: a ticket may carry a long list of groups.
pub const TOKEN_BYTES_MAX: usize = 64 * 1024;

fn check_length(token: &[u8]) -> Result<(), SaslError> {
    match token.len() {
        bytes if bytes > TOKEN_BYTES_MAX => {
            Err(SaslError::TokenTooLong { bytes, bytes_max: TOKEN_BYTES_MAX })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

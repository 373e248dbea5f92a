//! SASL's GSSAPI (RFC 4752), both sides, compatible with the JDK's `com.sun.security.sasl.gsskerb`.
//!
//! ```text
//! client                                                              server
//!   | a ticket for the service, and a proof that the client owns it     |
//!   |------------------------------------------------------------------>|
//!   | a proof that the server has the service's key (if requested)      |
//!   |<------------------------------------------------------------------|
//!   | (an empty token)                                                  |
//!   |------------------------------------------------------------------>|
//!   | wrapped: the available protection layers (none)                   |
//!   |<------------------------------------------------------------------|
//!   | wrapped: the chosen layer (none) and the requested identity       |
//!   |------------------------------------------------------------------>|
//!   | (in ZooKeeper's protocols, the message that the login succeeded)  |
//!   |<------------------------------------------------------------------|
//! ```
//!
//! Each side is a state machine around a [`SecurityContext`], which creates and verifies the tickets; this
//! module has what SASL adds. Our client always requests the server's proof. Apache's does not, so two of
//! the tokens above are missing there. Any failure is final.
//!
//! Deliberately not here: layers that protect what follows the login (TLS does that better), and channel
//! bindings, which ZooKeeper's clients do not send.

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

/// The longest token that either side accepts: a ticket may contain a long list of groups.
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

//! Authentication of clients and servers: JAAS configuration files, SASL's DIGEST-MD5 and GSSAPI.
//!
//! In: the text of a configuration file, the peer's tokens, nonces made from random bytes that the caller
//! supplies. Out: tokens to send, and finally an authenticated name. The crate uses no socket, file, clock
//! or random source; only the Kerberos contexts of `herdsman-gssapi` do.
//!
//! [`JaasFile`] parses a file as the JDK does, [`Login`] interprets a section of it, and [`digest_md5`] and
//! [`gssapi`] each have the two sides of an exchange, which [`ServerLogin`] and [`ClientLogin`] combine.
//! [`kerberos`] has the rules for names. What an authenticated user may do (super users, ACLs, whether a
//! failed login closes the connection) is decided in the server.
//!
//! Invariant: a password is a [`Secret`], which no `Debug` output and no error shows.

pub mod digest_md5;
mod error;
mod exchange;
pub mod gssapi;
pub mod jaas;
pub mod kerberos;
pub mod login;
mod users;

pub use error::SaslError;
pub use exchange::{Accepted, AuthorizedId, ClientLogin, ClientStep, ServerLogin, ServerStep};
pub use herdsman_secret::Secret;
pub use jaas::{ControlFlag, JaasError, JaasFile, LoginModule, Section};
pub use login::{DigestLogin, KerberosLogin, Login, LoginError};
pub use users::{Credentials, Users};

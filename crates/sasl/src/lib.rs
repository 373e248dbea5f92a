//! Who may log in, and how that is proven: JAAS configuration files, SASL's DIGEST-MD5 and GSSAPI.
//!
//! In: the text of a configuration file, tokens that a peer sent, nonces made of randomness that the
//! caller drew. Out: tokens to send, and in the end a name that was proven. Nothing here knows a
//! socket, a file, a clock or a source of randomness; only the contexts of Kerberos, which
//! `herdsman-gssapi` makes, do what they must.
//!
//! [`JaasFile`] reads a file as the JDK does, [`Login`] says what a section of it means, and
//! [`digest_md5`] and [`gssapi`] hold the two sides of an exchange, which [`ServerLogin`] and
//! [`ClientLogin`] put under one roof. [`kerberos`] has the rules for names. What a proven name may do
//! (super users, ACLs, whether a failed login closes the connection) is the server's business.
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

//! TLS for connections to servers: the settings of [`Options::tls`](crate::Options::tls).
//!
//! Key stores and trust stores are those of Apache's clients: PEM, PKCS12 or JKS, recognized by their
//! extension unless the settings name the type. A client without a key store presents no certificate.
//! Files written for Apache's `zkCli -client-configuration` are read by
//! [`ClientConfiguration`](crate::ClientConfiguration).

pub use herdsman_tls::{
    Password, Protocol, Revocation, Secret, StoreKind, StoreSettings, TlsError, TlsSettings,
};

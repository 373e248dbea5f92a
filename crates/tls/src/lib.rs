//! TLS as in an Apache ZooKeeper installation: key stores, trust and host rules in, rustls configurations
//! out.
//!
//! In: settings that name files. Out: a [`TlsContext`], which provides a `rustls::ServerConfig` or
//! `rustls::ClientConfig` for each connection and follows changes to the files. It is used by the server's
//! client port, its quorum and election ports, the admin HTTP port, the client and the bench. The crate has
//! no sockets and no threads, reads no zoo.cfg and writes no log: errors are values ([`TlsError`],
//! [`TlsWarning`], [`describe_failure`]) that the caller logs with the peer's address.
//!
//! An installation can change servers without changing certificates. To this end it reads the stores that
//! Apache reads ([`StoreKind`]) and trusts what Java trusts (`trust.rs`), also where rustls alone would
//! not: a certificate that is itself in the trust store, and X.509 version 1. What Java accepts and this
//! crate does not: RSA keys under 2048 bits, certificates signed with SHA-1 or MD5, DSA keys, TLS 1.0 and
//! 1.1, cipher suites without forward secrecy, BCFKS stores, revocation lists fetched from the network, and
//! OCSP.
//!
//! Sessions are never resumed. A resumed session is not checked again, so a certificate that was revoked,
//! or whose issuer was removed from the trust store, would still be accepted. ZooKeeper connections are
//! long-lived, so resumption would save little.
//!
//! Apache: `X509Util`, `ZKTrustManager`, `ZKHostnameVerifier`, `PemReader`, `FileKeyStoreLoader`.

mod certificate;
mod context;
mod der;
mod detect;
mod distinguished_name;
mod error;
mod failure;
mod file;
mod hostname;
mod load;
mod peer;
mod settings;
mod store;
mod suites;
mod trust;
mod verifier;

pub use certificate::MalformedCertificate;
pub use context::{Reload, TlsContext};
pub use detect::looks_like_tls;
pub use distinguished_name::subject_name;
pub use error::{StoreProblem, TlsError, TlsWarning};
pub use failure::{describe_failure, describe_io_failure};
pub use herdsman_secret::Secret;
pub use hostname::CertificateHosts;
pub use peer::{Peer, reverse_lookup};
pub use rustls;
pub use settings::{
    ClientAuth, Password, Protocol, Revocation, Side, StoreKind, StoreSettings, TlsSettings,
};

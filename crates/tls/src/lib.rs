//! TLS as an Apache ZooKeeper installation has it: key stores, trust and host rules in, rustls
//! configurations out.
//!
//! In: settings that name files. Out: a [`TlsContext`], from which each connection takes a
//! `rustls::ServerConfig` or `rustls::ClientConfig`, and which follows the files as they change. The
//! server's client port, its quorum and election ports, the admin's HTTP, the client and the bench all
//! stand on this one crate. It has no sockets and no threads, reads no zoo.cfg and writes no log: what
//! went wrong is a value ([`TlsError`], [`TlsWarning`], [`describe_failure`]) that the caller puts beside
//! the peer's address.
//!
//! The aim is that an installation changes servers without changing certificates. So the stores that
//! Apache reads are read ([`StoreKind`]), and what Java trusts is trusted (`trust.rs`), also where
//! rustls alone would refuse: a certificate that is itself in the trust store, and X.509 version 1.
//! What Java takes and this crate does not: RSA keys under 2048 bits, certificates signed with SHA-1 or
//! MD5, DSA keys, TLS 1.0 and 1.1, cipher suites without forward secrecy, BCFKS stores, revocation
//! lists fetched from the network, and OCSP.
//!
//! Sessions are never resumed. A resumed session is not checked again, so a certificate that was
//! revoked, or whose issuer was taken out of the trust store, would stay welcome; and a ZooKeeper
//! connection lives so long that the saving is nothing.
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

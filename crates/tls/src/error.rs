//! Errors in settings and files, worded so that an operator can act on them.
//!
//! They never contain a password or the content of a file. A failed handshake is an error of rustls, which
//! [`describe_failure`](crate::describe_failure) words.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::file::FILE_BYTES_MAX;

/// Why TLS cannot be set up with these settings.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is missing or may not be read.
    #[error("cannot read {}: {source}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file is far too large for a key store.
    #[error("{} is larger than {FILE_BYTES_MAX} bytes, the limit for a key store", .file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// The file was read but has the wrong content.
    #[error("{}: {problem}", .file.display())]
    Store {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: StoreProblem,
    },
    /// A server has no key and certificate.
    #[error(
        "a TLS server needs a key and a certificate: set ssl.keyStore.location \
         (ssl.quorum.keyStore.location for the quorum)"
    )]
    NoKeyStore,
    /// Certificates are to be checked, but there is no trust store.
    #[error(
        "there is no trust store, and the system's certificate authorities are not used: \
         set ssl.trustStore.location (ssl.quorum.trustStore.location for the quorum)"
    )]
    NoTrustStore,
    /// Revocation is to be checked, but there is no revocation list.
    #[error(
        "revocation is to be checked, but there is no revocation list: set ssl.crl.file, \
         or add X509 CRL blocks to a PEM trust store"
    )]
    NoRevocationLists,
    /// rustls supports none of the requested cipher suites.
    #[error("none of these cipher suites is supported: {asked}; known are {known}")]
    NoCipherSuite {
        /// The cipher suites in the settings.
        asked: String,
        /// The supported ones.
        known: String,
    },
    /// The remaining cipher suites belong to protocols that are not enabled.
    #[error("the cipher suites do not match the protocols: {0}")]
    Inconsistent(#[source] rustls::Error),
    /// A setting has an unknown value.
    #[error("{value} is not a {what}: use one of {known}")]
    UnknownValue {
        /// What the value should be.
        what: &'static str,
        /// The value.
        value: String,
        /// The accepted values.
        known: &'static str,
    },
    /// A store in Bouncy Castle's format.
    #[error(
        "BCFKS stores are not supported: convert the store with keytool -importkeystore -deststoretype PKCS12"
    )]
    BcfksStore,
    /// No type is set, and the file extension does not determine it.
    #[error(
        "{}: the file extension does not determine the type of store: set its type to JKS, PEM or PKCS12",
        .file.display()
    )]
    UnknownStoreKind {
        /// The file.
        file: PathBuf,
    },
}

/// What is wrong with a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreProblem {
    /// The password is wrong, or the file was modified: the two cannot be distinguished.
    #[error("the password is wrong, or the file is damaged")]
    WrongPassword,
    /// The private key is encrypted and no password is set.
    #[error("the private key is encrypted: set the store's password")]
    PasswordNeeded,
    /// Neither of the binary formats.
    #[error("neither a JKS nor a PKCS12 store")]
    NotAStore,
    /// Java's other old format.
    #[error(
        "JCEKS stores are not supported: convert the store with keytool -importkeystore -deststoretype PKCS12"
    )]
    Jceks,
    /// Not text, or text without a PEM block.
    #[error("no PEM block found: a PEM file has lines like -----BEGIN CERTIFICATE-----")]
    NotPem,
    /// OpenSSL's traditional key encryption, which is too weak to support.
    #[error(
        "the private key is in OpenSSL's traditional encryption: convert it with openssl pkcs8 -topk8"
    )]
    TraditionalEncryption,
    /// The store has only certificates.
    #[error("no private key found")]
    NoPrivateKey,
    /// The store has only keys.
    #[error("no certificate found")]
    NoCertificates,
    /// No certificate is marked as trusted, or none can be used.
    #[error("no trusted certificate found")]
    NoTrustedCertificates,
    /// The key does not belong to any certificate of the store.
    #[error("the private key does not match the certificate")]
    KeyMismatch,
    /// DSA, RSA under 2048 bits, or an unusual curve.
    #[error(
        "unsupported private key: use RSA with at least 2048 bits, ECDSA (P-256, P-384, P-521) or Ed25519"
    )]
    UnsupportedKey,
    /// The encryption scheme or version is not supported.
    #[error(
        "unsupported protection ({0}): write the store again with a current keytool or openssl"
    )]
    Unsupported(String),
    /// The file does not follow its format.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The password file is not text.
    #[error("not a password file: not UTF-8 text")]
    NotText,
}

impl StoreProblem {
    /// Adds the file to the problem.
    pub(crate) fn in_file(self, file: impl Into<PathBuf>) -> TlsError {
        TlsError::Store { file: file.into(), problem: self }
    }
}

/// A problem that does not prevent TLS but that an operator should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsWarning {
    /// A certificate is not valid now: peers will reject it, or it will not verify any peer.
    NotValidNow {
        /// The file.
        file: PathBuf,
        /// Its subject.
        subject: String,
        /// Its validity period.
        validity: String,
    },
    /// A certificate in the trust store cannot be used.
    UnusableCertificate {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The key store has several keys; the first is used.
    SeveralKeys {
        /// The file.
        file: PathBuf,
        /// How many keys there are.
        count: usize,
    },
    /// Cipher suites that rustls does not support.
    SkippedCipherSuites {
        /// The names as in the settings.
        names: Vec<String>,
    },
}

impl fmt::Display for TlsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotValidNow { file, subject, validity } => {
                write!(f, "{}: the certificate {subject} is only valid {validity}", file.display())
            }
            Self::UnusableCertificate { file, reason } => {
                write!(f, "{}: ignored a certificate: {reason}", file.display())
            }
            Self::SeveralKeys { file, count } => {
                write!(f, "{}: contains {count} private keys, using the first", file.display())
            }
            Self::SkippedCipherSuites { names } => {
                write!(f, "ignored unsupported cipher suites: {}", names.join(", "))
            }
        }
    }
}

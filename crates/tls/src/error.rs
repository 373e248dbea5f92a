//! What can be wrong with settings and files, in words that an operator can act on.
//!
//! Never a password, and never the content of a file. What goes wrong in a handshake is rustls's error,
//! worded by [`describe_failure`](crate::describe_failure).

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::file::FILE_BYTES_MAX;

/// Why there is no TLS with these settings.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is not there, or not ours to read.
    #[error("cannot read {}: {source}", .file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something that is no key store in earnest.
    #[error("{} is larger than {FILE_BYTES_MAX} bytes, which no key store is", .file.display())]
    TooLarge {
        /// Which file.
        file: PathBuf,
    },
    /// The file was read, but is not what it should be.
    #[error("{}: {problem}", .file.display())]
    Store {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        problem: StoreProblem,
    },
    /// A server that has nothing to show.
    #[error(
        "a TLS server needs a key and a certificate: set ssl.keyStore.location (ssl.quorum.keyStore.location for the quorum)"
    )]
    NoKeyStore,
    /// Somebody's certificate is to be checked, against nothing.
    #[error(
        "no trust store says whom to trust, and the system's certificate authorities are not used: set ssl.trustStore.location (ssl.quorum.trustStore.location for the quorum)"
    )]
    NoTrustStore,
    /// Revocation is to be checked, and there is no list.
    #[error(
        "revocation is to be checked, but there is no revocation list: set ssl.crl.file, or add X509 CRL blocks to a PEM trust store"
    )]
    NoRevocationLists,
    /// None of the cipher suites that were asked for is one of rustls's.
    #[error("none of these cipher suites is supported: {asked}; known are {known}")]
    NoCipherSuite {
        /// What the settings say.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The cipher suites that are left belong to other protocols than the enabled ones.
    #[error("the cipher suites and the protocols do not go together: {0}")]
    Inconsistent(#[source] rustls::Error),
    /// A setting's value that is none.
    #[error("{value} is not a {what}: give one of {known}")]
    UnknownValue {
        /// What it should be.
        what: &'static str,
        /// What it is.
        value: String,
        /// What is possible.
        known: &'static str,
    },
    /// Bouncy Castle's form of store.
    #[error(
        "BCFKS stores are not supported: convert the store with keytool -importkeystore -deststoretype PKCS12"
    )]
    BcfksStore,
    /// No type is set, and the extension does not say it.
    #[error("{}: the extension does not say what kind of store this is: set its type to JKS, PEM or PKCS12", .file.display())]
    UnknownStoreKind {
        /// Which file.
        file: PathBuf,
    },
}

/// What is wrong with a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreProblem {
    /// Or the file was changed: the two look the same.
    #[error("the password is wrong, or the file is damaged")]
    WrongPassword,
    /// The private key is locked and there is no key to it.
    #[error("the private key is encrypted: set the store's password")]
    PasswordNeeded,
    /// Neither of the binary forms.
    #[error("this is neither a JKS nor a PKCS12 store")]
    NotAStore,
    /// Java's other older form.
    #[error(
        "JCEKS stores are not supported: convert the store with keytool -importkeystore -deststoretype PKCS12"
    )]
    Jceks,
    /// Text without a block in it, or no text at all.
    #[error("there is no PEM block in it: a PEM file has lines like -----BEGIN CERTIFICATE-----")]
    NotPem,
    /// OpenSSL's traditional encryption of keys, which is too weak to keep up.
    #[error(
        "the private key is in OpenSSL's traditional encryption: convert it with openssl pkcs8 -topk8"
    )]
    TraditionalEncryption,
    /// Only certificates.
    #[error("there is no private key in it")]
    NoPrivateKey,
    /// Only keys.
    #[error("there is no certificate in it")]
    NoCertificates,
    /// Certificates, but none that is marked as trusted, or none that can be used.
    #[error("there is no trusted certificate in it")]
    NoTrustedCertificates,
    /// The key belongs to none of the store's certificates.
    #[error("the private key does not match the certificate")]
    KeyMismatch,
    /// DSA, RSA under 2048 bits, an exotic curve.
    #[error(
        "the private key is of a kind that TLS cannot use: RSA of 2048 bits and more, ECDSA (P-256, P-384, P-521) and Ed25519 can be used"
    )]
    UnsupportedKey,
    /// An encryption scheme or version that we have not.
    #[error(
        "it is protected in a way that is not supported ({0}): write it anew with a current keytool or openssl"
    )]
    Unsupported(String),
    /// The bytes do not follow the form.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// The password file is not text.
    #[error("it should hold a password, but is not UTF-8 text")]
    NotText,
}

impl StoreProblem {
    /// The error about this file.
    pub(crate) fn in_file(self, file: impl Into<PathBuf>) -> TlsError {
        TlsError::Store { file: file.into(), problem: self }
    }
}

/// Something that does not stop us, but that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsWarning {
    /// One of the certificates is not valid now: peers will refuse it, or it will not help a peer.
    NotValidNow {
        /// Where it is.
        file: PathBuf,
        /// Whose it is.
        subject: String,
        /// From when to when it is valid.
        validity: String,
    },
    /// A certificate of the trust store that cannot be used.
    UnusableCertificate {
        /// Where it is.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The key store has several keys; the first is taken.
    SeveralKeys {
        /// Where they are.
        file: PathBuf,
        /// How many.
        count: usize,
    },
    /// Names of cipher suites that rustls has not.
    SkippedCipherSuites {
        /// As the settings have them.
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
                write!(f, "{}: a certificate is left out: {reason}", file.display())
            }
            Self::SeveralKeys { file, count } => {
                write!(f, "{}: of its {count} private keys the first is used", file.display())
            }
            Self::SkippedCipherSuites { names } => {
                write!(f, "cipher suites that are not supported are left out: {}", names.join(", "))
            }
        }
    }
}

//! Reads keys and certificates from key stores and trust stores.
//!
//! In: a store's path, kind and password. Out: a private key with its certificate chain, or the trusted
//! certificates. Whether they are valid now or trustworthy is not checked here.
//!
//! Each format has its own reader, which returns what the file contains ([`Contents`]); the rest is the
//! same for all. Apache: `FileKeyStoreLoader` and its subclasses, `PemReader`.

use std::path::Path;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::certificate;
use crate::error::{StoreProblem, TlsError};
use crate::file;
use crate::settings::{StoreKind, StoreSettings};
use herdsman_secret::Secret;

mod jks;
mod pem;
mod pkcs12;

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Private keys, in file order.
    keys: Vec<StoredKey>,
    /// All certificates that may belong to a key or to the chain of one.
    certificates: Vec<CertificateDer<'static>>,
    /// The certificates that are trusted if this is a trust store.
    trusted: Vec<CertificateDer<'static>>,
    /// Revocation lists.
    revocation_lists: Vec<CertificateRevocationListDer<'static>>,
}

/// A private key as stored. The keys of a trust store are never decrypted.
#[derive(Debug)]
enum StoredKey {
    Open(PrivateKeyDer<'static>),
    /// PKCS8's `EncryptedPrivateKeyInfo`, from a PEM file.
    Pkcs8(Vec<u8>),
    /// The same, with JKS encryption.
    Jks(Vec<u8>),
}

/// Our own key and its certificate chain.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) key: CertifiedKey,
    /// How many keys the store has.
    pub(crate) key_count: usize,
}

/// The content of a trust store.
#[derive(Debug)]
pub(crate) struct Trusted {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) revocation_lists: Vec<CertificateRevocationListDer<'static>>,
}

/// Reads a key store. If there are several keys, the first is used.
pub(crate) fn read_identity(settings: &StoreSettings) -> Result<Identity, TlsError> {
    let password = file::read_password(&settings.password)?;
    let content = file::read(&settings.location)?;
    open(settings.kind()?, &content, password.as_ref())
        .and_then(|contents| contents.into_identity(password.as_ref()))
        .map_err(|problem| problem.in_file(&settings.location))
}

/// Reads a trust store.
pub(crate) fn read_trusted(settings: &StoreSettings) -> Result<Trusted, TlsError> {
    let password = file::read_password(&settings.password)?;
    let content = file::read(&settings.location)?;
    let contents = open(settings.kind()?, &content, password.as_ref())
        .map_err(|problem| problem.in_file(&settings.location))?;
    if contents.trusted.is_empty() {
        return Err(StoreProblem::NoTrustedCertificates.in_file(&settings.location));
    }
    Ok(Trusted { certificates: contents.trusted, revocation_lists: contents.revocation_lists })
}

/// Reads a file of revocation lists: PEM, or one DER list.
pub(crate) fn read_revocation_lists(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let content = file::read(path)?;
    if content.first() == Some(&crate::der::SEQUENCE) {
        return Ok(vec![CertificateRevocationListDer::from(content)]);
    }
    let lists = pem::read(&content).map_err(|problem| problem.in_file(path))?.revocation_lists;
    if lists.is_empty() {
        let problem = "no X509 CRL block found".to_owned();
        return Err(StoreProblem::Damaged(problem).in_file(path));
    }
    Ok(lists)
}

/// Reads a store. The two binary formats are distinguished by their first bytes, whatever kind is set, as
/// in Java.
fn open(
    kind: StoreKind,
    content: &[u8],
    password: Option<&Secret>,
) -> Result<Contents, StoreProblem> {
    if kind == StoreKind::Pem {
        return pem::read(content);
    }
    match content {
        [0xfe, 0xed, 0xfe, 0xed, ..] => jks::read(content, password),
        [0xce, 0xce, 0xce, 0xce, ..] => Err(StoreProblem::Jceks),
        [crate::der::SEQUENCE, ..] => pkcs12::read(content, password),
        _ => Err(StoreProblem::NotAStore),
    }
}

impl Contents {
    /// Returns the first key, with its certificate and the chain of issuers.
    fn into_identity(self, password: Option<&Secret>) -> Result<Identity, StoreProblem> {
        let key_count = self.keys.len();
        let key = self.keys.into_iter().next().ok_or(StoreProblem::NoPrivateKey)?;
        if self.certificates.is_empty() {
            return Err(StoreProblem::NoCertificates);
        }
        let key = any_supported_type(&key.open(password)?)
            .map_err(|_unsupported| StoreProblem::UnsupportedKey)?;
        let public_key = key.public_key().ok_or(StoreProblem::UnsupportedKey)?;
        let is_ours = |certificate: &&CertificateDer<'_>| {
            certificate::public_key(certificate).is_ok_and(|key| key == public_key)
        };
        let own = self.certificates.iter().find(is_ours).ok_or(StoreProblem::KeyMismatch)?;
        let chain = chain_from(own, &self.certificates);
        Ok(Identity { key: CertifiedKey::new(chain, key), key_count })
    }
}

/// Returns the certificate, its issuer, the issuer's issuer and so on, as far as the store has them.
fn chain_from(
    own: &CertificateDer<'static>,
    all: &[CertificateDer<'static>],
) -> Vec<CertificateDer<'static>> {
    let mut chain = vec![own.clone()];
    while let Some(issuer) = chain.last().and_then(|last| issuer_of(last, &chain, all)) {
        chain.push(issuer);
    }
    chain
}

/// Finds the issuer. Certificates already in the chain are skipped, or this might never end. A root, which
/// is its own issuer, ends the chain; but the first certificate may merely have the same name as its
/// issuer, as in tests that use one name everywhere.
fn issuer_of(
    certificate: &CertificateDer<'_>,
    chain: &[CertificateDer<'_>],
    all: &[CertificateDer<'static>],
) -> Option<CertificateDer<'static>> {
    let certificate = certificate::parse(certificate).ok()?;
    if certificate.issuer().as_raw() == certificate.subject().as_raw() && chain.len() > 1 {
        return None;
    }
    let issues = |candidate: &CertificateDer<'_>| {
        certificate::parse(candidate)
            .is_ok_and(|it| it.subject().as_raw() == certificate.issuer().as_raw())
    };
    all.iter().find(|candidate| !chain.contains(candidate) && issues(candidate)).cloned()
}

impl StoredKey {
    fn open(self, password: Option<&Secret>) -> Result<PrivateKeyDer<'static>, StoreProblem> {
        match self {
            Self::Open(key) => Ok(key),
            Self::Pkcs8(sealed) => {
                pkcs12::open_key(&sealed, password.ok_or(StoreProblem::PasswordNeeded)?)
            }
            Self::Jks(sealed) => {
                jks::open_key(&sealed, password.ok_or(StoreProblem::PasswordNeeded)?)
            }
        }
    }
}

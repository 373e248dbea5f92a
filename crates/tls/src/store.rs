//! Key stores and trust stores: from files to keys and certificates.
//!
//! In: where a store is, what kind it is and what opens it. Out: a private key with its chain of
//! certificates, or the certificates that are trusted. Whether they are valid now, and what they are
//! worth, is not asked here.
//!
//! Each form has its reader, which says what is in the file ([`Contents`]); what is done with it is the
//! same for all. Apache: `FileKeyStoreLoader` and the classes below it, `PemReader`.

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

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Private keys, in the order of the file.
    keys: Vec<StoredKey>,
    /// Every certificate that may belong to a key or lead from one to its issuers.
    certificates: Vec<CertificateDer<'static>>,
    /// The certificates that are trusted if this is a trust store.
    trusted: Vec<CertificateDer<'static>>,
    /// Revocation lists.
    revocation_lists: Vec<CertificateRevocationListDer<'static>>,
}

/// A private key as it was found. A trust store's keys are never opened.
#[derive(Debug)]
enum StoredKey {
    Open(PrivateKeyDer<'static>),
    /// PKCS8's `EncryptedPrivateKeyInfo`, out of a PEM file.
    Pkcs8(Vec<u8>),
    /// The same, with the encryption of JKS.
    Jks(Vec<u8>),
}

/// Our own key and the certificates that go with it.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) key: CertifiedKey,
    /// How many keys the store has.
    pub(crate) key_count: usize,
}

/// What a trust store says.
#[derive(Debug)]
pub(crate) struct Trusted {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) revocation_lists: Vec<CertificateRevocationListDer<'static>>,
}

/// Reads a key store. Of several keys the first is taken.
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

/// Reads a file of revocation lists: PEM, or one list in DER.
pub(crate) fn read_revocation_lists(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let content = file::read(path)?;
    if content.first() == Some(&crate::der::SEQUENCE) {
        return Ok(vec![CertificateRevocationListDer::from(content)]);
    }
    let lists = pem::read(&content).map_err(|problem| problem.in_file(path))?.revocation_lists;
    if lists.is_empty() {
        let problem = "there is no X509 CRL block in it".to_owned();
        return Err(StoreProblem::Damaged(problem).in_file(path));
    }
    Ok(lists)
}

/// The two binary forms are told apart by their first bytes, whatever the kind says, as Java does.
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
    /// The first key, with the certificate that matches it and the issuers that follow.
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

/// The certificate, its issuer, the issuer's issuer and so on, as far as they are there.
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

/// One that is in the chain already is not looked at again: that would go round for ever. A root, which
/// is its own issuer, ends the chain; but the first certificate may only have its issuer's name, as in
/// tests that use one name for all.
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

//! PKCS12, and the encrypted keys that PEM shares with it.
//!
//! In: a file's bytes and the password. Out: its keys and certificates. p12-keystore parses the file; this
//! module decides what to use. A certificate is trusted if it is marked as trusted, as `keytool` does. If
//! none is marked and the file contains no key, it can only be a trust store, and all are trusted; Java
//! considers such a file, which `openssl pkcs12 -nokeys` writes, empty.

use p12_keystore::Pkcs12Archive;
use p12_keystore::error::Error;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Contents, StoredKey};
use crate::der;
use crate::error::StoreProblem;
use herdsman_secret::Secret;

/// `pkcs7-data`.
const DATA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
/// `pkcs8ShroudedKeyBag`.
const SHROUDED_KEY: [u8; 11] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x02];

/// Reads a store. No password is the same as an empty one.
pub(super) fn read(content: &[u8], password: Option<&Secret>) -> Result<Contents, StoreProblem> {
    let password = password.map_or("", Secret::expose);
    let archive = Pkcs12Archive::from_pkcs12(content, password).map_err(problem)?;
    let mut contents = Contents::default();
    for bag in &archive.keys {
        let key = PrivatePkcs8KeyDer::from(bag.key.as_der().to_vec());
        contents.keys.push(StoredKey::Open(key.into()));
    }
    let nothing_is_marked = archive.certs.iter().all(|bag| !bag.trusted);
    let all_are_trusted = nothing_is_marked && archive.keys.is_empty();
    for bag in &archive.certs {
        let certificate = CertificateDer::from(bag.cert.as_der().to_vec());
        if bag.trusted || all_are_trusted {
            contents.trusted.push(certificate.clone());
        }
        contents.certificates.push(certificate);
    }
    Ok(contents)
}

/// Decrypts an `EncryptedPrivateKeyInfo`. It uses the encryption schemes of PKCS12, so it is wrapped as a
/// store with this one key and read as such.
pub(super) fn open_key(
    sealed: &[u8],
    password: &Secret,
) -> Result<PrivateKeyDer<'static>, StoreProblem> {
    let bag = der::encode(
        der::SEQUENCE,
        &[
            &der::encode(der::OBJECT_IDENTIFIER, &[&SHROUDED_KEY]),
            &der::encode(der::EXPLICIT_0, &[sealed]),
        ],
    );
    let safe = data(&der::encode(der::SEQUENCE, &[&bag]));
    let safes = data(&der::encode(der::SEQUENCE, &[&safe]));
    let version = der::encode(der::INTEGER, &[&[3]]);
    let store = der::encode(der::SEQUENCE, &[&version, &safes]);
    let archive = Pkcs12Archive::from_pkcs12(&store, password.expose()).map_err(key_problem)?;
    let key = archive.keys.first().ok_or(StoreProblem::NoPrivateKey)?;
    Ok(PrivatePkcs8KeyDer::from(key.key.as_der().to_vec()).into())
}

/// Wraps bytes as content of type "data".
fn data(bytes: &[u8]) -> Vec<u8> {
    let octets = der::encode(der::OCTET_STRING, &[bytes]);
    let kind = der::encode(der::OBJECT_IDENTIFIER, &[&DATA]);
    der::encode(der::SEQUENCE, &[&kind, &der::encode(der::EXPLICIT_0, &[&octets])])
}

fn problem(error: Error) -> StoreProblem {
    match error {
        Error::MacError(_) | Error::UnpadError => StoreProblem::WrongPassword,
        Error::Pkcs5Error(text) if text.contains("decryption failed") => {
            StoreProblem::WrongPassword
        }
        Error::Pkcs5Error(text) => StoreProblem::Unsupported(text),
        Error::UnsupportedEncryptionScheme
        | Error::UnsupportedMacAlgorithm
        | Error::UnsupportedContentType
        | Error::UnsupportedCertificateType
        | Error::InvalidVersion => StoreProblem::Unsupported(error.to_string()),
        other => StoreProblem::Damaged(other.to_string()),
    }
}

/// A wrong password may also decrypt to garbage with valid padding.
fn key_problem(error: Error) -> StoreProblem {
    match error {
        Error::InvalidPrivateKey => StoreProblem::WrongPassword,
        other => problem(other),
    }
}

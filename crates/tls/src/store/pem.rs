//! PEM: blocks of text, each with a label.
//!
//! In: a file's bytes. Out: its certificates, private keys and revocation lists, in order; blocks with
//! other labels and text between blocks are skipped. If the file is a trust store, all its certificates are
//! trusted. Apache (`PemReader`) requires keys in PKCS8; we also accept the formats of older OpenSSL
//! versions, and a password that is not needed.

use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs1KeyDer,
    PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use x509_parser::pem::Pem;

use super::{Contents, StoredKey};
use crate::certificate;
use crate::der;
use crate::error::StoreProblem;

/// Header of a key block in OpenSSL's traditional encryption.
const TRADITIONAL_ENCRYPTION: &str = "Proc-Type: 4,ENCRYPTED";

/// Reads all blocks.
pub(super) fn read(content: &[u8]) -> Result<Contents, StoreProblem> {
    // Bytes that are not text cannot be part of a block.
    let text = String::from_utf8_lossy(content);
    if text.contains(TRADITIONAL_ENCRYPTION) {
        return Err(StoreProblem::TraditionalEncryption);
    }
    if !text.contains("-----BEGIN ") {
        return Err(StoreProblem::NotPem);
    }
    let mut contents = Contents::default();
    for block in Pem::iter_from_buffer(text.as_bytes()) {
        let block =
            block.map_err(|error| StoreProblem::Damaged(format!("a PEM block: {error}")))?;
        take(block, &mut contents)?;
    }
    contents.trusted.clone_from(&contents.certificates);
    Ok(contents)
}

fn take(block: Pem, contents: &mut Contents) -> Result<(), StoreProblem> {
    let bytes = block.contents;
    match block.label.as_str() {
        "CERTIFICATE" | "X509 CERTIFICATE" => {
            contents.certificates.push(well_formed(CertificateDer::from(bytes))?);
        }
        "TRUSTED CERTIFICATE" => {
            // OpenSSL's own format: the certificate, followed by trust settings.
            let (certificate, _remarks) = der::split(&bytes).ok_or_else(malformed)?;
            contents.certificates.push(well_formed(certificate.whole.to_vec().into())?);
        }
        "PRIVATE KEY" => open_key(PrivatePkcs8KeyDer::from(bytes), contents),
        "RSA PRIVATE KEY" => open_key(PrivatePkcs1KeyDer::from(bytes), contents),
        "EC PRIVATE KEY" => open_key(PrivateSec1KeyDer::from(bytes), contents),
        "ENCRYPTED PRIVATE KEY" => contents.keys.push(StoredKey::Pkcs8(bytes)),
        "X509 CRL" => {
            contents.revocation_lists.push(CertificateRevocationListDer::from(bytes));
        }
        _ => {}
    }
    Ok(())
}

fn open_key(key: impl Into<PrivateKeyDer<'static>>, contents: &mut Contents) {
    contents.keys.push(StoredKey::Open(key.into()));
}

fn well_formed(
    certificate: CertificateDer<'static>,
) -> Result<CertificateDer<'static>, StoreProblem> {
    certificate::parse(&certificate).map_err(|_malformed| malformed())?;
    Ok(certificate)
}

fn malformed() -> StoreProblem {
    StoreProblem::Damaged("a CERTIFICATE block does not hold a certificate".to_owned())
}

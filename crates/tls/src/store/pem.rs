//! PEM: blocks of text, each with a label.
//!
//! In: a file's bytes. Out: its certificates, private keys and revocation lists, in their order; blocks
//! with other labels and text between blocks are passed over. All certificates count as trusted if the
//! file is a trust store. Apache (`PemReader`) wants keys in PKCS8; we also take the forms that older
//! OpenSSLs write, and a password that turns out not to be needed.

use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs1KeyDer,
    PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use x509_parser::pem::Pem;

use super::{Contents, StoredKey};
use crate::certificate;
use crate::der;
use crate::error::StoreProblem;

/// What stands in a key block that OpenSSL has encrypted in its own old way.
const TRADITIONAL_ENCRYPTION: &str = "Proc-Type: 4,ENCRYPTED";

/// Reads all blocks.
pub(super) fn read(content: &[u8]) -> Result<Contents, StoreProblem> {
    // Whatever is not text is not part of a block either.
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
            // OpenSSL's own form: the certificate, and remarks behind it.
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

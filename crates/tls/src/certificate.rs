//! Looks into a certificate, of whatever X.509 version.
//!
//! In: DER. Out: its parts. Nothing here decides about trust; rustls's own parser (webpki) does that for
//! version 3, and knows no other version, which is why x509-parser is used here.

use std::time::Duration;

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Bytes that should be an X.509 certificate and are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a well-formed X.509 certificate")]
pub struct MalformedCertificate;

impl From<MalformedCertificate> for rustls::Error {
    fn from(_: MalformedCertificate) -> Self {
        CertificateError::BadEncoding.into()
    }
}

/// The certificate's parts. Bytes after its end are refused.
pub(crate) fn parse<'a>(
    der: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, MalformedCertificate> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) | Err(_) => Err(MalformedCertificate),
    }
}

/// The public key, with its algorithm.
pub(crate) fn public_key(
    der: &CertificateDer<'_>,
) -> Result<SubjectPublicKeyInfoDer<'static>, MalformedCertificate> {
    Ok(SubjectPublicKeyInfoDer::from(parse(der)?.public_key().raw.to_vec()))
}

/// Whether the certificate is valid at this time.
pub(crate) fn check_validity(
    certificate: &X509Certificate<'_>,
    time: UnixTime,
) -> Result<(), CertificateError> {
    let not_before = unix_time(certificate.validity().not_before.timestamp());
    let not_after = unix_time(certificate.validity().not_after.timestamp());
    if time < not_before {
        return Err(CertificateError::NotValidYetContext { time, not_before });
    }
    if time > not_after {
        return Err(CertificateError::ExpiredContext { time, not_after });
    }
    Ok(())
}

/// Certificates of before 1970 exist in no trust store; they count as of its first second.
fn unix_time(seconds: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// From when to when it is valid, in words.
pub(crate) fn describe_validity(certificate: &X509Certificate<'_>) -> String {
    let validity = certificate.validity();
    format!("from {} to {}", validity.not_before, validity.not_after)
}

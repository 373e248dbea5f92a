//! Parses X.509 certificates of any version.
//!
//! In: DER. Out: the certificate's fields. Trust is not decided here. webpki, the parser behind rustls,
//! reads only version 3, which is why x509-parser is used.

use std::time::Duration;

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// The bytes are not an X.509 certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a well-formed X.509 certificate")]
pub struct MalformedCertificate;

impl From<MalformedCertificate> for rustls::Error {
    fn from(_: MalformedCertificate) -> Self {
        CertificateError::BadEncoding.into()
    }
}

/// Parses a certificate. Trailing bytes are rejected.
pub(crate) fn parse<'a>(
    der: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, MalformedCertificate> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) | Err(_) => Err(MalformedCertificate),
    }
}

/// Returns the public key and its algorithm.
pub(crate) fn public_key(
    der: &CertificateDer<'_>,
) -> Result<SubjectPublicKeyInfoDer<'static>, MalformedCertificate> {
    Ok(SubjectPublicKeyInfoDer::from(parse(der)?.public_key().raw.to_vec()))
}

/// Checks that the certificate is valid at `time`.
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

/// Converts a timestamp. No trust store holds certificates from before 1970; they count as from its first
/// second.
fn unix_time(seconds: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Describes the validity period: `from A to B`.
pub(crate) fn describe_validity(certificate: &X509Certificate<'_>) -> String {
    let validity = certificate.validity();
    format!("from {} to {}", validity.not_before, validity.not_after)
}

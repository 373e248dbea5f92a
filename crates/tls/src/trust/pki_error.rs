//! Converts webpki's errors into rustls's, which determine the alert sent to the peer.
//!
//! rustls has this conversion but does not export it. Errors without a counterpart are wrapped.

use std::sync::Arc;

use rustls::{CertRevocationListError, CertificateError, OtherError};
use webpki::Error;

/// Java would accept it, but a key that signs certificates should not be used on a port.
#[derive(Debug, thiserror::Error)]
#[error("it belongs to a certificate authority and is not itself in the trust store")]
struct AuthorityAsPeer;

/// Converts an error.
pub(super) fn pki_error(error: Error) -> rustls::Error {
    match error {
        Error::BadDer | Error::BadDerTime | Error::TrailingData(_) => {
            CertificateError::BadEncoding.into()
        }
        Error::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }.into()
        }
        Error::CertExpired { time, not_after } => {
            CertificateError::ExpiredContext { time, not_after }.into()
        }
        Error::InvalidCertValidity => CertificateError::Expired.into(),
        Error::UnknownIssuer => CertificateError::UnknownIssuer.into(),
        Error::CertRevoked => CertificateError::Revoked.into(),
        Error::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus.into(),
        Error::CrlExpired { time, next_update } => {
            CertificateError::ExpiredRevocationListContext { time, next_update }.into()
        }
        Error::InvalidSignatureForPublicKey => CertificateError::BadSignature.into(),
        Error::InvalidCrlSignatureForPublicKey => CertRevocationListError::BadSignature.into(),
        Error::IssuerNotCrlSigner => CertRevocationListError::IssuerInvalidForCrl.into(),
        Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose.into(),
        Error::UnsupportedSignatureAlgorithmContext(context) => {
            CertificateError::UnsupportedSignatureAlgorithmContext {
                signature_algorithm_id: context.signature_algorithm_id,
                supported_algorithms: context.supported_algorithms,
            }
            .into()
        }
        Error::UnsupportedSignatureAlgorithmForPublicKeyContext(context) => {
            CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
                signature_algorithm_id: context.signature_algorithm_id,
                public_key_algorithm_id: context.public_key_algorithm_id,
            }
            .into()
        }
        Error::CaUsedAsEndEntity => {
            CertificateError::Other(OtherError(Arc::new(AuthorityAsPeer))).into()
        }
        other => CertificateError::Other(OtherError(Arc::new(other))).into(),
    }
}

//! webpki's errors as rustls's, which decide on the alert that the peer is sent.
//!
//! rustls has this translation but does not give it away. What has no counterpart there is carried along
//! as it is.

use std::sync::Arc;

use rustls::{CertRevocationListError, CertificateError, OtherError};
use webpki::Error;

/// Java would let it pass, but a key that signs certificates has no business on a port.
#[derive(Debug, thiserror::Error)]
#[error("it is a certificate authority's, and not itself in the trust store")]
struct AuthorityAsPeer;

/// The same error, as rustls has it.
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

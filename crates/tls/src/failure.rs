//! Describes a failed handshake in one line for the log.
//!
//! In: rustls's error. Out: a message that names the side at fault; the caller adds the peer's address. If
//! our own certificate is at fault, the peer notices and answers with an alert, so alerts are described
//! here too.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// Describes a failed handshake in one line.
#[must_use]
pub fn describe_failure(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(reason) => describe_certificate(reason),
        Error::NoCertificatesPresented => {
            "the peer sent no certificate, but one is required (ssl.clientAuth)".to_owned()
        }
        Error::InvalidMessage(reason) if is_plain_bytes(reason) => {
            "the peer sent plain bytes, not TLS".to_owned()
        }
        Error::PeerIncompatible(reason) => describe_incompatibility(reason),
        Error::AlertReceived(alert) => describe_alert(*alert),
        Error::InvalidCertRevocationList(reason) => {
            format!("the revocation list for the peer's certificate cannot be used: {reason:?}")
        }
        other => format!("TLS failed: {other}"),
    }
}

/// Does the same for an I/O error, which may wrap rustls's error or mean that the connection failed.
#[must_use]
pub fn describe_io_failure(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match (inner, error.kind()) {
        (Some(inner), _) => describe_failure(inner),
        (None, io::ErrorKind::UnexpectedEof) => {
            "the peer closed the connection during the TLS handshake".to_owned()
        }
        (None, _) => format!("the connection failed during the TLS handshake: {error}"),
    }
}

fn is_plain_bytes(reason: &InvalidMessage) -> bool {
    matches!(reason, InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion)
}

fn describe_certificate(reason: &CertificateError) -> String {
    let text = match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the peer's certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the peer's certificate is not valid yet"
        }
        CertificateError::UnknownIssuer => {
            "the peer's certificate is not signed by any authority in the trust store"
        }
        CertificateError::Revoked => "the peer's certificate has been revoked",
        CertificateError::UnknownRevocationStatus => {
            "there is no revocation list for the peer's certificate"
        }
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "the revocation list for the peer's certificate is out of date"
        }
        CertificateError::BadSignature => {
            "a signature is wrong: the certificate's own, or one made with a key that does not match it"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the peer's certificate is for other purposes (its extended key usage)"
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the peer's certificate is signed with an algorithm that is not supported"
        }
        CertificateError::BadEncoding => "the peer's certificate is malformed",
        CertificateError::Other(inner) => {
            return format!("the peer's certificate was rejected: {inner}");
        }
        other => return format!("the peer's certificate was rejected: {other}"),
    };
    text.to_owned()
}

fn describe_incompatibility(reason: &PeerIncompatible) -> String {
    let text = match reason {
        PeerIncompatible::NoCipherSuitesInCommon
        | PeerIncompatible::NoKxGroupsInCommon
        | PeerIncompatible::NoSignatureSchemesInCommon
        | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => {
            "no cipher suite or signature algorithm in common with the peer"
        }
        PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => {
            "no TLS version in common with the peer"
        }
        other => return format!("the peer's TLS is incompatible with ours: {other:?}"),
    };
    text.to_owned()
}

fn describe_alert(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::UnknownCA => "the peer does not trust the issuer of our certificate",
        AlertDescription::CertificateExpired => "the peer reports that our certificate has expired",
        AlertDescription::CertificateRevoked => {
            "the peer reports that our certificate has been revoked"
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => "the peer rejected our certificate",
        AlertDescription::CertificateRequired => "the peer requires a certificate from us",
        AlertDescription::ProtocolVersion => "the peer supports no TLS version that we offer",
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            "the peer has no cipher suite in common with us, or requires a certificate from us"
        }
        other => return format!("the peer aborted the TLS handshake: {other:?}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_that_names_the_side_at_fault() {
        for (error, line) in [
            (
                Error::InvalidCertificate(CertificateError::Expired),
                "the peer's certificate has expired",
            ),
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "the peer's certificate is not signed by any authority in the trust store",
            ),
            (
                Error::NoCertificatesPresented,
                "the peer sent no certificate, but one is required (ssl.clientAuth)",
            ),
            (
                Error::InvalidMessage(InvalidMessage::InvalidContentType),
                "the peer sent plain bytes, not TLS",
            ),
            (
                Error::AlertReceived(AlertDescription::UnknownCA),
                "the peer does not trust the issuer of our certificate",
            ),
            (Error::DecryptError, "TLS failed: cannot decrypt peer's message"),
        ] {
            assert_eq!(describe_failure(&error), line);
            let wrapped = io::Error::new(io::ErrorKind::InvalidData, error);
            assert_eq!(describe_io_failure(&wrapped), line);
        }
    }

    #[test]
    fn a_failed_connection_is_distinguished_from_a_failed_handshake() {
        assert_eq!(
            describe_io_failure(&io::ErrorKind::UnexpectedEof.into()),
            "the peer closed the connection during the TLS handshake"
        );
        assert_eq!(
            describe_io_failure(&io::ErrorKind::ConnectionReset.into()),
            "the connection failed during the TLS handshake: connection reset"
        );
    }
}

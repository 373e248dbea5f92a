//! Why a handshake failed, in one line for the log.
//!
//! In: rustls's error. Out: words that name the side at fault. The caller puts the peer's address before
//! them. Our own certificate's faults are seen by the peer, which answers with an alert, so both halves of
//! a misunderstanding are worded here.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// One line about a failed handshake.
#[must_use]
pub fn describe_failure(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(reason) => describe_certificate(reason),
        Error::NoCertificatesPresented => {
            "the peer shows no certificate, and one is needed (ssl.clientAuth)".to_owned()
        }
        Error::InvalidMessage(reason) if is_plain_bytes(reason) => {
            "the peer does not speak TLS: it sends plain bytes".to_owned()
        }
        Error::PeerIncompatible(reason) => describe_incompatibility(reason),
        Error::AlertReceived(alert) => describe_alert(*alert),
        Error::InvalidCertRevocationList(reason) => {
            format!("the revocation list for the peer's certificate cannot be used: {reason:?}")
        }
        other => format!("TLS failed: {other}"),
    }
}

/// The same for what a stream says, in which rustls's error is wrapped; also for a connection that broke.
#[must_use]
pub fn describe_io_failure(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match (inner, error.kind()) {
        (Some(inner), _) => describe_failure(inner),
        (None, io::ErrorKind::UnexpectedEof) => {
            "the peer closed the connection during the TLS handshake".to_owned()
        }
        (None, _) => format!("the connection broke during the TLS handshake: {error}"),
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
            "the peer's certificate is signed by nobody in the trust store"
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
            "a signature is wrong: of the peer's certificate, or made with another key than its own"
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
            return format!("the peer's certificate is refused: {inner}");
        }
        other => return format!("the peer's certificate is refused: {other}"),
    };
    text.to_owned()
}

fn describe_incompatibility(reason: &PeerIncompatible) -> String {
    let text = match reason {
        PeerIncompatible::NoCipherSuitesInCommon
        | PeerIncompatible::NoKxGroupsInCommon
        | PeerIncompatible::NoSignatureSchemesInCommon
        | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => {
            "the peer and we have no cipher suite or signature algorithm in common"
        }
        PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => {
            "the peer and we have no version of TLS in common"
        }
        other => return format!("the peer's TLS does not go with ours: {other:?}"),
    };
    text.to_owned()
}

fn describe_alert(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::UnknownCA => "the peer does not trust the issuer of our certificate",
        AlertDescription::CertificateExpired => "the peer says that our certificate has expired",
        AlertDescription::CertificateRevoked => "the peer says that our certificate is revoked",
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => "the peer refuses our certificate",
        AlertDescription::CertificateRequired => "the peer requires a certificate of this side",
        AlertDescription::ProtocolVersion => "the peer speaks no version of TLS that we offer",
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            "the peer finds no cipher suite in common, or requires a certificate of this side"
        }
        other => return format!("the peer broke the TLS handshake off: {other:?}"),
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
                "the peer's certificate is signed by nobody in the trust store",
            ),
            (
                Error::NoCertificatesPresented,
                "the peer shows no certificate, and one is needed (ssl.clientAuth)",
            ),
            (
                Error::InvalidMessage(InvalidMessage::InvalidContentType),
                "the peer does not speak TLS: it sends plain bytes",
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
    fn a_broken_connection_is_told_from_a_broken_handshake() {
        assert_eq!(
            describe_io_failure(&io::ErrorKind::UnexpectedEof.into()),
            "the peer closed the connection during the TLS handshake"
        );
        assert_eq!(
            describe_io_failure(&io::ErrorKind::ConnectionReset.into()),
            "the connection broke during the TLS handshake: connection reset"
        );
    }
}

//! Verifiers for rustls, based on [`Trust`] and the host rules.
//!
//! If hosts are checked, each connection has its own verifier, since rustls does not pass the peer to it;
//! otherwise all connections share one.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::hostname::check_host;
use crate::peer::Peer;
use crate::trust::{Purpose, Trust};

/// Checks the server that we connect to.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    pub(crate) trust: Arc<Trust>,
    /// The host that the certificate must be for. None: any.
    pub(crate) host: Option<Peer>,
}

/// Checks a client that connects to us.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    pub(crate) trust: Arc<Trust>,
    /// The host that the certificate must be for. None: any.
    pub(crate) host: Option<Peer>,
    pub(crate) without_certificate: WithoutCertificate,
}

/// What happens to a client that sends no certificate when asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutCertificate {
    Allowed,
    Refused,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.trust.check(end_entity, intermediates, Purpose::Server, now)?;
        if let Some(host) = &self.host {
            check_host(end_entity, host)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trust.check_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trust.check_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trust.algorithms().supported_schemes()
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.without_certificate == WithoutCertificate::Refused
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.trust.subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.trust.check(end_entity, intermediates, Purpose::Client, now)?;
        if let Some(host) = &self.host {
            check_host(end_entity, host)?;
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trust.check_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trust.check_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trust.algorithms().supported_schemes()
    }
}

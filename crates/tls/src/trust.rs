//! Decides which certificates are trusted.
//!
//! In: the certificates of a trust store, revocation lists, and then a peer's certificates. Out: trusted,
//! or why not. Host names are checked elsewhere ([`crate::hostname`]), and rustls asks for the proof that
//! the peer has the private key ([`Trust::check_tls12_signature`] does the arithmetic).
//!
//! The rules, in order; for certificates in practical use they are Java's:
//!
//! 1. A certificate that is itself in the trust store, byte for byte, is trusted while it is valid, whether
//!    self-signed or a certificate authority's. Revocation lists are not consulted: it was put there
//!    deliberately. (Java does not even check the dates here. We do.)
//! 2. A version 3 certificate is trusted if webpki, the verifier of rustls, finds a path from it to a
//!    certificate of the trust store: signatures, dates, purposes, name constraints, and the revocation
//!    lists for every certificate of the path except the last.
//! 3. A version 1 certificate, which webpki does not read but `openssl x509 -req` writes by default, is
//!    trusted if a certificate of the trust store has signed it directly and it is valid now. It cannot be
//!    an issuer. With revocation checks it is rejected, since the code that evaluates the lists cannot read
//!    it.
//!
//! A certificate of the trust store is an anchor whatever its version, as in Java.
//!
//! Apache leaves all this to the JDK (`X509Util.createTrustManager`; `PKIXValidator`).

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, PeerMisbehaved,
};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, OwnedCertRevocationList,
    RawPublicKeyEntity, RevocationOptionsBuilder, anchor_from_trusted_cert,
};

use crate::certificate::{self, MalformedCertificate};
use crate::der;

mod pki_error;
mod purpose;

use pki_error::pki_error;
pub(crate) use purpose::Purpose;

/// The trusted certificates and the revocation lists.
pub(crate) struct Trust {
    certificates: Vec<CertificateDer<'static>>,
    anchors: Vec<TrustAnchor<'static>>,
    subjects: Vec<DistinguishedName>,
    /// None: revocation is not checked.
    revocation_lists: Option<Vec<CertRevocationList<'static>>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trust {
    /// Trusts no certificate yet.
    pub(crate) fn new(algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self {
            certificates: Vec::new(),
            anchors: Vec::new(),
            subjects: Vec::new(),
            revocation_lists: None,
            algorithms,
        }
    }

    /// Adds a certificate of the trust store. On error, which gives the reason, nothing is changed.
    pub(crate) fn add(&mut self, certificate: CertificateDer<'static>) -> Result<(), String> {
        certificate::parse(&certificate).map_err(|malformed| malformed.to_string())?;
        let anchor = anchor_from_trusted_cert(&certificate).map_err(|error| error.to_string())?;
        self.subjects.push(DistinguishedName::in_sequence(anchor.subject.as_ref()));
        self.anchors.push(anchor.to_owned());
        self.certificates.push(certificate);
        Ok(())
    }

    /// Turns on revocation checks.
    pub(crate) fn require_revocation_lists(&mut self) {
        self.revocation_lists.get_or_insert_default();
    }

    /// Adds a revocation list. An error gives the reason.
    pub(crate) fn add_revocation_list(
        &mut self,
        list: &CertificateRevocationListDer<'_>,
    ) -> Result<(), String> {
        let list = OwnedCertRevocationList::from_der(list.as_ref())
            .map_err(|error| format!("cannot read a revocation list ({error})"))?;
        self.revocation_lists.get_or_insert_default().push(list.into());
        Ok(())
    }

    /// Whether revocation is checked but there is no list.
    pub(crate) fn lacks_revocation_lists(&self) -> bool {
        self.revocation_lists.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether no certificate is trusted.
    pub(crate) fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// The subjects of the trusted certificates, which a server sends to its clients.
    pub(crate) fn subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    /// The accepted signature algorithms.
    pub(crate) fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.algorithms
    }

    /// Checks a peer's certificate by the rules above.
    pub(crate) fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        purpose: Purpose,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if self.certificates.iter().any(|trusted| trusted.as_ref() == certificate.as_ref()) {
            return Ok(certificate::check_validity(&certificate::parse(certificate)?, now)?);
        }
        match EndEntityCert::try_from(certificate) {
            Ok(parsed) => self.check_path(&parsed, intermediates, purpose, now),
            Err(webpki::Error::UnsupportedCertVersion) => self.check_version_1(certificate, now),
            Err(error) => Err(pki_error(error)),
        }
    }

    /// Rule 2.
    fn check_path(
        &self,
        certificate: &EndEntityCert<'_>,
        intermediates: &[CertificateDer<'_>],
        purpose: Purpose,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let lists: Option<Vec<_>> =
            self.revocation_lists.as_ref().map(|lists| lists.iter().collect());
        let revocation = lists
            .as_deref()
            .map(RevocationOptionsBuilder::new)
            .transpose()
            .map_err(|_no_list| CertificateError::UnknownRevocationStatus)?
            .map(|options| options.with_expiration_policy(ExpirationPolicy::Enforce).build());
        certificate
            .verify_for_usage(
                self.algorithms.all,
                &self.anchors,
                intermediates,
                now,
                purpose,
                revocation,
                None,
            )
            .map_err(pki_error)?;
        Ok(())
    }

    /// Rule 3.
    fn check_version_1(
        &self,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if self.revocation_lists.is_some() {
            return Err(CertificateError::Other(OtherError(Arc::new(Version1WithLists))).into());
        }
        let parsed = certificate::parse(certificate)?;
        if parsed.tbs_certificate.signature != parsed.signature_algorithm {
            return Err(MalformedCertificate.into());
        }
        certificate::check_validity(&parsed, now)?;
        let signed = Signed::of(certificate).ok_or(MalformedCertificate)?;
        let issuer =
            der::only(der::SEQUENCE, parsed.issuer().as_raw()).ok_or(MalformedCertificate)?;
        let mut outcome = Err(CertificateError::UnknownIssuer.into());
        for anchor in self.anchors.iter().filter(|anchor| anchor.subject.as_ref() == issuer) {
            outcome = self.check_signed_by(&signed, anchor);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn check_signed_by(
        &self,
        signed: &Signed<'_>,
        anchor: &TrustAnchor<'_>,
    ) -> Result<(), rustls::Error> {
        let key = der::encode(der::SEQUENCE, &[anchor.subject_public_key_info.as_ref()]);
        let key = SubjectPublicKeyInfoDer::from(key);
        let fitting = self.algorithms.all.iter().copied();
        let fitting =
            fitting.filter(|algorithm| algorithm.signature_alg_id().as_ref() == signed.algorithm);
        check_signature(&key, fitting, signed.content, signed.signature)
    }

    /// Checks that the owner of the certificate has signed a TLS 1.2 handshake.
    pub(crate) fn check_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if !is_version_1(certificate) {
            return verify_tls12_signature(message, certificate, signature, &self.algorithms);
        }
        let key = certificate::public_key(certificate)?;
        let schemes = self.algorithms.mapping;
        let (_, fitting) = schemes
            .iter()
            .find(|(scheme, _)| *scheme == signature.scheme)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        check_signature(&key, fitting.iter().copied(), message, signature.signature())?;
        Ok(HandshakeSignatureValid::assertion())
    }

    /// Checks that the owner of the certificate has signed a TLS 1.3 handshake.
    pub(crate) fn check_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if !is_version_1(certificate) {
            return verify_tls13_signature(message, certificate, signature, &self.algorithms);
        }
        let key = certificate::public_key(certificate)?;
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("certificates", &self.certificates.len())
            .field("revocation_lists", &self.revocation_lists.as_ref().map(Vec::len))
            .finish_non_exhaustive()
    }
}

/// Why rule 3 has an exception.
#[derive(Debug, thiserror::Error)]
#[error("an X.509 version 1 certificate cannot be checked against revocation lists")]
struct Version1WithLists;

fn is_version_1(certificate: &CertificateDer<'_>) -> bool {
    matches!(EndEntityCert::try_from(certificate), Err(webpki::Error::UnsupportedCertVersion))
}

/// The outermost parts of a certificate.
struct Signed<'a> {
    /// The signed part, including its header.
    content: &'a [u8],
    /// The content of the algorithm identifier.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signed<'a> {
    fn of(certificate: &'a CertificateDer<'_>) -> Option<Self> {
        let items = der::items(der::only(der::SEQUENCE, certificate.as_ref())?)?;
        let [content, algorithm, signature] = <[der::Item<'_>; 3]>::try_from(items).ok()?;
        let (&0, signature_bytes) = signature.content.split_first()? else {
            return None; // The first byte is the number of unused bits, which must be 0.
        };
        let tags = [content.tag, algorithm.tag, signature.tag];
        (tags == [der::SEQUENCE, der::SEQUENCE, der::BIT_STRING]).then_some(Self {
            content: content.whole,
            algorithm: algorithm.content,
            signature: signature_bytes,
        })
    }
}

/// Tries the algorithms until one matches this kind of key; that one decides.
fn check_signature<'a>(
    key: &SubjectPublicKeyInfoDer<'_>,
    algorithms: impl Iterator<Item = &'a dyn rustls::pki_types::SignatureVerificationAlgorithm>,
    message: &[u8],
    signature: &[u8],
) -> Result<(), rustls::Error> {
    let key = RawPublicKeyEntity::try_from(key).map_err(pki_error)?;
    for algorithm in algorithms {
        match key.verify_signature(algorithm, message, signature) {
            Err(webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_)) => {}
            outcome => return outcome.map_err(pki_error),
        }
    }
    // The OIDs are not evaluated by any caller, so they are omitted.
    let (signature_algorithm_id, public_key_algorithm_id) = (Vec::new(), Vec::new());
    Err(CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
        signature_algorithm_id,
        public_key_algorithm_id,
    }
    .into())
}

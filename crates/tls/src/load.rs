//! Loads all files of a context and checks that they can be used.
//!
//! In: settings, and the side of a connection. Out: our identity and the trusted certificates, with
//! warnings; or the first error, and then nothing has changed.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::sign::CertifiedKey;

use crate::certificate;
use crate::distinguished_name::subject_name;
use crate::error::{StoreProblem, TlsError, TlsWarning};
use crate::settings::{ClientAuth, Revocation, Side, StoreSettings, TlsSettings};
use crate::store;
use crate::trust::Trust;

/// The content of the files.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// None: we have no certificate.
    pub(crate) identity: Option<Arc<CertifiedKey>>,
    /// None: peers' certificates are not checked.
    pub(crate) trust: Option<Arc<Trust>>,
    pub(crate) warnings: Vec<TlsWarning>,
}

/// Loads the files.
pub(crate) fn load(
    settings: &TlsSettings,
    side: Side,
    algorithms: WebPkiSupportedAlgorithms,
) -> Result<Loaded, TlsError> {
    let mut warnings = Vec::new();
    let identity = match &settings.key_store {
        Some(store) => Some(Arc::new(load_identity(store, &mut warnings)?)),
        None if side.accepts() => return Err(TlsError::NoKeyStore),
        None => None,
    };
    let asks_clients = side.accepts() && settings.client_auth != ClientAuth::None;
    let trust = match &settings.trust_store {
        Some(store) => {
            let trust = load_trust(store, &settings.revocation, algorithms, &mut warnings)?;
            Some(Arc::new(trust))
        }
        None if side.dials() || asks_clients => return Err(TlsError::NoTrustStore),
        None => None,
    };
    Ok(Loaded { identity, trust, warnings })
}

fn load_identity(
    store: &StoreSettings,
    warnings: &mut Vec<TlsWarning>,
) -> Result<CertifiedKey, TlsError> {
    let file = &store.location;
    let identity = store::read_identity(store)?;
    if identity.key_count > 1 {
        warnings.push(TlsWarning::SeveralKeys { file: file.clone(), count: identity.key_count });
    }
    warnings.extend(identity.key.cert.iter().filter_map(|it| warn_of_dates(it, file)));
    Ok(identity.key)
}

fn load_trust(
    store: &StoreSettings,
    revocation: &Revocation,
    algorithms: WebPkiSupportedAlgorithms,
    warnings: &mut Vec<TlsWarning>,
) -> Result<Trust, TlsError> {
    let file = &store.location;
    let trusted = store::read_trusted(store)?;
    let mut trust = Trust::new(algorithms);
    for certificate in trusted.certificates {
        warnings.extend(warn_of_dates(&certificate, file));
        if let Err(reason) = trust.add(certificate) {
            warnings.push(TlsWarning::UnusableCertificate { file: file.clone(), reason });
        }
    }
    if trust.is_empty() {
        return Err(StoreProblem::NoTrustedCertificates.in_file(file));
    }
    if let Revocation::Checked { crl_file } = revocation {
        trust.require_revocation_lists();
        add_lists(&mut trust, &trusted.revocation_lists, file)?;
        if let Some(crl_file) = crl_file {
            add_lists(&mut trust, &store::read_revocation_lists(crl_file)?, crl_file)?;
        }
        if trust.lacks_revocation_lists() {
            return Err(TlsError::NoRevocationLists);
        }
    }
    Ok(trust)
}

fn add_lists(
    trust: &mut Trust,
    lists: &[CertificateRevocationListDer<'_>],
    file: &Path,
) -> Result<(), TlsError> {
    for list in lists {
        trust
            .add_revocation_list(list)
            .map_err(|reason| StoreProblem::Damaged(reason).in_file(file))?;
    }
    Ok(())
}

/// Warns of a certificate that is not valid now. It does not keep a server from starting: others may be
/// valid, and a clock may be wrong. A certificate that cannot be parsed is reported elsewhere.
fn warn_of_dates(certificate: &CertificateDer<'_>, file: &Path) -> Option<TlsWarning> {
    let parsed = certificate::parse(certificate).ok()?;
    certificate::check_validity(&parsed, UnixTime::now()).err()?;
    Some(TlsWarning::NotValidNow {
        file: file.to_owned(),
        subject: subject_name(certificate).ok()?,
        validity: certificate::describe_validity(&parsed),
    })
}

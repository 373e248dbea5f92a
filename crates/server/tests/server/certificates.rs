//! Certificates for tests, created for each run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

/// An authority, and a directory for what it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
    pub directory: TempDir,
}

/// A key and its certificate in one PEM file.
pub struct Signed {
    pub file: PathBuf,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let directory = TempDir::with_prefix("herdsman-certificates-").unwrap();
        std::fs::write(directory.path().join("trust.pem"), certificate.pem()).unwrap();
        Authority { issuer: Issuer::new(params, key), certificate, directory }
    }

    /// The file of its own certificate.
    pub fn trust_store(&self) -> PathBuf {
        self.directory.path().join("trust.pem")
    }

    /// A certificate for a name and for this machine.
    pub fn sign(&self, name: &str) -> Signed {
        self.sign_for(name, &["localhost", "127.0.0.1"])
    }

    /// A certificate for hosts.
    pub fn sign_for(&self, name: &str, hosts: &[&str]) -> Signed {
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        self.finish(name, &params)
    }

    /// An expired certificate.
    pub fn sign_expired(&self, name: &str) -> Signed {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        self.finish(name, &params)
    }

    fn finish(&self, name: &str, params: &CertificateParams) -> Signed {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pem = format!("{}{}", key.serialize_pem(), certificate.pem());
        let file = self.directory.path().join(format!("{name}.pem"));
        write_at_once(&file, &pem);
        Signed {
            file,
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
        }
    }

    /// The settings of a client that trusts this authority.
    pub fn client_config(&self, own: Option<&Signed>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::aws_lc_rs::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => builder
                .with_client_auth_cert(vec![own.certificate.clone()], own.key.clone_key())
                .unwrap(),
        })
    }
}

/// Replaces a file atomically, as operators should.
pub fn write_at_once(file: &Path, content: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(new, file).unwrap();
}

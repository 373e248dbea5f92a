//! Generates certificates for tests, and starts servers with a TLS port that use them.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use herdsman_config::Config;
use herdsman_config::Endpoint;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use tempfile::TempDir;

use crate::server::TestServer;

/// Numbers the authorities, so that each has a unique name.
static AUTHORITIES: AtomicUsize = AtomicUsize::new(1);

/// A certificate authority and a directory for the certificates that it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    /// Creates an authority with a name that is unique in this process.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        let name = format!("authority {}", AUTHORITIES.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let directory = TempDir::with_prefix("herdsman-certificates-").unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(directory.path().join("trust.pem"), certificate.pem()).unwrap();
        Authority { issuer: Issuer::new(params, key), directory }
    }

    /// The trust store with its certificate.
    #[must_use]
    pub fn trust_store(&self) -> PathBuf {
        self.directory.path().join("trust.pem")
    }

    /// Signs a certificate for localhost and returns the file with the certificate and its key.
    #[must_use]
    pub fn sign(&self, name: &str) -> PathBuf {
        self.sign_with(name, |_| {})
    }

    /// Does the same after `adjust` has changed the parameters.
    #[must_use]
    pub fn sign_with(&self, name: &str, adjust: impl FnOnce(&mut CertificateParams)) -> PathBuf {
        let hosts = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        adjust(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = self.directory.path().join(format!("{name}.pem"));
        let new = file.with_extension("new");
        std::fs::write(&new, format!("{}{}", key.serialize_pem(), certificate.pem())).unwrap();
        std::fs::rename(new, &file).unwrap();
        file
    }

    /// Starts a server with a TLS port that requires client certificates.
    #[must_use]
    pub fn start_server(&self) -> TestServer {
        self.start_server_with(|_| {})
    }

    /// Does the same after `adjust` has changed the settings.
    #[must_use]
    pub fn start_server_with(&self, adjust: impl FnOnce(&mut Config)) -> TestServer {
        let key_store = self.sign("server");
        TestServer::start_with(|config| {
            config.listen.secure_client =
                Some(Endpoint { host: Some("127.0.0.1".to_owned()), port: 0 });
            config.access.x509_scheme = true;
            config.tls.key_store = Some(key_store);
            config.tls.trust_store = Some(self.trust_store());
            adjust(config);
        })
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

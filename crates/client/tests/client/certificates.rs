//! Certificates for tests, made anew each time. Tests of other crates include this file, too.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use tempfile::TempDir;

/// Each has a name of its own.
static AUTHORITIES: AtomicUsize = AtomicUsize::new(1);

/// Somebody who signs certificates, and a directory for them.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
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

    /// The file of those who trust it.
    pub fn trust_store(&self) -> PathBuf {
        self.directory.path().join("trust.pem")
    }

    /// A file with a key and a certificate, which is good on this machine.
    pub fn sign(&self, name: &str) -> PathBuf {
        self.sign_with(name, |_| {})
    }

    /// The same with something else about it.
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
}

//! Certificate authorities for the tests, and settings that use their certificates.

use std::path::{Path, PathBuf};

use herdsman_tls::rustls::pki_types::CertificateDer;
use herdsman_tls::{Side, StoreSettings, TlsContext, TlsSettings};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    SerialNumber,
};
use tempfile::TempDir;

/// A certificate authority.
pub struct Authority {
    pub issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate, its key and its chain.
pub struct Leaf {
    pub der: CertificateDer<'static>,
    /// The certificate without its chain.
    pub certificate_pem: String,
    pub key_pem: String,
}

impl Authority {
    /// A root authority.
    pub fn new(name: &str) -> Self {
        let issuer =
            CertifiedIssuer::self_signed(authority_params(name), KeyPair::generate().unwrap());
        Self { issuer: issuer.unwrap() }
    }

    /// An authority below this one.
    pub fn subordinate(&self, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::signed_by(authority_params(name), key, &self.issuer);
        Self { issuer: issuer.unwrap() }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for 127.0.0.1 and localhost.
    pub fn issue(&self, name: &str) -> Leaf {
        self.sign(&leaf_params(name))
    }

    pub fn sign(&self, params: &CertificateParams) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Leaf {
            der: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }
}

impl Leaf {
    /// Key and certificate in one text, as in a PEM key store.
    pub fn pem(&self) -> String {
        format!("{}{}", self.key_pem, self.certificate_pem)
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Parameters of an ordinary certificate.
pub fn leaf_params(name: &str) -> CertificateParams {
    let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(SerialNumber::from_slice(&[42]));
    params
}

/// A temporary directory, removed when the test ends.
pub struct Files(TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file atomically, as careful programs do.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let (path, new) = (self.path(name), self.path("new"));
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, &path).unwrap();
        path
    }

    /// Settings with a key store and a trust store of these contents.
    pub fn settings(&self, name: &str, key: &str, trust: &str) -> TlsSettings {
        TlsSettings {
            key_store: Some(StoreSettings::new(self.put(&format!("{name}-key.pem"), key))),
            trust_store: Some(StoreSettings::new(self.put(&format!("{name}-trust.pem"), trust))),
            ..TlsSettings::default()
        }
    }
}

/// A server and a client with certificates from one authority.
pub struct Parties {
    pub files: Files,
    pub authority: Authority,
    pub server: TlsSettings,
    pub client: TlsSettings,
}

impl Parties {
    pub fn new() -> Self {
        let (files, authority) = (Files::new(), Authority::new("root"));
        let trust = authority.pem();
        let server = files.settings("server", &authority.issue("server").pem(), &trust);
        let client = files.settings("client", &authority.issue("client").pem(), &trust);
        Self { files, authority, server, client }
    }

    pub fn server(&self) -> TlsContext {
        TlsContext::load(self.server.clone(), Side::Server).unwrap()
    }

    pub fn client(&self) -> TlsContext {
        TlsContext::load(self.client.clone(), Side::Client).unwrap()
    }
}

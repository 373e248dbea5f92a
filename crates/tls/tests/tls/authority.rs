//! Certificate authorities of our own, and settings that point to what they issue.

use std::path::{Path, PathBuf};

use herdsman_tls::rustls::pki_types::CertificateDer;
use herdsman_tls::{Side, StoreSettings, TlsContext, TlsSettings};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    SerialNumber,
};
use tempfile::TempDir;

/// Who signs certificates.
pub struct Authority {
    pub issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate, its key and what leads to its authority.
pub struct Leaf {
    pub der: CertificateDer<'static>,
    /// The certificate alone.
    pub certificate_pem: String,
    pub key_pem: String,
}

impl Authority {
    /// A root.
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
    /// Key and certificate in one text, as a PEM key store has them.
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

/// What an ordinary certificate says.
pub fn leaf_params(name: &str) -> CertificateParams {
    let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(SerialNumber::from_slice(&[42]));
    params
}

/// Files that go when the test is over.
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

    /// Puts a file in place in one step, as careful programs do.
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

/// A server and a client that one authority has certified.
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

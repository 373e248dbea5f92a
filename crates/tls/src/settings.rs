//! TLS settings as values.
//!
//! The server defines the names in zoo.cfg (`ssl.*` for clients, `ssl.quorum.*` for servers) and parses
//! them; this module has the types they are parsed into. Apache: `X509Util`, `KeyStoreFileType`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::TlsError;
use herdsman_secret::Secret;

/// All TLS settings of one kind of port. The defaults are Apache's for clients: TLS 1.2 and 1.3, both sides
/// need a certificate, the server's host is checked, the client's is not.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// Our own private key and certificate (`ssl.keyStore.*`). A server needs one.
    pub key_store: Option<StoreSettings>,
    /// Trusted certificates (`ssl.trustStore.*`). Needed to check any peer: the system's certificate
    /// authorities are not used.
    pub trust_store: Option<StoreSettings>,
    /// Enabled protocol versions (`ssl.enabledProtocols`). Empty means all.
    pub protocols: Vec<Protocol>,
    /// Cipher suites by their IANA or Java names (`ssl.ciphersuites`). Empty means all that rustls
    /// supports. An unsupported name is skipped with a warning; it is an error if none is left.
    pub cipher_suites: Vec<String>,
    /// Whether a client must show a certificate (`ssl.clientAuth`).
    pub client_auth: ClientAuth,
    /// Whether a server's certificate must be for the host that we connect to (`ssl.hostnameVerification`).
    pub verify_server_host: bool,
    /// Whether a client's certificate must be for the address it connects from
    /// (`ssl.clientHostnameVerification`).
    pub verify_client_host: bool,
    /// Whether a peer known only by its address may be looked up in the DNS (`ssl.allowReverseDnsLookup`):
    /// see [`reverse_lookup`](crate::reverse_lookup).
    pub allow_reverse_dns: bool,
    /// Whether certificates are checked against revocation lists (`ssl.crl`).
    pub revocation: Revocation,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            key_store: None,
            trust_store: None,
            protocols: Vec::new(),
            cipher_suites: Vec::new(),
            client_auth: ClientAuth::default(),
            verify_server_host: true,
            verify_client_host: false,
            allow_reverse_dns: false,
            revocation: Revocation::default(),
        }
    }
}

impl TlsSettings {
    /// Whether a client's certificate, if it sends one, must be for its host.
    pub(crate) fn checks_client_host(&self) -> bool {
        self.verify_client_host && self.client_auth != ClientAuth::None
    }

    /// All files in these settings, in the order in which they are read.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let stores = [&self.key_store, &self.trust_store].into_iter().flatten();
        let mut files: Vec<&Path> = stores.flat_map(|store| store.files()).collect();
        if let Revocation::Checked { crl_file: Some(file) } = &self.revocation {
            files.push(file);
        }
        files
    }
}

/// Where a key store or trust store is, and how it is read.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// The file (`….location`).
    pub location: PathBuf,
    /// Its password (`….password`, `….passwordPath`).
    pub password: Password,
    /// Its format (`….type`). None: determined by the file extension.
    pub kind: Option<StoreKind>,
}

impl StoreSettings {
    /// A store without a password, of the kind determined by the file extension.
    #[must_use]
    pub fn new(location: impl Into<PathBuf>) -> Self {
        Self { location: location.into(), password: Password::None, kind: None }
    }

    /// Adds a password.
    #[must_use]
    pub fn with_password(self, password: Password) -> Self {
        Self { password, ..self }
    }

    /// Returns the kind that is set, or the one for the file extension.
    pub(crate) fn kind(&self) -> Result<StoreKind, TlsError> {
        self.kind.map_or_else(|| StoreKind::of_file(&self.location), Ok)
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        let password_file = match &self.password {
            Password::InFile(file) => Some(file.as_path()),
            Password::None | Password::Given(_) => None,
        };
        std::iter::once(self.location.as_path()).chain(password_file)
    }
}

/// The password of a store.
#[derive(Clone, Debug, Default)]
pub enum Password {
    /// No password; an empty text means the same. The digest that protects a JKS file is then not checked.
    #[default]
    None,
    /// A password from the settings.
    Given(Secret),
    /// The content of a file, without a final line ending (`….passwordPath`). Read again whenever the store
    /// is.
    InFile(PathBuf),
}

/// The format of a store.
///
/// As in Java since version 9, [`Jks`](Self::Jks) and [`Pkcs12`](Self::Pkcs12) each open files of both
/// formats: newer `keytool`s write PKCS12 whatever the file is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Text blocks, with `BEGIN` and `END` lines: certificates, a private key, revocation lists.
    Pem,
    /// The standard binary format.
    Pkcs12,
    /// Java's own older format.
    Jks,
}

impl StoreKind {
    /// Returns the kind for a file extension: `.pem`, `.p12`, `.pfx` or `.jks`.
    ///
    /// # Errors
    /// Any other extension.
    pub fn of_file(file: &Path) -> Result<Self, TlsError> {
        let extension = file.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match extension.as_str() {
            "pem" => Ok(Self::Pem),
            "p12" | "pfx" => Ok(Self::Pkcs12),
            "jks" => Ok(Self::Jks),
            "bcfks" => Err(TlsError::BcfksStore),
            _ => Err(TlsError::UnknownStoreKind { file: file.to_owned() }),
        }
    }
}

impl FromStr for StoreKind {
    type Err = TlsError;

    fn from_str(name: &str) -> Result<Self, TlsError> {
        match name.to_ascii_uppercase().as_str() {
            "PEM" => Ok(Self::Pem),
            "PKCS12" => Ok(Self::Pkcs12),
            "JKS" => Ok(Self::Jks),
            "BCFKS" => Err(TlsError::BcfksStore),
            _ => Err(unknown("store type", name, "JKS, PEM, PKCS12")),
        }
    }
}

/// Whether a server asks its clients for a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// No.
    None,
    /// Yes; a client without one is accepted, one with an invalid one is rejected.
    Want,
    /// Yes; a client without one is rejected.
    #[default]
    Need,
}

impl FromStr for ClientAuth {
    type Err = TlsError;

    fn from_str(name: &str) -> Result<Self, TlsError> {
        match name.to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "want" => Ok(Self::Want),
            "need" => Ok(Self::Need),
            _ => Err(unknown("client authentication mode", name, "none, want, need")),
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl FromStr for Protocol {
    type Err = TlsError;

    /// Takes Java's names: `TLSv1.2`, `TLSv1.3`.
    fn from_str(name: &str) -> Result<Self, TlsError> {
        match name {
            "TLSv1.2" => Ok(Self::Tls12),
            "TLSv1.3" => Ok(Self::Tls13),
            _ => Err(unknown("supported protocol", name, "TLSv1.3, TLSv1.2")),
        }
    }
}

/// Whether certificates are checked against revocation lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Revocation {
    /// No.
    #[default]
    NotChecked,
    /// Yes, against the lists in the PEM trust store (`X509 CRL` blocks) and in a file, PEM or DER. A
    /// certificate is rejected if its issuer has no list or the list's next update is overdue.
    Checked {
        /// Our own setting `ssl.crl.file`. Lists are not fetched from the network.
        crl_file: Option<PathBuf>,
    },
}

/// How a context is used, which decides what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To accept connections.
    Server,
    /// To open connections.
    Client,
    /// For both, as among the servers of an ensemble.
    Both,
}

impl Side {
    pub(crate) fn accepts(self) -> bool {
        self != Self::Client
    }

    pub(crate) fn dials(self) -> bool {
        self != Self::Server
    }
}

fn unknown(what: &'static str, value: &str, known: &'static str) -> TlsError {
    TlsError::UnknownValue { what, value: value.to_owned(), known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_kind_is_known_by_name_and_by_extension() {
        for (name, kind) in
            [("JKS", StoreKind::Jks), ("pem", StoreKind::Pem), ("Pkcs12", StoreKind::Pkcs12)]
        {
            assert_eq!(name.parse::<StoreKind>().unwrap(), kind);
        }
        for (file, kind) in [
            ("/etc/zk/a.jks", StoreKind::Jks),
            ("b.PEM", StoreKind::Pem),
            ("c.d.p12", StoreKind::Pkcs12),
            ("e.pfx", StoreKind::Pkcs12),
        ] {
            assert_eq!(StoreKind::of_file(Path::new(file)).unwrap(), kind);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let check = |error: TlsError, expected: &str| assert_eq!(error.to_string(), expected);
        let bcfks = "BCFKS stores are not supported: convert the store with keytool -importkeystore \
                     -deststoretype PKCS12";
        check("BCFKS".parse::<StoreKind>().unwrap_err(), bcfks);
        check(StoreKind::of_file(Path::new("a.bcfks")).unwrap_err(), bcfks);
        check(
            "ZIP".parse::<StoreKind>().unwrap_err(),
            "ZIP is not a store type: use one of JKS, PEM, PKCS12",
        );
        check(
            StoreKind::of_file(Path::new("/x/key")).unwrap_err(),
            "/x/key: the file extension does not determine the type of store: set its type to JKS, PEM \
             or PKCS12",
        );
        check(
            "maybe".parse::<ClientAuth>().unwrap_err(),
            "maybe is not a client authentication mode: use one of none, want, need",
        );
        check(
            "TLSv1.1".parse::<Protocol>().unwrap_err(),
            "TLSv1.1 is not a supported protocol: use one of TLSv1.3, TLSv1.2",
        );
    }

    #[test]
    fn every_file_is_named() {
        let password = Password::InFile("pw".into());
        let settings = TlsSettings {
            key_store: Some(StoreSettings::new("a.jks").with_password(password)),
            trust_store: Some(StoreSettings::new("b.pem")),
            revocation: Revocation::Checked { crl_file: Some("c.crl".into()) },
            ..TlsSettings::default()
        };
        let files: Vec<_> = ["a.jks", "pw", "b.pem", "c.crl"].iter().map(Path::new).collect();
        assert_eq!(settings.files(), files);
    }
}

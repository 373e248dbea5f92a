//! Configuration files of Apache's clients, as for `zkCli -client-configuration`.
//!
//! In: a properties file. Out: the [`TlsSettings`], if TLS is enabled, and the login. The names are Apache's,
//! with or without the prefix `zookeeper.`. Unknown names are ignored, as in Apache: such a file also contains
//! settings that concern only Java. Apache: `ZKClientConfig`, `ClientX509Util`.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use herdsman_properties::{BadEscape, Properties};
use herdsman_tls::{Password, Protocol, Revocation, Secret, StoreSettings, TlsError, TlsSettings};

use crate::sasl::{HostNames, JaasLogin, ServerPrincipals};

/// The largest file that is read. A larger file is a mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The settings of a client configuration file that this client supports.
#[derive(Clone, Debug, Default)]
pub struct ClientConfiguration {
    /// TLS, if the file contains `client.secure=true`. Without that line the connection is plain, even if the
    /// file has other settings of TLS, as in Apache.
    pub tls: Option<TlsSettings>,
    /// The login, if the file names a JAAS file (`java.security.auth.login.config`; Apache's programs read
    /// that from a system property only) and does not contain `sasl.client=false`.
    pub login: Option<JaasLogin>,
    /// The Kerberos principals of the servers.
    pub servers: ServerPrincipals,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .file.display())]
    Unreadable {
        /// The path of the file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is too large for a client configuration.
    #[error("{} is too large for a client configuration: the limit is {FILE_BYTES_MAX} bytes", .file.display())]
    TooLarge {
        /// The path of the file.
        file: PathBuf,
    },
    /// An escape sequence is not valid.
    #[error("line {line}: after \\u there must be four hexadecimal digits, as in \\u00e9")]
    Escape {
        /// The line, counted from 1.
        line: usize,
    },
    /// A value is not valid.
    #[error("{key}: {source}")]
    Value {
        /// The setting.
        key: &'static str,
        /// What is wrong with the value.
        source: TlsError,
    },
    /// A setting that this client does not support and that would weaken security if it were ignored.
    #[error(
        "{key}=true is not supported: remove the line, or check revocation with ssl.crl=true and ssl.crl.file"
    )]
    Unsupported {
        /// The setting.
        key: &'static str,
    },
}

impl ClientConfiguration {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or a setting has an invalid value.
    pub fn read(file: &Path) -> Result<Self, ConfigurationError> {
        let unreadable = |source| ConfigurationError::Unreadable { file: file.to_owned(), source };
        let opened = std::fs::File::open(file).map_err(unreadable)?;
        let mut bytes = Vec::new();
        opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigurationError::TooLarge { file: file.to_owned() });
        }
        Self::from_bytes(&bytes)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// A setting has an invalid value.
    pub fn parse(text: &str) -> Result<Self, ConfigurationError> {
        Self::from_bytes(text.as_bytes())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, ConfigurationError> {
        let values = Properties::parse(bytes)
            .map_err(|BadEscape { line }| ConfigurationError::Escape { line })?;
        let properties = ClientProperties(values);
        let tls = properties.is_true("client.secure").then(|| properties.tls()).transpose()?;
        Ok(ClientConfiguration { tls, login: properties.login(), servers: properties.servers() })
    }
}

/// The names and values of a file.
struct ClientProperties(Properties);

impl ClientProperties {
    /// Returns a value that is set and not empty. The name with the prefix has precedence.
    fn text(&self, key: &str) -> Option<&str> {
        let value = self.0.get(&format!("zookeeper.{key}")).or_else(|| self.0.get(key));
        value.map(|entry| entry.value.as_str()).filter(|value| !value.is_empty())
    }

    fn is_true(&self, key: &str) -> bool {
        self.text(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn list(&self, key: &str) -> Vec<&str> {
        let parts = self.text(key).unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).collect()
    }

    fn login(&self) -> Option<JaasLogin> {
        let is_off = self.text("sasl.client").is_some() && !self.is_true("sasl.client");
        let file = self.text("java.security.auth.login.config").filter(|_| !is_off)?;
        let section = self.text("sasl.clientconfig").unwrap_or(JaasLogin::SECTION).to_owned();
        Some(JaasLogin { file: file.into(), section })
    }

    /// Returns the principals, with Apache's defaults.
    fn servers(&self) -> ServerPrincipals {
        const CANONICAL: &str = "sasl.client.canonicalize.hostname";
        let plain = ServerPrincipals::default();
        let is_canonical = self.text(CANONICAL).is_none() || self.is_true(CANONICAL);
        ServerPrincipals {
            principal: self.text("server.principal").map(Into::into),
            service: self.text("sasl.client.username").map_or(plain.service, Into::into),
            realm: self.text("server.realm").map(Into::into),
            host_names: if is_canonical { HostNames::Canonical } else { HostNames::AsDialled },
        }
    }

    fn tls(&self) -> Result<TlsSettings, ConfigurationError> {
        if self.is_true("ssl.ocsp") {
            return Err(ConfigurationError::Unsupported { key: "ssl.ocsp" });
        }
        let crl_file = self.text("ssl.crl.file").map(Into::into);
        let names = self.list("ssl.ciphersuites");
        Ok(TlsSettings {
            key_store: self.store(&KEY_STORE)?,
            trust_store: self.store(&TRUST_STORE)?,
            protocols: self.protocols()?,
            cipher_suites: names.into_iter().map(str::to_owned).collect(),
            verify_server_host: self.text("ssl.hostnameVerification").is_none()
                || self.is_true("ssl.hostnameVerification"),
            allow_reverse_dns: self.is_true("ssl.allowReverseDnsLookup"),
            revocation: match self.is_true("ssl.crl") {
                true => Revocation::Checked { crl_file },
                false => Revocation::NotChecked,
            },
            ..TlsSettings::default()
        })
    }

    fn store(&self, keys: &StoreKeys) -> Result<Option<StoreSettings>, ConfigurationError> {
        let Some(location) = self.text(keys.location) else { return Ok(None) };
        // As in Apache, the file has precedence over the setting.
        let password = match (self.text(keys.password_path), self.text(keys.password)) {
            (Some(file), _) => Password::InFile(file.into()),
            (None, Some(password)) => Password::Given(Secret::new(password.to_owned())),
            (None, None) => Password::None,
        };
        let kind = self.text(keys.kind).map(str::parse).transpose();
        let kind = kind.map_err(|source| ConfigurationError::Value { key: keys.kind, source })?;
        Ok(Some(StoreSettings { location: location.into(), password, kind }))
    }

    /// Returns the enabled protocols; else those up to the named one.
    fn protocols(&self) -> Result<Vec<Protocol>, ConfigurationError> {
        const ENABLED: &str = "ssl.enabledProtocols";
        const NEWEST: &str = "ssl.protocol";
        let wrong = |key| move |source| ConfigurationError::Value { key, source };
        let enabled = self.list(ENABLED);
        if !enabled.is_empty() {
            let parsed = enabled.into_iter().map(str::parse).collect::<Result<_, _>>();
            return parsed.map_err(wrong(ENABLED));
        }
        match self.text(NEWEST).map(str::parse).transpose().map_err(wrong(NEWEST))? {
            Some(Protocol::Tls12) => Ok(vec![Protocol::Tls12]),
            Some(Protocol::Tls13) | None => Ok(Vec::new()),
        }
    }
}

/// The names of a store's settings.
struct StoreKeys {
    location: &'static str,
    password: &'static str,
    password_path: &'static str,
    kind: &'static str,
}

const KEY_STORE: StoreKeys = StoreKeys {
    location: "ssl.keyStore.location",
    password: "ssl.keyStore.password",
    password_path: "ssl.keyStore.passwordPath",
    kind: "ssl.keyStore.type",
};

const TRUST_STORE: StoreKeys = StoreKeys {
    location: "ssl.trustStore.location",
    password: "ssl.trustStore.password",
    password_path: "ssl.trustStore.passwordPath",
    kind: "ssl.trustStore.type",
};

#[cfg(test)]
mod tests {
    use herdsman_tls::StoreKind;

    use super::*;

    fn tls(text: &str) -> TlsSettings {
        ClientConfiguration::parse(text).unwrap().tls.expect("client.secure is true")
    }

    fn problem(text: &str) -> String {
        let text = format!("client.secure=true\n{text}");
        ClientConfiguration::parse(&text).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_file_of_zkcli_is_understood() {
        let settings =
            tls("zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n\
             zookeeper.client.secure=true\n\
             zookeeper.ssl.keyStore.location=/etc/zk/client.jks\n\
             zookeeper.ssl.keyStore.password=tulip\n\
             zookeeper.ssl.trustStore.location=/etc/zk/trust\n\
             zookeeper.ssl.trustStore.passwordPath=/etc/zk/secret\n\
             zookeeper.ssl.trustStore.password=not this one\n\
             zookeeper.ssl.trustStore.type=pem\n\
             ssl.enabledProtocols=TLSv1.2, TLSv1.3\n\
             ssl.ciphersuites=TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256\n\
             ssl.hostnameVerification=false\n");
        let key_store = settings.key_store.unwrap();
        assert_eq!(key_store.location, Path::new("/etc/zk/client.jks"));
        assert!(
            matches!(key_store.password, Password::Given(secret) if secret.expose() == "tulip")
        );
        let trust_store = settings.trust_store.unwrap();
        assert_eq!(trust_store.kind, Some(StoreKind::Pem));
        assert!(
            matches!(trust_store.password, Password::InFile(file) if file == Path::new("/etc/zk/secret"))
        );
        assert_eq!(settings.protocols, [Protocol::Tls12, Protocol::Tls13]);
        assert_eq!(settings.cipher_suites, ["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"]);
        assert!(!settings.verify_server_host);
    }

    #[test]
    fn defaults_are_those_of_apache() {
        let settings = tls("client.secure=TRUE\nssl.keyStore.location=\nssl.protocol=TLSv1.2");
        assert!(settings.key_store.is_none() && settings.trust_store.is_none());
        assert!(settings.verify_server_host);
        assert_eq!(settings.protocols, [Protocol::Tls12]);
        assert!(tls("client.secure=true").protocols.is_empty());
        for plain in ["", "client.secure=false\nssl.ocsp=true", "ssl.keyStore.location=/a.pem"] {
            assert!(ClientConfiguration::parse(plain).unwrap().tls.is_none(), "{plain:?}");
        }
    }

    #[test]
    fn logins_and_principals_are_read() {
        let parse = |text: String| ClientConfiguration::parse(&text).unwrap();
        let jaas = "java.security.auth.login.config=/etc/zk/jaas.conf\n";
        let login = parse(jaas.to_owned()).login.unwrap();
        assert_eq!(
            (login.file.to_str(), &login.section[..]),
            (Some("/etc/zk/jaas.conf"), "Client")
        );
        let other = parse(format!("{jaas}zookeeper.sasl.clientconfig=Other")).login.unwrap();
        assert_eq!(other.section, "Other");
        assert!(parse(format!("{jaas}zookeeper.sasl.client=false")).login.is_none());
        assert!(parse("zookeeper.sasl.client=true".to_owned()).login.is_none());
        let servers = parse(
            "zookeeper.sasl.client.username=zk\nzookeeper.server.realm=HERD\n\
             zookeeper.sasl.client.canonicalize.hostname=false"
                .to_owned(),
        )
        .servers;
        let (service, realm) = ("zk".to_owned(), Some("HERD".to_owned()));
        let host_names = HostNames::AsDialled;
        let expected = ServerPrincipals { principal: None, service, realm, host_names };
        assert_eq!(servers, expected);
        let plain = parse("zookeeper.server.principal=zk/all@HERD".to_owned()).servers;
        assert_eq!(plain.principal.as_deref(), Some("zk/all@HERD"));
        assert_eq!(plain.host_names, HostNames::Canonical);
    }

    #[test]
    fn revocation_lists_are_checked_if_enabled() {
        let revocation = tls("client.secure=true\nssl.crl=true\nssl.crl.file=/a.crl").revocation;
        assert_eq!(revocation, Revocation::Checked { crl_file: Some("/a.crl".into()) });
        assert_eq!(
            tls("client.secure=true\nssl.crl.file=/a.crl").revocation,
            Revocation::NotChecked
        );
    }

    #[test]
    fn errors_name_the_setting() {
        for (line, start) in [
            ("ssl.keyStore.location=a\nssl.keyStore.type=ZIP", "ssl.keyStore.type: ZIP is not"),
            ("ssl.enabledProtocols=TLSv1.3,TLSv1", "ssl.enabledProtocols: TLSv1 is not"),
            ("ssl.protocol=SSLv3", "ssl.protocol: SSLv3 is not"),
            ("ssl.ocsp=true", "ssl.ocsp=true is not supported"),
            ("a=\\u1", "line 2: "),
        ] {
            let problem = problem(line);
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = ClientConfiguration::read(Path::new("/nowhere/client.properties")).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot read /nowhere/client.properties: "),
            "{error}"
        );
    }
}

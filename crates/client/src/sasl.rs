//! Logins with SASL: the settings of [`Options::log_in`](crate::Options::log_in).
//!
//! Logins with a password use DIGEST-MD5, logins with a Kerberos ticket or key use GSSAPI. Both can also be
//! configured in a JAAS file, as for Apache's clients ([`JaasLogin`]). Kerberos needs the feature `kerberos` of
//! this crate. Apache: `ZooKeeperSaslClient`, `SaslServerPrincipal`.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

pub use herdsman_sasl::gssapi::InitiatorKeys;
pub use herdsman_sasl::{Credentials, JaasError, LoginError, Secret};
use herdsman_sasl::{JaasFile, Login};

/// How a client authenticates itself.
#[derive(Clone, Debug)]
pub enum SaslLogin {
    /// DIGEST-MD5, with a user name and a password.
    Password(Credentials),
    /// GSSAPI, with a Kerberos ticket or key.
    Kerberos(KerberosSettings),
}

/// A login with Kerberos. By default it uses the user's ticket as stored by `kinit`, and server principals of
/// the form `zookeeper/<host>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerberosSettings {
    /// Tickets, or keys to get them with. Both are read again at each login, so that they may expire
    /// and be renewed.
    pub keys: InitiatorKeys,
    /// The principals of the servers.
    pub servers: ServerPrincipals,
}

/// The Kerberos principals of servers. The defaults are Apache's, except for `host_names`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPrincipals {
    /// The principal of all servers, if they share one (`zookeeper.server.principal`).
    pub principal: Option<String>,
    /// Otherwise the first part of their principals (`zookeeper.sasl.client.username`).
    pub service: String,
    /// The realm of a principal without one (`zookeeper.server.realm`). If it is not set, the realm of the
    /// host according to `krb5.conf`, or else that of the client.
    pub realm: Option<String>,
    /// The second part of their principals (`zookeeper.sasl.client.canonicalize.hostname`).
    pub host_names: HostNames,
}

/// Which host name is used in a server's principal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostNames {
    /// The host as in the connect string.
    #[default]
    AsDialled,
    /// The name that DNS returns for the server's address, if that name resolves to the address. This is
    /// Apache's default; it requires trust in DNS.
    Canonical,
}

impl Default for KerberosSettings {
    fn default() -> Self {
        let keys = InitiatorKeys::TicketCache { principal: None, file: None };
        KerberosSettings { keys, servers: ServerPrincipals::default() }
    }
}

impl Default for ServerPrincipals {
    fn default() -> Self {
        ServerPrincipals {
            principal: None,
            service: "zookeeper".to_owned(),
            realm: None,
            host_names: HostNames::AsDialled,
        }
    }
}

impl ServerPrincipals {
    /// Returns the principal of the server at this host and address. May query DNS.
    pub(crate) fn of(&self, host: &str, address: Option<IpAddr>) -> String {
        let realm = self.realm.as_deref().unwrap_or_default();
        match &self.principal {
            Some(principal) if principal.contains('@') => principal.clone(),
            Some(principal) => format!("{principal}@{realm}"),
            None => {
                let canonical = match (self.host_names, address) {
                    (HostNames::Canonical, Some(address)) => {
                        herdsman_tls::reverse_lookup(address).name().map(ToOwned::to_owned)
                    }
                    _ => None,
                };
                let host = canonical.unwrap_or_else(|| host.to_owned()).to_ascii_lowercase();
                format!("{}/{host}@{realm}", self.service)
            }
        }
    }
}

/// A login that is configured in a section of a JAAS file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JaasLogin {
    /// The file (`java.security.auth.login.config`).
    pub file: PathBuf,
    /// Its section (`zookeeper.sasl.clientconfig`).
    pub section: String,
}

/// Why a JAAS file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JaasLoginError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .file.display())]
    Unreadable {
        /// The path of the file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not a JAAS file.
    #[error("{}: {source}", .file.display())]
    Malformed {
        /// The path of the file.
        file: PathBuf,
        /// The syntax error.
        source: JaasError,
    },
    /// The section is missing or cannot be used.
    #[error("{}: {source}", .file.display())]
    Section {
        /// The path of the file.
        file: PathBuf,
        /// What is wrong with the section.
        source: LoginError,
    },
    /// The section has no user name and password.
    #[error("{}: section `{section}` has no username and password to log in with", .file.display())]
    NoCredentials {
        /// The path of the file.
        file: PathBuf,
        /// The section.
        section: String,
    },
}

impl JaasLogin {
    /// The default section of clients.
    pub const SECTION: &'static str = "Client";

    /// Reads the file. `servers` is used if the section is for Kerberos.
    ///
    /// # Errors
    /// The file cannot be read, or the section is missing or incomplete.
    pub fn read(&self, servers: ServerPrincipals) -> Result<SaslLogin, JaasLoginError> {
        let file = || self.file.clone();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|source| JaasLoginError::Unreadable { file: file(), source })?;
        let jaas = JaasFile::parse(&text)
            .map_err(|source| JaasLoginError::Malformed { file: file(), source })?;
        let unusable = |source| JaasLoginError::Section { file: file(), source };
        match Login::from_file(&jaas, &self.section).map_err(unusable)? {
            Login::Kerberos(login) => {
                let keys = login.initiator_keys().map_err(unusable)?;
                Ok(SaslLogin::Kerberos(KerberosSettings { keys, servers }))
            }
            Login::Digest(login) => match login.credentials {
                Some(credentials) => Ok(SaslLogin::Password(credentials)),
                None => {
                    let section = self.section.clone();
                    Err(JaasLoginError::NoCredentials { file: file(), section })
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_contain_the_host_unless_one_is_set() {
        let plain = ServerPrincipals::default();
        let of = |servers: &ServerPrincipals| servers.of("A.example", None);
        assert_eq!(of(&plain), "zookeeper/a.example@");
        let realm = Some("HERD".to_owned());
        let other = ServerPrincipals { service: "zk".to_owned(), realm, ..plain };
        assert_eq!(of(&other), "zk/a.example@HERD");
        let named = |principal: &str| ServerPrincipals {
            principal: Some(principal.to_owned()),
            ..other.clone()
        };
        assert_eq!(of(&named("zk/all")), "zk/all@HERD");
        assert_eq!(of(&named("zk/all@FIELD")), "zk/all@FIELD");
    }

    fn read(text: &str) -> Result<SaslLogin, JaasLoginError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let section = JaasLogin::SECTION.to_owned();
        JaasLogin { file: file.path().to_owned(), section }.read(ServerPrincipals::default())
    }

    #[test]
    fn a_section_selects_the_kind_of_login() {
        let digest = "org.apache.zookeeper.server.auth.DigestLoginModule";
        let password = format!("Client {{ {digest} required username=ann password=tulip; }};");
        assert!(matches!(read(&password), Ok(SaslLogin::Password(c)) if c.username == "ann"));
        let kerberos = "Client { com.sun.security.auth.module.Krb5LoginModule required \
                        useTicketCache=true; };";
        let expected = KerberosSettings::default();
        assert!(
            matches!(read(kerberos), Ok(SaslLogin::Kerberos(settings)) if settings == expected)
        );
    }

    #[test]
    fn errors_name_the_file() {
        for (text, expected) in [
            ("Server { };", "no section `Client`"),
            ("Client {", "line 1: "),
            (
                "Client { org.apache.zookeeper.server.auth.DigestLoginModule required; };",
                "section `Client` has no username and password",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with('/') && error.contains(expected), "{error}");
        }
    }
}

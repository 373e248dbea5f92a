//! Logins with SASL: the settings of [`Options::log_in`](crate::Options::log_in).
//!
//! A password makes a DIGEST-MD5 login, a Kerberos ticket or key a GSSAPI login. Which of them it is can
//! also stand in a JAAS file, as Apache's clients read it ([`JaasLogin`]). Kerberos is there if this crate is
//! built with its feature `kerberos`. Apache: `ZooKeeperSaslClient`, `SaslServerPrincipal`.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

pub use herdsman_sasl::gssapi::InitiatorKeys;
pub use herdsman_sasl::{Credentials, JaasError, LoginError, Secret};
use herdsman_sasl::{JaasFile, Login};

/// How a client proves who it is.
#[derive(Clone, Debug)]
pub enum SaslLogin {
    /// With a name and a password: DIGEST-MD5.
    Password(Credentials),
    /// With a ticket: Kerberos.
    Kerberos(KerberosSettings),
}

/// A login with Kerberos. By default, with the user's ticket as `kinit` leaves it, to servers that are called
/// `zookeeper/<host>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerberosSettings {
    /// Tickets, or keys to get them with. Both are looked for at each login, so that it does not matter
    /// when they expire.
    pub keys: InitiatorKeys,
    /// What the servers are called.
    pub servers: ServerPrincipals,
}

/// What servers are called in Kerberos. The defaults are Apache's, but for `host_names`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPrincipals {
    /// One name for all of them, if they have one (`zookeeper.server.principal`).
    pub principal: Option<String>,
    /// Else the first part of their names (`zookeeper.sasl.client.username`).
    pub service: String,
    /// The realm of a name that says none (`zookeeper.server.realm`); the host's, as `krb5.conf` has it, or
    /// else the client's, if this is not set.
    pub realm: Option<String>,
    /// The second part of their names (`zookeeper.sasl.client.canonicalize.hostname`).
    pub host_names: HostNames,
}

/// What a server's host is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostNames {
    /// As in the connect string.
    #[default]
    AsDialled,
    /// What the name service calls the address that was reached, if that name leads back to it. This is
    /// Apache's default; it makes the name service part of what is trusted.
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
    /// What the server is called that was reached at this host and address. May ask the name service.
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

/// A login that a section of a JAAS file describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JaasLogin {
    /// The file (`java.security.auth.login.config`).
    pub file: PathBuf,
    /// Its section (`zookeeper.sasl.clientconfig`).
    pub section: String,
}

/// Why a JAAS file is no use.
#[derive(Debug, thiserror::Error)]
pub enum JaasLoginError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is no JAAS file.
    #[error("{}: {source}", .file.display())]
    Malformed {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        source: JaasError,
    },
    /// A section of it is of no use.
    #[error("{}: {source}", .file.display())]
    Section {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        source: LoginError,
    },
    /// A section has no user name and password to log in with.
    #[error("{}: section `{section}` has no username and password to log in with", .file.display())]
    NoCredentials {
        /// Which file.
        file: PathBuf,
        /// Which.
        section: String,
    },
}

impl JaasLogin {
    /// The section that clients use unless they are told otherwise.
    pub const SECTION: &'static str = "Client";

    /// Reads the file. What the servers are called matters if the section is for Kerberos.
    ///
    /// # Errors
    /// The file cannot be read, or the section is not there or not complete.
    pub fn read(&self, servers: ServerPrincipals) -> Result<SaslLogin, JaasLoginError> {
        let file = || self.file.clone();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|source| JaasLoginError::Unreadable { file: file(), source })?;
        let jaas = JaasFile::parse(&text)
            .map_err(|source| JaasLoginError::Malformed { file: file(), source })?;
        let useless = |source| JaasLoginError::Section { file: file(), source };
        match Login::from_file(&jaas, &self.section).map_err(useless)? {
            Login::Kerberos(login) => {
                let keys = login.initiator_keys().map_err(useless)?;
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
    fn servers_are_called_by_their_hosts_unless_they_have_a_name() {
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
    fn a_section_says_how_to_log_in() {
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
    fn a_file_that_is_no_use_is_named() {
        for (text, said) in [
            ("Server { };", "no section `Client`"),
            ("Client {", "line 1: "),
            (
                "Client { org.apache.zookeeper.server.auth.DigestLoginModule required; };",
                "section `Client` has no username and password",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with('/') && error.contains(said), "{error}");
        }
    }
}

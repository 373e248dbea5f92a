//! SASL logins: reads from the JAAS file how clients and servers log in to this server, and how it logs in to
//! other servers. Apache: `ServerCnxnFactory.configureSaslLogin`, `SaslQuorumAuthServer`,
//! `SaslQuorumAuthLearner`.

mod clients;

use std::path::PathBuf;
use std::sync::Arc;

use herdsman_sasl::digest_md5::{ClientSettings, ServerSettings, Service};
use herdsman_sasl::gssapi::{self, Acceptor, AcceptorKeys, GssapiError, Initiator};
use herdsman_sasl::kerberos::{Appended, BadRules, ClientNames, NameRules};
use herdsman_sasl::{DigestLogin, JaasError, JaasFile, KerberosLogin, Login, LoginError};
use tracing::warn;

pub(crate) use self::clients::ClientLogins;
use crate::error::StartError;
use herdsman_config::{Config, Mode};
use herdsman_quorum::logins::{HostNames, MemberLogins, OwnLogin};

/// The user whose password may be in a setting instead of the JAAS file.
const SUPER: &str = "super";

/// Why logins cannot be set up as configured.
#[derive(Debug, thiserror::Error)]
pub enum LoginsError {
    /// The JAAS file cannot be read.
    #[error("cannot read {path}: {source} (java.security.auth.login.config)", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// It is not a JAAS file.
    #[error("{path}: {source}", path = path.display())]
    Jaas {
        /// The file.
        path: PathBuf,
        /// The parse error.
        source: JaasError,
    },
    /// One of its sections is invalid.
    #[error("{path}: {source}", path = path.display())]
    Section {
        /// The file.
        path: PathBuf,
        /// The error.
        source: LoginError,
    },
    /// A section requires Kerberos, which is not available.
    #[error("{path}: section `{section}` uses Kerberos: {source}", path = path.display())]
    Kerberos {
        /// The file.
        path: PathBuf,
        /// The section.
        section: String,
        /// The reason.
        source: GssapiError,
    },
    /// The rules for names of clients are invalid.
    #[error("security.auth_to_local: {0}")]
    Rules(BadRules),
    /// The Kerberos configuration is required but missing.
    #[error("requireKerberosConfig=true needs a default realm in krb5.conf: {0}")]
    NoRealm(GssapiError),
    /// A section has no user name and password to log in with.
    #[error("{path}: section `{section}` has no username and password to log in to other servers with", path = path.display())]
    NoCredentials {
        /// The file.
        path: PathBuf,
        /// The section.
        section: String,
    },
    /// Logins are required, and no JAAS file is configured.
    #[error("{0}=true needs a JAAS file: set java.security.auth.login.config")]
    NoFile(&'static str),
}

/// All logins of a server.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    /// Logins of clients.
    pub clients: Option<ClientLogins>,
    /// Logins of other servers.
    pub servers: Option<MemberLogins>,
    /// Our login to other servers.
    pub own: Option<OwnLogin>,
}

impl Logins {
    /// Reads the files that the configuration names.
    pub fn load(config: &Config) -> Result<Self, StartError> {
        Self::read(config).map_err(StartError::Logins)
    }

    fn read(config: &Config) -> Result<Self, LoginsError> {
        let rules = NameRules::parse(&config.sasl.name_rules).map_err(LoginsError::Rules)?;
        let between_servers = config.mode != Mode::Standalone && config.quorum_security.sasl;
        let Some(path) = config.sasl.login_file.clone() else {
            return match between_servers {
                true => Err(LoginsError::NoFile("quorum.auth.enableSasl")),
                false => Ok(Logins::default()),
            };
        };
        let file = LoginFile::read(path)?;
        let mut logins = Logins::default();
        // Without its section clients do not log in, as in Apache.
        if file.jaas.section(&config.sasl.login_context).is_some() {
            logins.clients = Some(file.client_logins(config, rules)?);
        }
        if between_servers {
            logins.servers = Some(file.member_logins(config)?);
            logins.own = Some(file.own_login(config)?);
        }
        Ok(logins)
    }
}

fn digest_settings(service: Service, login: DigestLogin) -> ServerSettings {
    ServerSettings { service, users: Arc::new(login.users) }
}

fn host_names(config: &Config) -> HostNames {
    if config.sasl.canonical_hosts { HostNames::Canonical } else { HostNames::AsWritten }
}

/// How the names of Kerberos clients are formed.
fn client_names(config: &Config, rules: NameRules) -> Result<ClientNames, LoginsError> {
    let default_realm = match gssapi::default_realm() {
        Ok(realm) => realm,
        Err(error) if config.sasl.kerberos_config_required => {
            return Err(LoginsError::NoRealm(error));
        }
        // As in Apache: without a realm, the default one is used.
        Err(_) => String::new(),
    };
    let unless = |is_removed| if is_removed { Appended::Removed } else { Appended::Kept };
    let (host, realm) = (unless(config.sasl.remove_host), unless(config.sasl.remove_realm));
    Ok(ClientNames { rules, default_realm, host, realm })
}

struct LoginFile {
    path: PathBuf,
    jaas: JaasFile,
}

impl LoginFile {
    fn read(path: PathBuf) -> Result<Self, LoginsError> {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(LoginsError::Unreadable { path, source }),
        };
        match JaasFile::parse(&text) {
            Ok(jaas) => Ok(LoginFile { path, jaas }),
            Err(source) => Err(LoginsError::Jaas { path, source }),
        }
    }

    fn client_logins(
        &self,
        config: &Config,
        rules: NameRules,
    ) -> Result<ClientLogins, LoginsError> {
        let section = &config.sasl.login_context;
        match self.login(section)? {
            Login::Digest(mut login) => {
                if let (Some(secret), Some(_)) =
                    (&config.sasl.super_password, login.users.password(SUPER))
                {
                    login.users.insert(SUPER, secret.clone());
                }
                Ok(ClientLogins::Digest(digest_settings(Service::CLIENT_PORT, login)))
            }
            Login::Kerberos(login) => {
                let keys = self.acceptor_keys(&login)?;
                let names = Arc::new(client_names(config, rules)?);
                Ok(ClientLogins::Kerberos { keys, names })
            }
        }
    }

    fn member_logins(&self, config: &Config) -> Result<MemberLogins, LoginsError> {
        match self.login(&config.quorum_security.server_login_context)? {
            Login::Digest(login) => {
                Ok(MemberLogins::Digest(digest_settings(Service::QUORUM, login)))
            }
            Login::Kerberos(login) => {
                let keys = self.acceptor_keys(&login)?;
                Ok(MemberLogins::Kerberos { keys, hosts: host_names(config) })
            }
        }
    }

    fn own_login(&self, config: &Config) -> Result<OwnLogin, LoginsError> {
        let section = &config.quorum_security.learner_login_context;
        match self.login(section)? {
            Login::Digest(DigestLogin { credentials: Some(credentials), .. }) => {
                let service = Service::QUORUM;
                Ok(OwnLogin::Digest(ClientSettings { service, credentials }))
            }
            Login::Digest(_) => Err(LoginsError::NoCredentials {
                path: self.path.clone(),
                section: section.to_owned(),
            }),
            Login::Kerberos(login) => {
                let keys = login.initiator_keys().map_err(|source| self.useless(source))?;
                let service = config.quorum_security.kerberos_principal.clone();
                let hosts = host_names(config);
                // Errors in the keys are reported now instead of at every login. But a failure of the realm's servers
                // does not prevent the start.
                match Initiator::new(&keys, &hosts.service(&service, "localhost")) {
                    Ok(_) => {}
                    Err(source @ GssapiError::KdcUnreachable { .. }) => {
                        warn!("cannot log in to other servers with Kerberos yet: {source}");
                    }
                    Err(source) => return Err(self.without_kerberos(section, source)),
                }
                Ok(OwnLogin::Kerberos { keys, service, hosts })
            }
        }
    }

    fn login(&self, section: &str) -> Result<Login, LoginsError> {
        Login::from_file(&self.jaas, section).map_err(|source| self.useless(source))
    }

    /// Keys that accept at least one login, which is tried.
    fn acceptor_keys(&self, login: &KerberosLogin) -> Result<AcceptorKeys, LoginsError> {
        let keys = login.acceptor_keys().map_err(|source| self.useless(source))?;
        match Acceptor::new(&keys) {
            Ok(_) => Ok(keys),
            Err(source) => Err(self.without_kerberos(&login.section, source)),
        }
    }

    fn useless(&self, source: LoginError) -> LoginsError {
        LoginsError::Section { path: self.path.clone(), source }
    }

    fn without_kerberos(&self, section: &str, source: GssapiError) -> LoginsError {
        LoginsError::Kerberos { path: self.path.clone(), section: section.to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_config::{Role, ServerId};

    const JAAS: &str = r#"
        Server {
            com.sun.security.auth.module.Krb5LoginModule required
            useKeyTab=true keyTab="/nowhere/zk.keytab" principal="zk/a.example@HERD";
        };
        QuorumServer {
            org.apache.zookeeper.server.auth.DigestLoginModule required user_member="x";
        };
        QuorumLearner {
            com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;
        };"#;

    /// Why a server with this file does not start.
    fn complaint(adjust: impl FnOnce(&mut Config)) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), JAAS).unwrap();
        let mut config = Config::default();
        config.sasl.login_file = Some(file.path().to_owned());
        config.sasl.login_context = "Server".to_owned();
        adjust(&mut config);
        Logins::read(&config).expect_err("it is refused").to_string()
    }

    #[test]
    fn a_section_for_kerberos_needs_the_feature_and_the_keys() {
        let said = complaint(|_| ());
        assert!(said.contains("section `Server` uses Kerberos: "), "{said}");
        let reason = match cfg!(feature = "kerberos") {
            true => "cannot acquire the service's key: ",
            false => "build it with `cargo build --features kerberos`",
        };
        assert!(said.contains(reason), "{said}");
    }

    #[test]
    fn a_section_for_kerberos_between_servers_has_to_be_complete() {
        let said = complaint(|config| {
            config.mode = Mode::Ensemble { my_id: ServerId(1), role: Role::Participant };
            config.sasl.login_context = "Nobody".to_owned();
            config.quorum_security.sasl = true;
            config.quorum_security.server_login_context = "QuorumServer".to_owned();
            config.quorum_security.learner_login_context = "QuorumLearner".to_owned();
        });
        assert!(said.ends_with("section `QuorumLearner`: option `principal` is missing"), "{said}");
    }

    #[test]
    fn rules_that_cannot_be_read_are_refused_whether_they_are_used_or_not() {
        let said = complaint(|config| {
            config.sasl.login_file = None;
            config.sasl.name_rules = "RULE:[1:$1](".to_owned();
        });
        assert!(said.starts_with("security.auth_to_local: expected `)`"), "{said}");
    }
}

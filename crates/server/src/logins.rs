//! Logins with SASL: what the JAAS file says about those who log in here, and about us when we log in to
//! other servers. Apache: `ServerCnxnFactory.configureSaslLogin`, `SaslQuorumAuthServer`,
//! `SaslQuorumAuthLearner`.

use std::path::PathBuf;
use std::sync::Arc;

use herdsman_sasl::digest_md5::{Client, ClientSettings, Nonce, Server, ServerSettings, Service};
use herdsman_sasl::{Credentials, DigestLogin, JaasError, JaasFile, Login, LoginError};

use crate::config::{Config, Mode};
use crate::error::StartError;

/// The user whose password a setting may hold instead of the JAAS file.
const SUPER: &str = "super";

/// Why logins cannot be had as they are configured.
#[derive(Debug, thiserror::Error)]
pub enum LoginsError {
    /// The JAAS file cannot be read.
    #[error("cannot read {path}: {source} (java.security.auth.login.config)", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is no JAAS file.
    #[error("{path}: {source}", path = path.display())]
    Jaas {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: JaasError,
    },
    /// A section of it is of no use.
    #[error("{path}: {source}", path = path.display())]
    Section {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: LoginError,
    },
    /// A section asks for Kerberos.
    #[error("{path}: section `{section}` asks for Kerberos, which this build does not speak", path = path.display())]
    Kerberos {
        /// The file.
        path: PathBuf,
        /// Which.
        section: String,
    },
    /// A section has no user name and password to log in with.
    #[error("{path}: section `{section}` has no username and password to log in to other servers with", path = path.display())]
    NoCredentials {
        /// The file.
        path: PathBuf,
        /// Which.
        section: String,
    },
    /// Logins are asked for, and there is no file that says whose.
    #[error("{0}=true needs a JAAS file: set java.security.auth.login.config")]
    NoFile(&'static str),
}

/// All logins of a server.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    /// Of clients, here.
    pub clients: Option<LoginDesk>,
    /// Of other servers, here.
    pub servers: Option<LoginDesk>,
    /// Ours, at other servers.
    pub own: Option<OwnLogin>,
}

/// Where others log in.
#[derive(Clone, Debug)]
pub(crate) struct LoginDesk(ServerSettings);

impl LoginDesk {
    /// One login.
    pub fn begin(&self) -> Result<Server, getrandom::Error> {
        Ok(Server::new(self.0.clone(), nonce()?))
    }
}

/// How this server logs in to others.
#[derive(Clone, Debug)]
pub(crate) struct OwnLogin(ClientSettings);

impl OwnLogin {
    /// One login.
    pub fn begin(&self) -> Result<Client, getrandom::Error> {
        Ok(Client::new(self.0.clone(), nonce()?))
    }
}

fn nonce() -> Result<Nonce, getrandom::Error> {
    let mut random = [0; Nonce::RANDOM_BYTES];
    getrandom::fill(&mut random)?;
    Ok(Nonce::from_random(random))
}

impl Logins {
    /// Reads what the configuration names.
    pub fn load(config: &Config) -> Result<Self, StartError> {
        Self::read(config).map_err(StartError::Logins)
    }

    fn read(config: &Config) -> Result<Self, LoginsError> {
        let security = &config.quorum_security;
        let between_servers = config.mode != Mode::Standalone && security.sasl;
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
            let mut login = file.digest(&config.sasl.login_context)?;
            if let (Some(secret), Some(_)) =
                (&config.sasl.super_password, login.users.password(SUPER))
            {
                login.users.insert(SUPER, secret.clone());
            }
            logins.clients = Some(desk(Service::CLIENT_PORT, login));
        }
        if between_servers {
            logins.servers =
                Some(desk(Service::QUORUM, file.digest(&security.server_login_context)?));
            let credentials = file.credentials(&security.learner_login_context)?;
            logins.own = Some(OwnLogin(ClientSettings { service: Service::QUORUM, credentials }));
        }
        Ok(logins)
    }
}

fn desk(service: Service, login: DigestLogin) -> LoginDesk {
    LoginDesk(ServerSettings { service, users: Arc::new(login.users) })
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

    fn digest(&self, section: &str) -> Result<DigestLogin, LoginsError> {
        let path = || self.path.clone();
        match Login::from_file(&self.jaas, section) {
            Ok(Login::Digest(login)) => Ok(login),
            Ok(Login::Kerberos(_)) => {
                Err(LoginsError::Kerberos { path: path(), section: section.to_owned() })
            }
            Err(source) => Err(LoginsError::Section { path: path(), source }),
        }
    }

    fn credentials(&self, section: &str) -> Result<Credentials, LoginsError> {
        self.digest(section)?.credentials.ok_or_else(|| LoginsError::NoCredentials {
            path: self.path.clone(),
            section: section.to_owned(),
        })
    }
}

//! Interprets a section of a JAAS file: who may log in, or how we log in. Apache: `DigestLoginModule`,
//! `ServerCnxnFactory.getDigestMd5Credentials`, `SaslQuorumServerCallbackHandler`, `Login`.
//!
//! In: a file and the name of a section. Out: a [`Login`]. Apache loads the class that a section names; we
//! support the two that ZooKeeper is used with, and reject others by name.

use std::path::PathBuf;

use crate::gssapi::{AcceptorKeys, InitiatorKeys};
use crate::kerberos::{BadName, PrincipalName};
use crate::{Credentials, JaasFile, LoginModule, Secret, Section, Users};

/// The class for logins with a password.
const DIGEST_CLASS: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";
/// The classes for logins with Kerberos, in the common JDKs and in IBM's.
const KERBEROS_CLASSES: [&str; 2] = [
    "com.sun.security.auth.module.Krb5LoginModule",
    "com.ibm.security.auth.module.Krb5LoginModule",
];
/// Prefix of the options that hold users' passwords.
const USER_PREFIX: &str = "user_";

/// Why a section cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The file has no such section, or the section is empty.
    #[error("no section `{section}` with a login module; the file has {present}")]
    NoSection {
        /// The section requested.
        section: String,
        /// The sections in the file.
        present: String,
    },
    /// An unknown login module.
    #[error(
        "section `{section}`: unknown login module `{class}`; use `{DIGEST_CLASS}` or `{}`",
        KERBEROS_CLASSES[0]
    )]
    UnknownModule {
        /// The section.
        section: String,
        /// The class.
        class: String,
    },
    /// The section has both passwords and Kerberos.
    #[error("section `{section}` has login modules for both passwords and Kerberos; keep one kind")]
    Mixed {
        /// The section.
        section: String,
    },
    /// Only one of `username` and `password` is set.
    #[error("section `{section}`: option `{missing}` is missing")]
    Incomplete {
        /// The section.
        section: String,
        /// The missing option.
        missing: &'static str,
    },
    /// The principal is invalid.
    #[error("section `{section}`: option `principal`: {source}")]
    BadPrincipal {
        /// The section.
        section: String,
        /// What is wrong with it.
        source: BadName,
    },
    /// The principal names no host, so no client would ask for it.
    #[error("section `{section}`: option `principal` must name a service, as name/host@REALM")]
    NoHost {
        /// The section.
        section: String,
    },
    /// A section for Kerberos names neither keys nor tickets.
    #[error("section `{section}`: name the keys with `useKeyTab=true` and `keyTab`{or}")]
    NoKeys {
        /// The section.
        section: String,
        /// The alternative, if there is one.
        or: &'static str,
    },
}

/// The login that a section describes.
#[derive(Clone, Debug)]
pub enum Login {
    /// With passwords: SASL DIGEST-MD5.
    Digest(DigestLogin),
    /// With Kerberos: SASL GSSAPI.
    Kerberos(KerberosLogin),
}

/// Passwords. A section has one half or the other, depending on the role that it is for.
#[derive(Clone, Debug, Default)]
pub struct DigestLogin {
    /// Users who may log in to us: the options `user_<name>="<password>"`.
    pub users: Users,
    /// Our own login: the options `username` and `password`.
    pub credentials: Option<Credentials>,
}

/// The source of Kerberos credentials.
#[derive(Clone, Debug, Default)]
pub struct KerberosLogin {
    /// The section that contains it.
    pub section: String,
    /// Our principal, as `name/host@REALM`.
    pub principal: Option<String>,
    /// The file with our keys.
    pub key_tab: Option<PathBuf>,
    /// Whether to use the keys from that file.
    pub use_key_tab: bool,
    /// Whether to use an existing ticket, as left by `kinit`.
    pub use_ticket_cache: bool,
    /// The file with that ticket, if it is not the default one.
    pub ticket_cache: Option<PathBuf>,
}

impl Login {
    /// Interprets a section of a file.
    pub fn from_file(file: &JaasFile, section: &str) -> Result<Self, LoginError> {
        // As in the JDK, a section without modules counts as missing.
        match file.section(section) {
            Some(section) if !section.modules.is_empty() => Self::from_section(section),
            _ => {
                let present = present(file);
                Err(LoginError::NoSection { section: section.to_string(), present })
            }
        }
    }

    fn from_section(section: &Section) -> Result<Self, LoginError> {
        let name = || section.name.clone();
        let is_digest = |module: &&LoginModule| module.class == DIGEST_CLASS;
        let is_kerberos = |module: &&LoginModule| KERBEROS_CLASSES.contains(&module.class.as_str());
        if let Some(other) = section.modules.iter().find(|m| !is_digest(m) && !is_kerberos(m)) {
            let class = other.class.clone();
            return Err(LoginError::UnknownModule { section: name(), class });
        }
        // If there are several modules for Kerberos, Apache uses the first one as well.
        match section.modules.iter().find(is_kerberos) {
            None => DigestLogin::from_section(section).map(Login::Digest),
            Some(_) if section.modules.iter().any(|module| is_digest(&module)) => {
                Err(LoginError::Mixed { section: name() })
            }
            Some(module) => Ok(Login::Kerberos(KerberosLogin::from_module(name(), module))),
        }
    }
}

impl DigestLogin {
    /// Combines the options of all modules.
    fn from_section(section: &Section) -> Result<Self, LoginError> {
        let options = || section.modules.iter().flat_map(|module| &module.options);
        let user = |(name, password): (&String, &Secret)| {
            Some((name.strip_prefix(USER_PREFIX)?.to_string(), password.clone()))
        };
        let value = |wanted| options().rfind(|(name, _)| *name == wanted).map(|(_, value)| value);
        let missing = |missing| LoginError::Incomplete { section: section.name.clone(), missing };
        let credentials = match (value("username"), value("password")) {
            (None, None) => None,
            (Some(_), None) => return Err(missing("password")),
            (None, Some(_)) => return Err(missing("username")),
            (Some(username), Some(password)) => Some(Credentials {
                username: username.expose().to_string(),
                password: password.clone(),
            }),
        };
        Ok(DigestLogin { users: options().filter_map(user).collect(), credentials })
    }
}

impl KerberosLogin {
    /// Returns the keys with which peers are authenticated. Java also requires `storeKey=true`; here there
    /// is no other way.
    pub fn acceptor_keys(&self) -> Result<AcceptorKeys, LoginError> {
        let section = || self.section.clone();
        if !self.use_key_tab {
            return Err(LoginError::NoKeys { section: section(), or: "" });
        }
        let principal = self.checked_principal()?;
        match principal.host() {
            None => Err(LoginError::NoHost { section: section() }),
            Some(_) => Ok(AcceptorKeys {
                principal: principal.to_string(),
                key_table: self.key_tab.clone(),
            }),
        }
    }

    /// Returns the credentials for logging in. If both keys and tickets are allowed, keys are used, because
    /// they do not expire.
    pub fn initiator_keys(&self) -> Result<InitiatorKeys, LoginError> {
        if self.use_key_tab {
            let principal = self.checked_principal()?.to_string();
            return Ok(InitiatorKeys::KeyTable { principal, file: self.key_tab.clone() });
        }
        if !self.use_ticket_cache {
            return Err(LoginError::NoKeys {
                section: self.section.clone(),
                or: ", or use a ticket with `useTicketCache=true`",
            });
        }
        let principal = self.principal.as_ref().map(|_| self.checked_principal()).transpose()?;
        let principal = principal.map(|principal| principal.to_string());
        Ok(InitiatorKeys::TicketCache { principal, file: self.ticket_cache.clone() })
    }

    fn checked_principal(&self) -> Result<PrincipalName, LoginError> {
        let section = || self.section.clone();
        let missing = LoginError::Incomplete { section: section(), missing: "principal" };
        PrincipalName::parse(self.principal.as_deref().ok_or(missing)?)
            .map_err(|source| LoginError::BadPrincipal { section: section(), source })
    }

    fn from_module(section: String, module: &LoginModule) -> Self {
        let value = |name: &str| module.options.get(name).map(Secret::expose);
        let is_set = |name: &str| value(name).is_some_and(|v| v.eq_ignore_ascii_case("true"));
        KerberosLogin {
            section,
            principal: value("principal").map(Into::into),
            key_tab: value("keyTab").map(Into::into),
            use_key_tab: is_set("useKeyTab"),
            use_ticket_cache: is_set("useTicketCache"),
            ticket_cache: value("ticketCache").map(Into::into),
        }
    }
}

/// Lists the sections of a file, for a name that was misspelt.
fn present(file: &JaasFile) -> String {
    let names: Vec<_> =
        file.sections().iter().map(|section| format!("`{}`", section.name)).collect();
    if names.is_empty() { "no section".to_string() } else { names.join(", ") }
}

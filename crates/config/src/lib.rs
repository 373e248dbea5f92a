//! The configuration of a server: zoo.cfg, `-D` flags and positional arguments, as Apache takes them.
//!
//! In: the path of a file or the arguments, and system properties; the caller reads the environment.
//! Out: a typed [`Config`] and the warnings for the log, or an error that names the line.
//! Reads only the files of the configuration itself (zoo.cfg, the dynamic file, `myid`), and looks for directories
//! where a name can be read in two ways; writes nothing, resolves no names, and has
//! no global state. Nothing below this crate uses it.
//!
//! Precedence is Apache's (`QuorumPeerConfig.parseProperties`): what it reads itself comes from the
//! file only; every other key K of the file becomes the system property `zookeeper.K`, and so the file
//! wins over `-Dzookeeper.K`. We differ in a few places: names that Apache reads
//! only as a flag without prefix (`jute.maxbuffer`) are also valid in the file, with a warning; values that Apache
//! silently replaces by a default are reported; and old files are purged unless that is turned off.
//!
//! The code map: [`properties`] and [`flags`] are the syntax, [`settings`] is the table of settings,
//! [`setting`] and `field` define how a row is read, `load` reads the files (`encoding` where Java reads
//! other names), `rules` and `ensemble` check rules that involve several values, [`types`] and
//! [`quorum`] are the result. The types of the members of an ensemble are in `proto`, because servers also
//! send them to each other. docs/compatibility.md lists the files that Apache reads differently.

use std::path::{Path, PathBuf};

mod conf_text;
mod directories;
mod draft;
mod dynamic;
mod encoding;
mod ensemble;
pub mod error;
mod field;
pub mod flags;
mod load;
mod markdown;
pub mod quorum;
mod rules;
pub mod setting;
pub mod settings;
pub mod types;

pub use herdsman_proto::ServerId;
pub use herdsman_proto::membership::{Endpoint, Member, Membership, PeerAddress, Role};

pub use conf_text::{ConfNumbers, conf_text};
pub use directories::check_directories;
pub use dynamic::DynamicFiles;
pub use error::{ConfigError, Location, Warning};
pub use flags::SystemProperties;
pub use herdsman_secret::Secret;
pub use markdown::settings_markdown;
pub use quorum::{Mode, Quorum, QuorumSecurity, QuorumTuning};
pub use types::{
    Access, Admin, AdminWriters, Archive, AsWritten, ClientAuth, ClientTls, Compression,
    ConnectionThrottle, DigestAlgorithm, FourLetterWords, Given, Limits, Listen, Logging, Metrics,
    Purge, RequestThrottle, Sasl, Scrub, SessionPasswordUse, Sessions, Storage, Tls, Znodes,
};

/// The configuration of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// Standalone or in an ensemble.
    pub mode: Mode,
    /// Client ports.
    pub listen: Listen,
    /// Directories and files.
    pub storage: Storage,
    /// The archive of finished files.
    pub archive: Archive,
    /// Session timeouts and passwords.
    pub sessions: Sessions,
    /// Limits for clients.
    pub limits: Limits,
    /// Throttling of requests.
    pub request_throttle: RequestThrottle,
    /// Throttling of connections.
    pub connection_throttle: ConnectionThrottle,
    /// Access control.
    pub access: Access,
    /// SASL logins.
    pub sasl: Sasl,
    /// TLS for clients.
    pub tls: Tls,
    /// Settings that only the TLS of the client port has.
    pub client_tls: ClientTls,
    /// TLS between servers.
    pub quorum_tls: Tls,
    /// Kinds of znodes, and quotas.
    pub znodes: Znodes,
    /// The enabled four-letter words.
    pub four_letter_words: FourLetterWords,
    /// Numbers as `conf` shows them.
    pub as_written: AsWritten,
    /// The audit log and the log of slow requests.
    pub logging: Logging,
    /// Whether a server without a quorum serves reads.
    pub read_only_mode: bool,
    /// The admin server.
    pub admin: Admin,
    /// The metrics port.
    pub metrics: Metrics,
    /// Membership.
    pub quorum: Quorum,
    /// TLS and SASL between servers.
    pub quorum_security: QuorumSecurity,
    /// Times and sizes of an ensemble.
    pub quorum_tuning: QuorumTuning,
    /// The file it came from, if any.
    pub file: Option<PathBuf>,
    /// Settings that were given and have no field of their own, in the order in which they were given.
    pub given: Vec<Given>,
    /// Settings that are not in the table.
    pub unknown: Vec<Given>,
}

/// A configuration and its warnings.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// One line each, for the log.
    pub warnings: Vec<Warning>,
}

impl Config {
    /// Reads a zoo.cfg.
    ///
    /// # Errors
    /// The configuration is invalid; the error names the line and says what is expected. Apache's server would not
    /// start either.
    pub fn load(path: &Path, properties: &SystemProperties) -> Result<Loaded, ConfigError> {
        let files = load::Files { read: &|path| std::fs::read(path), has_directory: &Path::is_dir };
        load::from_file(path, properties, files)
    }

    /// Reads Apache's positional arguments: port, data directory, and optionally tick time and
    /// connections per address (no limit if left out).
    ///
    /// # Errors
    /// A wrong number of arguments, or one that has the wrong form.
    pub fn from_args(args: &[&str], properties: &SystemProperties) -> Result<Loaded, ConfigError> {
        load::from_args(args, properties)
    }

    /// A server without a configuration: 127.0.0.1:2181, data in ./herdsman-data.
    ///
    /// # Errors
    /// A flag that has the wrong form.
    pub fn standalone_default(properties: &SystemProperties) -> Result<Loaded, ConfigError> {
        load::standalone_default(properties)
    }
}

#[cfg(test)]
mod tests;

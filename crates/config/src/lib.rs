//! The configuration of a server: zoo.cfg, `-D` flags and positional arguments, as Apache takes them.
//!
//! In: the path of a file or the arguments, and system properties; the caller reads the environment.
//! Out: a typed [`Config`] and the warnings that the log should have, or an error that names the line.
//! Only the files of the configuration itself are read (zoo.cfg, the dynamic file, `myid`), and directories
//! are looked for where a name can be read in two ways; nothing is written, no name is resolved, and there is
//! no global state. Nothing below this crate sees any of it.
//!
//! Precedence is Apache's (`QuorumPeerConfig.parseProperties`): what it reads itself comes from the
//! file only; every other key K of the file becomes the system property `zookeeper.K`, and so the file
//! wins over `-Dzookeeper.K`. We differ in a few places: names that Apache takes
//! only as a flag without prefix (`jute.maxbuffer`) also count in the file, with a warning; values that Apache replaces
//! by a default in silence are reported; and old files are purged unless that is turned off.
//!
//! The code map: [`properties`] and [`flags`] are the syntax, [`settings`] is the table of what exists,
//! [`setting`] and `field` how a row is read, `load` goes through the files (`encoding` where Java reads
//! other names), `rules` and `ensemble` check what is more than one value's business, [`types`] and
//! [`quorum`] are the result. The members of an ensemble are `proto`'s vocabulary, because servers also
//! send them to each other. docs/compatibility.md lists the files that Apache takes otherwise.

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
pub use error::{ConfigError, Place, Warning};
pub use flags::SystemProperties;
pub use herdsman_secret::Secret;
pub use markdown::settings_markdown;
pub use quorum::{Mode, Quorum, QuorumSecurity, QuorumTuning};
pub use types::{
    Access, Admin, AdminWriters, Archive, AsWritten, ClientAuth, ClientTls, Compression,
    ConnectionThrottle, DigestAlgorithm, FourLetterWords, Given, Limits, Listen, Logging, Metrics,
    Purge, RequestThrottle, Sasl, Scrub, SessionPasswordUse, Sessions, Storage, Tls, Znodes,
};

/// Everything a server is told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// Alone or in an ensemble.
    pub mode: Mode,
    /// Client ports.
    pub listen: Listen,
    /// Files.
    pub storage: Storage,
    /// Copies of finished files.
    pub archive: Archive,
    /// Sessions and their time.
    pub sessions: Sessions,
    /// Bounds on what clients may take.
    pub limits: Limits,
    /// Holding back requests.
    pub request_throttle: RequestThrottle,
    /// Holding back connections.
    pub connection_throttle: ConnectionThrottle,
    /// Who may do what.
    pub access: Access,
    /// Logging in with SASL.
    pub sasl: Sasl,
    /// TLS for clients.
    pub tls: Tls,
    /// What only the client port's TLS has.
    pub client_tls: ClientTls,
    /// TLS between servers.
    pub quorum_tls: Tls,
    /// Kinds of znodes, and quotas.
    pub znodes: Znodes,
    /// Which four-letter words are answered.
    pub four_letter_words: FourLetterWords,
    /// Numbers as `conf` shows them.
    pub as_written: AsWritten,
    /// What is written down beside the data.
    pub logging: Logging,
    /// Whether a server without a quorum serves reads.
    pub read_only_mode: bool,
    /// The admin server.
    pub admin: Admin,
    /// Metrics on a port of their own.
    pub metrics: Metrics,
    /// Membership.
    pub quorum: Quorum,
    /// TLS and SASL between servers.
    pub quorum_security: QuorumSecurity,
    /// Times and sizes of an ensemble.
    pub quorum_tuning: QuorumTuning,
    /// The file it came from, if any.
    pub file: Option<PathBuf>,
    /// Settings that were given and have no field of their own, in the order they were given.
    pub given: Vec<Given>,
    /// Settings that the table does not know.
    pub unknown: Vec<Given>,
}

/// A configuration and what to tell the operator about it.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// One line each for the log.
    pub warnings: Vec<Warning>,
}

impl Config {
    /// Reads a zoo.cfg.
    ///
    /// # Errors
    /// Where Apache's server would refuse to start, with the line and what would be right.
    pub fn load(path: &Path, properties: &SystemProperties) -> Result<Loaded, ConfigError> {
        let files = load::Files { read: &|path| std::fs::read(path), has_directory: &Path::is_dir };
        load::from_file(path, properties, files)
    }

    /// Takes Apache's positional arguments: port, data directory, and optionally tick time and
    /// connections per address (no limit if left out).
    ///
    /// # Errors
    /// A wrong number of arguments, or one that has the wrong form.
    pub fn from_args(args: &[&str], properties: &SystemProperties) -> Result<Loaded, ConfigError> {
        load::from_args(args, properties)
    }

    /// A server without any configuration: 127.0.0.1:2181, data in ./herdsman-data.
    ///
    /// # Errors
    /// A flag that has the wrong form.
    pub fn standalone_default(properties: &SystemProperties) -> Result<Loaded, ConfigError> {
        load::standalone_default(properties)
    }
}

#[cfg(test)]
mod tests;

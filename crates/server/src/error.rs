//! Why a server does not start.

use std::io;
use std::path::PathBuf;

use herdsman_store::{DirLockError, EpochError, RecoverError, SnapshotWriteError, VotingError};

use crate::logins::LoginsError;
use crate::start::session_passwords::SessionKeyError;
use herdsman_config::ConfigError;

/// Why a server does not start. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is not one that this server can run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A directory cannot be made.
    #[error("cannot make {path}: {source}", path = path.display())]
    Directory {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another server uses the directory.
    #[error(transparent)]
    Lock(#[from] DirLockError),
    /// An epoch file cannot be read.
    #[error(transparent)]
    Epoch(#[from] EpochError),
    /// The data directory cannot be read.
    #[error(transparent)]
    Recover(#[from] Box<RecoverError>),
    /// Whether the server may vote cannot be read.
    #[error(transparent)]
    Voting(#[from] VotingError),
    /// The first snapshot cannot be written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotWriteError),
    /// A client port's host has no address.
    #[error(
        "{key}={host} has no address: {source}; correct the name, or its entry in the name service"
    )]
    NoAddress {
        /// The setting.
        key: &'static str,
        /// Its value.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// The client port cannot be opened.
    #[error("cannot listen on {endpoint}: {source}; is another server running there?")]
    Bind {
        /// The address.
        endpoint: String,
        /// What the system said.
        source: io::Error,
    },
    /// A port between servers could not be opened, and is given up.
    #[error("{0}")]
    PeerPort(String),
    /// The file of the audit log cannot be opened.
    #[error("cannot open the audit log {path}: {source} (herdsman.auditFile)", path = path.display())]
    AuditFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Keys or certificates cannot be used.
    #[error("cannot speak TLS {purpose}: {source}")]
    Tls {
        /// With whom.
        purpose: &'static str,
        /// What is wrong.
        source: herdsman_tls::TlsError,
    },
    /// Logins cannot be had as they are configured.
    #[error("cannot let anybody log in with SASL: {0}")]
    Logins(LoginsError),
    /// Passwords of sessions cannot be made as configured.
    #[error(transparent)]
    SessionKey(#[from] SessionKeyError),
    /// A thread or socket cannot be had.
    #[error("the system refuses what the server needs: {0}")]
    System(#[from] io::Error),
}

impl StartError {
    /// The process's exit code, as Apache has them.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::Config(error) => error.exit_code(),
            StartError::Directory { .. } | StartError::Lock(_) => 3,
            StartError::NoAddress { .. } | StartError::AuditFile { .. } => 2,
            StartError::Tls { .. } | StartError::Logins(_) | StartError::SessionKey(_) => 2,
            StartError::Snapshot(_) => 10,
            StartError::PeerPort(_) => 14,
            StartError::Epoch(_)
            | StartError::Recover(_)
            | StartError::Voting(_)
            | StartError::Bind { .. }
            | StartError::System(_) => 1,
        }
    }
}

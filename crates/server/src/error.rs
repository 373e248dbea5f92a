//! Errors of [`Server::start`](crate::Server::start).

use std::io;
use std::path::PathBuf;

use herdsman_store::repair::SpliceError;
use herdsman_store::{DirLockError, EpochError, RecoverError, SnapshotWriteError, VotingError};

use crate::logins::LoginsError;
use crate::start::session_passwords::SessionKeyError;
use herdsman_config::ConfigError;

/// Why a server does not start. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is invalid or not supported.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A directory cannot be created.
    #[error("cannot create {path}: {source}", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The I/O error.
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
    /// The file that says whether the server may vote cannot be read.
    #[error(transparent)]
    Voting(#[from] VotingError),
    /// The first snapshot cannot be written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotWriteError),
    /// The host of a client port does not resolve.
    #[error("{key}={host} does not resolve: {source}; correct the host name or its DNS entry")]
    NoAddress {
        /// The setting.
        key: &'static str,
        /// Its value.
        host: String,
        /// The I/O error.
        source: io::Error,
    },
    /// The client port cannot be opened.
    #[error("cannot listen on {endpoint}: {source}; is another process using the port?")]
    Bind {
        /// The address.
        endpoint: String,
        /// The I/O error.
        source: io::Error,
    },
    /// A port between servers could not be opened.
    #[error("{0}")]
    PeerPort(String),
    /// The file of the audit log cannot be opened.
    #[error("cannot open the audit log {path}: {source} (herdsman.auditFile)", path = path.display())]
    AuditFile {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// TLS keys or certificates cannot be used.
    #[error("cannot set up TLS {purpose}: {source}")]
    Tls {
        /// The connections that use them.
        purpose: &'static str,
        /// What is wrong.
        source: herdsman_tls::TlsError,
    },
    /// SASL cannot be set up as configured.
    #[error("cannot set up SASL logins: {0}")]
    Logins(LoginsError),
    /// The key of session passwords cannot be used.
    #[error(transparent)]
    SessionKey(#[from] SessionKeyError),
    /// Repaired records cannot be written.
    #[error("cannot repair the log: {0}")]
    Splice(#[from] SpliceError),
    /// The start was cancelled.
    #[error("stopped while waiting for other members to repair its files")]
    Stopped,
    /// A thread or socket cannot be created.
    #[error("I/O error at startup: {0}")]
    System(#[from] io::Error),
}

/// Why a running server cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerFailure {
    /// A port cannot be opened.
    #[error("{0}")]
    Port(String),
    /// Its files cannot be used, and the leader that was to replace them is gone. After a restart it repairs them.
    #[error(
        "no leader for {seconds} s that could replace the damaged files of this server; repairing the files again"
    )]
    LeaderGone {
        /// How long it waited.
        seconds: u64,
    },
}

impl StartError {
    /// Returns the exit code of the process, as in Apache.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::Config(error) => error.exit_code(),
            StartError::Directory { .. } | StartError::Lock(_) => 3,
            StartError::NoAddress { .. } | StartError::AuditFile { .. } => 2,
            StartError::Tls { .. } | StartError::Logins(_) | StartError::SessionKey(_) => 2,
            StartError::Snapshot(_) => 10,
            StartError::PeerPort(_) => 14,
            StartError::Stopped => 0,
            StartError::Epoch(_)
            | StartError::Recover(_)
            | StartError::Voting(_)
            | StartError::Splice(_)
            | StartError::Bind { .. }
            | StartError::System(_) => 1,
        }
    }
}

//! A configuration value with its source, and the events about its changes.

use std::fmt;
use std::sync::Arc;

use herdsman_client::{Stat, Zxid};
use tokio::sync::broadcast;
use tokio_stream::StreamExt;

use crate::events::Events;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// From the service.
    Service {
        /// Version of the node's data, the one to compare with when it is replaced.
        version: i32,
        /// The change that wrote it (`mzxid`): greater is later, even if the node was deleted and created again
        /// meanwhile.
        zxid: Zxid,
    },
    /// From the local file, which an earlier run has written.
    File,
    /// The default.
    Default,
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// Its source.
    pub source: Source,
}

impl<T> Versioned<T> {
    pub(crate) fn from_service(value: T, stat: &Stat) -> Self {
        Versioned { value, source: Source::Service { version: stat.version, zxid: stat.mzxid } }
    }

    /// Returns the version of the node's data, if the value is from the service.
    #[must_use]
    pub fn version(&self) -> Option<i32> {
        match self.source {
            Source::Service { version, .. } => Some(version),
            Source::File | Source::Default => None,
        }
    }

    /// Returns the change that wrote it, if the value is from the service.
    #[must_use]
    pub fn zxid(&self) -> Option<Zxid> {
        match self.source {
            Source::Service { zxid, .. } => Some(zxid),
            Source::File | Source::Default => None,
        }
    }
}

/// An event of a configuration. Whatever it is, the last good value stays in force.
pub enum ConfigUpdate<T> {
    /// A new good value.
    Value(Arc<Versioned<T>>),
    /// There is no node: it was deleted, or has never been created.
    Deleted,
    /// The data is not a value, or was rejected by the validation. The next good value ends this.
    Invalid {
        /// What is wrong with it.
        reason: String,
        /// Version of the node's data.
        version: i32,
        /// The change that wrote it.
        zxid: Zxid,
    },
    /// The node exists but cannot be read, for instance because of its ACL.
    Unreadable(herdsman_client::Error),
    /// The value is in force, but could not be written to the fallback file.
    FileFailed {
        /// The error of the operating system.
        reason: String,
    },
}

// Not derived: that would require `T: Clone`, and only a pointer is cloned.
impl<T> Clone for ConfigUpdate<T> {
    fn clone(&self) -> Self {
        match self {
            ConfigUpdate::Value(value) => ConfigUpdate::Value(value.clone()),
            ConfigUpdate::Deleted => ConfigUpdate::Deleted,
            ConfigUpdate::Invalid { reason, version, zxid } => {
                ConfigUpdate::Invalid { reason: reason.clone(), version: *version, zxid: *zxid }
            }
            ConfigUpdate::Unreadable(error) => ConfigUpdate::Unreadable(error.clone()),
            ConfigUpdate::FileFailed { reason } => {
                ConfigUpdate::FileFailed { reason: reason.clone() }
            }
        }
    }
}

// Not derived: values may have no `Debug`, or be secret.
impl<T> fmt::Debug for ConfigUpdate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigUpdate::Value(value) => f.debug_tuple("Value").field(&value.source).finish(),
            ConfigUpdate::Deleted => f.write_str("Deleted"),
            ConfigUpdate::Invalid { reason, version, zxid } => f
                .debug_struct("Invalid")
                .field("reason", reason)
                .field("version", version)
                .field("zxid", zxid)
                .finish(),
            ConfigUpdate::Unreadable(error) => f.debug_tuple("Unreadable").field(error).finish(),
            ConfigUpdate::FileFailed { reason } => {
                f.debug_struct("FileFailed").field("reason", reason).finish()
            }
        }
    }
}

impl<T: Send + Sync + 'static> Events<ConfigUpdate<T>> {
    pub(super) fn of_config(
        current: Option<Arc<Versioned<T>>>,
        rest: Option<broadcast::Receiver<ConfigUpdate<T>>>,
    ) -> Self {
        let first = tokio_stream::iter(current.map(ConfigUpdate::Value));
        // What was missed is superseded by what follows.
        Events::of(first.chain(Events::of_broadcast(rest, |_| None)), Some)
    }

    /// Returns the next good value and skips everything else; `None` at the end. Cancel-safe.
    pub async fn next_value(&mut self) -> Option<Arc<Versioned<T>>> {
        loop {
            if let ConfigUpdate::Value(value) = self.next().await? {
                return Some(value);
            }
        }
    }
}

//! The events that a cache sends to its subscribers.

use std::sync::Arc;

use super::snapshot::CachedNode;

/// A change of a cache. The cache's snapshot contains it already when it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEvent {
    /// A node exists that was not known before.
    Added(Arc<CachedNode>),
    /// A node has new data. Several changes in a row may be reported as one.
    Changed {
        /// What was known about it.
        before: Arc<CachedNode>,
        /// What is known now.
        now: Arc<CachedNode>,
    },
    /// A node was deleted; this is its last known state. A node that was created again at once is reported as
    /// `Removed`, then `Added`.
    Removed(Arc<CachedNode>),
    /// The cache is complete again: the first reading, or the comparison after an interruption, has finished.
    Synced,
    /// From here on to the next [`CacheEvent::Synced`] the cache may be behind: the connection is lost, or changes
    /// were missed.
    OutOfSync,
    /// A node exists that cannot be read, for instance because of its ACL. It is not in the cache, and neither are
    /// nodes below it that were not known before.
    Unreadable {
        /// The node.
        path: Arc<str>,
        /// Why not.
        error: herdsman_client::Error,
    },
    /// This subscriber was too slow and has lost events. The snapshot is right: read that.
    Lagged {
        /// How many.
        missed: u64,
    },
}

impl CacheEvent {
    /// Returns the path of the node that it is about, if it is about one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            CacheEvent::Added(node)
            | CacheEvent::Changed { now: node, .. }
            | CacheEvent::Removed(node) => Some(&node.path),
            CacheEvent::Unreadable { path, .. } => Some(path),
            CacheEvent::Synced | CacheEvent::OutOfSync | CacheEvent::Lagged { .. } => None,
        }
    }
}

//! What a cache tells its subscribers.

use std::sync::Arc;

use super::snapshot::CachedNode;

/// A change of a cache. When it is told, the cache's snapshot has it already.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEvent {
    /// A node is there that was not known before.
    Added(Arc<CachedNode>),
    /// A node has new data. Several changes in a row may be told as one.
    Changed {
        /// What was known of it.
        before: Arc<CachedNode>,
        /// What is known now.
        now: Arc<CachedNode>,
    },
    /// A node is gone; this is the last that was known of it. One that was created anew at once is
    /// told as `Removed`, then `Added`.
    Removed(Arc<CachedNode>),
    /// All is known again: the first reading, or the comparison after an interruption, is complete.
    Synced,
    /// From here on to the next [`CacheEvent::Synced`] the cache may be behind: the connection is
    /// gone, or changes were missed.
    OutOfSync,
    /// A node is there that cannot be read, for instance because of its ACL. It is not in the
    /// cache, and nothing below it that is only now discovered.
    Unreadable {
        /// The node.
        path: Arc<str>,
        /// Why not.
        error: herdsman_client::Error,
    },
    /// This subscriber was too slow, and these many events are lost to it. The snapshot is right:
    /// read that.
    Lagged {
        /// How many.
        missed: u64,
    },
}

impl CacheEvent {
    /// The path that it is about, if it is about one.
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

//! Local copies of a node, of its children or of a whole tree, which follow the service.
//!
//! | | keeps | watch |
//! |---|---|---|
//! | [`NodeCache`] | one node | persistent |
//! | [`ChildrenCache`] | the children of a node, and the node | persistent, recursive |
//! | [`TreeCache`] | a node and all below it, down to a depth, by a filter | persistent, recursive |
//!
//! In: a path. Out: snapshots to read at any time without waiting, a condition to wait for, and a stream of changes.
//! All three need servers of version 3.6 or newer, which introduced persistent watches.
//!
//! **Guarantees.** A cache follows the service with a short delay: when changes stop, it becomes equal to the
//! service. No node in it ever becomes older. Changes of one node in quick succession may be reported as one, and two
//! nodes may be from different moments. While the connection is lost, the last snapshot stays, marked as not
//! [synced](Snapshot::is_synced).
//!
//! **After an interruption** everything is compared: one small request for each node (its stat), one more for each
//! node whose children have changed, and one for each node whose data has changed. Caches wait a random part of a
//! second before that, so that they do not all send requests at once.
//!
//! **Cost.** About 250 bytes for each node besides its path and data. An event costs one read. At the start each node
//! is read once and each node with children is listed once, 64 requests at a time. A watch is one entry on the
//! server, however large the tree is; but every change in the tree is sent to every cache of it. Lists of children
//! arrive in one reply: see the client's `reply_bytes_max` for nodes with hundreds of thousands of children.
//!
//! Apache and Curator: `CuratorCache` uses the same watches, reads everything again after a reconnect, and does not
//! report when it has done so.

mod children;
mod event;
mod inbox;
mod mirror;
mod node;
mod scope;
mod snapshot;
mod state;
mod task;
mod tree;
mod walk;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use children::{ChildrenCache, ChildrenSnapshot};
pub use event::CacheEvent;
pub use node::NodeCache;
pub use snapshot::{CachedNode, Snapshot};
pub use tree::TreeCache;

pub(crate) use mirror::Mirror;

use crate::error::{Error, Result};
use scope::{PathFilter, Scope};

/// Settings of a cache. Each has a default.
///
/// ```
/// use std::time::Duration;
/// use herdsman_recipes::cache::CacheOptions;
///
/// let options = CacheOptions::default()
///     .depth(2)
///     .filter(|path| !path.ends_with("/secrets"))
///     .resync_spread(Duration::from_secs(5));
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct CacheOptions {
    depth_max: Option<usize>,
    filter: Option<PathFilter>,
    events_max: usize,
    requests_max: usize,
    resync_spread: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions {
            depth_max: None,
            filter: None,
            events_max: 1024,
            requests_max: 64,
            resync_spread: Duration::from_secs(1),
        }
    }
}

impl fmt::Debug for CacheOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheOptions")
            .field("depth_max", &self.depth_max)
            .field("is_filtered", &self.filter.is_some())
            .field("events_max", &self.events_max)
            .field("requests_max", &self.requests_max)
            .field("resync_spread", &self.resync_spread)
            .finish()
    }
}

impl CacheOptions {
    /// Keeps this many levels below the root; 0 is the root alone. Default: all. Ignored by [`NodeCache`] and
    /// [`ChildrenCache`], which set their own.
    #[must_use]
    pub fn depth(mut self, levels: usize) -> Self {
        self.depth_max = Some(levels);
        self
    }

    /// Keeps only nodes whose path is wanted, and nothing below the others. The root is always kept. The function
    /// must be quick and must always return the same for a path. Default: everything.
    #[must_use]
    pub fn filter(mut self, wanted: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(wanted));
        self
    }

    /// Sets how many events a subscriber may be behind; beyond that, [`CacheEvent::Lagged`] replaces the oldest ones.
    /// Default 1024; one queue serves all subscribers.
    #[must_use]
    pub fn events_max(mut self, events: usize) -> Self {
        self.events_max = events;
        self
    }

    /// Sets how many requests may be in flight at a time. Default 64. Replies with data use memory accordingly.
    #[must_use]
    pub fn requests_max(mut self, requests: usize) -> Self {
        self.requests_max = requests;
        self
    }

    /// Sets the time within which, at random, the comparison after an interruption begins. Default 1 s.
    #[must_use]
    pub fn resync_spread(mut self, spread: Duration) -> Self {
        self.resync_spread = spread;
        self
    }

    fn check(&self) -> Result<()> {
        if self.events_max == 0 || self.events_max > EVENTS_LIMIT {
            return Err(Error::invalid(format!("events_max must be 1 to {EVENTS_LIMIT}")));
        }
        if self.requests_max == 0 {
            return Err(Error::invalid("requests_max must be at least 1"));
        }
        if self.resync_spread > SPREAD_LIMIT {
            return Err(Error::invalid(format!("resync_spread must be at most {SPREAD_LIMIT:?}")));
        }
        Ok(())
    }

    fn scope(&self, root: Arc<str>) -> Scope {
        Scope { root, depth_max: self.depth_max, filter: self.filter.clone() }
    }
}

/// With more, the copy would be too far behind to be called a cache.
const SPREAD_LIMIT: Duration = Duration::from_secs(3600);
/// The queue is allocated at once, so a mistyped number must not take all memory.
const EVENTS_LIMIT: usize = 1 << 20;

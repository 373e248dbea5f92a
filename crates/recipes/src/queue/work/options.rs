//! Options of queues whose items are locked while they are worked on.

use herdsman_client::Client;

use crate::error::{Error, Result};
use crate::hold_options::{HoldOptions, Holder};

/// Options of a [`WorkQueue`](super::WorkQueue) and its variants. All consumers and producers of a queue should agree
/// on them.
///
/// ```
/// use herdsman_recipes::queue::WorkOptions;
///
/// let options = WorkOptions::new().capacity(1000).dead_letter("/jobs-dead", 5);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkOptions {
    pub(super) lock_path: Option<String>,
    pub(super) capacity: Option<usize>,
    pub(super) dead_letter: Option<DeadLetter>,
    pub(super) hold: HoldOptions,
}

/// The queue for items that no consumer can process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeadLetter {
    pub(super) path: String,
    pub(super) deliveries_max: u32,
}

impl WorkOptions {
    /// Creates options with locks at `<queue>-locks`, no capacity limit and no dead letter.
    #[must_use]
    pub fn new() -> Self {
        WorkOptions::default()
    }

    /// Sets the path of the locks of items: Curator's `lockPath`, which all consumers must share.
    #[must_use]
    pub fn lock_path(mut self, path: impl Into<String>) -> Self {
        self.lock_path = Some(path.into());
        self
    }

    /// Sets the maximum number of items; see [`Queue::bounded`](crate::queue::Queue::bounded). Items that are being
    /// worked on count.
    #[must_use]
    pub fn capacity(mut self, items: usize) -> Self {
        self.capacity = Some(items);
        self
    }

    /// Moves an item that was delivered `deliveries_max` times and never done, or whose bytes cannot be decoded, to
    /// the queue at `path`, which can be read as a [`WorkQueue`](super::WorkQueue). The count is stored in the item
    /// itself, after the bytes that Curator reads, and costs a write of the item for each delivery. Without this,
    /// deliveries are not limited, and bytes that cannot be decoded are discarded.
    #[must_use]
    pub fn dead_letter(mut self, path: impl Into<String>, deliveries_max: u32) -> Self {
        self.dead_letter = Some(DeadLetter { path: path.into(), deliveries_max });
        self
    }

    /// Sets when an item that is worked on counts as lost, and the ACL of all nodes of the queue.
    #[must_use]
    pub fn hold(mut self, options: HoldOptions) -> Self {
        self.hold = options;
        self
    }

    pub(in crate::queue) fn holder(&self, client: &Client) -> Holder {
        let mut holder = Holder::new(client, "").until_session_timeout();
        holder.set(&self.hold);
        holder
    }

    /// Returns the options of one shard of a queue. Its locks are separate from those of other shards, because names
    /// of items are unique only within a shard.
    pub(in crate::queue) fn for_shard(mut self, shard: &str) -> Self {
        self.lock_path = self.lock_path.map(|path| format!("{path}/{shard}"));
        self
    }

    pub(super) fn check(&self, queue: &str) -> Result<()> {
        let lock_path = self.lock_path.as_deref();
        let dead = self.dead_letter.as_ref();
        if lock_path == Some(queue) || dead.is_some_and(|dead| dead.path == queue) {
            return Err(Error::invalid(
                "locks and dead letters need paths that differ from the queue's",
            ));
        }
        if dead.is_some_and(|dead| dead.deliveries_max == 0) {
            return Err(Error::invalid("an item must be delivered at least once"));
        }
        Ok(())
    }
}

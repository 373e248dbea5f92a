//! Replies and events that clients have not read yet, over all connections.
//!
//! Each connection has its own limit, but many connections that do not read could still fill the
//! memory. So there is one budget for all; when it is exceeded, the connections with the most unread
//! bytes are closed ([`Clients::close_most_unread`](crate::clients::Clients::close_most_unread)).
//!
//! Counting costs nothing while clients read: a connection counts what is left after a write, if that has
//! changed, and an outbox counts in steps of [`STEP_BYTES`].

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that an outbox may hold without counting them.
pub(crate) const STEP_BYTES: usize = 64 << 10;

/// The budget.
#[derive(Debug)]
pub struct UnreadBytes {
    bytes_max: u64,
    bytes: AtomicU64,
}

impl UnreadBytes {
    /// Creates an empty budget with this limit.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        UnreadBytes { bytes_max, bytes: AtomicU64::new(0) }
    }

    /// Replaces a counted number of bytes with another.
    pub fn change(&self, before: u64, now: u64) {
        // Adds the difference in one addition that may wrap around.
        self.bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Returns the number of unread bytes.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns how many unread bytes exceed the budget.
    #[must_use]
    pub fn excess(&self) -> u64 {
        self.get().saturating_sub(self.bytes_max)
    }
}

//! Deadlines in buckets of one tick, as Apache keeps them: a session ends at the first multiple of
//! the tick after its client's last sign of life plus its timeout. Apache: `ExpiryQueue`.

use std::collections::{BTreeMap, BTreeSet};

use herdsman_proto::SessionId;

/// The deadlines of sessions.
#[derive(Debug)]
pub struct ExpiryQueue {
    tick_ms: u64,
    buckets: BTreeMap<u64, BTreeSet<SessionId>>,
}

impl ExpiryQueue {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(tick_ms: u64) -> Self {
        assert!(tick_ms > 0, "a tick has a length");
        ExpiryQueue { tick_ms, buckets: BTreeMap::new() }
    }

    /// Returns the bucket of a deadline: rounded up.
    #[must_use]
    pub fn bucket(&self, deadline_ms: u64) -> u64 {
        (deadline_ms / self.tick_ms + 1) * self.tick_ms
    }

    /// Moves a session from one bucket to another.
    pub fn set(&mut self, session: SessionId, before: Option<u64>, after: u64) {
        if before == Some(after) {
            return;
        }
        if let Some(before) = before {
            self.remove(session, before);
        }
        self.buckets.entry(after).or_default().insert(session);
    }

    /// Removes a session from its bucket.
    pub fn remove(&mut self, session: SessionId, bucket: u64) {
        if let Some(sessions) = self.buckets.get_mut(&bucket) {
            sessions.remove(&session);
            if sessions.is_empty() {
                self.buckets.remove(&bucket);
            }
        }
    }

    /// Forgets all deadlines.
    pub fn clear(&mut self) {
        self.buckets.clear();
    }

    /// Returns the earliest bucket.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.buckets.keys().next().copied()
    }

    /// Removes and returns a session whose deadline has passed.
    pub fn take_due(&mut self, now_ms: u64) -> Option<SessionId> {
        let mut entry = self.buckets.first_entry().filter(|entry| *entry.key() <= now_ms)?;
        let due = entry.get_mut().pop_first();
        if entry.get().is_empty() {
            entry.remove();
        }
        due
    }

    /// Iterates over the buckets with their sessions, earliest first.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, &BTreeSet<SessionId>)> {
        self.buckets.iter().map(|(&bucket, sessions)| (bucket, sessions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_at_the_next_tick_after_their_deadline() {
        let mut expiry = ExpiryQueue::new(2000);
        let session = SessionId(1);
        let first = expiry.bucket(4000);
        assert_eq!(first, 6000);
        expiry.set(session, None, first);
        expiry.set(session, Some(first), expiry.bucket(7999));
        assert_eq!(expiry.next(), Some(8000));
        assert_eq!(expiry.take_due(7999), None);
        assert_eq!(expiry.take_due(8000), Some(session));
        assert_eq!(expiry.take_due(8000), None);
        assert_eq!(expiry.next(), None);
    }
}

//! REVALIDATE requests of learners that wait until a session's end is committed.
//!
//! In: requests that a leader cannot answer yet, because the session's end is proposed and not committed: if the leader
//! has lost its quorum, the next one has the session open, and a client that was told otherwise would have given it up.
//! Out: the requests that can be answered after a txn was applied. They wait until the end is committed, or until this
//! server no longer leads, which takes at most syncLimit.
//!
//! The requests of a learner are answered in their order: an Apache follower that serves observers finds out by the
//! order who asked. So later ones wait, too, also about sessions that are open, and are decided when they are answered:
//! an answer must not be overtaken by the end of its session.
//!
//! Apache: `LearnerHandler` answers at once.

use std::collections::{BTreeMap, VecDeque};

use herdsman_proto::SessionId;
use herdsman_zab::LinkId;

/// At most this many wait, of all learners. A learner that asks one more is disconnected.
const WAITING_MAX: usize = 1 << 16;

/// Too many REVALIDATE requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRevalidations;

/// REVALIDATE requests that wait: sessions, with the timeouts that their clients requested.
#[derive(Debug, Default)]
pub struct PendingRevalidations {
    by_link: BTreeMap<LinkId, VecDeque<(SessionId, i32)>>,
}

impl PendingRevalidations {
    /// Whether one of this learner's waits.
    #[must_use]
    pub fn has_any_of(&self, link: LinkId) -> bool {
        self.by_link.contains_key(&link)
    }

    /// Appends a question of a learner.
    pub fn push(
        &mut self,
        link: LinkId,
        session: SessionId,
        timeout_ms: i32,
    ) -> Result<(), TooManyRevalidations> {
        let waiting: usize = self.by_link.values().map(VecDeque::len).sum();
        if waiting >= WAITING_MAX {
            return Err(TooManyRevalidations);
        }
        self.by_link.entry(link).or_default().push_back((session, timeout_ms));
        Ok(())
    }

    /// Returns the learners that wait.
    #[must_use]
    pub fn links(&self) -> Vec<LinkId> {
        self.by_link.keys().copied().collect()
    }

    /// Returns the next question of a learner.
    #[must_use]
    pub fn first(&self, link: LinkId) -> Option<(SessionId, i32)> {
        self.by_link.get(&link)?.front().copied()
    }

    /// Removes the next question of a learner.
    pub fn pop(&mut self, link: LinkId) {
        if let Some(waiting) = self.by_link.get_mut(&link) {
            waiting.pop_front();
            if waiting.is_empty() {
                self.by_link.remove(&link);
            }
        }
    }

    /// Forgets the revalidations of a learner whose link is closed.
    pub fn forget(&mut self, link: LinkId) {
        self.by_link.remove(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_are_refused() {
        let (mut revalidations, session) = (PendingRevalidations::default(), SessionId(1));
        for asked in 0..WAITING_MAX as u64 {
            assert_eq!(revalidations.push(LinkId(asked % 2), session, 4000), Ok(()));
        }
        assert_eq!(revalidations.push(LinkId(2), session, 4000), Err(TooManyRevalidations));
        revalidations.forget(LinkId(1));
        assert_eq!(revalidations.links(), [LinkId(0)]);
        assert_eq!(revalidations.push(LinkId(2), session, 4000), Ok(()));
        revalidations.pop(LinkId(2));
        assert!(!revalidations.has_any_of(LinkId(2)));
    }
}

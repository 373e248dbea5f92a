//! Sessions that are known to be over.
//!
//! A server that does not know a session cannot tell whether it ended, is a local session of another server, or
//! was opened while this server was disconnected. It must not treat the first one as open, nor the others
//! as ended. So each server remembers the sessions whose end it has seen.
//!
//! Their number is limited; the oldest are forgotten first. Only late writes of an ended session can arrive:
//! a server forwards none after it has applied the txn that ended the session.

use std::collections::{BTreeSet, VecDeque};

use herdsman_proto::SessionId;

/// At most this many are remembered, which takes about 3 MB.
const ENDED_MAX: usize = 100_000;

/// Sessions that are known to be over.
#[derive(Debug, Default)]
pub struct EndedSessions {
    ids: BTreeSet<SessionId>,
    /// The same, oldest first.
    in_order: VecDeque<SessionId>,
}

impl EndedSessions {
    /// Adds a session that is over.
    pub fn insert(&mut self, id: SessionId) {
        if !self.ids.insert(id) {
            return;
        }
        self.in_order.push_back(id);
        if self.in_order.len() > ENDED_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    /// Whether the session is known to be over.
    #[must_use]
    pub fn contains(&self, id: SessionId) -> bool {
        self.ids.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut ended = EndedSessions::default();
        let ids: Vec<_> = (0..=ENDED_MAX as i64).map(SessionId).collect();
        ids.iter().for_each(|id| ended.insert(*id));
        ended.insert(ids[1]);
        assert!(!ended.contains(ids[0]));
        assert!(ids[1..].iter().all(|id| ended.contains(*id)));
        assert_eq!((ended.ids.len(), ended.in_order.len()), (ENDED_MAX, ENDED_MAX));
    }
}

//! Tracks which machines have been silent for too long. Time is passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// When each machine was last heard from.
#[derive(Debug)]
pub(super) struct Silence {
    stale_after: Duration,
    /// The machines that are not stale.
    heard: BTreeMap<String, Instant>,
    stale: BTreeSet<String>,
}

impl Silence {
    pub(super) fn new(stale_after: Duration) -> Self {
        Silence { stale_after, heard: BTreeMap::new(), stale: BTreeSet::new() }
    }

    pub(super) fn heard(&mut self, id: &str, now: Instant) {
        self.stale.remove(id);
        self.heard.insert(id.to_owned(), now);
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.stale.remove(id);
        self.heard.remove(id);
    }

    /// Starts all periods again now. Machines that are stale already stay so.
    pub(super) fn start_again(&mut self, now: Instant) {
        for heard in self.heard.values_mut() {
            *heard = now;
        }
    }

    pub(super) fn is_stale(&self, id: &str) -> bool {
        self.stale.contains(id)
    }

    /// Returns when the next machine becomes stale if nothing is heard from it.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.heard.values().min().map(|heard| *heard + self.stale_after)
    }

    /// Returns a machine that is overdue, which is stale from now on.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Option<String> {
        let (id, heard) = self.heard.iter().min_by_key(|(_, heard)| **heard)?;
        if *heard + self.stale_after > now {
            return None;
        }
        let id = id.clone();
        self.heard.remove(&id);
        self.stale.insert(id.clone());
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn silence() -> (Silence, Instant) {
        (Silence::new(10 * SECOND), Instant::now())
    }

    #[test]
    fn the_longest_silent_comes_first_and_only_once() {
        let (mut silence, now) = silence();
        silence.heard("b", now);
        silence.heard("a", now + SECOND);
        assert_eq!(silence.next_deadline(), Some(now + 10 * SECOND));
        assert_eq!(silence.take_overdue(now + 9 * SECOND), None);
        let late = now + 20 * SECOND;
        assert_eq!(silence.take_overdue(late).as_deref(), Some("b"));
        assert_eq!(silence.take_overdue(late).as_deref(), Some("a"));
        assert_eq!(silence.take_overdue(late), None);
        assert_eq!(silence.next_deadline(), None);
    }

    #[test]
    fn a_sign_of_life_ends_it() {
        let (mut silence, now) = silence();
        silence.heard("a", now);
        silence.take_overdue(now + 10 * SECOND).unwrap();
        assert!(silence.is_stale("a"));
        silence.heard("a", now + 11 * SECOND);
        assert!(!silence.is_stale("a"));
        assert_eq!(silence.next_deadline(), Some(now + 21 * SECOND));
        silence.forget("a");
        assert_eq!(silence.next_deadline(), None);
    }

    #[test]
    fn an_outage_does_not_count() {
        let (mut silence, now) = silence();
        silence.heard("a", now);
        silence.start_again(now + 9 * SECOND);
        assert_eq!(silence.take_overdue(now + 15 * SECOND), None);
        assert!(silence.take_overdue(now + 19 * SECOND).is_some());
    }
}

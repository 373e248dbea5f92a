//! Tracks which machines have been silent for too long. Time is passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// When each machine was last heard from.
#[derive(Debug)]
pub(super) struct Staleness {
    stale_after: Duration,
    /// The machines that are not stale.
    last_seen: BTreeMap<String, Instant>,
    stale: BTreeSet<String>,
}

impl Staleness {
    pub(super) fn new(stale_after: Duration) -> Self {
        Staleness { stale_after, last_seen: BTreeMap::new(), stale: BTreeSet::new() }
    }

    pub(super) fn note_seen(&mut self, id: &str, now: Instant) {
        self.stale.remove(id);
        self.last_seen.insert(id.to_owned(), now);
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.stale.remove(id);
        self.last_seen.remove(id);
    }

    /// Starts all periods again now. Machines that are stale already stay so.
    pub(super) fn restart(&mut self, now: Instant) {
        for last_seen in self.last_seen.values_mut() {
            *last_seen = now;
        }
    }

    pub(super) fn is_stale(&self, id: &str) -> bool {
        self.stale.contains(id)
    }

    /// Returns the machine that becomes stale first if nothing is heard from it, and when.
    pub(super) fn next_deadline(&self) -> Option<(&str, Instant)> {
        let (id, last_seen) = self.last_seen.iter().min_by_key(|(_, last_seen)| **last_seen)?;
        Some((id, *last_seen + self.stale_after))
    }

    pub(super) fn note_stale(&mut self, id: &str) {
        self.last_seen.remove(id);
        self.stale.insert(id.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn staleness() -> (Staleness, Instant) {
        (Staleness::new(10 * SECOND), Instant::now())
    }

    #[test]
    fn the_machine_silent_for_longest_is_first_and_reported_once() {
        let (mut staleness, now) = staleness();
        staleness.note_seen("b", now);
        staleness.note_seen("a", now + SECOND);
        assert_eq!(staleness.next_deadline(), Some(("b", now + 10 * SECOND)));
        staleness.note_stale("b");
        assert_eq!(staleness.next_deadline(), Some(("a", now + 11 * SECOND)));
        staleness.note_stale("a");
        assert_eq!(staleness.next_deadline(), None);
    }

    #[test]
    fn a_report_ends_it() {
        let (mut staleness, now) = staleness();
        staleness.note_seen("a", now);
        staleness.note_stale("a");
        assert!(staleness.is_stale("a"));
        staleness.note_seen("a", now + 11 * SECOND);
        assert!(!staleness.is_stale("a"));
        assert_eq!(staleness.next_deadline(), Some(("a", now + 21 * SECOND)));
        staleness.forget("a");
        assert_eq!(staleness.next_deadline(), None);
    }

    #[test]
    fn an_outage_does_not_count() {
        let (mut staleness, now) = staleness();
        staleness.note_seen("a", now);
        staleness.restart(now + 9 * SECOND);
        assert_eq!(staleness.next_deadline(), Some(("a", now + 19 * SECOND)));
    }
}

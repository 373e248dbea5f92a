//! Keeps removed instances for a while, in case they return.
//!
//! In: snapshots as they are read, and the time. Out: snapshots as they are shown, and when to check again. When many
//! sessions expire at once because of a problem of the coordination service, most of their instances still run and
//! register again within seconds; clients of the instances need not notice.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::membership::roster::Snapshot;

/// What is shown, and until when removed entries are kept.
#[derive(Debug)]
pub(super) struct Stabiliser<T> {
    removal_delay: Duration,
    shown: Snapshot<T>,
    leaving: BTreeMap<String, Instant>,
}

impl<T> Stabiliser<T> {
    pub(super) fn new(removal_delay: Duration, shown: Snapshot<T>) -> Self {
        Stabiliser { removal_delay, shown, leaving: BTreeMap::new() }
    }

    /// Returns what to show now that the tree has `current`.
    pub(super) fn step(&mut self, current: &Snapshot<T>, now: Instant) -> Snapshot<T> {
        for name in self.shown.names().filter(|name| current.get(name).is_none()) {
            if !self.leaving.contains_key(name) {
                self.leaving.insert(name.to_owned(), now + self.removal_delay);
            }
        }
        self.leaving.retain(|name, until| current.get(name).is_none() && *until > now);
        let kept = self.leaving.keys().map(String::as_str);
        self.shown = current.with_kept(&self.shown, kept);
        self.shown.clone()
    }

    /// Returns when the next removed entry is to be dropped.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.leaving.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn snapshot(names: &str) -> Snapshot<()> {
        Snapshot::of_names(names.split_whitespace())
    }

    fn shown(stabiliser: &mut Stabiliser<()>, names: &str, now: Instant) -> String {
        stabiliser.step(&snapshot(names), now).names().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn removed_entries_are_kept_and_new_ones_shown_at_once() {
        let now = Instant::now();
        let mut stabiliser = Stabiliser::new(10 * SECOND, snapshot("a b"));
        assert_eq!(shown(&mut stabiliser, "b c", now), "a b c");
        assert_eq!(stabiliser.next_deadline(), Some(now + 10 * SECOND));
        assert_eq!(shown(&mut stabiliser, "c", now + 5 * SECOND), "a b c");
        assert_eq!(shown(&mut stabiliser, "c", now + 10 * SECOND), "b c");
        assert_eq!(shown(&mut stabiliser, "c", now + 15 * SECOND), "c");
        assert_eq!(stabiliser.next_deadline(), None);
    }

    #[test]
    fn an_entry_that_returns_stays() {
        let now = Instant::now();
        let mut stabiliser = Stabiliser::new(10 * SECOND, snapshot("a"));
        assert_eq!(shown(&mut stabiliser, "", now), "a");
        assert_eq!(shown(&mut stabiliser, "a", now + SECOND), "a");
        assert_eq!(stabiliser.next_deadline(), None);
        assert_eq!(shown(&mut stabiliser, "", now + 9 * SECOND), "a");
        assert_eq!(
            shown(&mut stabiliser, "", now + 18 * SECOND),
            "a",
            "counted from the last time"
        );
        assert_eq!(shown(&mut stabiliser, "", now + 19 * SECOND), "");
    }

    #[test]
    fn without_delay_nothing_is_kept() {
        let now = Instant::now();
        let mut stabiliser = Stabiliser::new(Duration::ZERO, snapshot("a b"));
        assert_eq!(shown(&mut stabiliser, "b", now), "b");
    }
}

//! Decides which members are alive, stale or have left.
//!
//! In: observed heartbeats, with the time of the observer's own clock, and moments up to which all of them were
//! observed. Out: the health of each member, and when to check again. Pure: time is passed in. The clocks of the
//! members and of the servers do not matter: a member is stale when the observer has seen no beat for too long.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// The health of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It beats.
    Alive,
    /// Its session lives, but it has not beaten for too long: it hangs, or is overloaded.
    Stale,
}

/// A change of a member's health.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeartbeatEvent {
    /// A new member has appeared.
    Appeared(String),
    /// It has not beaten for too long.
    Stale(String),
    /// It beats again.
    Recovered(String),
    /// Its session has ended, or it has left.
    Left(String),
}

/// The members' health at some moment.
pub(super) type Healths = BTreeMap<String, Health>;

#[derive(Debug)]
pub(super) struct HealthTable {
    stale_after: Duration,
    beats: BTreeMap<String, LastBeat>,
}

#[derive(Clone, Copy, Debug)]
struct LastBeat {
    /// When a beat was last seen.
    seen: Instant,
    /// The mtime of the node when it was last read; `None` if only events have reported it.
    mtime: Option<i64>,
    health: Health,
}

impl LastBeat {
    fn at(seen: Instant) -> Self {
        LastBeat { seen, mtime: None, health: Health::Alive }
    }
}

impl HealthTable {
    pub(super) fn new(stale_after: Duration) -> Self {
        HealthTable { stale_after, beats: BTreeMap::new() }
    }

    /// Records a beat.
    pub(super) fn beat(&mut self, id: &str, now: Instant) {
        self.beats.insert(id.to_owned(), LastBeat::at(now));
    }

    /// Records that the node was read. This is a beat if the node was written to since it was last read; if events
    /// have reported beats since then, this is not known, and it does not count as one.
    pub(super) fn read(&mut self, id: &str, mtime: i64, now: Instant) {
        let last = self.beats.entry(id.to_owned()).or_insert(LastBeat::at(now));
        if last.mtime.is_some_and(|before| before != mtime) {
            *last = LastBeat::at(now);
        }
        last.mtime = Some(mtime);
    }

    /// Notes that nothing could be observed for a while: members that are alive get a full period again.
    pub(super) fn extend_deadlines(&mut self, now: Instant) {
        for last in self.beats.values_mut().filter(|last| last.health == Health::Alive) {
            last.seen = now;
        }
    }

    /// Removes a member whose node was deleted.
    pub(super) fn remove(&mut self, id: &str) {
        self.beats.remove(id);
    }

    /// Keeps only the members that still exist.
    pub(super) fn keep_only(&mut self, mut is_there: impl FnMut(&str) -> bool) {
        self.beats.retain(|id, _| is_there(id));
    }

    /// Finds the members that are stale, knowing all beats up to this moment.
    pub(super) fn judge(&mut self, complete_until: Instant) {
        for last in self.beats.values_mut() {
            if complete_until >= last.seen + self.stale_after {
                last.health = Health::Stale;
            }
        }
    }

    pub(super) fn healths(&self) -> Healths {
        self.beats.iter().map(|(id, last)| (id.clone(), last.health)).collect()
    }

    /// Returns when the next member becomes stale if it does not beat.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let alive = self.beats.values().filter(|last| last.health == Health::Alive);
        alive.map(|last| last.seen + self.stale_after).min()
    }
}

/// Returns the changes from one moment to another.
pub(super) fn changes(before: &Healths, after: &Healths) -> Vec<HeartbeatEvent> {
    let left = before.keys().filter(|id| !after.contains_key(*id));
    let mut events: Vec<_> = left.map(|id| HeartbeatEvent::Left(id.clone())).collect();
    for (id, health) in after {
        let id = id.clone();
        match (before.get(&id), health) {
            (None, Health::Alive) => events.push(HeartbeatEvent::Appeared(id)),
            (None, Health::Stale) => {
                events.extend([HeartbeatEvent::Appeared(id.clone()), HeartbeatEvent::Stale(id)]);
            }
            (Some(Health::Alive), Health::Stale) => events.push(HeartbeatEvent::Stale(id)),
            (Some(Health::Stale), Health::Alive) => events.push(HeartbeatEvent::Recovered(id)),
            _ => {}
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(10);

    fn second(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    fn health_at(table: &mut HealthTable, now: Instant) -> Health {
        table.judge(now);
        table.healths()["a"]
    }

    #[test]
    fn a_member_that_does_not_beat_is_stale_until_the_next_beat() {
        let (mut table, start) = (HealthTable::new(AFTER), Instant::now());
        table.beat("a", start);
        assert_eq!(health_at(&mut table, second(start, 9)), Health::Alive);
        assert_eq!(table.next_deadline(), Some(second(start, 10)));
        assert_eq!(health_at(&mut table, second(start, 10)), Health::Stale);
        assert_eq!(table.next_deadline(), None);
        table.beat("a", second(start, 11));
        assert_eq!(health_at(&mut table, second(start, 12)), Health::Alive);
    }

    #[test]
    fn reading_a_node_is_a_beat_only_if_it_was_touched() {
        let (mut table, start) = (HealthTable::new(AFTER), Instant::now());
        table.read("a", 7, start);
        table.read("a", 7, second(start, 8));
        assert_eq!(health_at(&mut table, second(start, 10)), Health::Stale);
        table.read("a", 8, second(start, 11));
        assert_eq!(health_at(&mut table, second(start, 12)), Health::Alive);
    }

    #[test]
    fn time_without_observation_does_not_count() {
        let (mut table, start) = (HealthTable::new(AFTER), Instant::now());
        table.beat("a", second(start, 9));
        table.beat("b", start);
        table.judge(second(start, 10));
        table.extend_deadlines(second(start, 60));
        table.judge(second(start, 61));
        let after = table.healths();
        assert_eq!((after["a"], after["b"]), (Health::Alive, Health::Stale));
    }

    #[test]
    fn changes_lead_from_one_moment_to_the_next() {
        let before = Healths::from([
            ("a".into(), Health::Alive),
            ("b".into(), Health::Alive),
            ("c".into(), Health::Stale),
        ]);
        let after = Healths::from([
            ("b".into(), Health::Stale),
            ("c".into(), Health::Alive),
            ("d".into(), Health::Alive),
        ]);
        let expected = [
            HeartbeatEvent::Left("a".into()),
            HeartbeatEvent::Stale("b".into()),
            HeartbeatEvent::Recovered("c".into()),
            HeartbeatEvent::Appeared("d".into()),
        ];
        assert_eq!(changes(&before, &after), expected);
    }
}

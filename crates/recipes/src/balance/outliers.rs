//! Sets instances with errors aside for a while.
//!
//! In: errors and successes as callers record them, and the time. Out: the instances worth trying. The defaults are
//! those of Curator's `DownInstancePolicy`: two errors, 30 seconds. Unlike there, the 30 seconds start at the error
//! that exceeded the limit, and a success resets the count, so that a busy instance is not set aside for two errors
//! among thousands of requests.
//!
//! Invariant: never all instances are set aside. If all have errors, all are used: some errors are better than
//! certain failure, and the fault may be on this side.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::{Instance, in_service};

/// When to set an instance aside, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlierPolicy {
    /// The number of errors after which it is set aside, if they are no further apart than `set_aside_for`.
    pub errors: NonZeroU32,
    /// How long it stays set aside.
    pub set_aside_for: Duration,
}

impl Default for OutlierPolicy {
    fn default() -> Self {
        let errors = const { NonZeroU32::new(2).expect("2 is not zero") };
        Self { errors, set_aside_for: Duration::from_secs(30) }
    }
}

/// The errors of each instance, and whether it is set aside.
///
/// ```
/// # use herdsman_recipes::balance::Instance;
/// # #[derive(Debug, PartialEq)]
/// # struct Id(&'static str);
/// # impl Instance for Id { fn id(&self) -> &str { self.0 } }
/// use herdsman_recipes::balance::{OutlierPolicy, Outliers};
/// use std::time::{Duration, Instant};
///
/// let list = [Id("a"), Id("b")];
/// let now = Instant::now();
/// let mut outliers = Outliers::new(OutlierPolicy::default());
/// outliers.note_error("a", now);
/// outliers.note_error("a", now);
/// assert_eq!(outliers.usable(&list, now), [&Id("b")]);
/// assert_eq!(outliers.usable(&list, now + Duration::from_secs(30)).len(), 2);
/// ```
#[derive(Debug)]
pub struct Outliers {
    policy: OutlierPolicy,
    notes: BTreeMap<String, Note>,
}

#[derive(Debug)]
enum Note {
    /// Errors so far, the first of them at `since`.
    Counting { errors: u32, since: Instant },
    /// Too many errors: set aside since then.
    SetAside { since: Instant },
}

impl Note {
    fn since(&self) -> Instant {
        match self {
            Self::Counting { since, .. } | Self::SetAside { since } => *since,
        }
    }
}

impl Outliers {
    /// Creates a record without errors.
    #[must_use]
    pub fn new(policy: OutlierPolicy) -> Self {
        Self { policy, notes: BTreeMap::new() }
    }

    /// Records an error of an instance. Errors of an instance that is set aside change nothing: they belong to
    /// requests that were in flight before.
    pub fn note_error(&mut self, id: &str, now: Instant) {
        self.forget_old(now);
        let note =
            self.notes.entry(id.to_owned()).or_insert(Note::Counting { errors: 0, since: now });
        if let Note::Counting { errors, .. } = note {
            *errors += 1;
            if *errors >= self.policy.errors.get() {
                *note = Note::SetAside { since: now };
            }
        }
    }

    /// Forgets the errors counted so far. An instance that is set aside stays so: the success belongs to a request
    /// that was in flight before, or to one that was sent while all were set aside.
    pub fn note_success(&mut self, id: &str) {
        if matches!(self.notes.get(id), Some(Note::Counting { .. })) {
            self.notes.remove(id);
        }
    }

    /// Returns the instances that are not set aside; all of them if no instance that takes traffic would be left.
    pub fn usable<'i, I: Instance>(&mut self, instances: &'i [I], now: Instant) -> Vec<&'i I> {
        self.forget_old(now);
        let set_aside =
            |instance: &I| matches!(self.notes.get(instance.id()), Some(Note::SetAside { .. }));
        if in_service(instances).all(set_aside) {
            return instances.iter().collect();
        }
        instances.iter().filter(|instance| !set_aside(instance)).collect()
    }

    /// Removes what has expired. This also bounds the notes: each is from the last `set_aside_for`.
    fn forget_old(&mut self, now: Instant) {
        let OutlierPolicy { set_aside_for, .. } = self.policy;
        self.notes.retain(|_, note| now.saturating_duration_since(note.since()) < set_aside_for);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_instances::instances;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn usable(outliers: &mut Outliers, list: &[(&str, u32)], now: Instant) -> String {
        outliers.usable(&instances(list), now).iter().map(|instance| instance.id()).collect()
    }

    fn outliers() -> Outliers {
        Outliers::new(OutlierPolicy::default())
    }

    #[test]
    fn two_errors_set_aside_for_half_a_minute() {
        let (mut outliers, now) = (outliers(), Instant::now());
        let list = [("a", 1), ("b", 1)];
        outliers.note_error("a", now);
        assert_eq!(usable(&mut outliers, &list, now), "ab");
        outliers.note_error("a", now + 10 * SECOND);
        assert_eq!(usable(&mut outliers, &list, now + 10 * SECOND), "b");
        assert_eq!(usable(&mut outliers, &list, now + 39 * SECOND), "b");
        assert_eq!(usable(&mut outliers, &list, now + 40 * SECOND), "ab");
        outliers.note_error("a", now + 40 * SECOND);
        assert_eq!(usable(&mut outliers, &list, now + 40 * SECOND), "ab", "the count begins again");
    }

    #[test]
    fn errors_far_apart_do_not_add_up() {
        let (mut outliers, now) = (outliers(), Instant::now());
        for minute in 0..10 {
            outliers.note_error("a", now + minute * 60 * SECOND);
        }
        assert_eq!(usable(&mut outliers, &[("a", 1), ("b", 1)], now + 600 * SECOND), "ab");
    }

    #[test]
    fn if_all_are_down_all_are_used() {
        let (mut outliers, now) = (outliers(), Instant::now());
        for id in ["a", "b", "b", "a"] {
            outliers.note_error(id, now);
        }
        assert_eq!(usable(&mut outliers, &[("a", 1), ("b", 1)], now), "ab");
        assert_eq!(usable(&mut outliers, &[("a", 1), ("c", 1)], now), "c");
        assert_eq!(usable(&mut outliers, &[("a", 1), ("drained", 0)], now), "adrained");
        assert_eq!(usable(&mut outliers, &[], now), "");
    }

    #[test]
    fn a_success_clears_errors_but_does_not_end_the_time_aside() {
        let (mut outliers, now) = (outliers(), Instant::now());
        let list = [("a", 1), ("b", 1)];
        outliers.note_error("a", now);
        outliers.note_success("a");
        outliers.note_error("a", now);
        assert_eq!(usable(&mut outliers, &list, now), "ab");
        outliers.note_error("a", now);
        outliers.note_success("a");
        assert_eq!(usable(&mut outliers, &list, now), "b");
    }

    #[test]
    fn late_errors_do_not_lengthen_the_time() {
        let (mut outliers, now) = (outliers(), Instant::now());
        for second in 0..20 {
            outliers.note_error("a", now + second * SECOND);
        }
        assert_eq!(usable(&mut outliers, &[("a", 1), ("b", 1)], now + 31 * SECOND), "ab");
    }

    #[test]
    fn notes_are_forgotten_with_time() {
        let (mut outliers, now) = (outliers(), Instant::now());
        for n in 0..1000 {
            outliers.note_error(&n.to_string(), now);
        }
        outliers.note_error("last", now + 30 * SECOND);
        assert_eq!(outliers.notes.len(), 1);
    }

    #[test]
    fn an_earlier_time_does_no_harm() {
        let (mut outliers, now) = (outliers(), Instant::now());
        outliers.note_error("a", now + 10 * SECOND);
        outliers.note_error("a", now);
        assert_eq!(usable(&mut outliers, &[("a", 1), ("b", 1)], now), "b");
    }
}

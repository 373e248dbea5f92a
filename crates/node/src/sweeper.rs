//! Paces the deletion of idle containers and TTL znodes. Apache: `ContainerManager`.

use std::collections::VecDeque;

use herdsman_tree::sweep::{SweepPosition, SweepTime};
use herdsman_tree::{StepLimit, Tree};

use crate::io::Now;

/// Containers and TTL znodes that are examined in one step, and bytes of their paths.
const PER_STEP: StepLimit = StepLimit { znodes: 1000, bytes: 128 << 10 };
/// Time between two steps.
const STEP_MS: u64 = 1;

/// How often to search for idle znodes and how fast to delete them.
#[derive(Clone, Copy, Debug)]
pub struct SweepSettings {
    /// Time between two sweeps; 0 switches them off.
    pub interval_ms: u64,
    /// Maximum of deletions per minute; never more than one per millisecond.
    pub per_minute_max: u64,
    /// How long a container that never had a child is kept; `None`: forever.
    pub never_used_ms_max: Option<i64>,
}

/// The sweep in progress.
#[derive(Debug)]
pub struct Sweeper {
    settings: SweepSettings,
    /// When the sweep under way began, if one is.
    began_ms: u64,
    place: SweepPosition,
    next_look_ms: u64,
    next_delete_ms: u64,
    found: VecDeque<Box<str>>,
}

impl Sweeper {
    /// Creates a sweeper whose first sweep begins one interval after `now_ms`.
    #[must_use]
    pub fn new(settings: SweepSettings, now_ms: u64) -> Self {
        let next_look_ms = now_ms + settings.interval_ms;
        Sweeper {
            settings,
            began_ms: now_ms,
            place: SweepPosition::Start,
            next_look_ms,
            next_delete_ms: 0,
            found: VecDeque::new(),
        }
    }

    /// Returns when [`Sweeper::next`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        if self.settings.interval_ms == 0 {
            return None;
        }
        Some(if self.found.is_empty() { self.next_look_ms } else { self.next_delete_ms })
    }

    /// Returns the next znode to delete, if one is due.
    pub fn next(&mut self, tree: &Tree, now: Now) -> Option<Box<str>> {
        let deadline = self.next_deadline()?;
        if now.monotonic_ms < deadline {
            return None;
        }
        if self.found.is_empty() {
            self.look(tree, now);
        }
        if now.monotonic_ms < self.next_delete_ms {
            return None;
        }
        let found = self.found.pop_front()?;
        let pause_ms = 60_000 / self.settings.per_minute_max.max(1);
        self.next_delete_ms = now.monotonic_ms + pause_ms.max(STEP_MS);
        Some(found)
    }

    /// Examines some paths: there may be millions, and nothing else is done meanwhile.
    fn look(&mut self, tree: &Tree, now: Now) {
        if self.place == SweepPosition::Start {
            self.began_ms = now.monotonic_ms;
        }
        let never_used_ms_max = self.settings.never_used_ms_max;
        let time = SweepTime { now_ms: now.wall_ms, never_used_ms_max };
        self.found = tree.sweep_candidates(time, &mut self.place, PER_STEP).into();
        self.next_look_ms = now.monotonic_ms + STEP_MS;
        if self.place == SweepPosition::End {
            self.place = SweepPosition::Start;
            self.next_look_ms = self.next_look_ms.max(self.began_ms + self.settings.interval_ms);
        }
    }
}

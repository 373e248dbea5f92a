//! The wait-for graph across locks, and the deadlocks in it.
//!
//! In: the queues of locks as they were read, with the names of the owners that hold and wait. Out: which owner waits
//! for which, and for each deadlock a shortest cycle of waits, readable by an operator. Deliberately not here:
//! reading the queues from the tree, and breaking a deadlock.
//!
//! # Which owner waits for which
//! The locks are fair, so the predecessor rule decides: a waiting writer waits for all contenders before it, a
//! waiting reader for the last writer before it (and so for all for which that writer waits). A plain mutex is a lock
//! with writers only. Semaphores do not belong here: their waiters need *any* of the holders to release its permit,
//! so a cycle would prove nothing.
//!
//! # What a deadlock is
//! A set of owners each of which waits, directly or not, for all others of the set (a strongly connected component).
//! One shortest cycle is reported for each set, and not every cycle: there can be exponentially many, and whichever
//! victim breaks the set, the operator has to check again. The others of the set are listed as stuck; they continue
//! when the cycle is broken, unless there is a second one behind it.
//!
//! # Reliability
//! An owner must be something that blocks as a whole: a task, or a thread. If an owner's name stands for a process
//! with many threads, a cycle is only a suspicion. The same is true if the queues were not read at one moment: read
//! them again, and keep only what is still there.

mod search;

use std::fmt;
use std::ops::RangeInclusive;

/// A lock with its queue.
///
/// ```
/// use herdsman_recipes::wait_for::{LockKind, LockQueue, WaitForGraph};
///
/// let locks = [
///     LockQueue::new("/locks/x", [("b", LockKind::Write), ("a", LockKind::Write)]),
///     LockQueue::new("/locks/y", [("a", LockKind::Write), ("b", LockKind::Write)]),
/// ];
/// let deadlocks = WaitForGraph::new(&locks).deadlocks();
/// assert_eq!(
///     deadlocks[0].to_string(),
///     "a waits for /locks/x held by b; b waits for /locks/y held by a",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockQueue {
    /// The path of the lock.
    pub path: String,
    /// All contenders that hold it or wait for it, in the order of their sequence numbers.
    pub contenders: Vec<Contender>,
}

/// One entry in a lock's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The name of its owner.
    pub owner: String,
    /// Whether it wants to read or to write.
    pub kind: LockKind,
    /// Whether it holds the lock.
    pub state: ContenderState,
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Shared with other readers.
    Read,
    /// Exclusive. Every contender of a plain mutex is of this kind.
    Write,
}

/// Whether a contender holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContenderState {
    /// It holds the lock.
    Holds,
    /// It waits for the lock.
    Waits,
}

impl LockQueue {
    /// Creates a lock whose holders follow from the order alone: a reader with no writer before it holds the lock,
    /// and so does a writer with no contender before it.
    ///
    /// For a lock with other rules (a writer of a re-entrant lock may read as well), set [`Contender::state`] to what
    /// was read.
    #[must_use]
    pub fn new<O: Into<String>>(
        path: impl Into<String>,
        queue: impl IntoIterator<Item = (O, LockKind)>,
    ) -> Self {
        let mut contenders: Vec<Contender> = Vec::new();
        let mut writer_before = false;
        for (owner, kind) in queue {
            let holds = match kind {
                LockKind::Read => !writer_before,
                LockKind::Write => contenders.is_empty(),
            };
            writer_before |= kind == LockKind::Write;
            let state = if holds { ContenderState::Holds } else { ContenderState::Waits };
            contenders.push(Contender { owner: owner.into(), kind, state });
        }
        Self { path: path.into(), contenders }
    }

    /// Returns, for each place, the places that directly block a waiter there; nothing for holders. A waiting writer
    /// is blocked by the writer right before it, or by all readers since the writer before them; a waiting reader by
    /// the last writer before it.
    #[must_use]
    pub fn blockers(&self) -> Vec<Option<RangeInclusive<usize>>> {
        let blocked = self.blocked_up_to().into_iter();
        blocked.map(|last| last.map(|last| self.direct_blockers(last))).collect()
    }

    /// Returns, for each place, the last place whose contender must leave before the one here gets the lock; all
    /// before that place must leave too. `None` for a contender that waits for no other.
    fn blocked_up_to(&self) -> Vec<Option<usize>> {
        let mut last_writer = None;
        let places = self.contenders.iter().enumerate();
        let blocked = places.map(|(place, contender)| {
            let last_before = match contender.kind {
                LockKind::Read => last_writer,
                LockKind::Write => {
                    last_writer = Some(place);
                    place.checked_sub(1)
                }
            };
            last_before.filter(|_| contender.state == ContenderState::Waits)
        });
        blocked.collect()
    }

    /// Returns the places that directly block a waiter that is blocked up to `last`: the writer there, or all readers
    /// since the writer before them.
    fn direct_blockers(&self, last: usize) -> RangeInclusive<usize> {
        let is_write = |contender: &Contender| contender.kind == LockKind::Write;
        if is_write(&self.contenders[last]) {
            return last..=last;
        }
        let writer_before = self.contenders[..last].iter().rposition(is_write);
        writer_before.map_or(0, |writer| writer + 1)..=last
    }

    /// Returns which owner waits directly for which in this queue.
    fn waits(&self) -> impl Iterator<Item = Wait> {
        let blocked = self.blocked_up_to().into_iter().enumerate();
        blocked.filter_map(|(place, last)| Some((place, last?))).flat_map(move |(place, last)| {
            self.direct_blockers(last).map(move |blocker| self.wait(place, blocker))
        })
    }

    /// Returns the wait of one place in the queue for another.
    fn wait(&self, place: usize, blocker: usize) -> Wait {
        let blocker = &self.contenders[blocker];
        Wait {
            waiter: self.contenders[place].owner.clone(),
            path: self.path.clone(),
            blocker: blocker.owner.clone(),
            obstacle: match blocker.state {
                ContenderState::Holds => Obstacle::Holder,
                ContenderState::Waits => Obstacle::Queued,
            },
        }
    }
}

/// A wait of one owner for another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// The owner that waits.
    pub waiter: String,
    /// The lock that it waits for.
    pub path: String,
    /// The owner that blocks it.
    pub blocker: String,
    /// How it blocks it.
    pub obstacle: Obstacle,
}

/// How a contender blocks another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// It holds the lock.
    Holder,
    /// It also waits, but is before the other in the queue.
    Queued,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiter, path, blocker, obstacle } = self;
        match obstacle {
            Obstacle::Holder if waiter == blocker => {
                write!(f, "{waiter} waits for {path} held by itself")
            }
            Obstacle::Holder => write!(f, "{waiter} waits for {path} held by {blocker}"),
            Obstacle::Queued => write!(f, "{waiter} waits for {path} behind {blocker}"),
        }
    }
}

/// Owners of which none can continue. Displayed as the cycle of waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// A shortest cycle: each blocker is the next waiter, and the last one's is the first. It begins with the first
    /// owner by name. An owner that is between two of them in a queue without being part of the problem is not in it.
    pub cycle: Vec<Wait>,
    /// The other owners that wait for this cycle and for which it waits, in order.
    pub stuck: Vec<String>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, wait) in self.cycle.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{wait}")?;
        }
        match self.stuck.as_slice() {
            [] => Ok(()),
            [one] => write!(f, " (also stuck: {one})"),
            many => write!(f, " (also stuck: {} others)", many.len()),
        }
    }
}

/// The wait-for graph of a set of locks.
#[derive(Debug)]
pub struct WaitForGraph<'l> {
    locks: &'l [LockQueue],
}

impl<'l> WaitForGraph<'l> {
    /// Creates the graph of these locks. Owners of the same name are the same owner in all of them.
    #[must_use]
    pub fn new(locks: &'l [LockQueue]) -> Self {
        Self { locks }
    }

    /// Returns which owner waits directly for which, in order of names. Waits of an owner for itself count too.
    #[must_use]
    pub fn edges(&self) -> Vec<Wait> {
        let mut edges: Vec<Wait> = self.locks.iter().flat_map(LockQueue::waits).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// Returns all deadlocks, in the order of their first owners. The same locks give the same result, in whatever
    /// order they are listed.
    #[must_use]
    pub fn deadlocks(&self) -> Vec<Deadlock> {
        search::deadlocks(self.locks)
    }
}

#[cfg(test)]
mod tests;

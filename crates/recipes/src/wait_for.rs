//! The wait-for graph across locks, and the deadlocks in it.
//!
//! In: the queues of locks as someone saw them, with the names of those who hold and wait. Out:
//! who waits for whom, and for each deadlock a shortest circle of waits, ready to be read by an
//! operator. Deliberately not here: reading the queues from the tree, and breaking a deadlock.
//!
//! # Who waits for whom
//! The locks are fair, so the predecessor rule decides: a waiting writer waits for all before
//! it, a waiting reader for the last writer before it (and so for all whom that writer waits
//! for). A plain mutex is a lock with writers only. Semaphores do not belong here: their waiters
//! need *any* of the holders to let go, so a circle would prove nothing.
//!
//! # What a deadlock is
//! A set of owners each of whom waits, directly or not, for all others of the set (a strongly
//! connected component). One shortest circle is given for each set, and not every circle: there can
//! be exponentially many, and whichever victim breaks the set, the operator has to look again.
//! The others of the set are listed as stuck; they go on when the circle is broken, unless there
//! is a second one behind it.
//!
//! # How far to trust it
//! An owner must be something that blocks as a whole: a task, or a thread. If an owner's name
//! stands for a process with many threads, a circle is a suspicion. So it is if the queues were
//! not read at one moment: read them again, and believe what is still there.

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
    /// Where the lock is in the tree.
    pub path: String,
    /// All who hold it or wait for it, in the order of their sequence numbers.
    pub contenders: Vec<Contender>,
}

/// One entry in a lock's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Who it is.
    pub owner: String,
    /// What it wants to do.
    pub kind: LockKind,
    /// Whether it has what it wants.
    pub standing: Standing,
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Together with other readers.
    Read,
    /// Alone. Every contender of a plain mutex is of this kind.
    Write,
}

/// Whether a contender has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has.
    Holds,
    /// It has not.
    Waits,
}

impl LockQueue {
    /// A lock whose holders follow from the order alone: a reader with no writer before it holds
    /// the lock, and so does a writer with nobody before it.
    ///
    /// Where a lock has other rules (a writer of a re-entrant lock may read as well), set
    /// [`Contender::standing`] to what was seen.
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
            let standing = if holds { Standing::Holds } else { Standing::Waits };
            contenders.push(Contender { owner: owner.into(), kind, standing });
        }
        Self { path: path.into(), contenders }
    }

    /// For each place, the places that directly block whoever waits there; nothing for holders. A
    /// waiting writer is blocked by the writer right before it, or by all readers since the writer
    /// before them; a waiting reader by the last writer before it.
    #[must_use]
    pub fn blockers(&self) -> Vec<Option<RangeInclusive<usize>>> {
        let blocked = self.blocked_up_to().into_iter();
        blocked.map(|last| last.map(|last| self.direct_blockers(last))).collect()
    }

    /// For each place, the last place whose contender must be gone before the one here gets the
    /// lock; all before that place must be gone too. `None` for whoever waits for nobody.
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
            last_before.filter(|_| contender.standing == Standing::Waits)
        });
        blocked.collect()
    }

    /// The places that directly block whoever is blocked up to `last`: the writer there, or all
    /// readers since the writer before them.
    fn direct_blockers(&self, last: usize) -> RangeInclusive<usize> {
        let is_write = |contender: &Contender| contender.kind == LockKind::Write;
        if is_write(&self.contenders[last]) {
            return last..=last;
        }
        let writer_before = self.contenders[..last].iter().rposition(is_write);
        writer_before.map_or(0, |writer| writer + 1)..=last
    }

    /// Who waits directly for whom in this queue.
    fn waits(&self) -> impl Iterator<Item = Wait> {
        let blocked = self.blocked_up_to().into_iter().enumerate();
        blocked.filter_map(|(place, last)| Some((place, last?))).flat_map(move |(place, last)| {
            self.direct_blockers(last).map(move |blocker| self.wait(place, blocker))
        })
    }

    /// The wait of one place in the queue for another.
    fn wait(&self, place: usize, blocker: usize) -> Wait {
        let blocker = &self.contenders[blocker];
        Wait {
            waiter: self.contenders[place].owner.clone(),
            path: self.path.clone(),
            blocker: blocker.owner.clone(),
            obstacle: match blocker.standing {
                Standing::Holds => Obstacle::Holder,
                Standing::Waits => Obstacle::Queued,
            },
        }
    }
}

/// That one owner waits for another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// Who waits.
    pub waiter: String,
    /// For which lock.
    pub path: String,
    /// Who is in the way.
    pub blocker: String,
    /// How it is in the way.
    pub obstacle: Obstacle,
}

/// How a contender is in the way of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// It holds the lock.
    Holder,
    /// It waits too, but it is first.
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

/// Owners none of whom can go on. Displayed as the circle of waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// A shortest circle: each blocker is the next waiter, the last one's is the first. It begins
    /// with the first owner by name. Whoever stands between two of them in a queue without being
    /// part of the problem is not in it.
    pub circle: Vec<Wait>,
    /// The other owners who wait for this circle and for whom it waits, in order.
    pub stuck: Vec<String>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, wait) in self.circle.iter().enumerate() {
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
    /// The graph of these locks. Owners of the same name are the same owner in all of them.
    #[must_use]
    pub fn new(locks: &'l [LockQueue]) -> Self {
        Self { locks }
    }

    /// Who waits directly for whom, in order of names. Two of one owner in a queue count too.
    #[must_use]
    pub fn edges(&self) -> Vec<Wait> {
        let mut edges: Vec<Wait> = self.locks.iter().flat_map(LockQueue::waits).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// All deadlocks, in the order of their first owners. The same locks give the same answer,
    /// in whatever order they were listed.
    #[must_use]
    pub fn deadlocks(&self) -> Vec<Deadlock> {
        search::deadlocks(self.locks)
    }
}

#[cfg(test)]
mod tests;

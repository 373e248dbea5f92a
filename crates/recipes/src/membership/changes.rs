//! Changes of a roster as a stream.
//!
//! A stream remembers the snapshot that its reader has seen and compares it with the newest. So
//! there is no queue that could overflow: a slow reader gets fewer changes, which lead to the same end.

use std::sync::Arc;

use tokio::sync::watch;

use super::roster::{Roster, Snapshot};
use crate::events::Events;

/// Somebody came, went or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// Came.
    Joined(Arc<T>),
    /// Is another than before, for example with other data.
    Changed(Arc<T>),
    /// Went. As it was last seen.
    Left(Arc<T>),
}

/// How the roster changes from now on.
pub(crate) fn changes<T: Send + Sync + 'static>(roster: &Roster<T>) -> Events<Change<T>> {
    let mut snapshots = roster.subscribe();
    let seen = snapshots.borrow_and_update().clone();
    differences(snapshots, seen)
}

/// The same, but those who are there already are reported as if they came now.
pub(crate) fn changes_from_nothing<T: Send + Sync + 'static>(
    roster: &Roster<T>,
) -> Events<Change<T>> {
    differences(roster.subscribe(), Snapshot::empty())
}

fn differences<T: Send + Sync + 'static>(
    snapshots: watch::Receiver<Snapshot<T>>,
    seen: Snapshot<T>,
) -> Events<Change<T>> {
    let changes = |before: &Snapshot<T>, now: &Snapshot<T>| before.changes_to(now).collect();
    Events::of_differences::<_, Vec<_>>(snapshots, seen, changes)
}

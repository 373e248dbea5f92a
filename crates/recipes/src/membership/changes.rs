//! Changes of a roster as a stream.
//!
//! A stream stores the snapshot that its reader has seen and compares it with the newest. So there is no queue that
//! could overflow: a slow reader gets fewer changes, which lead to the same final state.

use std::sync::Arc;

use tokio::sync::watch;

use super::roster::{Roster, Snapshot};
use crate::events::Events;

/// A member joined, left or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// It joined.
    Joined(Arc<T>),
    /// It has changed, for example its data.
    Changed(Arc<T>),
    /// It left. This is its last known state.
    Left(Arc<T>),
}

/// Returns the changes of the roster from now on.
pub(crate) fn changes<T: Send + Sync + 'static>(roster: &Roster<T>) -> Events<Change<T>> {
    let mut snapshots = roster.subscribe();
    let seen = snapshots.borrow_and_update().clone();
    differences(snapshots, seen)
}

/// Does the same, but first reports the existing members as joined.
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

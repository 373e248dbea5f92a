//! The state of a cache, to which the maintenance task publishes what it finds.
//!
//! Invariants: a snapshot and the events that lead to it change together, so that a subscriber who takes both at once
//! misses nothing and sees nothing twice. No node ever becomes older.

use std::sync::Arc;

use herdsman_client::Zxid;
use tokio::sync::{broadcast, watch};

use super::event::CacheEvent;
use super::snapshot::{CachedNode, Nodes, Snapshot, descendants};

/// A finding of the maintenance task.
#[derive(Debug)]
pub(super) enum Change {
    /// A node was read, or only its stat, which has changed while its data has not.
    Put(CachedNode),
    /// The node, and so what was below it, does not exist.
    Removed(Arc<str>),
    /// The node was deleted by this txn. A node that was created later is another one.
    Deleted(Arc<str>, Zxid),
    /// The node exists, but the client has no permission to read it.
    Unreadable(Arc<str>, herdsman_client::Error),
}

/// The writing side of a cache.
#[derive(Debug)]
pub(super) struct CacheState {
    snapshots: watch::Sender<Snapshot>,
    events: broadcast::Sender<CacheEvent>,
}

impl CacheState {
    pub(super) fn new(events_max: usize) -> Self {
        CacheState {
            snapshots: watch::Sender::new(Snapshot::empty()),
            events: broadcast::Sender::new(events_max),
        }
    }

    pub(super) fn readers(&self) -> (watch::Receiver<Snapshot>, broadcast::WeakSender<CacheEvent>) {
        (self.snapshots.subscribe(), self.events.downgrade())
    }

    pub(super) fn with_snapshot<T>(&self, read: impl FnOnce(&Snapshot) -> T) -> T {
        read(&self.snapshots.borrow())
    }

    /// Changes the snapshot once for all of these changes.
    pub(super) fn apply(&self, changes: &mut Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        self.snapshots.send_modify(|snapshot| {
            for change in changes.drain(..) {
                self.note_readable(snapshot, &change);
                self.apply_one(Arc::make_mut(&mut snapshot.nodes), change);
            }
        });
    }

    pub(super) fn set_synced(&self) {
        self.set_sync(true, CacheEvent::Synced);
    }

    pub(super) fn set_out_of_sync(&self) {
        self.set_sync(false, CacheEvent::OutOfSync);
    }

    fn set_sync(&self, is_synced: bool, event: CacheEvent) {
        self.snapshots.send_if_modified(|snapshot| {
            let changes = snapshot.is_synced != is_synced;
            if changes {
                snapshot.is_synced = is_synced;
                self.send(event);
            }
            changes
        });
    }

    fn note_readable(&self, snapshot: &mut Snapshot, change: &Change) {
        match change {
            Change::Unreadable(path, error) => {
                Arc::make_mut(&mut snapshot.unreadable).insert(path.clone(), error.clone());
            }
            Change::Put(CachedNode { path, .. })
            | Change::Removed(path)
            | Change::Deleted(path, _) => {
                if snapshot.unreadable.contains_key(path) {
                    Arc::make_mut(&mut snapshot.unreadable).remove(path);
                }
            }
        }
    }

    fn apply_one(&self, nodes: &mut Nodes, change: Change) {
        match change {
            Change::Put(node) => self.put(nodes, node),
            Change::Removed(path) => self.remove(nodes, &path, Zxid(i64::MAX)),
            Change::Deleted(path, by) => self.remove(nodes, &path, by),
            Change::Unreadable(path, error) => {
                self.remove(nodes, &path, Zxid(i64::MAX));
                self.send(CacheEvent::Unreadable { path, error });
            }
        }
    }

    fn put(&self, nodes: &mut Nodes, node: CachedNode) {
        let now = Arc::new(node);
        let Some(before) = nodes.get(&now.path).cloned() else {
            nodes.insert(now.path.clone(), now.clone());
            return self.send(CacheEvent::Added(now));
        };
        // A reply of a server that is behind must not make a node older.
        if before.stat.mzxid > now.stat.mzxid {
            return;
        }
        nodes.insert(now.path.clone(), now.clone());
        if before.stat.czxid != now.stat.czxid {
            self.send(CacheEvent::Removed(before));
            self.send(CacheEvent::Added(now));
        } else if before.stat.mzxid != now.stat.mzxid {
            self.send(CacheEvent::Changed { before, now });
        }
    }

    /// Removes children first, since they must have been deleted before their parent.
    fn remove(&self, nodes: &mut Nodes, path: &str, by: Zxid) {
        let mut removed: Vec<_> = nodes.get(path).into_iter().cloned().collect();
        removed.extend(descendants(nodes, path).cloned());
        for node in removed.into_iter().rev().filter(|node| node.stat.czxid < by) {
            nodes.remove(&node.path);
            self.send(CacheEvent::Removed(node));
        }
    }

    fn send(&self, event: CacheEvent) {
        // No subscribers is not an error.
        let _ = self.events.send(event);
    }
}

#[cfg(test)]
mod tests {
    use herdsman_client::Stat;

    use super::*;

    fn node(path: &str, czxid: i64, mzxid: i64) -> CachedNode {
        let stat = Stat { czxid: Zxid(czxid), mzxid: Zxid(mzxid), ..Stat::default() };
        CachedNode::new(path.into(), mzxid.to_string().as_bytes(), stat)
    }

    fn events_of(state: &CacheState, changes: Vec<Change>) -> Vec<String> {
        let mut events = state.events.subscribe();
        state.apply(&mut { changes });
        let event = std::iter::from_fn(|| events.try_recv().ok());
        event
            .map(|event| match event {
                CacheEvent::Added(node) => format!("+{}", node.path),
                CacheEvent::Changed { before, now } => {
                    format!("{} {:?}->{:?}", now.path, before.data, now.data)
                }
                CacheEvent::Removed(node) => format!("-{}", node.path),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn an_older_read_changes_nothing() {
        let state = CacheState::new(16);
        assert_eq!(events_of(&state, vec![Change::Put(node("/a", 1, 5))]), ["+/a"]);
        assert!(events_of(&state, vec![Change::Put(node("/a", 1, 4))]).is_empty());
        assert!(events_of(&state, vec![Change::Put(node("/a", 1, 5))]).is_empty());
        assert_eq!(events_of(&state, vec![Change::Put(node("/a", 1, 6))]), ["/a b\"5\"->b\"6\""]);
    }

    #[test]
    fn a_node_created_again_is_reported_as_two_events() {
        let state = CacheState::new(16);
        events_of(&state, vec![Change::Put(node("/a", 1, 1))]);
        assert_eq!(events_of(&state, vec![Change::Put(node("/a", 3, 3))]), ["-/a", "+/a"]);
    }

    #[test]
    fn a_late_deletion_spares_a_newer_node() {
        let state = CacheState::new(16);
        events_of(&state, vec![Change::Put(node("/a", 9, 9)), Change::Put(node("/a/b", 4, 4))]);
        assert_eq!(events_of(&state, vec![Change::Deleted("/a".into(), Zxid(8))]), ["-/a/b"]);
        assert_eq!(events_of(&state, vec![Change::Deleted("/a".into(), Zxid(10))]), ["-/a"]);
    }

    #[test]
    fn children_are_removed_before_their_parent() {
        let state = CacheState::new(16);
        let paths = ["/a", "/a/b", "/a/b/c", "/ab"];
        events_of(&state, paths.map(|path| Change::Put(node(path, 1, 1))).into());
        assert_eq!(
            events_of(&state, vec![Change::Removed("/a".into())]),
            ["-/a/b/c", "-/a/b", "-/a"]
        );
    }

    #[test]
    fn a_snapshot_that_is_kept_does_not_change() {
        let state = CacheState::new(16);
        events_of(&state, vec![Change::Put(node("/a", 1, 1))]);
        let kept = state.snapshots.borrow().clone();
        events_of(&state, vec![Change::Removed("/a".into())]);
        assert_eq!((kept.len(), state.with_snapshot(Snapshot::len)), (1, 0));
    }
}

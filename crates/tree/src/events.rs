//! The events of a txn, with their watchers.
//!
//! In: changes of paths, and the watch tables. Out: the events of a txn with their watchers, in order.
//!
//! Limit: [`NOTIFICATIONS_MAX`]. A multi of 1 MB can change one znode 45,000 times, and each change notifies all
//! persistent watchers of it. Beyond the limit, watchers lose events: they are listed, and their connections must be
//! closed, so that they notice. From then on each list of watchers is read at most once, so the cost of a txn is
//! bounded by the limit and the number of watches.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use herdsman_proto::{EventType, Zxid};

use crate::acl_list::AclList;
use crate::watches::{TableKind, Watcher, Watches};

/// Once a txn has this many notifications (one for each watcher of each event), its further events are dropped. The
/// event that reaches the limit is sent to all of its watchers.
pub const NOTIFICATIONS_MAX: usize = 1 << 20;

/// A change of a watched path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventType,
    /// The path.
    pub path: Box<str>,
    /// The txn of the change.
    pub zxid: Zxid,
    /// The ACL of the changed znode: only clients that may read it get the event.
    pub acl: Arc<AclList>,
    /// The watchers, in order.
    pub watchers: Vec<Watcher>,
}

/// The events of a txn, in order.
#[derive(Debug)]
pub struct Events {
    list: Vec<Event>,
    notifications: usize,
    notifications_max: usize,
    lost: LostEvents,
}

impl Default for Events {
    fn default() -> Self {
        Events::with_limit(NOTIFICATIONS_MAX)
    }
}

impl Events {
    /// Creates an empty list with the limit [`NOTIFICATIONS_MAX`].
    #[must_use]
    pub fn new() -> Self {
        Events::default()
    }

    /// Creates an empty list with another limit.
    #[must_use]
    pub fn with_limit(notifications_max: usize) -> Self {
        let lost = LostEvents::default();
        Events { list: Vec::new(), notifications: 0, notifications_max, lost }
    }

    /// Returns the events, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Event> {
        self.list.iter()
    }

    /// Returns the watchers that lost events, in order: there were too many.
    pub fn watchers_with_lost_events(&self) -> impl Iterator<Item = Watcher> {
        self.lost.watchers.iter().copied()
    }

    /// Removes everything, for the next txn.
    pub fn clear(&mut self) {
        self.list.clear();
        self.list.shrink_to(1024);
        self.notifications = 0;
        if !self.lost.watchers.is_empty() {
            self.lost = LostEvents::default();
        }
    }

    /// Fires the watches of a path in one table, or in two: then those watchers of the second one follow that are not
    /// in the first one.
    pub(crate) fn notify(
        &mut self,
        watches: &mut Watches,
        tables: (TableKind, Option<TableKind>),
        change: Change<'_>,
    ) {
        if self.notifications >= self.notifications_max {
            let tables = [Some(tables.0), tables.1].into_iter().flatten();
            return tables
                .for_each(|table| watches.note_lost_events(table, change.path, &mut self.lost));
        }
        let Change { kind, path, zxid, acl } = change;
        let mut watchers = watches.trigger(tables.0, path);
        if let Some(second) = tables.1 {
            let first = watchers.len();
            for watcher in watches.trigger(second, path) {
                if watchers[..first].binary_search(&watcher).is_err() {
                    watchers.push(watcher);
                }
            }
        }
        if !watchers.is_empty() {
            self.notifications += watchers.len();
            let acl = Arc::clone(acl);
            self.list.push(Event { kind, path: path.into(), zxid, acl, watchers });
        }
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Event;
    type IntoIter = std::slice::Iter<'a, Event>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A change that may notify watchers.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) kind: EventType,
    pub(crate) path: &'a str,
    pub(crate) zxid: Zxid,
    pub(crate) acl: &'a Arc<AclList>,
}

/// The watchers that lost events of a txn.
#[derive(Debug)]
pub(crate) struct LostEvents {
    watchers: BTreeSet<Watcher>,
    /// The lists of watchers that were added: of which table and path, and whether only recursive watches counted.
    added: HashSet<(TableKind, Arc<str>, bool), FixedState>,
}

impl Default for LostEvents {
    fn default() -> Self {
        let added = HashSet::with_hasher(FixedState::default());
        LostEvents { watchers: BTreeSet::new(), added }
    }
}

impl LostEvents {
    /// Adds a list of watchers, unless it was added before.
    pub(crate) fn add(
        &mut self,
        list: (TableKind, &Arc<str>, bool),
        watchers: impl Iterator<Item = Watcher>,
    ) {
        let (table, path, is_recursive) = list;
        if self.added.insert((table, Arc::clone(path), is_recursive)) {
            self.watchers.extend(watchers);
        }
    }
}

//! The watches of clients. Two tables, data and child, each from path to watchers.
//! Apache: `WatchManager`, `WatchStats`.
//!
//! A watcher is a connection. A standard watch is removed by its event, persistent ones stay, a
//! recursive one (data table only) also gets events of every descendant. Watchers are notified in order, so events
//! leave in the same order in every run. The cost of setting, triggering and removing a watch does not depend on the
//! number of watchers of the path.
//!
//! Limit: the number of watches of a watcher, if it is set; one more is refused with
//! [`ErrorCode::QuotaExceeded`]. Apache has no such limit and no code for it. This one describes the
//! problem, is known to the Java client since 3.7 and to kazoo since 2.10, and clients do not retry because of
//! it, as clients may with `ThrottledOp`.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Bound;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use herdsman_proto::ErrorCode;
use herdsman_proto::request::WatcherType;

use crate::events::LostEvents;
use crate::recursive_watches::RecursiveWatches;
use crate::walk::StepLimit;

/// A connection in the watch tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watcher(pub u64);

/// How long a watch lasts and which znodes it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// Removed by its first event.
    Standard,
    /// Stays after events.
    Persistent,
    /// Stays after events, and covers descendants.
    PersistentRecursive,
}

/// One of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Set by getData and exists.
    Data,
    /// Set by getChildren.
    Child,
}

/// The modes in which one watcher watches one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Modes(u8);

impl Modes {
    fn bit(mode: WatchMode) -> u8 {
        1 << mode as u8
    }

    fn contains(self, mode: WatchMode) -> bool {
        self.0 & Self::bit(mode) != 0
    }

    fn with(self, mode: WatchMode) -> Self {
        Modes(self.0 | Self::bit(mode))
    }

    fn without(self, mode: WatchMode) -> Self {
        Modes(self.0 & !Self::bit(mode))
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The watchers of one path. Most paths have one; a path may have a hundred thousand, which are added and
/// removed one by one.
#[derive(Debug)]
enum Watchers {
    One(Watcher, Modes),
    Many(BTreeMap<Watcher, Modes>),
}

impl Watchers {
    fn modes(&self, watcher: Watcher) -> Modes {
        match self {
            Watchers::One(one, modes) if *one == watcher => *modes,
            Watchers::One(..) => Modes::default(),
            Watchers::Many(many) => many.get(&watcher).copied().unwrap_or_default(),
        }
    }

    fn set(&mut self, watcher: Watcher, modes: Modes) {
        match self {
            Watchers::One(one, old) if *one == watcher => *old = modes,
            Watchers::One(one, old) => {
                *self = Watchers::Many(BTreeMap::from([(*one, *old), (watcher, modes)]));
            }
            Watchers::Many(many) => _ = many.insert(watcher, modes),
        }
    }

    /// Removes a watcher of several. True if none is left, or if this is the only one.
    fn remove_or_is_last(&mut self, watcher: Watcher) -> bool {
        match self {
            Watchers::One(one, _) => *one == watcher,
            Watchers::Many(many) => {
                many.remove(&watcher);
                many.is_empty()
            }
        }
    }

    /// In order.
    fn iter(&self) -> impl Iterator<Item = (Watcher, Modes)> {
        let (one, many) = match self {
            Watchers::One(watcher, modes) => (Some((*watcher, *modes)), None),
            Watchers::Many(many) => (None, Some(many)),
        };
        let many = many.into_iter().flatten();
        one.into_iter().chain(many.map(|(watcher, modes)| (*watcher, *modes)))
    }
}

#[derive(Debug)]
struct Table {
    by_path: HashMap<Arc<str>, Watchers, FixedState>,
    by_watcher: HashMap<Watcher, BTreeSet<Arc<str>>, FixedState>,
    /// Watches in all, a (path, watcher) pair each.
    count: usize,
    /// An index of the recursive ones.
    recursive: RecursiveWatches,
}

/// All watches of one server.
#[derive(Debug)]
pub struct Watches {
    data: Table,
    child: Table,
    per_watcher_max: Option<NonZeroU32>,
}

/// One watch of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEntry {
    /// The watched path.
    pub path: Arc<str>,
    /// The table with the watch.
    pub table: TableKind,
    /// How long it lasts and which znodes it covers.
    pub mode: WatchMode,
}

/// Totals for the `wchs` command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchSummary {
    /// Connections that watch something.
    pub connections: usize,
    /// Paths that are watched.
    pub paths: usize,
    /// Watches in all.
    pub watches: usize,
}

impl Watches {
    /// No watches; a watcher may have any number of them.
    #[must_use]
    pub fn new(hash_seed: u64) -> Self {
        let (data, child) = (Table::new(hash_seed), Table::new(hash_seed));
        Watches { data, child, per_watcher_max: None }
    }

    /// The same with a limit for each watcher, counted like [`Watches::count_of`].
    #[must_use]
    pub fn limited_to(self, per_watcher_max: Option<NonZeroU32>) -> Self {
        Watches { per_watcher_max, ..self }
    }

    /// Watches in both tables, as Apache's `watch_count` counts them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.data.count + self.child.count
    }

    /// Sets a standard watch.
    ///
    /// # Errors
    /// `QuotaExceeded`: the watcher has as many as it may have, and not this one.
    pub fn add(&mut self, kind: TableKind, path: &str, watcher: Watcher) -> Result<(), ErrorCode> {
        self.check_room(path, watcher, &[kind])?;
        self.table_mut(kind).add(path, watcher, WatchMode::Standard);
        Ok(())
    }

    /// Sets a persistent watch: in both tables, or for a recursive one in the data table only.
    ///
    /// # Errors
    /// `QuotaExceeded`: the watcher has as many as it may have, and not this one.
    pub fn add_persistent(
        &mut self,
        path: &str,
        watcher: Watcher,
        mode: WatchMode,
    ) -> Result<(), ErrorCode> {
        let kinds: &[TableKind] = match mode {
            WatchMode::PersistentRecursive => &[TableKind::Data],
            WatchMode::Standard | WatchMode::Persistent => &[TableKind::Data, TableKind::Child],
        };
        self.check_room(path, watcher, kinds)?;
        for &kind in kinds {
            self.table_mut(kind).add(path, watcher, mode);
        }
        Ok(())
    }

    /// Fails if the watcher may not watch this path in these tables, too. Existing watches do not count again.
    fn check_room(
        &self,
        path: &str,
        watcher: Watcher,
        kinds: &[TableKind],
    ) -> Result<(), ErrorCode> {
        let Some(max) = self.per_watcher_max else { return Ok(()) };
        let is_new = |kind: &&TableKind| self.table(**kind).modes(path, watcher).is_empty();
        let added = kinds.iter().filter(is_new).count();
        if added > 0 && self.count_of(watcher) + added > max.get() as usize {
            return Err(ErrorCode::QuotaExceeded);
        }
        Ok(())
    }

    /// The watchers of a change at `path`, sorted; removes standard watches.
    pub fn trigger(&mut self, kind: TableKind, path: &str) -> Vec<Watcher> {
        self.table_mut(kind).trigger(path)
    }

    /// Adds the watchers of a change at `path` to those that lose an event; keeps all watches.
    pub(crate) fn note_lost_events(&self, kind: TableKind, path: &str, lost: &mut LostEvents) {
        let table = self.table(kind);
        if let Some((path, watchers)) = table.by_path.get_key_value(path) {
            lost.add((kind, path, false), watchers.iter().map(|(watcher, _)| watcher));
        }
        for (path, watchers) in table.recursive.of_ancestors(path) {
            lost.add((kind, path, true), watchers.iter().copied());
        }
    }

    /// Whether the watcher has such a watch.
    #[must_use]
    pub fn contains(&self, path: &str, kind: WatcherType, watcher: Watcher) -> bool {
        let data = self.data.modes(path, watcher);
        let child = self.child.modes(path, watcher);
        match kind {
            WatcherType::Children => child.contains(WatchMode::Standard),
            WatcherType::Data => data.contains(WatchMode::Standard),
            WatcherType::Persistent => data.contains(WatchMode::Persistent),
            WatcherType::PersistentRecursive => data.contains(WatchMode::PersistentRecursive),
            WatcherType::Any => !data.is_empty() || !child.is_empty(),
        }
    }

    /// Removes such watches. Returns false if there were none.
    pub fn remove(&mut self, path: &str, kind: WatcherType, watcher: Watcher) -> bool {
        match kind {
            WatcherType::Children => self.child.remove(path, watcher, Some(WatchMode::Standard)),
            WatcherType::Data => self.data.remove(path, watcher, Some(WatchMode::Standard)),
            WatcherType::Persistent => {
                let child = self.child.remove(path, watcher, Some(WatchMode::Persistent));
                self.data.remove(path, watcher, Some(WatchMode::Persistent)) || child
            }
            WatcherType::PersistentRecursive => {
                self.data.remove(path, watcher, Some(WatchMode::PersistentRecursive))
            }
            WatcherType::Any => {
                let child = self.child.remove(path, watcher, None);
                self.data.remove(path, watcher, None) || child
            }
        }
    }

    /// Removes all watches of a closed connection.
    pub fn remove_watcher(&mut self, watcher: Watcher) {
        self.data.remove_watcher(watcher);
        self.child.remove_watcher(watcher);
    }

    /// Removes watches of a connection up to this limit, with the bytes of their paths. Returns whether it has more: a
    /// connection may have a million, and no reads or writes can happen while they are removed.
    pub fn remove_some(&mut self, watcher: Watcher, mut limit: StepLimit) -> bool {
        self.data.remove_some(watcher, &mut limit);
        self.child.remove_some(watcher, &mut limit);
        self.count_of(watcher) > 0
    }

    /// Totals of the data table, which is what Apache reports.
    #[must_use]
    pub fn summary(&self) -> WatchSummary {
        WatchSummary {
            connections: self.data.by_watcher.len(),
            paths: self.data.by_path.len(),
            watches: self.data.count,
        }
    }

    /// Connections that have a watch in the data table, in no order.
    #[must_use]
    pub fn watchers(&self) -> Vec<Watcher> {
        self.data.by_watcher.keys().copied().collect()
    }

    /// Paths that a connection watches in the data table, in order: the first ones after `after`. A connection may
    /// have a million, and no reads or writes can happen while they are copied.
    #[must_use]
    pub fn paths_of(
        &self,
        watcher: Watcher,
        after: Option<&str>,
        count_max: usize,
    ) -> Vec<Arc<str>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let paths = self.data.by_watcher.get(&watcher).into_iter();
        let behind = paths.flat_map(|paths| paths.range::<str, _>((from, Bound::Unbounded)));
        behind.take(count_max).cloned().collect()
    }

    /// Watches of one connection in both tables, counted as [`Watches::count`] counts them.
    #[must_use]
    pub fn count_of(&self, watcher: Watcher) -> usize {
        let paths = |table: &Table| table.by_watcher.get(&watcher).map_or(0, BTreeSet::len);
        paths(&self.data) + paths(&self.child)
    }

    /// The first watches of one connection in order of their paths, data before child, up to this limit of paths and
    /// their bytes. A persistent one, which is in both tables, is returned once, with the data table. The others cost
    /// nothing.
    #[must_use]
    pub fn of_watcher<'a>(&'a self, watcher: Watcher, mut limit: StepLimit) -> Vec<WatchEntry> {
        let paths =
            |table: &'a Table| table.by_watcher.get(&watcher).into_iter().flatten().peekable();
        let (mut of_data, mut of_child) = (paths(&self.data), paths(&self.child));
        let mut first = Vec::new();
        while !limit.is_reached() {
            let path = match (of_data.peek(), of_child.peek()) {
                (Some(data), Some(child)) => *data.min(child),
                (Some(path), None) | (None, Some(path)) => *path,
                (None, None) => break,
            };
            of_data.next_if_eq(&path);
            of_child.next_if_eq(&path);
            limit.charge(path.len());
            first.extend(self.watches_at(path, watcher));
        }
        first
    }

    fn watches_at(&self, path: &Arc<str>, watcher: Watcher) -> impl Iterator<Item = WatchEntry> {
        let modes = [WatchMode::Standard, WatchMode::Persistent, WatchMode::PersistentRecursive];
        let of_data = self.data.modes(path, watcher);
        let of_data = modes.into_iter().filter(move |mode| of_data.contains(*mode));
        let of_child = self.child.modes(path, watcher).contains(WatchMode::Standard);
        let of_child = of_child.then_some((TableKind::Child, WatchMode::Standard));
        let all = of_data.map(|mode| (TableKind::Data, mode)).chain(of_child);
        let path = Arc::clone(path);
        all.map(move |(table, mode)| WatchEntry { path: Arc::clone(&path), table, mode })
    }

    fn table(&self, kind: TableKind) -> &Table {
        match kind {
            TableKind::Data => &self.data,
            TableKind::Child => &self.child,
        }
    }

    fn table_mut(&mut self, kind: TableKind) -> &mut Table {
        match kind {
            TableKind::Data => &mut self.data,
            TableKind::Child => &mut self.child,
        }
    }
}

impl Table {
    fn new(hash_seed: u64) -> Self {
        let hasher = FixedState::with_seed(hash_seed);
        Table {
            by_path: HashMap::with_hasher(hasher.clone()),
            by_watcher: HashMap::with_hasher(hasher.clone()),
            count: 0,
            recursive: RecursiveWatches::new(hasher),
        }
    }

    fn modes(&self, path: &str, watcher: Watcher) -> Modes {
        self.by_path.get(path).map_or(Modes::default(), |watchers| watchers.modes(watcher))
    }

    fn add(&mut self, path: &str, watcher: Watcher, mode: WatchMode) {
        let before = self.modes(path, watcher);
        self.set_modes(path, watcher, before, before.with(mode));
    }

    fn remove(&mut self, path: &str, watcher: Watcher, mode: Option<WatchMode>) -> bool {
        let before = self.modes(path, watcher);
        let after = mode.map_or(Modes::default(), |mode| before.without(mode));
        self.set_modes(path, watcher, before, after);
        before != after
    }

    fn remove_some(&mut self, watcher: Watcher, limit: &mut StepLimit) {
        let paths = self.by_watcher.get(&watcher).into_iter().flatten();
        let within = paths.take_while(|path| {
            let fits = !limit.is_reached();
            limit.charge(path.len());
            fits
        });
        let some: Vec<_> = within.cloned().collect();
        for path in &some {
            let before = self.modes(path, watcher);
            self.set_modes(path, watcher, before, Modes::default());
        }
    }

    fn remove_watcher(&mut self, watcher: Watcher) {
        for path in self.by_watcher.remove(&watcher).unwrap_or_default() {
            let before = self.modes(&path, watcher);
            self.set_modes(&path, watcher, before, Modes::default());
        }
    }

    fn trigger(&mut self, path: &str) -> Vec<Watcher> {
        let mut notified: Vec<Watcher> = Vec::new();
        if self.count == 0 {
            return notified;
        }
        if let Some(watchers) = self.by_path.get(path) {
            let all: Vec<_> = watchers.iter().collect();
            notified.extend(all.iter().map(|(watcher, _)| *watcher));
            let spent = all.into_iter().filter(|(_, modes)| modes.contains(WatchMode::Standard));
            for (watcher, modes) in spent {
                self.set_modes(path, watcher, modes, modes.without(WatchMode::Standard));
            }
        }
        if !self.recursive.is_empty() {
            let of_ancestors = self.recursive.of_ancestors(path);
            notified.extend(of_ancestors.flat_map(|(_, watchers)| watchers));
            notified.sort_unstable();
            notified.dedup();
        }
        notified
    }

    /// The only place where a pair's modes change, so that all counts and maps agree.
    fn set_modes(&mut self, path: &str, watcher: Watcher, before: Modes, after: Modes) {
        if before == after {
            return;
        }
        self.count = self.count + usize::from(before.is_empty()) - usize::from(after.is_empty());
        if after.is_empty() {
            self.unlink(path, watcher);
        } else if before.is_empty() {
            self.link(path, watcher, after);
        } else {
            self.by_path.get_mut(path).expect("linked before").set(watcher, after);
        }
        let is_recursive = |modes: Modes| modes.contains(WatchMode::PersistentRecursive);
        match (is_recursive(before), is_recursive(after)) {
            (false, true) => {
                let (path, _) = self.by_path.get_key_value(path).expect("linked by now");
                self.recursive.add(path, watcher);
            }
            (true, false) => self.recursive.remove(path, watcher),
            _ => {}
        }
    }

    fn link(&mut self, path: &str, watcher: Watcher, modes: Modes) {
        let key = match self.by_path.get_key_value(path) {
            Some((key, _)) => Arc::clone(key),
            None => Arc::from(path),
        };
        let watchers = self.by_path.entry(Arc::clone(&key));
        watchers.or_insert(Watchers::One(watcher, modes)).set(watcher, modes);
        self.by_watcher.entry(watcher).or_default().insert(key);
    }

    fn unlink(&mut self, path: &str, watcher: Watcher) {
        let watchers = self.by_path.get_mut(path);
        if watchers.is_some_and(|watchers| watchers.remove_or_is_last(watcher)) {
            self.by_path.remove(path);
        }
        if let Some(paths) = self.by_watcher.get_mut(&watcher) {
            paths.remove(path);
            if paths.is_empty() {
                self.by_watcher.remove(&watcher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Watcher = Watcher(1);
    const B: Watcher = Watcher(2);

    /// Takes a moment; it took half a minute when the watchers of a path were a list.
    #[test]
    fn a_hundred_thousand_watchers_are_added_and_removed() {
        let mut watches = Watches::new(0);
        let all: Vec<_> = (0..100_000).map(Watcher).collect();
        for &watcher in &all {
            watches.add(TableKind::Data, "/x", watcher).unwrap();
            watches.add_persistent("/x", watcher, WatchMode::Persistent).unwrap();
        }
        assert_eq!(watches.trigger(TableKind::Data, "/x"), all);
        assert!(!watches.contains("/x", WatcherType::Data, all[0]));
        let (removed, left) = all.split_at(99_999);
        removed.iter().for_each(|&watcher| watches.remove_watcher(watcher));
        assert_eq!(watches.trigger(TableKind::Data, "/x"), left);
        assert_eq!(watches.count(), 2);
        watches.remove_watcher(left[0]);
        assert_eq!(watches.count(), 0);
        assert!(watches.watchers().is_empty() && watches.summary() == WatchSummary::default());
    }

    #[test]
    fn watches_of_a_watcher_are_removed_piece_by_piece() {
        let mut watches = Watches::new(0);
        for path in ["/a", "/b", "/c"] {
            watches.add(TableKind::Data, path, A).unwrap();
            watches.add(TableKind::Child, path, A).unwrap();
            watches.add(TableKind::Child, path, B).unwrap();
        }
        let limit = |znodes| StepLimit { znodes, bytes: 100 };
        assert!(watches.remove_some(A, limit(2)));
        assert_eq!((watches.count_of(A), watches.count_of(B)), (4, 3));
        assert!(watches.remove_some(A, limit(3)));
        assert_eq!(watches.trigger(TableKind::Child, "/c"), [A, B]);
        assert!(!watches.remove_some(A, limit(1)), "the last one was removed");
        assert_eq!((watches.count_of(A), watches.count()), (0, 2));
    }

    /// Only their number used to count.
    #[test]
    fn fewer_watches_of_long_paths_are_removed_at_a_time() {
        let mut watches = Watches::new(0);
        let long = |last: char| format!("/{}{last}", "a".repeat(1000));
        for path in ['a', 'b', 'c', 'd'].map(long) {
            watches.add_persistent(&path, A, WatchMode::Persistent).unwrap();
        }
        let limit = |bytes| StepLimit { znodes: 100, bytes };
        for (bytes, left) in [(1, 7), (1002, 6), (1003, 4), (3000, 1)] {
            assert!(watches.remove_some(A, limit(bytes)));
            assert_eq!(watches.count_of(A), left);
        }
        assert!(!watches.remove_some(A, limit(1)));
    }

    #[test]
    fn paths_of_a_watcher_are_returned_piece_by_piece() {
        let mut watches = Watches::new(0);
        for path in ["/b", "/a", "/d", "/c"] {
            watches.add(TableKind::Data, path, A).unwrap();
        }
        watches.add(TableKind::Data, "/a", B).unwrap();
        let check = |watcher, after, expected: &[&str]| {
            let notified = watches.paths_of(watcher, after, 2);
            assert_eq!(notified.iter().map(|path| &**path).collect::<Vec<_>>(), expected);
        };
        check(A, None, &["/a", "/b"]);
        check(A, Some("/b"), &["/c", "/d"]);
        check(A, Some("/d"), &[]);
        check(B, None, &["/a"]);
        check(Watcher(3), None, &[]);
        let mut watchers = watches.watchers();
        watchers.sort_unstable();
        assert_eq!(watchers, [A, B]);
    }

    #[test]
    fn a_standard_watch_is_removed_by_its_event_and_a_persistent_one_stays() {
        let mut watches = Watches::new(0);
        watches.add(TableKind::Data, "/x", A).unwrap();
        watches.add_persistent("/x", B, WatchMode::Persistent).unwrap();
        assert_eq!(watches.count(), 3);
        assert_eq!(watches.trigger(TableKind::Data, "/x"), [A, B]);
        assert_eq!(watches.trigger(TableKind::Data, "/x"), [B]);
        assert_eq!(watches.trigger(TableKind::Child, "/x"), [B]);
    }

    #[test]
    fn recursive_watches_cover_descendants_once() {
        let mut watches = Watches::new(0);
        watches.add_persistent("/", A, WatchMode::PersistentRecursive).unwrap();
        watches.add_persistent("/a", A, WatchMode::PersistentRecursive).unwrap();
        watches.add(TableKind::Data, "/a/b", B).unwrap();
        assert_eq!(watches.trigger(TableKind::Data, "/a/b"), [A, B]);
        assert_eq!(watches.trigger(TableKind::Data, "/a/b"), [A]);
        assert_eq!(watches.trigger(TableKind::Data, "/ab"), [A]);
        assert!(watches.trigger(TableKind::Child, "/a").is_empty());
    }

    #[test]
    fn a_closed_connection_leaves_nothing_behind() {
        let mut watches = Watches::new(0);
        watches.add(TableKind::Data, "/x", A).unwrap();
        watches.add(TableKind::Child, "/x", A).unwrap();
        watches.add_persistent("/y", A, WatchMode::PersistentRecursive).unwrap();
        watches.add(TableKind::Data, "/x", B).unwrap();
        watches.remove_watcher(A);
        assert_eq!(watches.count(), 1);
        assert_eq!(watches.summary(), WatchSummary { connections: 1, paths: 1, watches: 1 });
        assert!(watches.data.recursive.is_empty());
    }

    #[test]
    fn the_watches_of_one_connection_are_listed_with_their_modes() {
        let limit = |znodes, bytes| StepLimit { znodes, bytes };
        let mut watches = Watches::new(0);
        watches.add(TableKind::Child, "/b", A).unwrap();
        watches.add(TableKind::Data, "/b", A).unwrap();
        watches.add_persistent("/a", A, WatchMode::Persistent).unwrap();
        watches.add_persistent("/c", A, WatchMode::PersistentRecursive).unwrap();
        watches.add(TableKind::Data, "/other", B).unwrap();
        let notified: Vec<_> = watches
            .of_watcher(A, limit(10, 100))
            .into_iter()
            .map(|WatchEntry { path, table, mode }| (path.to_string(), table, mode))
            .collect();
        assert_eq!(
            notified,
            [
                ("/a".to_owned(), TableKind::Data, WatchMode::Persistent),
                ("/b".to_owned(), TableKind::Data, WatchMode::Standard),
                ("/b".to_owned(), TableKind::Child, WatchMode::Standard),
                ("/c".to_owned(), TableKind::Data, WatchMode::PersistentRecursive),
            ]
        );
        assert_eq!((watches.count_of(A), watches.count_of(B), watches.count()), (5, 1, 6));
        for (znodes, bytes, entries) in
            [(1, 100, 1), (2, 100, 3), (3, 100, 4), (3, 4, 3), (3, 1, 1)]
        {
            let found = watches.of_watcher(A, limit(znodes, bytes));
            assert_eq!(found.len(), entries, "{znodes} paths, {bytes} bytes");
        }
        assert!(watches.of_watcher(Watcher(9), limit(10, 100)).is_empty());
    }

    #[test]
    fn a_watcher_at_its_limit_gets_no_more_and_other_watchers_do() {
        let mut watches = Watches::new(0).limited_to(NonZeroU32::new(2));
        assert_eq!(watches.add(TableKind::Data, "/x", A), Ok(()));
        // One for data and one for children would be one too many; then neither is set.
        let persistent = watches.add_persistent("/y", A, WatchMode::Persistent);
        assert_eq!((persistent, watches.count_of(A)), (Err(ErrorCode::QuotaExceeded), 1));
        assert_eq!(watches.add_persistent("/x", A, WatchMode::Persistent), Ok(()));
        assert_eq!(watches.add(TableKind::Data, "/z", A), Err(ErrorCode::QuotaExceeded));
        // An existing watch may be set again; a removed one makes room.
        assert_eq!(watches.add(TableKind::Child, "/x", A), Ok(()));
        assert_eq!(watches.add(TableKind::Data, "/z", B), Ok(()));
        assert!(watches.remove("/x", WatcherType::Any, A));
        assert_eq!(watches.add_persistent("/", A, WatchMode::PersistentRecursive), Ok(()));
        assert_eq!(watches.add(TableKind::Data, "/z", A), Ok(()));
        assert_eq!(watches.add(TableKind::Child, "/z", A), Err(ErrorCode::QuotaExceeded));
    }

    #[test]
    fn removal_distinguishes_the_kinds() {
        let mut watches = Watches::new(0);
        watches.add(TableKind::Data, "/x", A).unwrap();
        watches.add_persistent("/x", A, WatchMode::Persistent).unwrap();
        assert!(!watches.remove("/x", WatcherType::Children, A));
        assert!(watches.remove("/x", WatcherType::Data, A));
        assert!(!watches.contains("/x", WatcherType::Data, A));
        assert!(watches.contains("/x", WatcherType::Persistent, A));
        assert!(watches.remove("/x", WatcherType::Any, A));
        assert!(!watches.remove("/x", WatcherType::Any, A));
    }
}

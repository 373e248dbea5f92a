//! An index of a table's recursive watches by path, used to find those on the ancestors of a changed path.
//!
//! Invariant: finding the watched ancestors of a path takes time linear in the length of the path plus that of the
//! watched paths, plus one step per notified watcher. The other watchers of an ancestor cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::watches::Watcher;

/// The recursive watches of a table.
#[derive(Debug)]
pub(crate) struct RecursiveWatches {
    by_path: HashMap<Arc<str>, BTreeSet<Watcher>, FixedState>,
    /// How many of these paths have each length. Only ancestors with one of these lengths are hashed: hashing all
    /// of them would take time quadratic in the depth.
    by_length: BTreeMap<usize, usize>,
}

impl RecursiveWatches {
    pub fn new(hasher: FixedState) -> Self {
        RecursiveWatches { by_path: HashMap::with_hasher(hasher), by_length: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// Adds a watch that is not here.
    pub fn add(&mut self, path: &Arc<str>, watcher: Watcher) {
        let watchers = self.by_path.entry(Arc::clone(path)).or_default();
        if watchers.is_empty() {
            *self.by_length.entry(path.len()).or_default() += 1;
        }
        watchers.insert(watcher);
    }

    /// Removes a watch.
    pub fn remove(&mut self, path: &str, watcher: Watcher) {
        let Some(watchers) = self.by_path.get_mut(path) else { return };
        watchers.remove(&watcher);
        if !watchers.is_empty() {
            return;
        }
        self.by_path.remove(path);
        let count = self.by_length.get_mut(&path.len()).expect("counted when it was added");
        *count -= 1;
        if *count == 0 {
            self.by_length.remove(&path.len());
        }
    }

    /// The watched paths among the proper ancestors of a path with their watchers, the root first.
    pub fn of_ancestors<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a BTreeSet<Watcher>)> {
        self.ancestors(path).filter_map(|ancestor| self.by_path.get_key_value(ancestor))
    }

    /// The proper ancestors of a path that have the length of a watched path.
    fn ancestors<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        let lengths = self.by_length.range(..path.len()).map(|(&length, _)| length);
        lengths.filter_map(|length| match path.split_at_checked(length)? {
            ("", _) => None,
            // The root is the only path that ends with a slash.
            (ancestor, rest) if rest.starts_with('/') || ancestor == "/" => Some(ancestor),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Watcher = Watcher(1);
    const B: Watcher = Watcher(2);

    /// All of them used to be hashed, which takes the square of the depth.
    #[test]
    fn only_ancestors_with_the_length_of_a_watched_path_are_looked_up() {
        let mut watches = RecursiveWatches::new(FixedState::with_seed(0));
        let check = |watches: &RecursiveWatches, path: &str, expected: &[&str]| {
            let found: Vec<_> = watches.ancestors(path).collect();
            assert_eq!(found, expected, "{path:.20}");
        };
        let deep = "/a".repeat(5000);
        for path in ["/", "/b", "/a/a/a", ""] {
            watches.add(&path.into(), A);
        }
        watches.add(&"/b".into(), B);
        check(&watches, &deep, &["/", "/a", "/a/a/a"]);
        check(&watches, "/a/ä/a", &["/", "/a"]);
        check(&watches, "/ä/a", &["/"]);
        check(&watches, "/a", &["/"]);
        check(&watches, "/", &[]);
        check(&watches, "", &[]);
        let notified = |watches: &RecursiveWatches, path: &str| -> Vec<Watcher> {
            watches.of_ancestors(path).flat_map(|(_, watchers)| watchers).copied().collect()
        };
        assert_eq!(notified(&watches, &deep), [A, A]);
        assert_eq!(notified(&watches, "/b/c"), [A, A, B]);
        for (path, watcher) in [("/b", A), ("/", A), ("/none", A), ("/b", B)] {
            watches.remove(path, watcher);
        }
        check(&watches, &deep, &["/a/a/a"]);
        watches.remove("/a/a/a", A);
        watches.remove("", A);
        assert!(watches.is_empty() && watches.by_length.is_empty());
    }
}

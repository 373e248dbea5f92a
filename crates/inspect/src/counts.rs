//! Counts znodes: their number, their size, the largest subtrees, and the ephemerals of each session.
//!
//! In: each znode once. Out: a [`TreeCounts`]. Memory grows with the parents and with the subtrees down to the
//! requested depth, not with the data.

use std::collections::{BTreeMap, HashMap};

use herdsman_proto::SessionId;
use herdsman_proto::path::{ROOT, split};
use herdsman_tree::owner::Owner;
use serde::Serialize;

use crate::show::OWNER_RULES;

/// Counts and sizes of the znodes of a tree.
#[derive(Debug, Default)]
pub(crate) struct TreeCounts {
    depth: usize,
    /// Znodes.
    pub(crate) nodes: u64,
    /// Bytes of their data.
    pub(crate) data_bytes: u64,
    /// Bytes of their paths.
    pub(crate) path_bytes: u64,
    /// Containers.
    pub(crate) containers: u64,
    /// Znodes with a time to live.
    pub(crate) ttls: u64,
    /// Ephemerals of each session.
    pub(crate) ephemerals: BTreeMap<SessionId, u64>,
    children: HashMap<String, u64>,
    subtrees: HashMap<String, Subtree>,
    /// The znode with the most data.
    pub(crate) largest: Option<(String, u64)>,
}

/// A znode and its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Subtree {
    /// Znodes.
    pub(crate) nodes: u64,
    /// Bytes of paths and data.
    pub(crate) bytes: u64,
}

impl TreeCounts {
    /// Counts subtrees whose root is at most this deep.
    pub(crate) fn new(depth: usize) -> Self {
        TreeCounts { depth, ..TreeCounts::default() }
    }

    /// Counts a znode; the root's path is empty.
    pub(crate) fn count(&mut self, path: &str, data_bytes: usize, stored_owner: i64) {
        let data_bytes = data_bytes as u64;
        self.nodes += 1;
        self.data_bytes += data_bytes;
        self.path_bytes += path.len() as u64;
        match OWNER_RULES.owner(stored_owner) {
            Owner::None => {}
            Owner::Session(session) => *self.ephemerals.entry(session).or_default() += 1,
            Owner::Container => self.containers += 1,
            Owner::Ttl(_) => self.ttls += 1,
        }
        if let Some((parent, _)) = split(path) {
            increase(&mut self.children, parent, |children| *children += 1);
        }
        if self.largest.as_ref().is_none_or(|(_, bytes)| data_bytes > *bytes) {
            self.largest = Some((shown_path(path), data_bytes));
        }
        self.count_subtrees(path, path.len() as u64 + data_bytes);
    }

    /// Adds a znode to every subtree that contains it.
    fn count_subtrees(&mut self, path: &str, bytes: u64) {
        let ends = path.match_indices('/').map(|(index, _)| index).skip(1);
        for end in ends.chain([path.len()]).take(self.depth) {
            if end > 0 {
                increase(&mut self.subtrees, &path[..end], |subtree: &mut Subtree| {
                    subtree.nodes += 1;
                    subtree.bytes += bytes;
                });
            }
        }
    }

    /// The parents with the most children.
    pub(crate) fn top_parents(&self, top: usize) -> Vec<(String, u64)> {
        let parents =
            self.children.iter().map(|(path, count)| (shown_path(path), *count)).collect();
        largest_first(parents, top, |count| *count)
    }

    /// The subtrees with the most bytes.
    pub(crate) fn top_by_bytes(&self, top: usize) -> Vec<(String, Subtree)> {
        largest_first(self.subtrees(), top, |subtree| subtree.bytes)
    }

    /// The subtrees with the most znodes.
    pub(crate) fn top_by_nodes(&self, top: usize) -> Vec<(String, Subtree)> {
        largest_first(self.subtrees(), top, |subtree| subtree.nodes)
    }

    fn subtrees(&self) -> Vec<(String, Subtree)> {
        self.subtrees.iter().map(|(path, subtree)| (path.clone(), *subtree)).collect()
    }
}

/// Changes an entry. Allocates a key only for a new one.
fn increase<V: Default>(map: &mut HashMap<String, V>, key: &str, change: impl FnOnce(&mut V)) {
    match map.get_mut(key) {
        Some(value) => change(value),
        None => change(map.entry(key.to_owned()).or_default()),
    }
}

/// The path as users write it.
pub(crate) fn shown_path(path: &str) -> String {
    if path.is_empty() { ROOT.to_owned() } else { path.to_owned() }
}

fn largest_first<V>(
    mut entries: Vec<(String, V)>,
    top: usize,
    size: impl Fn(&V) -> u64,
) -> Vec<(String, V)> {
    entries.sort_by(|a, b| size(&b.1).cmp(&size(&a.1)).then_with(|| a.0.cmp(&b.0)));
    entries.truncate(top);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn znodes_are_counted_where_they_are() {
        let mut census = TreeCounts::new(2);
        for (path, bytes, owner) in
            [("", 0, 0), ("/a", 1, 0), ("/a/b", 10, 7), ("/a/b/c", 100, i64::MIN), ("/d", 0, 7)]
        {
            census.count(path, bytes, owner);
        }
        assert_eq!((census.nodes, census.data_bytes, census.path_bytes), (5, 111, 14));
        assert_eq!(census.ephemerals, BTreeMap::from([(SessionId(7), 2)]));
        assert_eq!((census.containers, census.ttls), (1, 0));
        assert_eq!(census.largest, Some(("/a/b/c".to_owned(), 100)));
        assert_eq!(census.top_parents(1), [("/".to_owned(), 2)]);
        let (a, b) = (Subtree { nodes: 3, bytes: 123 }, Subtree { nodes: 2, bytes: 120 });
        assert_eq!(census.top_by_bytes(2), [("/a".to_owned(), a), ("/a/b".to_owned(), b)]);
        assert_eq!(census.top_by_nodes(9).len(), 3);
    }
}

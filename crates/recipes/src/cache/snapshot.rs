//! The state of a cache at one moment: a value that can be kept, searched and compared.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::Stat;

/// Nodes by path. Paths are shared with the nodes themselves.
pub(crate) type Nodes = BTreeMap<Arc<str>, Arc<CachedNode>>;

/// A znode as it was when it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedNode {
    /// Its path in the client's namespace.
    pub path: Arc<str>,
    /// Its data: a copy, which keeps no reply in memory.
    pub data: Bytes,
    /// Its stat, read together with the data. What it says about children (`num_children`, `cversion`, `pzxid`) may
    /// be older than the children in the cache: a change of children is not a change of the node.
    pub stat: Stat,
}

impl CachedNode {
    /// Copies the data, so that a small node does not keep a whole reply in memory.
    pub(crate) fn new(path: Arc<str>, data: &[u8], stat: Stat) -> Self {
        CachedNode { path, data: Bytes::copy_from_slice(data), stat }
    }

    /// Returns the last part of the path; empty for the root of the tree.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The state of a cache at one moment.
///
/// Cloning it is cheap, and it never changes: a change of the cache makes a new snapshot. While a snapshot is kept,
/// the next change has to copy the index (a few machine words for each node, no data); keeping one is fine, keeping
/// one of each moment is wasteful.
///
/// Each node in it is as it was at some moment, and never older than in an earlier snapshot. Nodes are read one by
/// one, so two of them may be from different moments.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) unreadable: Arc<BTreeMap<Arc<str>, herdsman_client::Error>>,
    pub(crate) is_synced: bool,
}

impl Snapshot {
    pub(crate) fn empty() -> Self {
        Snapshot { nodes: Arc::default(), unreadable: Arc::default(), is_synced: false }
    }

    /// Returns whether the cache is complete: it contains everything that was on the server when the two were last
    /// compared, and changes arrive. False before the first reading and while the connection is lost: then this is
    /// the last known state.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Returns the node at a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Arc<CachedNode>> {
        self.nodes.get(path)
    }

    /// Returns all nodes, in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CachedNode>> {
        self.nodes.values()
    }

    /// Returns the nodes below a path, at any depth.
    pub fn descendants<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a Arc<CachedNode>> {
        descendants(&self.nodes, path)
    }

    /// Returns the nodes directly below a path. Takes time in proportion to all that is below it.
    pub fn children<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a Arc<CachedNode>> {
        let start = below(path).len();
        self.descendants(path).filter(move |node| !node.path[start..].contains('/'))
    }

    /// Returns why a node that exists cannot be read. Such a node is not among the others, and servers send no events
    /// about it; it is tried again after an interruption.
    #[must_use]
    pub fn unreadable(&self, path: &str) -> Option<&herdsman_client::Error> {
        self.unreadable.get(path)
    }

    /// Returns how many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether no node is known, or none exists: see [`Snapshot::is_synced`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// Returns the prefix of every path below `path`.
fn below(path: &str) -> String {
    format!("{}/", path.strip_suffix('/').unwrap_or(path))
}

/// Returns the nodes below a path. They are contiguous: no path with another prefix sorts between them.
pub(super) fn descendants<'a>(
    nodes: &'a Nodes,
    path: &str,
) -> impl Iterator<Item = &'a Arc<CachedNode>> {
    let prefix = below(path);
    let range = nodes.range::<str, _>((Bound::Excluded(prefix.as_str()), Bound::Unbounded));
    range.map(|(_, node)| node).take_while(move |node| node.path.starts_with(&prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(paths: &[&str]) -> Snapshot {
        let node = |path: &str| Arc::new(CachedNode::new(path.into(), b"", Stat::default()));
        let nodes = paths.iter().map(|path| (Arc::from(*path), node(path))).collect();
        Snapshot { nodes: Arc::new(nodes), is_synced: true, ..Snapshot::empty() }
    }

    fn names<'a>(nodes: impl Iterator<Item = &'a Arc<CachedNode>>) -> Vec<&'a str> {
        nodes.map(|node| &*node.path).collect()
    }

    #[test]
    fn neighbours_with_similar_names_are_not_taken_for_children() {
        let snapshot = snapshot(&["/a", "/a-b", "/a-b/x", "/a/b", "/a/b/c", "/a/d", "/a0", "/b"]);
        assert_eq!(names(snapshot.children("/a")), ["/a/b", "/a/d"]);
        assert_eq!(names(snapshot.descendants("/a")), ["/a/b", "/a/b/c", "/a/d"]);
        assert_eq!(names(snapshot.children("/b")), Vec::<&str>::new());
    }

    #[test]
    fn the_root_of_the_tree_has_children_too() {
        let snapshot = snapshot(&["/", "/a", "/a/b", "/c"]);
        assert_eq!(names(snapshot.children("/")), ["/a", "/c"]);
        assert_eq!(names(snapshot.descendants("/")), ["/a", "/a/b", "/c"]);
        let last = snapshot.get("/a/b").map(|node| node.name().to_owned());
        assert_eq!(last.as_deref(), Some("b"));
    }

    #[test]
    fn data_is_copied_out_of_the_reply() {
        let reply = Bytes::from(vec![7; 1 << 16]);
        let node = CachedNode::new("/a".into(), &reply[10..14], Stat::default());
        assert_eq!(node.data.len(), 4);
        assert!(!reply.as_ptr_range().contains(&node.data.as_ptr()));
    }
}

//! The part of the tree that a cache keeps.

use crate::path;
use std::fmt;
use std::sync::Arc;

/// A function that returns whether a path is wanted.
pub(super) type PathFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A node and its descendants down to some depth, without those that the filter excludes.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) root: Arc<str>,
    /// Levels below the root; `None` is all.
    pub(super) depth_max: Option<usize>,
    /// Excludes whole subtrees; it is not called for the root.
    pub(super) filter: Option<PathFilter>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, depth_max) = (&self.root, &self.depth_max);
        let is_filtered = self.filter.is_some();
        f.debug_struct("Scope")
            .field("root", root)
            .field("depth_max", depth_max)
            .field("is_filtered", &is_filtered)
            .finish()
    }
}

impl Scope {
    /// Returns whether a path from an event is wanted. It may not have been reached by a walk, so the filter is
    /// called for every path between the root and this one.
    pub(super) fn admits(&self, path: &str) -> bool {
        let Some(relative) = self.relative(path) else {
            return false;
        };
        let levels = relative.matches('/').count();
        self.depth_max.is_none_or(|max| levels <= max) && self.admits_all_of(path, relative.len())
    }

    /// Returns whether nodes below this one, itself admitted, can be wanted.
    pub(super) fn goes_below(&self, path: &str) -> bool {
        let levels = self.relative(path).map_or(0, |relative| relative.matches('/').count());
        self.depth_max.is_none_or(|max| levels < max)
    }

    /// Returns whether a child of an admitted node is wanted.
    pub(super) fn admits_child(&self, path: &str) -> bool {
        self.filter.as_ref().is_none_or(|admits| admits(path))
    }

    /// Returns the path of a child.
    pub(super) fn child(parent: &str, name: &str) -> Arc<str> {
        path::child(parent, name).into()
    }

    /// Returns the relative path: empty for the root, `/a/b` for what is below it.
    fn relative<'a>(&self, path: &'a str) -> Option<&'a str> {
        let root = self.root.strip_suffix('/').unwrap_or(&self.root);
        let relative = path.strip_prefix(root)?;
        match relative {
            "/" => Some(""),
            _ => (relative.is_empty() || relative.starts_with('/')).then_some(relative),
        }
    }

    fn admits_all_of(&self, path: &str, relative_bytes: usize) -> bool {
        let Some(admits) = &self.filter else {
            return true;
        };
        let root_bytes = path.len() - relative_bytes;
        let inner_ends = path[root_bytes..].match_indices('/').skip(1).map(|(at, _)| at);
        let mut ends = inner_ends.chain((relative_bytes > 0).then_some(relative_bytes));
        ends.all(|end| admits(&path[..root_bytes + end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(root: &str, depth_max: Option<usize>) -> Scope {
        Scope { root: root.into(), depth_max, filter: None }
    }

    #[test]
    fn depth_counts_from_the_root_of_the_cache() {
        for root in ["/", "/a"] {
            let scope = scope(root, Some(2));
            let at = |levels: &[&str]| {
                levels
                    .iter()
                    .fold(root.to_owned(), |path, name| Scope::child(&path, name).to_string())
            };
            assert!(scope.admits(root) && scope.goes_below(root), "{root}");
            assert!(scope.admits(&at(&["x"])) && scope.goes_below(&at(&["x"])));
            assert!(scope.admits(&at(&["x", "y"])) && !scope.goes_below(&at(&["x", "y"])));
            assert!(!scope.admits(&at(&["x", "y", "z"])));
        }
        assert!(scope("/a", Some(0)).admits("/a") && !scope("/a", Some(0)).admits("/a/b"));
    }

    #[test]
    fn neighbours_are_not_below() {
        let scope = scope("/a", None);
        assert!(!scope.admits("/ab") && !scope.admits("/") && !scope.admits("/b/a"));
    }

    #[test]
    fn a_filter_refuses_whole_subtrees_but_not_the_root() {
        for root in ["/", "/a"] {
            let filter: PathFilter = Arc::new(|path: &str| !path.ends_with('a'));
            let scope = Scope { filter: Some(filter), ..scope(root, None) };
            assert!(scope.admits(root));
            assert!(scope.admits(&Scope::child(root, "b")));
            let refused = Scope::child(root, "xa");
            assert!(!scope.admits(&refused) && !scope.admits_child(&refused));
            assert!(!scope.admits(&Scope::child(&refused, "b")));
        }
    }
}

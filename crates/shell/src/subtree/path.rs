//! Paths below the root of a subtree.
//!
//! A relative path has no leading slash; the subtree's own root is `.`, which no znode can be named.

use std::cmp::Ordering;

use herdsman_client::check_path;

/// The relative path of a subtree's own root.
pub const SELF: &str = ".";

/// The path of a child.
#[must_use]
pub fn child(parent: &str, name: &str) -> String {
    format!("{}/{name}", parent.strip_suffix('/').unwrap_or(parent))
}

/// The last component; `/` of the root.
#[must_use]
pub fn name(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, "")) | None => path,
        Some((_, name)) => name,
    }
}

/// The parent of a path; `None` of the root.
#[must_use]
pub fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some((_, "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((parent, _)) => Some(parent),
    }
}

/// `path` as seen from `root`, which is the path itself or above it.
#[must_use]
pub fn relative<'p>(root: &str, path: &'p str) -> &'p str {
    let rest = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
    if rest.is_empty() { SELF } else { rest }
}

/// The absolute path of `relative` below `root`.
#[must_use]
pub fn absolute(root: &str, relative: &str) -> String {
    if relative == SELF { root.to_owned() } else { child(root, relative) }
}

/// The relative path of the parent; `None` of the subtree's root.
#[must_use]
pub fn relative_parent(relative: &str) -> Option<&str> {
    match relative.rsplit_once('/') {
        _ if relative == SELF => None,
        Some((parent, _)) => Some(parent),
        None => Some(SELF),
    }
}

/// Whether a relative path is valid.
#[must_use]
pub fn is_relative(relative: &str) -> bool {
    relative == SELF || (!relative.is_empty() && check_path(&format!("/{relative}")).is_ok())
}

/// Whether `path` is `root` or below it.
#[must_use]
pub fn is_within(root: &str, path: &str) -> bool {
    root == "/"
        || path.strip_prefix(root).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'/', ..]))
}

/// The order of a walk: parents before children, children by name. Not the order of the strings, in
/// which `a-b` comes before `a/c`.
#[must_use]
pub fn walk_order(left: &str, right: &str) -> Ordering {
    match (left == SELF, right == SELF) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => left.split('/').cmp(right.split('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_and_put_together() {
        for (root, path, relative_path) in [
            ("/", "/", "."),
            ("/", "/a", "a"),
            ("/", "/a/b", "a/b"),
            ("/a", "/a", "."),
            ("/a", "/a/b/c", "b/c"),
        ] {
            assert_eq!(relative(root, path), relative_path, "{root} {path}");
            assert_eq!(absolute(root, relative_path), path, "{root} {path}");
        }
        assert_eq!((name("/"), name("/a"), name("/a/b")), ("/", "a", "b"));
        assert_eq!((parent("/"), parent("/a"), parent("/a/b")), (None, Some("/"), Some("/a")));
        assert_eq!(
            (relative_parent("."), relative_parent("a"), relative_parent("a/b")),
            (None, Some("."), Some("a"))
        );
    }

    #[test]
    fn a_subtree_ends_at_a_slash() {
        assert!(is_within("/", "/a") && is_within("/a", "/a") && is_within("/a", "/a/b"));
        assert!(!is_within("/a", "/ab") && !is_within("/a/b", "/a"));
    }

    #[test]
    fn walks_go_by_components() {
        let mut paths = ["b", "a/c", "a-b", "a", ".", "a/c/d"];
        paths.sort_by(|left, right| walk_order(left, right));
        assert_eq!(paths, [".", "a", "a/c", "a/c/d", "a-b", "b"]);
    }

    #[test]
    fn relative_paths_keep_the_rules() {
        for good in [".", "a", "a/b"] {
            assert!(is_relative(good), "{good:?}");
        }
        for bad in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\0"] {
            assert!(!is_relative(bad), "{bad:?}");
        }
    }
}

//! Paths and names of znodes: checks before any request, and composition.

use crate::error::{Error, Result};

/// Checks that the path follows the rules for znode paths.
pub(crate) fn check(path: &str) -> Result<()> {
    Ok(herdsman_client::check_path(path)?)
}

/// Does the same for a path that cannot be the root, such as that of an election or a queue.
pub(crate) fn check_below_root(what: &str, path: &str) -> Result<()> {
    if matches!(path, "" | "/") {
        return Err(Error::invalid(format!("{what} needs a path below the root")));
    }
    check(path)
}

/// Checks a name that is to be the last part of a path.
pub(crate) fn check_name<'n>(what: &str, name: &'n str) -> Result<&'n str> {
    if name.is_empty() || name.contains('/') {
        return Err(Error::invalid(format!("{what} must be a name without '/': {name:?}")));
    }
    Ok(name)
}

/// Returns the path of a child.
pub(crate) fn child(parent: &str, name: &str) -> String {
    format!("{}/{name}", parent.strip_suffix('/').unwrap_or(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_the_root_and_of_others() {
        assert_eq!((child("/", "a"), child("/a", "b")), ("/a".into(), "/a/b".into()));
    }

    #[test]
    fn what_cannot_be_a_path_or_a_name_is_refused() {
        assert!(check("/").is_ok() && check("/a/b").is_ok());
        for bad in ["", "a", "/a/", "/a//b", "/a/.."] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        assert!(
            check_below_root("a queue", "/").is_err() && check_below_root("a queue", "/q").is_ok()
        );
        assert!(check_name("an id", "").is_err() && check_name("an id", "a/b").is_err());
    }
}

//! Locations of subtrees: on this ensemble, on another one, or in an export file.
//!
//! | location | meaning |
//! |---|---|
//! | `/app` | a znode of the ensemble that the shell is connected to |
//! | `zk2:2181,zk3:2181//app` | `/app` of another ensemble: its servers, a slash, the path |
//! | `zk2:2181/chroot//app` | the same below a chroot |
//! | `before.jsonl`, `./dir/x` | an export file |
//! | `file:/var/x.jsonl` | an export file with an absolute path |

use std::path::PathBuf;

use herdsman_client::{ConnectString, check_path};

use super::error::{Result, SubtreeError};

/// The location of a subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// On the ensemble that the shell is connected to.
    Here(String),
    /// On another ensemble.
    Elsewhere {
        /// Its connect string.
        servers: String,
        /// The path there.
        path: String,
    },
    /// In an export file.
    File(PathBuf),
}

impl Location {
    /// Parses a location.
    pub fn parse(text: &str) -> Result<Self> {
        if text.starts_with('/') {
            check_path(text)?;
            return Ok(Location::Here(text.to_owned()));
        }
        if let Some(file) = text.strip_prefix("file:") {
            return Ok(Location::File(file.into()));
        }
        match text.split_once("//") {
            Some((servers, rest)) => {
                let path = format!("/{rest}");
                check_path(&path)?;
                servers.parse::<ConnectString>().map_err(|error| {
                    let hint = "a file with // in its name must be given as file:NAME";
                    SubtreeError::Mistake(format!("servers {servers:?}: {error}; {hint}"))
                })?;
                Ok(Location::Elsewhere { servers: servers.to_owned(), path })
            }
            None if text.is_empty() => Err(SubtreeError::mistake("the location is empty")),
            None => Ok(Location::File(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elsewhere(servers: &str, path: &str) -> Location {
        Location::Elsewhere { servers: servers.to_owned(), path: path.to_owned() }
    }

    #[test]
    fn the_beginning_decides_the_kind_of_location() {
        for (text, expected) in [
            ("/", Location::Here("/".to_owned())),
            ("/app/a", Location::Here("/app/a".to_owned())),
            ("zk2:2181//app", elsewhere("zk2:2181", "/app")),
            ("zk2//", elsewhere("zk2", "/")),
            ("a:1,b:2/root//app/x", elsewhere("a:1,b:2/root", "/app/x")),
            ("before.jsonl", Location::File("before.jsonl".into())),
            ("../x", Location::File("../x".into())),
            ("file:/tmp//x", Location::File("/tmp//x".into())),
        ] {
            assert_eq!(Location::parse(text).unwrap(), expected, "{text}");
        }
        for bad in ["", "//app", "/app/", "zk2:x//app", "zk2:2181//app/", "zk2:2181///app"] {
            assert!(Location::parse(bad).is_err(), "{bad:?}");
        }
    }
}

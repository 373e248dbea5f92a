//! Equal digests: servers that have delivered the same txns have the same tree. Source: the tree digest
//! of ZOOKEEPER-3512, here compared between servers after every single txn.

use super::{Checker, Fact};
use crate::chronicle::{Chronicle, content};

/// Compares every server's tree with that of the chronicle.
pub struct Digests;

impl Checker for Digests {
    fn name(&self) -> &'static str {
        "equal digests"
    }

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::DigestMismatch { place, zxid } => {
                Err(format!("server {place} itself found a wrong digest after {zxid}"))
            }
            Fact::Stands { place, tree } => {
                let zxid = tree.last_zxid();
                match chronicle.get(zxid) {
                    Some(known) if known.digest != tree.digest() => {
                        Err(format!("server {place} has another tree after {zxid}"))
                    }
                    _ => Ok(()),
                }
            }
            Fact::AtRest { trees } => {
                let expected = content(chronicle.tree());
                for (place, tree) in *trees {
                    let found = content(tree);
                    let differs = |path: &&String| found.get(*path) != expected.get(*path);
                    if let Some(path) = expected.keys().chain(found.keys()).find(differs) {
                        return Err(format!(
                            "server {place} has another {path} at rest: {:?}, not {:?}",
                            found.get(path),
                            expected.get(path)
                        ));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

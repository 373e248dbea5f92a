//! Equal digests: servers that have delivered the same txns have the same tree. Source: the tree digest
//! of ZOOKEEPER-3512, here compared between servers after every single txn; whole trees, with ACLs and sessions, are
//! compared now and then.

use herdsman_tree::Tree;

use super::{Checker, Fact};
use crate::chronicle::{Chronicle, content};
use crate::world::ServerIndex;

/// Compares every server's tree with that of the chronicle.
pub struct Digests;

impl Checker for Digests {
    fn name(&self) -> &'static str {
        "equal digests"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::DigestMismatch { place, zxid } => {
                Err(format!("server {place} itself found a wrong digest after {zxid}"))
            }
            Fact::Shown { place, tree } => {
                let zxid = tree.last_zxid();
                match chronicle.get(zxid) {
                    Some(known) if known.digest != tree.digest() => {
                        Err(format!("server {place} has another tree after {zxid}"))
                    }
                    // ACLs and sessions are in no digest.
                    Some(_) if zxid == chronicle.last() && zxid.counter() % 8 == 0 => {
                        compare(*place, tree, chronicle)
                    }
                    _ => Ok(()),
                }
            }
            Fact::AtRest { trees } => {
                trees.iter().try_for_each(|(place, tree)| compare(*place, tree, chronicle))
            }
            _ => Ok(()),
        }
    }
}

/// Everything that is in a tree, with the sessions.
fn compare(place: ServerIndex, tree: &Tree, chronicle: &Chronicle) -> Result<(), String> {
    let (found, expected) = (content(tree), content(chronicle.tree()));
    let differs = |path: &&String| found.get(*path) != expected.get(*path);
    match expected.keys().chain(found.keys()).find(differs) {
        None => Ok(()),
        Some(path) => Err(format!(
            "server {place} has another {path} after {}: {:?}, not {:?}",
            tree.last_zxid(),
            found.get(path),
            expected.get(path)
        )),
    }
}

//! Ephemeral lifetime: an ephemeral znode is made only in an open session, and nowhere outlives it.
//! Source: "ephemeral nodes" (Apache's programmer's guide); ZOOKEEPER-1208, 1496, 2355, 3144.

use herdsman_proto::Txn;

use super::{Checker, Fact, has_effect};
use crate::chronicle::Chronicle;

/// Looks at sessions whenever a txn is committed, and at every tree that clients see.
pub struct Ephemerals;

impl Checker for Ephemerals {
    fn name(&self) -> &'static str {
        "ephemeral lifetime"
    }

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Committed { zxid, entry } => {
                let session = entry.header.session;
                let is_open = chronicle.tree().sessions().any(|(open, _)| open == session);
                let is_about_session =
                    matches!(entry.txn, Txn::CreateSession { .. } | Txn::CloseSession { .. });
                let needs_session = has_effect(&entry.txn) && !is_about_session;
                if needs_session && !is_open {
                    return Err(format!("{zxid} is of session {session}, which is not open"));
                }
                Ok(())
            }
            Fact::Stands { place, tree } => {
                let orphans = tree.orphan_ephemeral_owners();
                if orphans.is_empty() {
                    return Ok(());
                }
                Err(format!(
                    "server {place} has ephemerals of sessions {orphans:?} after {}, which are over",
                    tree.last_zxid()
                ))
            }
            _ => Ok(()),
        }
    }
}

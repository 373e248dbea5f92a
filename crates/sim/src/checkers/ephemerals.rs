//! Ephemeral lifetime: an ephemeral znode is made only in an open session, and nowhere outlives it.
//! Source: "ephemeral nodes" (Apache's programmer's guide); ZOOKEEPER-1208, 1496, 2355, 3144.
//!
//! A session that has ended changes nothing any more. One that never was open for the whole ensemble may be
//! a local one, if there are such: it writes, but owns nothing.

use std::collections::BTreeSet;

use herdsman_node::LocalSessions;
use herdsman_proto::txn::CreateKind;
use herdsman_proto::{SessionId, Txn, Zxid};

use super::{Checker, Fact, has_effect};
use crate::chronicle::{Chronicle, PathHistory};

/// Looks at sessions whenever a txn is committed, and at every tree that clients see.
pub struct Ephemerals {
    local_sessions: LocalSessions,
    ended: BTreeSet<SessionId>,
}

impl Ephemerals {
    /// No session has ended.
    pub fn new(local_sessions: LocalSessions) -> Self {
        Ephemerals { local_sessions, ended: BTreeSet::new() }
    }

    /// Whether a session that is not open may do this.
    fn may_be_local(&self, session: SessionId, txn: &Txn) -> bool {
        self.local_sessions != LocalSessions::Off
            && !self.ended.contains(&session)
            && !makes_ephemeral(txn)
    }
}

/// The end of a session deletes its znodes, all of them and no others.
fn check_end(
    zxid: Zxid,
    session: SessionId,
    listed: Option<&[Box<str>]>,
    chronicle: &Chronicle,
) -> Result<(), String> {
    let is_own = |past: &PathHistory| {
        past.view_at(zxid).is_some_and(|view| view.decoded().ephemeral_owner == session.0)
    };
    let own = chronicle.pasts_below("/").filter(|(_, past)| is_own(past));
    let own: BTreeSet<&str> = own.map(|(path, _)| path).collect();
    let listed: BTreeSet<&str> = listed.into_iter().flatten().map(|path| &**path).collect();
    if own == listed {
        return Ok(());
    }
    Err(format!("{zxid} ends session {session} and deletes {listed:?}, it owned {own:?}"))
}

fn makes_ephemeral(txn: &Txn) -> bool {
    match txn {
        Txn::Create(create) => {
            matches!(create.kind, CreateKind::Plain { ephemeral: true, .. })
        }
        Txn::Multi(txns) => txns.iter().any(makes_ephemeral),
        _ => false,
    }
}

impl Checker for Ephemerals {
    fn name(&self) -> &'static str {
        "ephemeral lifetime"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Committed { zxid, entry } => {
                let session = entry.header.session;
                let is_open = chronicle.tree().sessions().any(|(open, _)| open == session);
                let is_without_session = matches!(
                    entry.txn,
                    Txn::CreateSession { .. }
                        | Txn::CloseSession { .. }
                        | Txn::Delete { container: true, .. }
                );
                let needs_session = has_effect(&entry.txn) && !is_without_session;
                if let Txn::CloseSession { ephemerals } = &entry.txn {
                    self.ended.insert(session);
                    check_end(*zxid, session, ephemerals.as_deref(), chronicle)?;
                }
                if needs_session && !is_open && !self.may_be_local(session, &entry.txn) {
                    return Err(format!("{zxid} is of session {session}, which is not open"));
                }
                Ok(())
            }
            Fact::Shown { place, tree } => {
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

//! Ephemeral lifetime: an ephemeral znode is made only in an open session, and nowhere outlives it.
//! Source: "ephemeral nodes" (Apache's programmer's guide); ZOOKEEPER-1208, 1496, 2355, 3144.
//!
//! A session that has ended, or is ending in several txns, changes nothing any more. One that never was open for the
//! whole ensemble may be a local one, if there are such: it writes, but owns nothing.

use std::collections::BTreeSet;

use herdsman_node::LocalSessions;
use herdsman_proto::txn::{CreateKind, Entry};
use herdsman_proto::{SessionId, Txn, Zxid};

use super::{Checker, Fact, begins_end, has_effect, is_step_of_end};
use crate::chronicle::{Chronicle, PathHistory};

/// Looks at sessions whenever a txn is committed, and at every tree that clients see.
pub struct Ephemerals {
    local_sessions: LocalSessions,
    /// How many of them one txn deletes at the end of their session.
    per_txn_max: usize,
    ended: BTreeSet<SessionId>,
}

impl Ephemerals {
    /// No session has ended.
    pub fn new(local_sessions: LocalSessions, per_txn_max: usize) -> Self {
        Ephemerals { local_sessions, per_txn_max, ended: BTreeSet::new() }
    }

    fn check_txn(
        &mut self,
        zxid: Zxid,
        entry: &Entry,
        chronicle: &Chronicle,
    ) -> Result<(), String> {
        let Entry { header, txn, .. } = entry;
        let session = header.session;
        let is_open = chronicle.tree().session_timeout_ms(session).is_some();
        if begins_end(txn) && !is_open {
            return Err(format!("{zxid} begins the end of session {session}, which is not open"));
        }
        let is_without_session = matches!(
            txn,
            Txn::CreateSession { .. }
                | Txn::CloseSession { .. }
                | Txn::Delete { container: true, .. }
        );
        let needs_session = has_effect(txn) && !is_without_session;
        if let Txn::CloseSession { ephemerals } = txn {
            self.ended.insert(session);
            self.check_end(zxid, session, ephemerals.as_deref(), chronicle)?;
        }
        if needs_session && !is_open && !self.may_be_local(session, txn) {
            return Err(format!("{zxid} is of session {session}, which is not open"));
        }
        if needs_session && chronicle.tree().is_ending(session) {
            return Err(format!("{zxid} is of session {session}, which is ending"));
        }
        Ok(())
    }

    /// A txn that deletes some ephemerals of a session that is ending, and no other znodes.
    fn check_step(&self, zxid: Zxid, txn: &Txn, chronicle: &Chronicle) -> Result<(), String> {
        let Txn::Multi(deletions) = txn else { return Ok(()) };
        let owner = |deletion: &Txn| match deletion {
            Txn::Delete { path, container: false } => {
                let view = chronicle.past(path).view_at(zxid)?;
                Some(SessionId(view.decoded().ephemeral_owner))
            }
            _ => None,
        };
        let owners: BTreeSet<_> = deletions.iter().map(owner).collect();
        let mut owners = owners.into_iter();
        let is_of_one = match (owners.next(), owners.next()) {
            (Some(Some(session)), None) => chronicle.tree().is_ending(session),
            _ => false,
        };
        if is_of_one && deletions.len() <= self.per_txn_max {
            return Ok(());
        }
        Err(format!("{zxid} deletes {deletions:?}, not ephemerals of one session that is ending"))
    }

    /// The end of a session deletes its znodes, all of them and no others.
    fn check_end(
        &self,
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
        if own != listed {
            return Err(format!(
                "{zxid} ends session {session} and deletes {listed:?}, it owned {own:?}"
            ));
        }
        if own.len() > self.per_txn_max {
            return Err(format!("{zxid} ends session {session} and deletes {own:?} at once"));
        }
        Ok(())
    }

    /// Whether a session that is not open may do this.
    fn may_be_local(&self, session: SessionId, txn: &Txn) -> bool {
        self.local_sessions != LocalSessions::Off
            && !self.ended.contains(&session)
            && !makes_ephemeral(txn)
    }
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
            Fact::Committed { zxid, entry } if is_step_of_end(entry) => {
                self.check_step(*zxid, &entry.txn, chronicle)
            }
            Fact::Committed { zxid, entry } => self.check_txn(*zxid, entry, chronicle),
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

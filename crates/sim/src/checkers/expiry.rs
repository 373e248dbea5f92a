//! Expiry: a session is reported as expired only if its end is committed. A client that gets this report gives up the
//! session with all its ephemerals. Source: "ZooKeeper sessions" (Apache's programmer's guide): the ensemble
//! expires sessions. A server that has no leader cannot know it, and what a leader without a quorum decides may be
//! rolled back.
//!
//! A leader of the past may not have heard of a session that was opened since; a client that has seen nothing
//! newer than that is not judged.

use std::collections::{BTreeMap, BTreeSet};

use herdsman_proto::{ErrorCode, SessionId, Txn, Zxid};

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// When sessions were opened, and which of them have ended.
#[derive(Default)]
pub struct Expiry {
    opened: BTreeMap<SessionId, Zxid>,
    ended: BTreeSet<SessionId>,
}

impl Checker for Expiry {
    fn name(&self) -> &'static str {
        "expiry"
    }

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Committed { zxid, entry } => {
                let session = entry.header.session;
                match entry.txn {
                    // The mark of a session whose end takes several txns.
                    Txn::CreateSession { timeout_ms } if timeout_ms < 0 => {
                        self.ended.insert(session);
                    }
                    Txn::CreateSession { .. } => {
                        self.opened.entry(session).or_insert(*zxid);
                    }
                    Txn::CloseSession { .. } => {
                        self.ended.insert(session);
                    }
                    _ => {}
                }
                Ok(())
            }
            Fact::Expired { client, session, seen } => self.check(*client, *session, *seen),
            Fact::Replied(reply) if reply.code == ErrorCode::SessionExpired.code() => {
                self.check(reply.client, reply.session, reply.seen)
            }
            _ => Ok(()),
        }
    }
}

impl Expiry {
    fn check(&self, client: usize, session: SessionId, seen: Zxid) -> Result<(), String> {
        let is_known = self.opened.get(&session).is_some_and(|opened| *opened <= seen);
        if !is_known || self.ended.contains(&session) {
            return Ok(());
        }
        Err(format!(
            "client {client} was told that session {session} has expired, but its end is not committed"
        ))
    }
}

//! Durability: a write that was answered is in the history, with the effect that the answer says, and
//! stays there; and the answer is the answer to that request and to no other. Source: "once a request has
//! been applied, it persists" (Apache's programmer's guide, consistency guarantees). That the history itself
//! is never shortened is [`super::prefix_consistency`].

use std::collections::BTreeSet;

use herdsman_proto::{ErrorCode, Txn, Zxid};

use super::{Checker, Fact, Reply};
use crate::chronicle::Chronicle;

/// Compares answers with the history.
#[derive(Default)]
pub struct Durability {
    /// Txns that were answered.
    answered: BTreeSet<Zxid>,
}

impl Checker for Durability {
    fn name(&self) -> &'static str {
        "durability"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Replied(reply) if reply.is_done_write(chronicle) => {
                if !self.answered.insert(reply.zxid) {
                    return Err(format!("{} is the answer to two requests", reply.zxid));
                }
                check(reply, chronicle)
            }
            // An error may be a txn of its own.
            Fact::Replied(reply) if reply.op.is_write() && reply.code != 0 => {
                let txn = chronicle.get(reply.zxid).map(|committed| &committed.entry);
                let is_own = txn.is_some_and(|entry| {
                    entry.header.session == reply.session && entry.txn == Txn::Error(reply.code)
                });
                if is_own && !self.answered.insert(reply.zxid) {
                    return Err(format!("{} is the answer to two requests", reply.zxid));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn check(reply: &Reply<'_>, chronicle: &Chronicle) -> Result<(), String> {
    let Reply { client, session, xid, op, zxid, body, .. } = reply;
    let Some(committed) = chronicle.get(*zxid) else {
        return Err(format!(
            "request {xid} of client {client} was answered with {zxid}, which nobody delivered"
        ));
    };
    let entry = &committed.entry;
    if entry.header.session != *session || !op.may_become(&entry.txn) {
        return Err(format!(
            "{op:?} of session {session} was answered with {zxid}, which is {:?} of {}",
            entry.txn, entry.header.session
        ));
    }
    let is_same = committed.reply.as_deref() == Ok(&body[..])
        || committed.reply.as_ref().is_ok_and(|reply| as_local_session(reply) == body[..]);
    if !is_same {
        return Err(format!(
            "request {xid} of client {client} was answered wrongly: {body:?}, not {:?}",
            committed.reply
        ));
    }
    Ok(())
}

/// The answer to a multi of a local session with an ephemeral in it: to the leader that session does not exist, and
/// the server that has it says so in other words (docs/compatibility.md).
fn as_local_session(reply: &[u8]) -> Vec<u8> {
    let codes = [ErrorCode::SessionExpired, ErrorCode::EphemeralOnLocalSession];
    let [expired, local] = codes.map(|code| code.code().to_be_bytes());
    let mut words = reply.to_vec();
    let mut at = 0;
    while at + 4 <= words.len() {
        if words[at..at + 4] == expired {
            words[at..at + 4].copy_from_slice(&local);
            at += 3;
        }
        at += 1;
    }
    words
}

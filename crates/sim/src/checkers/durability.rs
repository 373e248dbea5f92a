//! Durability: a write that was answered is in the history, with the effect that the answer says, and
//! stays there; and the answer is the answer to that request and to no other. Source: "once a request has
//! been applied, it persists" (Apache's programmer's guide, consistency guarantees). That the history itself
//! is never shortened is [`super::prefix_consistency`].

use std::collections::BTreeSet;

use herdsman_proto::Zxid;

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

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Replied(reply) if reply.is_done_write(chronicle) => {
                if !self.answered.insert(reply.zxid) {
                    return Err(format!("{} is the answer to two requests", reply.zxid));
                }
                check(reply, chronicle)
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
    if committed.reply.as_deref() != Ok(&body[..]) {
        return Err(format!(
            "request {xid} of client {client} was answered wrongly: {body:?}, not {:?}",
            committed.reply
        ));
    }
    Ok(())
}

//! Durability: a write that was answered is in the history, with the effect that the answer says, and
//! stays there. Source: "once a request has been applied, it persists" (Apache's programmer's guide,
//! consistency guarantees). That the history itself is never shortened is [`super::prefix_consistency`].

use herdsman_proto::Zxid;

use super::{Checker, Fact, Reply};
use crate::chronicle::Chronicle;

/// Compares answers with the history.
#[derive(Default)]
pub struct Durability {
    last_answered: Zxid,
}

impl Checker for Durability {
    fn name(&self) -> &'static str {
        "durability"
    }

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Replied(reply) if reply.op.is_write() && reply.code == 0 => {
                self.last_answered = self.last_answered.max(reply.zxid);
                check(reply, chronicle)
            }
            Fact::AtRest { trees } => {
                let behind = trees.iter().find(|(_, tree)| tree.last_zxid() < self.last_answered);
                match behind {
                    Some((place, tree)) => Err(format!(
                        "{} was answered, but server {place} ends with {}",
                        self.last_answered,
                        tree.last_zxid()
                    )),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

fn check(reply: &Reply<'_>, chronicle: &Chronicle) -> Result<(), String> {
    let Reply { client, session, xid, zxid, body, .. } = reply;
    let Some(committed) = chronicle.get(*zxid) else {
        return Err(format!(
            "request {xid} of client {client} was answered with {zxid}, which nobody delivered"
        ));
    };
    let header = &committed.entry.header;
    if header.session != *session || header.cxid != *xid {
        return Err(format!(
            "request {xid} of session {session} was answered with {zxid}, which is request {} of {}",
            header.cxid, header.session
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

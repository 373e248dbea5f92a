//! Linearizable writes: a write that was sent after another was answered comes after it in the order of
//! all writes, and a sync that was sent after it shows it. Source: "linearizable writes" and "slow reads" in the
//! ZooKeeper paper (§2.3, §2.4).
//!
//! That holds across leaders: a leader that has been replaced without noticing must not answer a sync from its past.

use std::collections::BTreeMap;

use herdsman_proto::Zxid;

use super::{Checker, Fact, Reply};
use crate::chronicle::Chronicle;
use crate::client::Op;

/// The requests on their way.
#[derive(Default)]
pub struct LinearizableWrites {
    answered: Zxid,
    /// For each, the last write that had been answered when it was sent.
    invoked: BTreeMap<(usize, i32), Zxid>,
}

impl Checker for LinearizableWrites {
    fn name(&self) -> &'static str {
        "linearizable writes"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Invoked { client, xid, .. } => {
                self.invoked.insert((*client, *xid), self.answered);
                Ok(())
            }
            Fact::Replied(reply) => self.take(reply, chronicle),
            Fact::Disconnected { client } => {
                self.invoked.retain(|(owner, _), _| owner != client);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl LinearizableWrites {
    fn take(&mut self, reply: &Reply<'_>, chronicle: &Chronicle) -> Result<(), String> {
        let Reply { client, xid, op, zxid, .. } = reply;
        let Some(answered) = self.invoked.remove(&(*client, *xid)) else {
            return Ok(());
        };
        let is_write = reply.is_done_write(chronicle);
        let is_sync = **op == Op::Sync && reply.code == 0 && !reply.read_only;
        if is_write {
            self.answered = self.answered.max(*zxid);
        }
        if (is_write && answered >= *zxid) || (is_sync && answered > *zxid) {
            return Err(format!(
                "{op:?}, request {xid} of client {client}, was answered as of {zxid}, though {answered} had been answered before"
            ));
        }
        Ok(())
    }
}

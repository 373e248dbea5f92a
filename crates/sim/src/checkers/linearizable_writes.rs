//! Linearizable writes: a write that was sent after another was answered comes after it in the order of
//! all writes, and a sync that was sent after it shows it. Source: "linearizable writes" and "slow reads" in the
//! ZooKeeper paper (§2.3, §2.4).
//!
//! A leader answers syncs without asking its followers, so one that does not know yet that there is another one
//! may show too little. A sync is judged only if there was one leader when it was sent, and no new one since.

use std::collections::BTreeMap;

use herdsman_proto::Zxid;

use super::{Checker, Fact, Reply};
use crate::chronicle::Chronicle;
use crate::client::Op;

/// What is known when a request is sent.
struct Invoked {
    /// The last write that had been answered.
    answered: Zxid,
    /// The newest leader's epoch, if it is the only leader.
    epoch: Option<u32>,
}

/// The requests on their way.
#[derive(Default)]
pub struct LinearizableWrites {
    answered: Zxid,
    epoch: u32,
    invoked: BTreeMap<(usize, i32), Invoked>,
}

impl Checker for LinearizableWrites {
    fn name(&self) -> &'static str {
        "linearizable writes"
    }

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Established { epoch, .. } => {
                self.epoch = self.epoch.max(*epoch);
                Ok(())
            }
            Fact::Invoked { client, xid, one_leader, .. } => {
                let epoch = one_leader.then_some(self.epoch);
                let invoked = Invoked { answered: self.answered, epoch };
                self.invoked.insert((*client, *xid), invoked);
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
        let Some(Invoked { answered, epoch }) = self.invoked.remove(&(*client, *xid)) else {
            return Ok(());
        };
        let is_write = reply.is_done_write(chronicle);
        let is_judged = epoch == Some(self.epoch) && !reply.read_only;
        let is_sync = **op == Op::Sync && reply.code == 0 && is_judged;
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

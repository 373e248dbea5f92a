//! Linearizable writes: a write that was sent after another was answered comes after it in the order of
//! all writes. Source: "linearizable writes" in the ZooKeeper paper (§2.3).

use std::collections::BTreeMap;

use herdsman_proto::Zxid;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// For each request on its way the last write that had been answered when it was sent.
#[derive(Default)]
pub struct LinearizableWrites {
    answered: Zxid,
    invoked: BTreeMap<(usize, i32), Zxid>,
}

impl Checker for LinearizableWrites {
    fn name(&self) -> &'static str {
        "linearizable writes"
    }

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Invoked { client, xid } => {
                self.invoked.insert((*client, *xid), self.answered);
                Ok(())
            }
            Fact::Replied(reply) => {
                let before = self.invoked.remove(&(reply.client, reply.xid));
                if !reply.is_done_write(chronicle) {
                    return Ok(());
                }
                self.answered = self.answered.max(reply.zxid);
                match before {
                    Some(before) if before >= reply.zxid => Err(format!(
                        "request {} of client {} became {}, though {before} had been answered before",
                        reply.xid, reply.client, reply.zxid
                    )),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

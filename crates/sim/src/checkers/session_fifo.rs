//! Session FIFO: the writes of a session take effect in the order in which its client sent them, and
//! answers come in that order too. Source: "FIFO client order" in the ZooKeeper paper (§2.3).
//!
//! That answers come in order is seen by the client itself, which knows only one request at the front.

use std::collections::BTreeMap;

use herdsman_proto::SessionId;

use super::{Checker, Fact, has_effect};
use crate::chronicle::Chronicle;

/// The last request of each session that took effect.
#[derive(Default)]
pub struct SessionFifo {
    last: BTreeMap<SessionId, i32>,
}

impl Checker for SessionFifo {
    fn name(&self) -> &'static str {
        "session FIFO"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        let Fact::Committed { zxid, entry } = fact else {
            return Ok(());
        };
        let (session, cxid) = (entry.header.session, entry.header.cxid);
        // The server's own txns have no number, and an error has no effect.
        if cxid == 0 || !has_effect(&entry.txn) {
            return Ok(());
        }
        match self.last.insert(session, cxid) {
            Some(last) if last >= cxid => Err(format!(
                "{zxid} is request {cxid} of session {session}, request {last} took effect before"
            )),
            _ => Ok(()),
        }
    }
}

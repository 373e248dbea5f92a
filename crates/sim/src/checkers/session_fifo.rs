//! Session FIFO: the writes of a session take effect in the order in which its client sent them, and
//! answers come in that order too. Source: "FIFO client order" in the ZooKeeper paper (§2.3).
//!
//! The order in which a client sent its writes is the order of the numbers in their data. That answers come
//! in order is seen by the client itself, which knows only one request at the front.

use std::collections::BTreeMap;

use herdsman_proto::SessionId;

use super::{Checker, Fact, has_effect};
use crate::chronicle::Chronicle;
use crate::client::serial;

/// The last write of each session that took effect.
#[derive(Default)]
pub struct SessionFifo {
    last: BTreeMap<SessionId, u64>,
}

impl Checker for SessionFifo {
    fn name(&self) -> &'static str {
        "session FIFO"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        let Fact::Committed { zxid, entry } = fact else {
            return Ok(());
        };
        let session = entry.header.session;
        let Some(number) = serial(&entry.txn).filter(|_| has_effect(&entry.txn)) else {
            return Ok(());
        };
        match self.last.insert(session, number) {
            Some(last) if last >= number => Err(format!(
                "{zxid} is write {number} of session {session}, write {last} took effect before"
            )),
            _ => Ok(()),
        }
    }
}

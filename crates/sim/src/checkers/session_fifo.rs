//! Session FIFO: every write that takes effect was sent by the client of its session, takes effect once, and in the
//! order in which the client sent them; answers come in that order too. Source: "FIFO client order" in the ZooKeeper
//! paper (§2.3).
//!
//! That answers come in order is seen by the client itself, which knows only one request at the front.

use std::collections::{BTreeMap, VecDeque};

use herdsman_proto::{SessionId, Txn};

use super::{Checker, Fact, has_effect, is_step_of_end};
use crate::chronicle::Chronicle;
use crate::client::Op;

/// The writes of each session that were sent after the last one that took effect.
#[derive(Default)]
pub struct SessionFifo {
    sent: BTreeMap<SessionId, VecDeque<Op>>,
}

impl Checker for SessionFifo {
    fn name(&self) -> &'static str {
        "session FIFO"
    }

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Invoked { session, op, .. } if op.is_write() => {
                self.sent.entry(*session).or_default().push_back((*op).clone());
                Ok(())
            }
            Fact::Committed { zxid, entry } => {
                let is_of_server = matches!(
                    entry.txn,
                    Txn::CreateSession { .. }
                        | Txn::CloseSession { .. }
                        | Txn::Delete { container: true, .. }
                );
                let is_of_server = is_of_server || is_step_of_end(entry);
                if is_of_server || !has_effect(&entry.txn) {
                    return Ok(());
                }
                let session = entry.header.session;
                let sent = self.sent.entry(session).or_default();
                match sent.iter().position(|op| op.may_become(&entry.txn)) {
                    Some(at) => {
                        sent.drain(..=at);
                        Ok(())
                    }
                    None => Err(format!(
                        "{zxid} is {:?} of session {session}, which has sent no such request after its last one",
                        entry.txn
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}

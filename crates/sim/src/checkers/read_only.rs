//! Read-only service: a server without a leader changes nothing. Writes and syncs are refused with
//! NotReadOnly for every client. Source: `ReadOnlyZooKeeperServer` in Apache ZooKeeper.

use herdsman_proto::ErrorCode;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;
use crate::client::Op;

/// Looks at answers of servers without a leader.
pub struct ReadOnly;

impl Checker for ReadOnly {
    fn name(&self) -> &'static str {
        "read-only service"
    }

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        let Fact::Replied(reply) = fact else { return Ok(()) };
        let refused = reply.code == ErrorCode::NotReadOnly.code();
        let needs_leader =
            (reply.op.is_write() || *reply.op == Op::Sync) && *reply.op != Op::CloseSession;
        if refused == (reply.read_only && needs_leader) {
            return Ok(());
        }
        let server = if reply.read_only { "a read-only server" } else { "a server with a leader" };
        Err(format!(
            "{server} answered {:?} of client {} with {}",
            reply.op, reply.client, reply.code
        ))
    }
}

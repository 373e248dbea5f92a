//! Read your writes, and never backwards: no answer shows a client an older state than it has seen,
//! whichever server it speaks to, nor an older one than an event on the same connection has told of.
//! Source: "single system image" and "what ZooKeeper guarantees about watches" (Apache's programmer's guide).

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// Compares every answer with what its client had seen before.
pub struct ReadYourWrites;

impl Checker for ReadYourWrites {
    fn name(&self) -> &'static str {
        "read your writes"
    }

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        let Fact::Replied(reply) = fact else { return Ok(()) };
        let known = reply.seen.max(reply.heard);
        // Credentials are answered without a look at the tree.
        if reply.zxid >= known || matches!(reply.op, crate::client::Op::Auth { .. }) {
            return Ok(());
        }
        Err(format!(
            "client {} was answered as of {}, but had seen {} and heard of {}",
            reply.client, reply.zxid, reply.seen, reply.heard
        ))
    }
}

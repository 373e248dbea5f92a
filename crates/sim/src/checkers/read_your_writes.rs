//! Read your writes, and never backwards: no answer shows a client an older state than it has seen,
//! whichever server it speaks to. Source: "single system image" (Apache's programmer's guide,
//! consistency guarantees).

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// Compares every answer with what its client had seen before.
pub struct ReadYourWrites;

impl Checker for ReadYourWrites {
    fn name(&self) -> &'static str {
        "read your writes"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Replied(reply) if reply.zxid < reply.seen => Err(format!(
                "client {} was answered as of {}, but had seen {}",
                reply.client, reply.zxid, reply.seen
            )),
            _ => Ok(()),
        }
    }
}

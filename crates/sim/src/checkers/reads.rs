//! Reads are of their time: what a read shows is the tree as of the zxid that its answer carries, no more
//! and no less. Source: "atomicity" and "single system image" (Apache's programmer's guide); with it,
//! [`super::read_your_writes`] says something about content and not only about numbers.

use herdsman_proto::ErrorCode;

use super::{Checker, Fact, Reply};
use crate::chronicle::{Chronicle, Look, sorted_names};
use crate::client::Op;

/// Compares what is read with the chronicle.
pub struct Reads;

impl Checker for Reads {
    fn name(&self) -> &'static str {
        "reads are of their time"
    }

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        let Fact::Replied(reply) = fact else {
            return Ok(());
        };
        let (Op::GetData { path, .. } | Op::Exists { path, .. } | Op::GetChildren { path, .. }) =
            reply.op
        else {
            return Ok(());
        };
        if reply.code != 0 && reply.code != ErrorCode::NoNode.code() {
            return Ok(());
        }
        let look = chronicle.past(path).look_at(reply.zxid);
        if is_same(reply, look) {
            return Ok(());
        }
        Err(format!(
            "client {} read {path} as of {} and got {} {:?}, not {look:?}",
            reply.client, reply.zxid, reply.code, reply.body
        ))
    }
}

fn is_same(reply: &Reply<'_>, look: Option<&Look>) -> bool {
    let Some(look) = look else {
        return reply.code != 0;
    };
    reply.code == 0
        && match reply.op {
            Op::GetData { .. } => reply.body[..] == look.data[..],
            Op::Exists { .. } => reply.body[..] == *look.stat(),
            _ => sorted_names(reply.body) == look.children,
        }
}

//! Reads, answered from the tree by any thread that holds its lock.
//!
//! Most never reach a node: the thread that owns a connection answers them itself. A read that follows a
//! write of its own session has to see it, and the session's next request must not overtake the
//! read; so it is passed to the node like the write and answered in its turn, between two txns.

use herdsman_proto::{ErrorCode, JuteReader, OpCode, ReadRequest, Request, Xid, reply};
use herdsman_tree::{Tree, read};

/// Appends the reply to a read, and returns the error in it, if any. Events that `setWatches` finds precede its
/// reply.
pub fn answer(
    tree: &Tree,
    reader: read::ReadCaller<'_>,
    op: OpCode,
    xid: Xid,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let zxid = tree.last_zxid();
    let refusal = match Request::decode(op, &mut JuteReader::new(body)) {
        Ok(Request::Read(ReadRequest::SetWatches(watches))) => {
            tree.set_watches(reader, &watches, out).err()
        }
        Ok(Request::Read(request)) => {
            return reply::reply(out, xid, zxid, |out| tree.read(reader, &request, out));
        }
        Ok(Request::Ping) => {
            reply::header_only(out, Xid::PING, zxid, None);
            return Ok(());
        }
        Ok(_) | Err(_) => Some(ErrorCode::MarshallingError),
    };
    reply::header_only(out, xid, zxid, refusal);
    refusal.map_or(Ok(()), Err)
}

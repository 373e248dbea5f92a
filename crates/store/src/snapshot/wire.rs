//! Sends the tree from a leader to a learner that is too far behind, and receives it there.
//!
//! ```text
//! sessions, ACLs, znodes, "/"      as in a file
//! signature                        "BenWasHere" as a string
//! ```
//! No header, no checksums, no trailer: the zxid is in the SNAP packet before it, TCP is trusted with
//! the bytes, and the signature says that the sender intended to stop here. No release sends more: the
//! optional parts of files (digest, last zxid) are never sent.
//!
//! **Sending** is stepwise: [`WireSnapshot::step`] encodes some znodes under the tree's read guard, and
//! the caller sends them without it. The tree changes meanwhile, so what is sent is fuzzy,
//! like a file. It is correct for the same reason: every txn after [`WireSnapshot::zxid`] is sent after it
//! and applied over it.
//!
//! **Receiving** reads exactly the bytes of the snapshot, because packets follow on the same connection.
//! No length and no count is trusted: a field longer than the limit is refused, everything else takes
//! only memory for the bytes that were received.
//!
//! What is received is *not* durable and must not be served or acked: see [`crate::install`].
//!
//! Deliberately not here: the SNAP packet, sockets, timeouts (set them on the stream; an error of the
//! stream ends the reading).
//!
//! Apache: `LearnerHandler.run`, `Learner.syncWithLeader`, `ZKDatabase.serializeSnapshot`. There the
//! learner's own tree is cleared before the first byte is read (ZOOKEEPER-2872, -3642); here it is not
//! touched.

use std::io::Read;

use herdsman_proto::{JuteReader, JuteWrite, Zxid};
use herdsman_tree::{Dump, Loader, Tree, TreeOptions};

use super::input::{Input, ReadAhead};
use super::parts::{SnapshotFault, read_parts};
use super::{encode_end, encode_node, encode_tables};

/// The signature after the znodes.
const SIGNATURE: &str = "BenWasHere";

/// Encodes a tree in steps.
#[derive(Debug)]
pub struct WireSnapshot {
    dump: Dump,
    stage: Stage,
}

/// The part to encode next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Tables,
    Nodes,
    Done,
}

impl WireSnapshot {
    /// Starts with the tree as it is now. Every later step must get the same tree.
    #[must_use]
    pub fn start(tree: &Tree) -> Self {
        WireSnapshot { dump: Dump::start(tree), stage: Stage::Tables }
    }

    /// The last txn that is surely contained: the zxid of the SNAP packet.
    #[must_use]
    pub fn zxid(&self) -> Zxid {
        self.dump.zxid()
    }

    /// Appends up to `nodes_max` znodes to `out`, and after the last one the end. Returns false if nothing
    /// is left. A step with large znodes ends when it has added a mebibyte.
    pub fn step(&mut self, tree: &Tree, nodes_max: usize, out: &mut Vec<u8>) -> bool {
        if self.stage == Stage::Tables {
            encode_tables(self.dump.sessions(), self.dump.acls(), out);
            self.stage = Stage::Nodes;
        }
        if self.stage == Stage::Nodes {
            let more = self.dump.step(tree, nodes_max, &mut |path, data, acl_key, stat| {
                encode_node(path, data, acl_key, stat, out);
            });
            if !more {
                encode_end(out);
                out.put_string(SIGNATURE);
                self.stage = Stage::Done;
            }
        }
        self.stage != Stage::Done
    }
}

/// A tree that was received from a leader.
#[derive(Debug)]
pub struct ReceivedSnapshot {
    /// The tree. Its zxid is that of the SNAP packet, though it may show effects of later txns: those
    /// follow on the same connection.
    pub tree: Tree,
    /// The last txn of which some znode shows an effect. Until that txn is applied, the tree is one that has never
    /// existed anywhere.
    pub newest_effect: Zxid,
    /// The number of received znodes.
    pub nodes: u64,
    /// The number of received bytes.
    pub bytes: u64,
}

/// An error of receiving a tree. The connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
#[error("the leader's snapshot cannot be used: {fault} (after {offset} bytes of it)")]
pub struct ReceiveError {
    /// The number of valid bytes before the fault.
    pub offset: u64,
    /// What is wrong.
    pub fault: SnapshotFault,
}

/// Reads what follows a SNAP packet, from a buffered stream, up to the signature and not further.
/// `zxid` is the packet's; a path, a znode's data or a name in an ACL may have at most
/// `field_bytes_max` bytes (Apache: `jute.maxbuffer` and its extra).
pub fn receive_snapshot(
    source: &mut dyn Read,
    zxid: Zxid,
    options: TreeOptions,
    field_bytes_max: usize,
) -> Result<ReceivedSnapshot, ReceiveError> {
    let mut input = Input::new(source, ReadAhead::Never, field_bytes_max);
    let mut loader = Loader::new(options);
    let result = read_signed(&mut input, &mut loader, zxid).and_then(|nodes| {
        let newest_effect = loader.newest_effect();
        let tree = loader.finish(zxid)?;
        Ok(ReceivedSnapshot { tree, newest_effect, nodes, bytes: input.offset() })
    });
    result.map_err(|fault| ReceiveError { offset: input.offset(), fault })
}

fn read_signed(
    input: &mut Input<'_, impl Read + ?Sized>,
    loader: &mut Loader,
    zxid: Zxid,
) -> Result<u64, SnapshotFault> {
    // No file name could contain it.
    if zxid < Zxid::ZERO {
        return Err(SnapshotFault::Zxid(zxid));
    }
    let nodes = read_parts(input, loader)?;
    let bytes = input.field_bytes(0)?;
    let signature = JuteReader::new(input.view(bytes)?).required_string()?;
    if signature != SIGNATURE {
        // Limit what a message can contain.
        return Err(SnapshotFault::Signature(signature.chars().take(40).collect()));
    }
    input.consume(bytes);
    Ok(nodes)
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

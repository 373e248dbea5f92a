//! The tree as a leader sends it to a learner that is too far behind, and as the learner takes it.
//!
//! ```text
//! sessions, ACLs, znodes, "/"      as in a file
//! signature                        "BenWasHere" as a string
//! ```
//! No header, no checksums, no trailer: the zxid stands in the SNAP packet before it, TCP is trusted with
//! the bytes, and the signature says that the sender meant to stop here. No release sends more: what is
//! optional in files (digest, last zxid) never travels.
//!
//! **Sending** is stepwise: [`WireSnapshot::step`] encodes some znodes under the tree's read guard, and
//! the caller writes them out without it. The tree goes on changing meanwhile, so what is sent is fuzzy,
//! like a file. It is sound for the same reason: every txn after [`WireSnapshot::zxid`] is sent behind it
//! and applied over it.
//!
//! **Receiving** reads exactly the bytes of the snapshot, because packets follow on the same connection.
//! No length and no count is believed: a field longer than the limit is refused, everything else costs
//! only the memory of what has really come.
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

/// What stands behind the znodes.
const SIGNATURE: &str = "BenWasHere";
/// A step ends early when it has encoded so much, however few znodes that were.
const STEP_BYTES_MAX: usize = 1 << 20;

/// A tree being sent.
#[derive(Debug)]
pub struct WireSnapshot {
    dump: Dump,
    stage: Stage,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Tables,
    Nodes,
    Done,
}

impl WireSnapshot {
    /// Starts with the tree as it is now. Every later step must be given this same tree.
    #[must_use]
    pub fn start(tree: &Tree) -> Self {
        WireSnapshot { dump: Dump::start(tree), stage: Stage::Tables }
    }

    /// The last txn that is surely contained: the zxid of the SNAP packet.
    #[must_use]
    pub fn zxid(&self) -> Zxid {
        self.dump.zxid()
    }

    /// Appends up to `nodes_max` znodes to `out`, and with the last of them the end. False when nothing
    /// is left. Empty `out` between the steps: a step that finds a mebibyte in it adds one znode only.
    pub fn step(&mut self, tree: &Tree, nodes_max: usize, out: &mut Vec<u8>) -> bool {
        if self.stage == Stage::Tables {
            encode_tables(self.dump.sessions(), self.dump.acls(), out);
            self.stage = Stage::Nodes;
        }
        for _ in 0..nodes_max {
            if self.stage == Stage::Done {
                break;
            }
            let more = self.dump.step(tree, 1, &mut |path, data, acl_key, stat| {
                encode_node(path, data, acl_key, stat, out);
            });
            if !more {
                encode_end(out);
                out.put_string(SIGNATURE);
                self.stage = Stage::Done;
            }
            if out.len() >= STEP_BYTES_MAX {
                break;
            }
        }
        self.stage != Stage::Done
    }
}

/// A tree that a leader has sent.
#[derive(Debug)]
pub struct ReceivedSnapshot {
    /// The tree. Its zxid is that of the SNAP packet, though it may show effects of later txns: those
    /// follow on the same connection.
    pub tree: Tree,
    /// The last txn of which some znode shows an effect. Before the tree is that far it has never
    /// existed anywhere.
    pub newest_effect: Zxid,
    /// Znodes that came.
    pub nodes: u64,
    /// Bytes that came.
    pub bytes: u64,
}

/// Why no tree was received. The connection is useless from here on.
#[derive(Debug, thiserror::Error)]
#[error("the leader's snapshot cannot be used: {fault} (after {offset} bytes of it)")]
pub struct ReceiveError {
    /// How much of it was right.
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
    // No file could be named by it.
    if zxid < Zxid::ZERO {
        return Err(SnapshotFault::Zxid(zxid));
    }
    let nodes = read_parts(input, loader)?;
    let bytes = input.field_bytes(0)?;
    let signature = JuteReader::new(input.view(bytes)?).required_string()?;
    if signature != SIGNATURE {
        // Whatever it is, it need not fill a log.
        return Err(SnapshotFault::Signature(signature.chars().take(40).collect()));
    }
    input.consume(bytes);
    Ok(nodes)
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

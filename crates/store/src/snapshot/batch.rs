//! Reads the znodes of a file in batches, so that one thread reads and checks them while another builds the tree
//! (see [`crate::ahead`]).
//!
//! In: an input positioned at the first znode. Out: the znodes, passed to a [`SnapshotVisitor`] in the
//! file's order. What does not need the tree is done ahead: decoding the fields, the
//! checksum of the bytes, the digest. A batch copies its content into two buffers instead of one
//! allocation for each field.

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use herdsman_proto::StatPersisted;
use herdsman_tree::LoadError;
use herdsman_tree::digest::znode_digest;

use super::input::Input;
use super::parts::{NodeView, SnapshotFault, SnapshotVisitor, view_node};
use crate::ahead::{FillThread, PassBatch, read_ahead};

/// A batch is passed on when its paths and data are longer.
const BATCH_BYTES: usize = 256 << 10;
/// A batch is passed on when it has this many znodes.
const BATCH_NODES: usize = 2048;

/// The number of znodes is estimated when this much of the file is read. Buffers read ahead, so it must not be too
/// little.
const FORECAST_SHARE: u64 = 16;

/// A batch of znodes.
#[derive(Default)]
struct ZnodeBatch {
    paths: String,
    data: Vec<u8>,
    nodes: Vec<BatchEntry>,
    /// How much of the file was read up to this batch.
    file_bytes: u64,
}

/// A znode whose path and data follow those of the one before it.
struct BatchEntry {
    /// Where it starts in the content.
    offset: u64,
    path_bytes: usize,
    data_bytes: Option<usize>,
    acl_key: i64,
    stat: StatPersisted,
    digest: Option<u32>,
}

impl ZnodeBatch {
    fn clear(&mut self) {
        // One long znode must not make all batches large forever.
        self.data.clear();
        self.data.shrink_to(2 * BATCH_BYTES);
        self.paths.clear();
        self.paths.shrink_to(2 * BATCH_BYTES);
        self.nodes.clear();
    }

    fn is_full(&self) -> bool {
        self.paths.len() + self.data.len() >= BATCH_BYTES || self.nodes.len() >= BATCH_NODES
    }

    fn note(&mut self, offset: u64, node: &NodeView<'_>, digest: Option<u32>) {
        self.paths.push_str(&node.path);
        self.data.extend_from_slice(node.data.unwrap_or_default());
        self.nodes.push(BatchEntry {
            offset,
            path_bytes: node.path.len(),
            data_bytes: node.data.map(<[u8]>::len),
            acl_key: node.acl_key,
            stat: node.stat,
            digest,
        });
    }

    /// Passes the znodes on. If the visitor refuses one, returns its offset and the reason.
    fn visit(&self, visitor: &mut dyn SnapshotVisitor) -> Result<(), (u64, LoadError)> {
        let (mut paths, mut data) = (&*self.paths, &*self.data);
        for node in &self.nodes {
            let (path, own_data);
            (path, paths) = paths.split_at(node.path_bytes);
            (own_data, data) = data.split_at(node.data_bytes.unwrap_or(0));
            let own_data = node.data_bytes.map(|_| own_data);
            let visited = match node.digest {
                Some(digest) => {
                    visitor.node_with_digest(path, own_data, node.acl_key, node.stat, digest)
                }
                None => visitor.node(path, own_data, node.acl_key, node.stat),
            };
            visited.map_err(|error| (node.offset, error))?;
        }
        Ok(())
    }
}

/// An error in the znodes of a file: the input is invalid at its position, or a
/// visitor refused the znode at an offset before that.
pub(super) enum NodesFault {
    Input(SnapshotFault),
    Refused(u64, LoadError),
}

/// How much of a file has been read.
pub(super) struct FileRead<'a> {
    pub(super) bytes: &'a AtomicU64,
    pub(super) bytes_total: u64,
}

/// Estimates the number of znodes for a visitor, from the first part of the file.
struct ZnodeEstimate {
    bytes_total: u64,
    nodes: u64,
    is_told: bool,
}

impl ZnodeEstimate {
    fn note(&mut self, batch: &ZnodeBatch, visitor: &mut dyn SnapshotVisitor) {
        self.nodes += batch.nodes.len() as u64;
        if !self.is_told && batch.file_bytes >= self.bytes_total / FORECAST_SHARE {
            self.is_told = true;
            let all = u128::from(self.nodes) * u128::from(self.bytes_total);
            let expected = all / u128::from(batch.file_bytes.max(1));
            visitor.expect(usize::try_from(expected).unwrap_or(0));
        }
    }
}

/// Reads all znodes and the mark that ends them. Returns their number. Calls `report` for each
/// batch with the number of bytes read so far.
pub(super) fn read_nodes<R: Read + Send + ?Sized>(
    input: &mut Input<'_, R>,
    place: FillThread,
    visitor: &mut dyn SnapshotVisitor,
    file: &FileRead<'_>,
    report: &mut dyn FnMut(u64),
) -> Result<u64, NodesFault> {
    let digests = visitor.wants_digests();
    let mut refused = None;
    let mut forecast = ZnodeEstimate { bytes_total: file.bytes_total, nodes: 0, is_told: false };
    let mut fill =
        |hand_on: &mut PassBatch<'_, ZnodeBatch>| fill(input, digests, file.bytes, hand_on);
    let read = read_ahead(place, &mut fill, &mut |batch: &ZnodeBatch| {
        report(batch.file_bytes);
        forecast.note(batch, visitor);
        match batch.visit(visitor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(found) => {
                refused = Some(found);
                ControlFlow::Break(())
            }
        }
    });
    match refused {
        Some((offset, error)) => Err(NodesFault::Refused(offset, error)),
        None => read.map_err(NodesFault::Input),
    }
}

/// Fills batches up to the end of the znodes, or to the first fault: what precedes it is passed on.
fn fill(
    input: &mut Input<'_, impl Read + ?Sized>,
    digests: bool,
    file_bytes: &AtomicU64,
    hand_on: &mut PassBatch<'_, ZnodeBatch>,
) -> Result<u64, SnapshotFault> {
    let mut nodes = 0;
    let mut batch = ZnodeBatch::default();
    loop {
        let result = fill_batch(input, digests, &mut batch);
        nodes += batch.nodes.len() as u64;
        batch.file_bytes = file_bytes.load(Ordering::Relaxed);
        let handed_on = hand_on(batch);
        match (result, handed_on) {
            (Ok(ControlFlow::Continue(())), Some(next)) => batch = next,
            (result, _) => return result.map(|_| nodes),
        }
        batch.clear();
    }
}

/// Fills a batch; breaks at the end of the znodes.
fn fill_batch(
    input: &mut Input<'_, impl Read + ?Sized>,
    digests: bool,
    batch: &mut ZnodeBatch,
) -> Result<ControlFlow<()>, SnapshotFault> {
    while !batch.is_full() {
        let offset = input.offset();
        let Some(node) = view_node(input)? else {
            return Ok(ControlFlow::Break(()));
        };
        let digest = digests.then(|| znode_digest(&node.path, node.data, &node.stat));
        batch.note(offset, &node, digest);
        let bytes = node.bytes;
        input.consume(bytes);
    }
    Ok(ControlFlow::Continue(()))
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;

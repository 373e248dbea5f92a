//! The parts that a snapshot in a file and a snapshot from a leader have in common: sessions, ACLs,
//! znodes, and the mark that ends them. Apache: `SerializeUtils.deserializeSnapshot`.
//!
//! In: a stream that stands at the sessions. Out: each part, handed to a [`SnapshotVisitor`] as it
//! comes. What vouches for them (seals, a signature) is read by [`super::reader`] and [`super::wire`].

use std::io;
use std::sync::Arc;

use herdsman_proto::{Acl, DecodeError, Reader, SessionId, StatPersisted, Zxid};
use herdsman_tree::{LoadError, Loader};

use super::END_PATH;
use super::input::Input;

/// Bytes of a znode behind its data: ACL key and stat.
const NODE_TAIL_BYTES: usize = 8 + StatPersisted::BYTES;
/// Progress is reported each time that so many znodes have been read.
const PROGRESS_NODES: u64 = 4096;

/// Takes the parts of a snapshot, in the file's order.
pub trait SnapshotVisitor {
    /// An open session.
    fn session(&mut self, id: SessionId, timeout_ms: i32);
    /// An ACL and its key.
    fn acl(&mut self, key: i64, acl: Vec<Acl>);
    /// A znode.
    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError>;
}

impl SnapshotVisitor for Loader {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        Loader::session(self, id, timeout_ms);
    }

    fn acl(&mut self, key: i64, acl: Vec<Acl>) {
        Loader::acl(self, key, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        Loader::node(self, path, data.map(Arc::from), acl_key, stat)
    }
}

/// What is wrong with a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFault {
    /// It cannot be read or unpacked.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It ends too early.
    #[error("it ends too early")]
    Truncated,
    /// It is something else.
    #[error("it does not start with a snapshot's header")]
    Header,
    /// A checksum does not fit.
    #[error("the checksum of what comes before is {computed:#x}, the file says {stored:#x}")]
    Seal {
        /// Computed from what was read.
        computed: u32,
        /// Found in the file.
        stored: i64,
    },
    /// Something follows the last seal, or stands in its place.
    #[error("what follows the first seal is no valid trailer")]
    Trailer,
    /// A field makes no sense.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// What a leader sends ends with a signature, and this is not it.
    #[error("it is signed {0:?}, which is not how a leader ends it")]
    Signature(String),
    /// A tree of a time that cannot be.
    #[error("it is said to be of txn {0}, which is none")]
    Zxid(Zxid),
    /// The znodes do not make a tree.
    #[error("{0}")]
    Load(#[from] LoadError),
}

/// Reads everything up to the mark that ends the znodes. How many there were comes back.
pub(super) fn read_parts(
    input: &mut Input<'_>,
    visitor: &mut dyn SnapshotVisitor,
    report: &mut dyn FnMut(),
) -> Result<u64, SnapshotFault> {
    for _ in 0..input.count()? {
        let id = SessionId(input.long()?);
        visitor.session(id, input.int()?);
    }
    for _ in 0..input.count()? {
        let key = input.long()?;
        visitor.acl(key, read_acl(input)?);
    }
    let mut nodes = 0;
    while read_node(input, visitor)? {
        nodes += 1;
        if nodes % PROGRESS_NODES == 0 {
            report();
        }
    }
    Ok(nodes)
}

fn read_acl(input: &mut Input<'_>) -> Result<Vec<Acl>, SnapshotFault> {
    let mut acl = Vec::new();
    for _ in 0..input.count()? {
        // perms, then two strings: find out how long they are, then decode in one go.
        let scheme = 4 + input.field_bytes(4)?;
        let bytes = scheme + input.field_bytes(scheme)?;
        let mut reader = Reader::new(input.view(bytes)?);
        acl.push(Acl::decode(&mut reader)?);
        input.consume(bytes);
    }
    Ok(acl)
}

/// Reads a znode; false at the end of the znodes.
fn read_node(
    input: &mut Input<'_>,
    visitor: &mut dyn SnapshotVisitor,
) -> Result<bool, SnapshotFault> {
    let path_bytes = input.field_bytes(0)?;
    let mut reader = Reader::new(input.view(path_bytes)?);
    if reader.required_string()? == END_PATH {
        input.consume(path_bytes);
        return Ok(false);
    }
    let bytes = path_bytes + input.field_bytes(path_bytes)? + NODE_TAIL_BYTES;
    let mut reader = Reader::new(input.view(bytes)?);
    let path = reader.required_string()?;
    let data = reader.buffer()?;
    let acl_key = reader.long()?;
    visitor.node(&path, data, acl_key, StatPersisted::decode(&mut reader)?)?;
    input.consume(bytes);
    Ok(true)
}

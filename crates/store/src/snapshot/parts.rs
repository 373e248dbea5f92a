//! The parts that a snapshot in a file and a snapshot from a leader have in common: sessions, ACLs,
//! znodes, and the mark that ends them. Apache: `SerializeUtils.deserializeSnapshot`.
//!
//! In: a stream positioned at the sessions. Out: each part, passed to a [`SnapshotVisitor`] as it
//! is read. What verifies them (seals, a signature) is read by [`super::reader`] and [`super::wire`].

use std::borrow::Cow;
use std::io::{self, Read};

use herdsman_proto::{Acl, DecodeError, JuteReader, SessionId, StatPersisted, Zxid};
use herdsman_tree::{LoadError, Loader};

use super::END_PATH;
use super::input::Input;

/// Bytes of a znode after its data: ACL key and stat.
const NODE_TAIL_BYTES: usize = 8 + StatPersisted::BYTES;

/// Receives the parts of a snapshot, in the file's order.
pub trait SnapshotVisitor {
    /// An open session.
    fn session(&mut self, id: SessionId, timeout_ms: i32);
    /// An ACL and its key.
    fn acl(&mut self, key: i64, acl: Vec<Acl>);
    /// An estimate of the number of znodes. Called once, after some znodes.
    fn expect(&mut self, _nodes: usize) {}
    /// A znode.
    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError>;

    /// Whether to compute the znodes' digests ahead: a visitor that wants them gets each znode through
    /// [`SnapshotVisitor::node_with_digest`], or through [`SnapshotVisitor::node`] if nothing is done ahead.
    fn wants_digests(&self) -> bool {
        false
    }

    /// A znode with its [`znode_digest`](herdsman_tree::digest::znode_digest).
    fn node_with_digest(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
        digest: u32,
    ) -> Result<(), LoadError> {
        _ = digest;
        self.node(path, data, acl_key, stat)
    }
}

impl SnapshotVisitor for Loader {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        Loader::session(self, id, timeout_ms);
    }

    fn acl(&mut self, key: i64, acl: Vec<Acl>) {
        Loader::acl(self, key, acl);
    }

    fn expect(&mut self, nodes: usize) {
        Loader::expect(self, nodes);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        Loader::node(self, path, data, acl_key, stat)
    }

    fn wants_digests(&self) -> bool {
        Loader::wants_digests(self)
    }

    fn node_with_digest(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
        digest: u32,
    ) -> Result<(), LoadError> {
        Loader::node_with_digest(self, path, data, acl_key, stat, digest)
    }
}

/// A fault of a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFault {
    /// It cannot be read or decompressed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It ends too early.
    #[error("it ends too early")]
    Truncated,
    /// It is not a snapshot.
    #[error("it does not start with a snapshot's header")]
    Header,
    /// A checksum does not match.
    #[error("the checksum of what comes before is {computed:#x}, the file says {stored:#x}")]
    Seal {
        /// Computed from what was read.
        computed: u32,
        /// Found in the file.
        stored: i64,
    },
    /// Something follows the last seal, or replaces it.
    #[error("what follows the first seal is not a valid trailer")]
    Trailer,
    /// A field is invalid.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// It does not end with the signature of a leader.
    #[error("it ends with the signature {0:?}, which is not that of a leader")]
    Signature(String),
    /// Its zxid is not valid.
    #[error("its zxid is {0}, which is not a valid txn")]
    Zxid(Zxid),
    /// The znodes do not make a tree.
    #[error("{0}")]
    Load(#[from] LoadError),
}

/// Reads everything up to the mark that ends the znodes. Returns the number of znodes.
pub(super) fn read_parts(
    input: &mut Input<'_, impl Read + ?Sized>,
    visitor: &mut dyn SnapshotVisitor,
) -> Result<u64, SnapshotFault> {
    read_tables(input, visitor)?;
    let mut nodes = 0;
    while let Some(node) = view_node(input)? {
        let bytes = node.bytes;
        visitor.node(&node.path, node.data, node.acl_key, node.stat)?;
        input.consume(bytes);
        nodes += 1;
    }
    Ok(nodes)
}

/// Reads sessions and ACLs.
pub(super) fn read_tables(
    input: &mut Input<'_, impl Read + ?Sized>,
    visitor: &mut dyn SnapshotVisitor,
) -> Result<(), SnapshotFault> {
    for _ in 0..input.count()? {
        let id = SessionId(input.long()?);
        visitor.session(id, input.int()?);
    }
    for _ in 0..input.count()? {
        let key = input.long()?;
        visitor.acl(key, read_acl(input)?);
    }
    Ok(())
}

fn read_acl(input: &mut Input<'_, impl Read + ?Sized>) -> Result<Vec<Acl>, SnapshotFault> {
    let mut acl = Vec::new();
    for _ in 0..input.count()? {
        // perms, then two strings: find out how long they are, then decode in one go.
        let scheme = 4 + input.field_bytes(4)?;
        let bytes = scheme + input.field_bytes(scheme)?;
        let mut reader = JuteReader::new(input.view(bytes)?);
        acl.push(Acl::decode(&mut reader)?);
        input.consume(bytes);
    }
    Ok(acl)
}

/// A znode in the input.
pub(super) struct NodeView<'a> {
    pub(super) path: Cow<'a, str>,
    pub(super) data: Option<&'a [u8]>,
    pub(super) acl_key: i64,
    pub(super) stat: StatPersisted,
    /// Its length in the input; the caller consumes it.
    pub(super) bytes: usize,
}

/// Decodes the next znode; `None` if the mark that ends them was read.
pub(super) fn view_node<'a>(
    input: &'a mut Input<'_, impl Read + ?Sized>,
) -> Result<Option<NodeView<'a>>, SnapshotFault> {
    let path_bytes = input.field_bytes(0)?;
    let path = JuteReader::new(input.view(path_bytes)?).buffer()?.ok_or(DecodeError::Null)?;
    if path == END_PATH.as_bytes() {
        input.consume(path_bytes);
        return Ok(None);
    }
    let bytes = path_bytes + input.field_bytes(path_bytes)? + NODE_TAIL_BYTES;
    let mut reader = JuteReader::new(input.view(bytes)?);
    Ok(Some(NodeView {
        path: reader.required_string()?,
        data: reader.buffer()?,
        acl_key: reader.long()?,
        stat: StatPersisted::decode(&mut reader)?,
        bytes,
    }))
}

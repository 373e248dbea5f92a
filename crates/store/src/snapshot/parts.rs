//! The parts that a snapshot in a file and a snapshot from a leader have in common: sessions, ACLs,
//! znodes, and the mark that ends them. Apache: `SerializeUtils.deserializeSnapshot`.
//!
//! In: a stream that stands at the sessions. Out: each part, handed to a [`SnapshotVisitor`] as it
//! comes. What vouches for them (seals, a signature) is read by [`super::reader`] and [`super::wire`].

use std::borrow::Cow;
use std::io::{self, Read};

use herdsman_proto::{Acl, DecodeError, JuteReader, SessionId, StatPersisted, Zxid};
use herdsman_tree::{LoadError, Loader};

use super::END_PATH;
use super::input::Input;

/// Bytes of a znode behind its data: ACL key and stat.
const NODE_TAIL_BYTES: usize = 8 + StatPersisted::BYTES;

/// Takes the parts of a snapshot, in the file's order.
pub trait SnapshotVisitor {
    /// An open session.
    fn session(&mut self, id: SessionId, timeout_ms: i32);
    /// An ACL and its key.
    fn acl(&mut self, key: i64, acl: Vec<Acl>);
    /// There will be about so many znodes in all. Told once, when some have come.
    fn expect(&mut self, _nodes: usize) {}
    /// A znode.
    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError>;

    /// It is worth computing the znodes' digests beside: a visitor that wants them is given each znode by
    /// [`SnapshotVisitor::node_with_digest`], or by [`SnapshotVisitor::node`] where nothing is beside.
    fn wants_digests(&self) -> bool {
        false
    }

    /// A znode, and what [`znode_digest`](herdsman_tree::digest::znode_digest) says about it.
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

/// A znode as it stands in the input.
pub(super) struct NodeView<'a> {
    pub(super) path: Cow<'a, str>,
    pub(super) data: Option<&'a [u8]>,
    pub(super) acl_key: i64,
    pub(super) stat: StatPersisted,
    /// To be consumed when it is done with.
    pub(super) bytes: usize,
}

/// Looks at the next znode; `None` when the mark that ends them was there and has been read.
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

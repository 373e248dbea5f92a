//! Txns: writes whose outcome is decided. The same bytes go to the log and to
//! the other servers.
//!
//! payload = [`TxnHeader`] + body + optional [`TxnDigest`]. A txn carries results, not intentions
//! (a new version, not "add one"), so applying it twice does no harm.

use std::sync::Arc;

use crate::acl::Acl;
use crate::error_code::ErrorCode;
use crate::ids::{SessionId, Zxid};
use crate::jute::{DecodeError, JuteReader, JuteWrite, Result};
use crate::op::OpCode;

/// Data of a znode, shared between a txn, the pending changes and the tree. `None` is null, which
/// clients can tell from empty.
pub type Data = Option<Arc<[u8]>>;

/// The header of a txn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnHeader {
    /// The session that requested it.
    pub session: SessionId,
    /// The client's number for the request.
    pub cxid: i32,
    /// Its place in the order.
    pub zxid: Zxid,
    /// The leader's wall clock, milliseconds since 1970.
    pub time_ms: i64,
}

/// A decided change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Txn {
    /// A new znode.
    Create(CreateTxn),
    /// A znode was deleted; `container` if a server's sweep requested it.
    Delete {
        /// Which one.
        path: Box<str>,
        /// By the sweep of containers and TTL znodes.
        container: bool,
    },
    /// New data; `reconfig` when it is the ensemble's membership.
    SetData {
        /// Of which znode.
        path: Box<str>,
        /// The data.
        data: Data,
        /// The new version.
        version: i32,
        /// Written as a reconfiguration.
        reconfig: bool,
    },
    /// New ACL.
    SetAcl {
        /// Of which znode.
        path: Box<str>,
        /// The list.
        acl: Vec<Acl>,
        /// The new ACL version.
        version: i32,
    },
    /// A version check that held, inside a multi.
    Check {
        /// Of which znode.
        path: Box<str>,
        /// The version after the one that was checked, as Apache writes it.
        version: i32,
    },
    /// Several at once. When one is an error, none takes effect.
    Multi(Vec<Txn>),
    /// A new session.
    CreateSession {
        /// Its timeout.
        timeout_ms: i32,
    },
    /// The end of a session.
    CloseSession {
        /// Its ephemerals, to be deleted; `None` in logs of servers before 3.6.
        ephemerals: Option<Vec<Box<str>>>,
    },
    /// A request that failed: it takes a zxid and nothing else. The number is kept raw because a
    /// log may hold one we do not know.
    Error(i32),
}

/// A new znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTxn {
    /// Which kind of create it was, and with it the shape of the body.
    pub kind: CreateKind,
    /// Where.
    pub path: Box<str>,
    /// Its data.
    pub data: Data,
    /// Its ACL.
    pub acl: Vec<Acl>,
    /// The parent's new cversion; -1 in logs of servers before 3.4.
    pub parent_cversion: i32,
}

/// Which kind of create a txn was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateKind {
    /// `create` or `create2`: persistent or ephemeral.
    Plain {
        /// Owned by the session in the header.
        ephemeral: bool,
        /// Answered with a stat.
        with_stat: bool,
    },
    /// Deleted when its last child is gone.
    Container,
    /// Deleted when idle for this long.
    Ttl(i64),
}

/// The tree's digest after the txn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnDigest {
    /// How it is computed.
    pub version: i32,
    /// Its value.
    pub tree_digest: i64,
}

impl TxnDigest {
    /// The digest version that we and Apache 3.6+ write.
    pub const VERSION: i32 = 2;
}

impl Txn {
    /// An error txn.
    #[must_use]
    pub fn error(code: ErrorCode) -> Self {
        Txn::Error(code.code())
    }

    /// The type as written in the header.
    #[must_use]
    pub fn op(&self) -> OpCode {
        match self {
            Txn::Create(create) => create.op(),
            Txn::Delete { container: false, .. } => OpCode::Delete,
            Txn::Delete { container: true, .. } => OpCode::DeleteContainer,
            Txn::SetData { reconfig: false, .. } => OpCode::SetData,
            Txn::SetData { reconfig: true, .. } => OpCode::Reconfig,
            Txn::SetAcl { .. } => OpCode::SetAcl,
            Txn::Check { .. } => OpCode::Check,
            Txn::Multi(_) => OpCode::Multi,
            Txn::CreateSession { .. } => OpCode::CreateSession,
            Txn::CloseSession { .. } => OpCode::CloseSession,
            Txn::Error(_) => OpCode::Error,
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Txn::Create(create) => create.encode(out),
            Txn::Delete { path, .. } => out.put_string(path),
            Txn::SetData { path, data, version, .. } => {
                out.put_string(path);
                out.put_buffer(data.as_deref());
                out.put_int(*version);
            }
            Txn::SetAcl { path, acl, version } => {
                out.put_string(path);
                out.put_vector(acl, |out, acl| acl.encode(out));
                out.put_int(*version);
            }
            Txn::Check { path, version } => {
                out.put_string(path);
                out.put_int(*version);
            }
            Txn::Multi(txns) => out.put_vector(txns, Self::encode_sub_txn),
            Txn::CreateSession { timeout_ms } => out.put_int(*timeout_ms),
            Txn::CloseSession { ephemerals: None } => {}
            Txn::CloseSession { ephemerals: Some(paths) } => {
                out.put_vector(paths, |out, path| out.put_string(path));
            }
            Txn::Error(code) => out.put_int(*code),
        }
    }

    /// How many znodes it changes, as far as it says so itself.
    #[must_use]
    pub fn changes(&self) -> usize {
        match self {
            Txn::Multi(txns) => txns.len(),
            Txn::CloseSession { ephemerals: Some(paths) } => paths.len(),
            _ => 1,
        }
    }

    /// The body's size, without writing it.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let text = |path: &str| 4 + path.len();
        let buffer = |data: &Data| 4 + data.as_ref().map_or(0, |data| data.len());
        match self {
            Txn::Create(create) => {
                let rest = match create.kind {
                    CreateKind::Plain { .. } => 5,
                    CreateKind::Container => 4,
                    CreateKind::Ttl(_) => 12,
                };
                text(&create.path) + buffer(&create.data) + acl_len(&create.acl) + rest
            }
            Txn::Delete { path, .. } => text(path),
            Txn::SetData { path, data, .. } => text(path) + buffer(data) + 4,
            Txn::SetAcl { path, acl, .. } => text(path) + acl_len(acl) + 4,
            Txn::Check { path, .. } => text(path) + 4,
            Txn::Multi(txns) => 4 + txns.iter().map(|txn| 8 + txn.encoded_len()).sum::<usize>(),
            Txn::CreateSession { .. } | Txn::Error(_) => 4,
            Txn::CloseSession { ephemerals: None } => 0,
            Txn::CloseSession { ephemerals: Some(paths) } => {
                4 + paths.iter().map(|path| text(path)).sum::<usize>()
            }
        }
    }

    fn encode_sub_txn(out: &mut Vec<u8>, txn: &Txn) {
        out.put_int(txn.op().code());
        crate::reply::frame(out, |out| txn.encode(out));
    }

    /// Reads a body of the given type.
    pub fn decode(op: OpCode, reader: &mut JuteReader<'_>) -> Result<Self> {
        match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                CreateTxn::decode(op, reader).map(Txn::Create)
            }
            OpCode::Delete | OpCode::DeleteContainer => {
                Ok(Txn::Delete { path: path(reader)?, container: op == OpCode::DeleteContainer })
            }
            OpCode::SetData | OpCode::Reconfig => Ok(Txn::SetData {
                path: path(reader)?,
                data: reader.buffer()?.map(Arc::from),
                version: reader.int()?,
                reconfig: op == OpCode::Reconfig,
            }),
            OpCode::SetAcl => Ok(Txn::SetAcl {
                path: path(reader)?,
                acl: reader.vector(Acl::decode)?,
                version: reader.int()?,
            }),
            OpCode::Check => Ok(Txn::Check { path: path(reader)?, version: reader.int()? }),
            OpCode::Multi => reader.vector(Self::decode_sub_txn).map(Txn::Multi),
            OpCode::CreateSession => Ok(Txn::CreateSession { timeout_ms: reader.int()? }),
            OpCode::CloseSession => Ok(Self::decode_close_session(reader)),
            OpCode::Error => reader.int().map(Txn::Error),
            _ => Err(DecodeError::Undefined { what: "txn type", value: op.code() }),
        }
    }

    fn decode_sub_txn(reader: &mut JuteReader<'_>) -> Result<Self> {
        let op = op_code(reader.int()?)?;
        let body = reader.buffer()?.unwrap_or_default();
        match op {
            // A multi in a multi would recurse as deep as the sender likes; no server writes one.
            OpCode::Multi | OpCode::CreateSession | OpCode::CloseSession => {
                Err(DecodeError::Undefined { what: "multi txn type", value: op.code() })
            }
            _ => Txn::decode(op, &mut JuteReader::new(body)),
        }
    }

    /// Servers before 3.6 wrote no body, so what follows may be a digest, or nothing.
    fn decode_close_session(reader: &mut JuteReader<'_>) -> Self {
        let mut attempt = *reader;
        let ephemerals = attempt.vector(path).ok();
        if ephemerals.is_some() {
            *reader = attempt;
        }
        Txn::CloseSession { ephemerals }
    }
}

/// The size of an ACL, without writing it.
#[must_use]
pub fn acl_len(acl: &[Acl]) -> usize {
    4 + acl.iter().map(|entry| 12 + entry.id.scheme.len() + entry.id.id.len()).sum::<usize>()
}

fn path(reader: &mut JuteReader<'_>) -> Result<Box<str>> {
    reader.required_string().map(|path| path.into_owned().into_boxed_str())
}

fn op_code(value: i32) -> Result<OpCode> {
    OpCode::from_code(value).ok_or(DecodeError::Undefined { what: "txn type", value })
}

impl CreateTxn {
    fn op(&self) -> OpCode {
        match self.kind {
            CreateKind::Plain { with_stat: false, .. } => OpCode::Create,
            CreateKind::Plain { with_stat: true, .. } => OpCode::Create2,
            CreateKind::Container => OpCode::CreateContainer,
            CreateKind::Ttl(_) => OpCode::CreateTtl,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_string(&self.path);
        out.put_buffer(self.data.as_deref());
        out.put_vector(&self.acl, |out, acl| acl.encode(out));
        if let CreateKind::Plain { ephemeral, .. } = self.kind {
            out.put_bool(ephemeral);
        }
        out.put_int(self.parent_cversion);
        if let CreateKind::Ttl(ttl_ms) = self.kind {
            out.put_long(ttl_ms);
        }
    }

    fn decode(op: OpCode, reader: &mut JuteReader<'_>) -> Result<Self> {
        let path = path(reader)?;
        let data = reader.buffer()?.map(Arc::from);
        let acl = reader.vector(Acl::decode)?;
        let (kind, parent_cversion) = match op {
            OpCode::CreateContainer => (CreateKind::Container, reader.int()?),
            OpCode::CreateTtl => {
                let parent_cversion = reader.int()?;
                (CreateKind::Ttl(reader.long()?), parent_cversion)
            }
            _ => {
                let with_stat = op == OpCode::Create2;
                let ephemeral = reader.bool()?;
                // Servers before 3.4 end here.
                let parent_cversion = if reader.is_empty() { -1 } else { reader.int()? };
                (CreateKind::Plain { ephemeral, with_stat }, parent_cversion)
            }
        };
        Ok(CreateTxn { kind, path, data, acl, parent_cversion })
    }
}

/// A whole txn payload: header, body and digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Session, time and zxid.
    pub header: TxnHeader,
    /// What.
    pub txn: Txn,
    /// The tree's digest afterwards; error txns carry none.
    pub digest: Option<TxnDigest>,
}

impl Entry {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_long(self.header.session.0);
        out.put_int(self.header.cxid);
        out.put_long(self.header.zxid.0);
        out.put_long(self.header.time_ms);
        out.put_int(self.txn.op().code());
        self.txn.encode(out);
        if let Some(digest) = self.digest {
            out.put_int(digest.version);
            out.put_long(digest.tree_digest);
        }
        debug_assert_eq!(out.len() - start, self.encoded_len(), "{self:?}");
    }

    /// The payload's size, without writing it.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        const HEADER_BYTES: usize = 32;
        const DIGEST_BYTES: usize = 12;
        HEADER_BYTES + self.txn.encoded_len() + self.digest.map_or(0, |_| DIGEST_BYTES)
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = JuteReader::new(payload);
        let (header, op) = Self::decode_header(&mut reader)?;
        let txn = Txn::decode(op_code(op)?, &mut reader)?;
        let digest = match reader.rest().len() {
            0 => None,
            12 => Some(TxnDigest { version: reader.int()?, tree_digest: reader.long()? }),
            trailing => return Err(DecodeError::Trailing(trailing)),
        };
        Ok(Entry { header, txn, digest })
    }

    /// Whether this may be a record that repeats the zxid of the txn before it. Apache's leader logs a request that it
    /// cannot decode as an error txn, with the zxid that it gave last (the last `catch` of
    /// `PrepRequestProcessor.pRequestHelper`). Such a record changes nothing. Other txns with the same error have a
    /// zxid of their own, so only what comes before tells the two apart.
    #[must_use]
    pub fn may_repeat_zxid(payload: &[u8]) -> bool {
        const ERROR_BYTES: usize = 36;
        if payload.len() != ERROR_BYTES {
            return false;
        }
        let mut reader = JuteReader::new(payload);
        let header = Self::decode_header(&mut reader);
        header.is_ok_and(|(_, op)| op == OpCode::Error.code())
            && reader.int() == Ok(ErrorCode::MarshallingError as i32)
    }

    /// Reads the header and the raw type.
    pub fn decode_header(reader: &mut JuteReader<'_>) -> Result<(TxnHeader, i32)> {
        let header = TxnHeader {
            session: SessionId(reader.long()?),
            cxid: reader.int()?,
            zxid: Zxid(reader.long()?),
            time_ms: reader.long()?,
        };
        Ok((header, reader.int()?))
    }
}

//! Requests, client to server. Values borrow from the frame they were read from.
//!
//! A request is one of three: a [`WriteRequest`] becomes a txn, a [`ReadRequest`] is answered from
//! the tree that the server has, and the rest concern the session or the connection.

use std::borrow::Cow;

use crate::acl::Acl;
use crate::ids::{Xid, Zxid};
use crate::jute::{DecodeError, JuteReader, JuteWrite, Result};
use crate::multi;
use crate::op::OpCode;

/// The header before the body of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The client's number for it.
    pub xid: Xid,
    /// The op, as a raw number: it may be one we do not know.
    pub op: i32,
}

impl RequestHeader {
    /// Reads the header.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<Self> {
        Ok(RequestHeader { xid: Xid(reader.int()?), op: reader.int()? })
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        out.put_int(self.xid.0);
        out.put_int(self.op);
    }
}

/// Text borrowed from the frame where it is valid UTF-8.
pub type Text<'a> = Cow<'a, str>;

/// A decoded request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Becomes a txn.
    Write(WriteRequest<'a>),
    /// Answered from the tree.
    Read(ReadRequest<'a>),
    /// Answered when all that was written before it is visible here.
    Sync {
        /// Echoed in the answer.
        path: Text<'a>,
    },
    /// Heartbeat.
    Ping,
    /// Credentials.
    Auth {
        /// The scheme of the credentials; null is not a valid scheme.
        scheme: Text<'a>,
        /// In the provider's own form.
        credentials: Option<&'a [u8]>,
    },
    /// A step of a SASL exchange.
    Sasl {
        /// The mechanism's token.
        token: &'a [u8],
    },
    /// Closes the session.
    CloseSession,
}

/// A request that changes the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteRequest<'a> {
    /// Create a znode.
    Create(CreateRequest<'a>),
    /// Delete a znode.
    Delete {
        /// Which one.
        path: Text<'a>,
        /// Expected data version, -1 for any.
        version: i32,
    },
    /// Replace the data.
    SetData {
        /// Of which znode.
        path: Text<'a>,
        /// The new data; null is not the same as empty.
        data: Option<&'a [u8]>,
        /// Expected data version, -1 for any.
        version: i32,
    },
    /// Replace the ACL.
    SetAcl {
        /// Of which znode.
        path: Text<'a>,
        /// The new list.
        acl: Vec<Acl>,
        /// Expected ACL version, -1 for any.
        version: i32,
    },
    /// Check a version; only inside a multi.
    Check {
        /// Of which znode.
        path: Text<'a>,
        /// Expected data version, -1 for any.
        version: i32,
    },
    /// All of these or none.
    Multi(Vec<WriteRequest<'a>>),
    /// Change the ensemble's members.
    Reconfig(ReconfigRequest<'a>),
}

/// Create a znode of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRequest<'a> {
    /// Decides the txn's type and the shape of the answer.
    pub op: OpCode,
    /// Where; a sequential znode gets its number appended.
    pub path: Text<'a>,
    /// Initial data.
    pub data: Option<&'a [u8]>,
    /// Initial ACL.
    pub acl: Vec<Acl>,
    /// Raw create flags, see [`CreateMode`].
    pub flags: i32,
    /// Time to live, with [`OpCode::CreateTtl`].
    pub ttl_ms: Option<i64>,
}

/// A change of the ensemble's members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconfigRequest<'a> {
    /// `server.N=…` entries that join.
    pub joining: Option<Text<'a>>,
    /// Ids that leave.
    pub leaving: Option<Text<'a>>,
    /// The whole new list of members, instead of the other two fields.
    pub new_members: Option<Text<'a>>,
    /// Version of the configuration that this is meant to follow, -1 for any.
    pub current_config: i64,
}

/// A request that is answered from the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadRequest<'a> {
    /// Stat of a znode that may not exist.
    Exists {
        /// Which one.
        path: Text<'a>,
        /// Tell me when this changes.
        watch: bool,
    },
    /// Data and stat.
    GetData {
        /// Of which znode.
        path: Text<'a>,
        /// Tell me when this changes.
        watch: bool,
    },
    /// ACL and stat.
    GetAcl {
        /// Of which znode.
        path: Text<'a>,
    },
    /// Names of the children.
    GetChildren {
        /// Of which znode.
        path: Text<'a>,
        /// Tell me when this changes.
        watch: bool,
        /// Answer with the stat as well.
        with_stat: bool,
    },
    /// Number of descendants.
    GetAllChildrenNumber {
        /// Of which znode.
        path: Text<'a>,
    },
    /// The session's own ephemerals.
    GetEphemerals {
        /// Only those below this prefix; null or blank for all.
        prefix: Option<Text<'a>>,
    },
    /// Is there such a watch?
    CheckWatches {
        /// On which path.
        path: Text<'a>,
        /// Of which kind.
        kind: WatcherType,
    },
    /// Remove such watches.
    RemoveWatches {
        /// On which path.
        path: Text<'a>,
        /// Of which kind.
        kind: WatcherType,
    },
    /// Register watches again after a reconnect.
    SetWatches(SetWatches<'a>),
    /// Add a persistent watch.
    AddWatch {
        /// On which path.
        path: Text<'a>,
        /// On its descendants as well.
        recursive: bool,
    },
    /// Several reads in one.
    MultiRead(Vec<ReadRequest<'a>>),
    /// The ids of the connection.
    WhoAmI,
}

/// Watches a client had before it lost its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetWatches<'a> {
    /// The newest txn the client knows of.
    pub relative_zxid: Zxid,
    /// Paths watched by getData, or by exists when the znode was there.
    pub data: Vec<Text<'a>>,
    /// Paths watched by exists when the znode was missing.
    pub exist: Vec<Text<'a>>,
    /// Paths watched by getChildren.
    pub child: Vec<Text<'a>>,
    /// Paths with a persistent watch.
    pub persistent: Vec<Text<'a>>,
    /// Paths with a persistent recursive watch.
    pub persistent_recursive: Vec<Text<'a>>,
}

/// Which watches a check or removal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatcherType {
    /// Set by getChildren.
    Children,
    /// Set by getData or exists.
    Data,
    /// All of them.
    Any,
    /// Set by addWatch.
    Persistent,
    /// Set by addWatch, with descendants.
    PersistentRecursive,
}

impl WatcherType {
    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            WatcherType::Children => 1,
            WatcherType::Data => 2,
            WatcherType::Any => 3,
            WatcherType::Persistent => 4,
            WatcherType::PersistentRecursive => 5,
        }
    }

    fn from_code(value: i32) -> Result<Self> {
        match value {
            1 => Ok(WatcherType::Children),
            2 => Ok(WatcherType::Data),
            3 => Ok(WatcherType::Any),
            4 => Ok(WatcherType::Persistent),
            5 => Ok(WatcherType::PersistentRecursive),
            _ => Err(DecodeError::Undefined { what: "watcher type", value }),
        }
    }
}

/// The mode that the flags of a create request encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateMode {
    /// Append the next sequence number to the name.
    pub sequential: bool,
    /// How long the znode lives.
    pub lifetime: Lifetime,
}

/// How long a znode lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is deleted.
    Persistent,
    /// As long as the session that created it.
    Ephemeral,
    /// Until its last child is deleted.
    Container,
    /// Until it has been idle and childless for a while.
    Ttl,
}

impl CreateMode {
    /// The mode for raw flags; `None` if there is none.
    #[must_use]
    pub fn from_flags(flags: i32) -> Option<Self> {
        let (lifetime, sequential) = match flags {
            0 => (Lifetime::Persistent, false),
            1 => (Lifetime::Ephemeral, false),
            2 => (Lifetime::Persistent, true),
            3 => (Lifetime::Ephemeral, true),
            4 => (Lifetime::Container, false),
            5 => (Lifetime::Ttl, false),
            6 => (Lifetime::Ttl, true),
            _ => return None,
        };
        Some(CreateMode { sequential, lifetime })
    }
}

impl<'a> Request<'a> {
    /// Reads the body of a request of the given op. Ops that no client may send are `Undefined`.
    pub fn decode(op: OpCode, reader: &mut JuteReader<'a>) -> Result<Self> {
        if let Some(write) = WriteRequest::decode(op, reader) {
            return write.map(Request::Write);
        }
        if let Some(read) = ReadRequest::decode(op, reader) {
            return read.map(Request::Read);
        }
        match op {
            OpCode::Sync => Ok(Request::Sync { path: reader.required_string()? }),
            OpCode::Ping => Ok(Request::Ping),
            OpCode::Auth => {
                reader.int()?;
                let scheme = reader.string()?.unwrap_or_default();
                Ok(Request::Auth { scheme, credentials: reader.buffer()? })
            }
            OpCode::Sasl => Ok(Request::Sasl { token: reader.buffer()?.ok_or(DecodeError::Null)? }),
            OpCode::CloseSession => Ok(Request::CloseSession),
            _ => Err(DecodeError::Undefined { what: "op", value: op.code() }),
        }
    }
}

impl<'a> WriteRequest<'a> {
    /// Reads the body if `op` is a write that may stand alone.
    fn decode(op: OpCode, reader: &mut JuteReader<'a>) -> Option<Result<Self>> {
        match op {
            OpCode::Multi => Some(multi::decode_writes(reader).map(WriteRequest::Multi)),
            OpCode::Reconfig => Some(ReconfigRequest::decode(reader).map(WriteRequest::Reconfig)),
            OpCode::SetAcl => Some(Self::decode_set_acl(reader)),
            OpCode::Check => None,
            _ => Self::decode_single(op, reader),
        }
    }

    /// Reads the body if `op` is a write that may stand in a multi.
    pub(crate) fn decode_single(op: OpCode, reader: &mut JuteReader<'a>) -> Option<Result<Self>> {
        match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Some(CreateRequest::decode(op, reader).map(WriteRequest::Create))
            }
            OpCode::Delete => Some(Self::decode_versioned(reader, |path, version| {
                WriteRequest::Delete { path, version }
            })),
            OpCode::Check => Some(Self::decode_versioned(reader, |path, version| {
                WriteRequest::Check { path, version }
            })),
            OpCode::SetData => Some(Self::decode_set_data(reader)),
            _ => None,
        }
    }

    fn decode_versioned(
        reader: &mut JuteReader<'a>,
        make: impl FnOnce(Text<'a>, i32) -> Self,
    ) -> Result<Self> {
        Ok(make(reader.required_string()?, reader.int()?))
    }

    fn decode_set_data(reader: &mut JuteReader<'a>) -> Result<Self> {
        let path = reader.required_string()?;
        Ok(WriteRequest::SetData { path, data: reader.buffer()?, version: reader.int()? })
    }

    fn decode_set_acl(reader: &mut JuteReader<'a>) -> Result<Self> {
        let path = reader.required_string()?;
        let acl = reader.vector(Acl::decode)?;
        Ok(WriteRequest::SetAcl { path, acl, version: reader.int()? })
    }

    /// The op that this request is.
    #[must_use]
    pub fn op(&self) -> OpCode {
        match self {
            WriteRequest::Create(create) => create.op,
            WriteRequest::Delete { .. } => OpCode::Delete,
            WriteRequest::SetData { .. } => OpCode::SetData,
            WriteRequest::SetAcl { .. } => OpCode::SetAcl,
            WriteRequest::Check { .. } => OpCode::Check,
            WriteRequest::Multi(_) => OpCode::Multi,
            WriteRequest::Reconfig(_) => OpCode::Reconfig,
        }
    }
}

impl<'a> CreateRequest<'a> {
    fn decode(op: OpCode, reader: &mut JuteReader<'a>) -> Result<Self> {
        let path = reader.required_string()?;
        let data = reader.buffer()?;
        let acl = reader.vector(Acl::decode)?;
        let flags = reader.int()?;
        let ttl_ms = if op == OpCode::CreateTtl { Some(reader.long()?) } else { None };
        Ok(CreateRequest { op, path, data, acl, flags, ttl_ms })
    }
}

impl<'a> ReconfigRequest<'a> {
    fn decode(reader: &mut JuteReader<'a>) -> Result<Self> {
        Ok(ReconfigRequest {
            joining: reader.string()?,
            leaving: reader.string()?,
            new_members: reader.string()?,
            current_config: reader.long()?,
        })
    }
}

impl<'a> ReadRequest<'a> {
    /// Reads the body if `op` is a read.
    pub(crate) fn decode(op: OpCode, reader: &mut JuteReader<'a>) -> Option<Result<Self>> {
        let request = match op {
            OpCode::Exists => {
                Self::decode_watched(reader, |path, watch| ReadRequest::Exists { path, watch })
            }
            OpCode::GetData => {
                Self::decode_watched(reader, |path, watch| ReadRequest::GetData { path, watch })
            }
            OpCode::GetChildren => Self::decode_children(reader, false),
            OpCode::GetChildren2 => Self::decode_children(reader, true),
            OpCode::GetAcl => reader.required_string().map(|path| ReadRequest::GetAcl { path }),
            OpCode::GetAllChildrenNumber => {
                reader.required_string().map(|path| ReadRequest::GetAllChildrenNumber { path })
            }
            OpCode::GetEphemerals => {
                reader.string().map(|prefix| ReadRequest::GetEphemerals { prefix })
            }
            OpCode::CheckWatches => {
                Self::decode_typed(reader, |path, kind| ReadRequest::CheckWatches { path, kind })
            }
            OpCode::RemoveWatches => {
                Self::decode_typed(reader, |path, kind| ReadRequest::RemoveWatches { path, kind })
            }
            OpCode::SetWatches | OpCode::SetWatches2 => {
                SetWatches::decode(op, reader).map(ReadRequest::SetWatches)
            }
            OpCode::AddWatch => Self::decode_add_watch(reader),
            OpCode::MultiRead => multi::decode_reads(reader).map(ReadRequest::MultiRead),
            OpCode::WhoAmI => Ok(ReadRequest::WhoAmI),
            _ => return None,
        };
        Some(request)
    }

    fn decode_watched(
        reader: &mut JuteReader<'a>,
        make: impl FnOnce(Text<'a>, bool) -> Self,
    ) -> Result<Self> {
        Ok(make(reader.required_string()?, reader.bool()?))
    }

    fn decode_typed(
        reader: &mut JuteReader<'a>,
        make: impl FnOnce(Text<'a>, WatcherType) -> Self,
    ) -> Result<Self> {
        Ok(make(reader.required_string()?, WatcherType::from_code(reader.int()?)?))
    }

    fn decode_children(reader: &mut JuteReader<'a>, with_stat: bool) -> Result<Self> {
        let path = reader.required_string()?;
        Ok(ReadRequest::GetChildren { path, watch: reader.bool()?, with_stat })
    }

    fn decode_add_watch(reader: &mut JuteReader<'a>) -> Result<Self> {
        let path = reader.required_string()?;
        match reader.int()? {
            0 => Ok(ReadRequest::AddWatch { path, recursive: false }),
            1 => Ok(ReadRequest::AddWatch { path, recursive: true }),
            value => Err(DecodeError::Undefined { what: "watch mode", value }),
        }
    }
}

impl<'a> SetWatches<'a> {
    fn decode(op: OpCode, reader: &mut JuteReader<'a>) -> Result<Self> {
        let mut watches = SetWatches {
            relative_zxid: Zxid(reader.long()?),
            data: reader.vector(JuteReader::required_string)?,
            exist: reader.vector(JuteReader::required_string)?,
            child: reader.vector(JuteReader::required_string)?,
            ..SetWatches::default()
        };
        if op == OpCode::SetWatches2 {
            watches.persistent = reader.vector(JuteReader::required_string)?;
            watches.persistent_recursive = reader.vector(JuteReader::required_string)?;
        }
        Ok(watches)
    }
}

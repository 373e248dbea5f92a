//! The requests of a simulated client, and the frames that they are sent in.

use herdsman_proto::request::{
    CreateRequest, ReconfigRequest, RequestHeader, SetWatches, WatcherType,
};
use herdsman_proto::txn::CreateKind;
use herdsman_proto::{Acl, OpCode, ReadRequest, Request, Txn, WriteRequest, Xid, Zxid};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Create a znode.
    Create(Create),
    /// Replace data.
    SetData {
        /// Of which znode.
        path: String,
        /// By this.
        data: String,
        /// If it has this version; -1 for any.
        version: i32,
    },
    /// Delete a znode.
    Delete {
        /// Which.
        path: String,
        /// If it has this version; -1 for any.
        version: i32,
    },
    /// Replace an ACL.
    SetAcl {
        /// Of which znode.
        path: String,
        /// By this.
        acl: Vec<Acl>,
        /// If it has this ACL version; -1 for any.
        version: i32,
    },
    /// Check a version, inside a multi.
    Check {
        /// Of which znode.
        path: String,
        /// The version; -1 for any.
        version: i32,
    },
    /// All or nothing.
    Multi(Vec<Op>),
    /// WatchedChange the membership to this whole list.
    Reconfig {
        /// Its lines, with commas between them.
        members: String,
    },
    /// Wait for all that was written before.
    Sync,
    /// End the session.
    CloseSession,
    /// Read data.
    GetData {
        /// Of which znode.
        path: String,
        /// Tell me when it changes.
        watch: bool,
    },
    /// Read a stat.
    Exists {
        /// Of which znode.
        path: String,
        /// Tell me when it changes.
        watch: bool,
    },
    /// Read names.
    GetChildren {
        /// Of whose children.
        path: String,
        /// Tell me when they change.
        watch: bool,
    },
    /// Read an ACL.
    GetAcl {
        /// Of which znode.
        path: String,
    },
    /// Read the paths of the session's own ephemerals.
    GetEphemerals,
    /// Count descendants.
    CountDescendants {
        /// Of which znode.
        path: String,
    },
    /// Set a watch that stays.
    AddWatch {
        /// On which path.
        path: String,
        /// On its descendants as well.
        recursive: bool,
    },
    /// Remove all watches of a path.
    RemoveWatches {
        /// Which path.
        path: String,
    },
    /// Set the watches of an earlier connection again.
    SetWatches {
        /// The last txn that the client has seen.
        seen: Zxid,
        /// The watches.
        watches: Vec<(WatchKind, String)>,
    },
    /// Prove to be somebody.
    Auth {
        /// User and password.
        credentials: String,
    },
    /// A sign of life.
    Ping,
}

/// A znode to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Where.
    pub path: String,
    /// Raw flags: 1 ephemeral, 2 sequential, 3 both, 4 container, 5 TTL, 6 sequential TTL.
    pub flags: i32,
    /// With this data.
    pub data: String,
    /// With this ACL.
    pub acl: Vec<Acl>,
    /// Time to live, with flags 5 and 6.
    pub ttl_ms: i64,
    /// The answer has the stat, too. Always so with flags 4 to 6.
    pub with_stat: bool,
}

impl Create {
    /// A znode that everybody may do everything with.
    #[must_use]
    pub fn open(path: &str, flags: i32, data: &str) -> Self {
        Create {
            path: path.to_owned(),
            flags,
            data: data.to_owned(),
            acl: vec![Acl::world(herdsman_proto::Perms::ALL)],
            ttl_ms: 0,
            with_stat: false,
        }
    }

    /// Its name ends with a number that the server chooses.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        matches!(self.flags, 2 | 3 | 6)
    }

    /// It ends with its session.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        matches!(self.flags, 1 | 3)
    }

    /// As what it is logged.
    fn kind(&self) -> CreateKind {
        match self.flags {
            4 => CreateKind::Container,
            5 | 6 => CreateKind::Ttl(self.ttl_ms),
            _ => CreateKind::Plain { ephemeral: self.is_ephemeral(), with_stat: self.with_stat },
        }
    }

    fn request(&self) -> CreateRequest<'_> {
        let op = match self.flags {
            4 => OpCode::CreateContainer,
            5 | 6 => OpCode::CreateTtl,
            _ if self.with_stat => OpCode::Create2,
            _ => OpCode::Create,
        };
        CreateRequest {
            op,
            path: self.path.as_str().into(),
            data: Some(self.data.as_bytes()),
            acl: self.acl.clone(),
            flags: self.flags,
            ttl_ms: (op == OpCode::CreateTtl).then_some(self.ttl_ms),
        }
    }
}

/// What a watch was set by, as a client library keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    /// getData, or exists of a znode that was there.
    Data,
    /// exists of a znode that was missing.
    Exist,
    /// getChildren.
    Child,
    /// addWatch.
    Persistent,
    /// addWatch, with descendants.
    Recursive,
}

impl Op {
    /// Whether it becomes a txn.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Op::Create(_)
                | Op::SetData { .. }
                | Op::Delete { .. }
                | Op::SetAcl { .. }
                | Op::Multi(_)
                | Op::Reconfig { .. }
                | Op::CloseSession
        )
    }

    /// The number that it is sent under, if it is not the client's next one.
    #[must_use]
    pub fn own_xid(&self) -> Option<i32> {
        match self {
            Op::Ping => Some(Xid::PING.0),
            Op::Auth { .. } => Some(Xid::AUTH.0),
            Op::SetWatches { .. } => Some(Xid::SET_WATCHES.0),
            _ => None,
        }
    }

    /// Whether this txn may be what became of it. Each piece of data is written once, so a txn with data
    /// belongs to one request only.
    #[must_use]
    pub fn may_become(&self, txn: &Txn) -> bool {
        match (self, txn) {
            (Op::Create(op), Txn::Create(create)) => {
                let rest = create.path.strip_prefix(op.path.as_str());
                let is_number =
                    |rest: &str| rest.len() == 10 && rest.bytes().all(|b| b.is_ascii_digit());
                let fits =
                    |rest: &str| if op.is_sequential() { is_number(rest) } else { rest.is_empty() };
                rest.is_some_and(fits)
                    && create.kind == op.kind()
                    && create.data.as_deref() == Some(op.data.as_bytes())
                    && create.acl == op.acl
            }
            (Op::Reconfig { .. }, Txn::SetData { reconfig, .. }) => *reconfig,
            (Op::SetData { path, data, .. }, Txn::SetData { path: set, data: new, .. }) => {
                **set == **path && new.as_deref() == Some(data.as_bytes())
            }
            (Op::Delete { path, .. }, Txn::Delete { path: deleted, container }) => {
                **deleted == **path && !container
            }
            (Op::SetAcl { path, acl, .. }, Txn::SetAcl { path: set, acl: new, .. }) => {
                **set == **path && new == acl
            }
            (Op::Check { path, .. }, Txn::Check { path: checked, .. }) => **checked == **path,
            (Op::Multi(ops), Txn::Multi(txns)) => {
                let pairs = ops.iter().zip(txns);
                let fits =
                    |(op, txn): (&Op, &Txn)| matches!(txn, Txn::Error(_)) || op.may_become(txn);
                ops.len() == txns.len() && pairs.into_iter().all(fits)
            }
            (Op::CloseSession, Txn::CloseSession { .. }) => true,
            _ => false,
        }
    }

    /// The payload of its frame.
    #[must_use]
    pub fn encode(&self, xid: i32) -> Vec<u8> {
        let request = self.request();
        let mut payload = Vec::new();
        RequestHeader { xid: Xid(xid), op: request.op().code() }.encode(&mut payload);
        request.encode(&mut payload);
        payload
    }

    fn request(&self) -> Request<'_> {
        match self {
            Op::Sync => Request::Sync { path: "/".into() },
            Op::CloseSession => Request::CloseSession,
            Op::Ping => Request::Ping,
            Op::Auth { credentials } => {
                Request::Auth { scheme: "digest".into(), credentials: Some(credentials.as_bytes()) }
            }
            Op::GetData { .. }
            | Op::Exists { .. }
            | Op::GetChildren { .. }
            | Op::GetAcl { .. }
            | Op::GetEphemerals
            | Op::CountDescendants { .. }
            | Op::AddWatch { .. }
            | Op::RemoveWatches { .. }
            | Op::SetWatches { .. } => Request::Read(self.read()),
            write => Request::Write(write.write()),
        }
    }

    fn read(&self) -> ReadRequest<'_> {
        match self {
            Op::GetData { path, watch } => {
                ReadRequest::GetData { path: path.into(), watch: *watch }
            }
            Op::Exists { path, watch } => ReadRequest::Exists { path: path.into(), watch: *watch },
            Op::GetChildren { path, watch } => {
                ReadRequest::GetChildren { path: path.into(), watch: *watch, with_stat: false }
            }
            Op::GetAcl { path } => ReadRequest::GetAcl { path: path.into() },
            Op::GetEphemerals => ReadRequest::GetEphemerals { prefix: Some("/".into()) },
            Op::CountDescendants { path } => {
                ReadRequest::GetAllChildrenNumber { path: path.into() }
            }
            Op::AddWatch { path, recursive } => {
                ReadRequest::AddWatch { path: path.into(), recursive: *recursive }
            }
            Op::RemoveWatches { path } => {
                ReadRequest::RemoveWatches { path: path.into(), kind: WatcherType::Any }
            }
            Op::SetWatches { seen, watches } => {
                let of = |wanted| {
                    let paths = watches.iter().filter(move |(kind, _)| *kind == wanted);
                    paths.map(|(_, path)| path.into()).collect()
                };
                ReadRequest::SetWatches(SetWatches {
                    relative_zxid: *seen,
                    data: of(WatchKind::Data),
                    exist: of(WatchKind::Exist),
                    child: of(WatchKind::Child),
                    persistent: of(WatchKind::Persistent),
                    persistent_recursive: of(WatchKind::Recursive),
                })
            }
            other => unreachable!("{other:?} is no read"),
        }
    }

    fn write(&self) -> WriteRequest<'_> {
        match self {
            Op::Create(create) => WriteRequest::Create(create.request()),
            Op::SetData { path, data, version } => WriteRequest::SetData {
                path: path.into(),
                data: Some(data.as_bytes()),
                version: *version,
            },
            Op::Delete { path, version } => {
                WriteRequest::Delete { path: path.into(), version: *version }
            }
            Op::SetAcl { path, acl, version } => {
                WriteRequest::SetAcl { path: path.into(), acl: acl.clone(), version: *version }
            }
            Op::Check { path, version } => {
                WriteRequest::Check { path: path.into(), version: *version }
            }
            Op::Reconfig { members } => WriteRequest::Reconfig(ReconfigRequest {
                joining: None,
                leaving: None,
                new_members: Some(members.into()),
                current_config: -1,
            }),
            Op::Multi(ops) => WriteRequest::Multi(ops.iter().map(Op::write).collect()),
            other => unreachable!("{other:?} is no write"),
        }
    }
}

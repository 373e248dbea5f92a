//! The requests that tests send, and the records in their replies.

use std::collections::BTreeSet;

use anyhow::Result;

use super::jute::{Decoder, Encoder};

/// Operation numbers of the client protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// create
    Create = 1,
    /// delete
    Delete = 2,
    /// exists
    Exists = 3,
    /// getData
    GetData = 4,
    /// setData
    SetData = 5,
    /// getACL
    GetAcl = 6,
    /// setACL
    SetAcl = 7,
    /// getChildren
    GetChildren = 8,
    /// sync
    Sync = 9,
    /// getChildren2
    GetChildren2 = 12,
    /// check, only inside a multi
    Check = 13,
    /// multi
    Multi = 14,
    /// create2
    Create2 = 15,
    /// reconfig
    Reconfig = 16,
    /// createContainer
    CreateContainer = 19,
    /// createTTL
    CreateTtl = 21,
    /// auth
    Auth = 100,
    /// sasl
    Sasl = 102,
    /// getAllChildrenNumber
    GetAllChildrenNumber = 104,
    /// setWatches2
    SetWatches2 = 105,
    /// addWatch
    AddWatch = 106,
    /// closeSession
    CloseSession = -11,
}

/// One entry of an ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// Permission bits.
    pub perms: i32,
    /// `world`, `digest`, `ip`, …
    pub scheme: String,
    /// The id, in the scheme's own form.
    pub id: String,
}

/// The mode of addWatch that covers everything below a node.
const PERSISTENT_RECURSIVE: i32 = 1;

/// The ACL that allows everything to every client, as (perms, scheme, id).
const WORLD_ALL: &[(i32, &str, &str)] = &[(31, "world", "anyone")];

/// A request.
#[derive(Clone, Debug)]
pub enum Op {
    /// create, create2, createContainer or createTTL, according to `kind`.
    Create {
        kind: Kind,
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        flags: i32,
        ttl_ms: i64,
    },
    /// delete or check.
    Versioned { kind: Kind, path: String, version: i32 },
    /// setData.
    SetData { path: String, data: Option<Vec<u8>>, version: i32 },
    /// setACL.
    SetAcl { path: String, acl: Vec<Acl>, version: i32 },
    /// getData, exists, getChildren or getChildren2.
    Read { kind: Kind, path: String, watch: bool },
    /// getACL, sync or getAllChildrenNumber.
    Plain { kind: Kind, path: String },
    /// Several changes, all or none.
    Multi(Vec<Op>),
    /// Servers that join and ids that leave, each comma-separated or empty.
    Reconfig { joining: String, leaving: String },
    /// Sets a persistent recursive watch.
    AddWatch { path: String },
    /// Sets watches again on a new connection; fires those that missed a change since `since`.
    SetWatches { since: i64, watches: Watches },
    /// A step of a SASL login.
    Sasl { token: Option<Vec<u8>> },
    /// The end of the session.
    CloseSession,
}

/// The watches of a client, by the list in which setWatches2 names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watches {
    /// Set by getData, and by exists for an existing node.
    pub data: BTreeSet<String>,
    /// Set by exists for a missing node.
    pub exist: BTreeSet<String>,
    /// Set by getChildren.
    pub child: BTreeSet<String>,
    /// Set by addWatch.
    pub recursive: BTreeSet<String>,
}

impl Watches {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Watches::default()
    }
}

impl Op {
    /// A create of the kind given by `flags`: 0 persistent, 1 ephemeral, 2 sequential, 4 container, 5 and 6
    /// TTL.
    pub fn create(path: &str, data: Option<&[u8]>, flags: i32) -> Op {
        let kind = match flags {
            4 => Kind::CreateContainer,
            5 | 6 => Kind::CreateTtl,
            _ => Kind::Create2,
        };
        let data = data.map(<[u8]>::to_vec);
        Op::Create { kind, path: path.into(), data, acl: acl(WORLD_ALL), flags, ttl_ms: 3_600_000 }
    }

    /// The same create with another ACL.
    pub fn with_acl(mut self, entries: &[(i32, &str, &str)]) -> Op {
        if let Op::Create { acl: own, .. } = &mut self {
            *own = acl(entries);
        }
        self
    }

    /// The same create sent as the oldest of the create operations.
    pub fn sent_as_create(mut self) -> Op {
        if let Op::Create { kind, .. } = &mut self {
            *kind = Kind::Create;
        }
        self
    }

    /// delete.
    pub fn delete(path: &str, version: i32) -> Op {
        Op::Versioned { kind: Kind::Delete, path: path.into(), version }
    }

    /// check, for use in a multi.
    pub fn check(path: &str, version: i32) -> Op {
        Op::Versioned { kind: Kind::Check, path: path.into(), version }
    }

    /// setData.
    pub fn set_data(path: &str, data: Option<&[u8]>, version: i32) -> Op {
        Op::SetData { path: path.into(), data: data.map(<[u8]>::to_vec), version }
    }

    /// setACL.
    pub fn set_acl(path: &str, entries: &[(i32, &str, &str)], version: i32) -> Op {
        Op::SetAcl { path: path.into(), acl: acl(entries), version }
    }

    /// getData.
    pub fn get_data(path: &str) -> Op {
        Op::Read { kind: Kind::GetData, path: path.into(), watch: false }
    }

    /// exists.
    pub fn exists(path: &str) -> Op {
        Op::Read { kind: Kind::Exists, path: path.into(), watch: false }
    }

    /// getChildren.
    pub fn get_children(path: &str) -> Op {
        Op::Read { kind: Kind::GetChildren, path: path.into(), watch: false }
    }

    /// getChildren2, whose reply has the Stat too.
    pub fn list(path: &str) -> Op {
        Op::Read { kind: Kind::GetChildren2, path: path.into(), watch: false }
    }

    /// The same read, with a watch.
    pub fn watched(mut self) -> Op {
        if let Op::Read { watch, .. } = &mut self {
            *watch = true;
        }
        self
    }

    /// getACL.
    pub fn get_acl(path: &str) -> Op {
        Op::Plain { kind: Kind::GetAcl, path: path.into() }
    }

    /// sync.
    pub fn sync(path: &str) -> Op {
        Op::Plain { kind: Kind::Sync, path: path.into() }
    }

    /// The operation's number.
    pub fn kind(&self) -> Kind {
        match self {
            Op::Create { kind, .. } | Op::Versioned { kind, .. } => *kind,
            Op::Read { kind, .. } | Op::Plain { kind, .. } => *kind,
            Op::SetData { .. } => Kind::SetData,
            Op::SetAcl { .. } => Kind::SetAcl,
            Op::Multi(_) => Kind::Multi,
            Op::Reconfig { .. } => Kind::Reconfig,
            Op::AddWatch { .. } => Kind::AddWatch,
            Op::SetWatches { .. } => Kind::SetWatches2,
            Op::Sasl { .. } => Kind::Sasl,
            Op::CloseSession => Kind::CloseSession,
        }
    }

    /// The record after the request's header.
    pub fn encode(&self, out: &mut Encoder) {
        match self {
            Op::Create { kind, path, data, acl, flags, ttl_ms } => {
                out.string(path).buffer(data.as_deref());
                encode_acl(acl, out);
                out.int(*flags);
                if *kind == Kind::CreateTtl {
                    out.long(*ttl_ms);
                }
            }
            Op::Versioned { path, version, .. } => {
                out.string(path).int(*version);
            }
            Op::SetData { path, data, version } => {
                out.string(path).buffer(data.as_deref()).int(*version);
            }
            Op::SetAcl { path, acl, version } => {
                out.string(path);
                encode_acl(acl, out);
                out.int(*version);
            }
            Op::Read { path, watch, .. } => {
                out.string(path).boolean(*watch);
            }
            Op::Plain { path, .. } => {
                out.string(path);
            }
            Op::Multi(ops) => encode_multi(ops, out),
            Op::Reconfig { joining, leaving } => {
                out.string(joining).string(leaving).buffer(None).long(-1);
            }
            Op::AddWatch { path } => {
                out.string(path).int(PERSISTENT_RECURSIVE);
            }
            Op::SetWatches { since, watches } => {
                out.long(*since);
                let none = BTreeSet::new();
                let Watches { data, exist, child, recursive } = watches;
                for paths in [data, exist, child, &none, recursive] {
                    out.count(paths.len());
                    for path in paths {
                        out.string(path);
                    }
                }
            }
            Op::Sasl { token } => {
                out.buffer(token.as_deref());
            }
            Op::CloseSession => {}
        }
    }
}

fn encode_multi(ops: &[Op], out: &mut Encoder) {
    for op in ops {
        out.int(op.kind() as i32).boolean(false).int(-1);
        op.encode(out);
    }
    out.int(-1).boolean(true).int(-1);
}

fn acl(entries: &[(i32, &str, &str)]) -> Vec<Acl> {
    let entry = |&(perms, scheme, id): &(i32, &str, &str)| Acl {
        perms,
        scheme: scheme.into(),
        id: id.into(),
    };
    entries.iter().map(entry).collect()
}

fn encode_acl(acl: &[Acl], out: &mut Encoder) {
    out.count(acl.len());
    for entry in acl {
        out.int(entry.perms).string(&entry.scheme).string(&entry.id);
    }
}

/// Reads an ACL vector.
pub fn decode_acl(from: &mut Decoder) -> Result<Vec<Acl>> {
    let count = from.int()?;
    let mut acl = Vec::new();
    for _ in 0..count {
        acl.push(Acl { perms: from.int()?, scheme: from.string()?, id: from.string()? });
    }
    Ok(acl)
}

/// A node's Stat as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// czxid, mzxid, ctime, mtime.
    pub head: [i64; 4],
    /// version, cversion, aversion.
    pub versions: [i32; 3],
    /// ephemeralOwner.
    pub owner: i64,
    /// dataLength, numChildren.
    pub sizes: [i32; 2],
    /// pzxid.
    pub pzxid: i64,
}

impl Stat {
    /// The zxid that created the node.
    pub fn czxid(&self) -> i64 {
        self.head[0]
    }

    /// The zxid that last set its data.
    pub fn mzxid(&self) -> i64 {
        self.head[1]
    }

    /// How often its data was set.
    pub fn version(&self) -> i32 {
        self.versions[0]
    }

    /// Reads the 68 bytes of a Stat.
    pub fn decode(from: &mut Decoder) -> Result<Stat> {
        Ok(Stat {
            head: [from.long()?, from.long()?, from.long()?, from.long()?],
            versions: [from.int()?, from.int()?, from.int()?],
            owner: from.long()?,
            sizes: [from.int()?, from.int()?],
            pzxid: from.long()?,
        })
    }
}

//! A simulated client: what it asks, and what it remembers.
//!
//! It speaks the client protocol in real frames, has one session at a time, moves from server to server
//! with it, keeps up to a few requests on their way, and hands everything that it receives to the
//! checkers. What moves it is in `world::clients`.

use std::collections::VecDeque;

use herdsman_proto::request::{CreateRequest, ReconfigRequest, RequestHeader};
use herdsman_proto::{
    Acl, OpCode, Perms, ReadRequest, Request, SessionId, Txn, WriteRequest, Xid, Zxid, reply,
};

use crate::random::Random;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Create a znode.
    Create {
        /// Where.
        path: String,
        /// Raw flags: 1 ephemeral, 2 sequential.
        flags: i32,
        /// With this data.
        data: String,
    },
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
    /// All or nothing.
    Multi(Vec<Op>),
    /// Change the membership to this whole list.
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
    /// A sign of life.
    Ping,
}

impl Op {
    /// Whether it becomes a txn.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Op::Create { .. }
                | Op::SetData { .. }
                | Op::Delete { .. }
                | Op::Multi(_)
                | Op::Reconfig { .. }
                | Op::CloseSession
        )
    }

    /// The number that it is sent under, if it is not the client's next one.
    fn own_xid(&self) -> Option<i32> {
        matches!(self, Op::Ping).then_some(Xid::PING.0)
    }

    /// Whether this txn may be what became of it. Each piece of data is written once, so a txn with data
    /// belongs to one request only.
    #[must_use]
    pub fn may_become(&self, txn: &Txn) -> bool {
        match (self, txn) {
            (Op::Create { path, flags, data }, Txn::Create(create)) => {
                let is_sequential = flags & 2 != 0;
                let fits = create.path.strip_prefix(path.as_str());
                fits.is_some_and(|rest| rest.is_empty() != is_sequential)
                    && create.data.as_deref() == Some(data.as_bytes())
            }
            (Op::Reconfig { .. }, Txn::SetData { reconfig, .. }) => *reconfig,
            (Op::SetData { path, data, .. }, Txn::SetData { path: set, data: new, .. }) => {
                **set == **path && new.as_deref() == Some(data.as_bytes())
            }
            (Op::Delete { path, .. }, Txn::Delete { path: deleted, .. }) => **deleted == **path,
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
            Op::GetData { path, watch } => {
                Request::Read(ReadRequest::GetData { path: path.into(), watch: *watch })
            }
            Op::Exists { path, watch } => {
                Request::Read(ReadRequest::Exists { path: path.into(), watch: *watch })
            }
            Op::GetChildren { path, watch } => Request::Read(ReadRequest::GetChildren {
                path: path.into(),
                watch: *watch,
                with_stat: false,
            }),
            write => Request::Write(write.write()),
        }
    }

    fn write(&self) -> WriteRequest<'_> {
        match self {
            Op::Create { path, flags, data } => WriteRequest::Create(CreateRequest {
                op: OpCode::Create,
                path: path.into(),
                data: Some(data.as_bytes()),
                acl: vec![Acl::world(Perms::ALL)],
                flags: *flags,
                ttl_ms: None,
            }),
            Op::SetData { path, data, version } => WriteRequest::SetData {
                path: path.into(),
                data: Some(data.as_bytes()),
                version: *version,
            },
            Op::Delete { path, version } => {
                WriteRequest::Delete { path: path.into(), version: *version }
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

/// How a client numbers its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xids {
    /// From 1, over all its connections, as Apache's Java client does.
    PerClient,
    /// From 1 on each connection, as kazoo does.
    PerConnection,
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not connected.
    Idle,
    /// Waits for its session.
    Connecting,
    /// Has a session and a connection.
    Connected,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its session; `NONE` if it has none.
    pub session: SessionId,
    /// The timeout in force.
    pub timeout_ms: u64,
    /// The last txn it has seen.
    pub seen: Zxid,
    /// Its connection.
    pub conn: Option<u64>,
    /// Where it is.
    pub stage: Stage,
    /// Requests that are not answered.
    pub pending: VecDeque<(i32, Op)>,
    /// When it last heard from a server.
    pub heard_ms: u64,
    /// When it last sent something.
    pub sent_ms: u64,
    /// Writes that were answered.
    pub writes_done: u64,
    /// Zxid and error code of the answers that were not to reads, for scripts.
    pub answers: Vec<(Zxid, i32)>,
    /// Sessions that it left without a word.
    pub left: Vec<SessionId>,
    /// The session in which it was answered when all was well again.
    pub calm_session: Option<SessionId>,
    /// The session that it last asked to end.
    pub closed_session: Option<SessionId>,
    /// It asks for nothing more, and only stays alive.
    pub quiet: bool,
    next_xid: i32,
    made: u64,
}

impl Client {
    /// A client that was never connected.
    #[must_use]
    pub fn new() -> Self {
        Client {
            session: SessionId::NONE,
            timeout_ms: 0,
            seen: Zxid::ZERO,
            conn: None,
            stage: Stage::Idle,
            pending: VecDeque::new(),
            heard_ms: 0,
            sent_ms: 0,
            writes_done: 0,
            answers: Vec::new(),
            left: Vec::new(),
            calm_session: None,
            closed_session: None,
            quiet: false,
            next_xid: 0,
            made: 0,
        }
    }

    /// A new connection: the numbers of requests begin anew with each, or go on.
    pub fn connect(&mut self, xids: Xids) {
        if xids == Xids::PerConnection {
            self.next_xid = 0;
        }
    }

    /// Puts a request at the end of the line and gives its number and payload.
    pub fn send(&mut self, op: Op) -> (i32, Vec<u8>) {
        let xid = op.own_xid().unwrap_or_else(|| {
            self.next_xid += 1;
            self.next_xid
        });
        if op == Op::CloseSession {
            self.closed_session = Some(self.session);
        }
        let payload = op.encode(xid);
        self.pending.push_back((xid, op));
        (xid, payload)
    }

    /// The connection is gone: what was on its way has an unknown fate.
    pub fn disconnect(&mut self) {
        self.conn = None;
        self.stage = Stage::Idle;
        self.pending.clear();
    }

    /// The session is over, or forgotten.
    pub fn forget_session(&mut self) {
        self.session = SessionId::NONE;
        self.seen = Zxid::ZERO;
    }

    /// What it asks next.
    pub fn next_op(&mut self, random: &mut Random, me: usize) -> Op {
        self.made += 1;
        let data = format!("{me}-{}", self.made);
        let path = random_path(random);
        let watch = random.per_mille(500);
        match random.below(100) {
            0..25 => Op::Create { path, flags: *random.pick(&[0, 0, 1, 2, 3]), data },
            25..45 => Op::SetData { path, data, version: -1 },
            45..48 => Op::SetData { path, data, version: random.index(3) as i32 },
            48..60 => Op::Delete { path, version: -1 },
            60..66 => random_multi(random, &path, &data),
            66..70 => Op::Sync,
            70..71 => Op::CloseSession,
            71..85 => Op::GetData { path, watch },
            85..93 => Op::Exists { path, watch },
            _ => Op::GetChildren { path: parent_path(&path), watch },
        }
    }
}

impl Default for Client {
    fn default() -> Self {
        Client::new()
    }
}

/// The number in a client's data: each client counts what it writes, so it tells the order in which the
/// client asked.
#[must_use]
pub fn serial(txn: &Txn) -> Option<u64> {
    let data = match txn {
        Txn::Create(create) => create.data.as_deref(),
        Txn::SetData { data, .. } => data.as_deref(),
        Txn::Multi(txns) => return txns.iter().find_map(serial),
        _ => None,
    };
    let (_, number) = str::from_utf8(data?).ok()?.split_once('-')?;
    number.parse().ok()
}

/// Few paths, so that clients meet.
fn random_path(random: &mut Random) -> String {
    let top = *random.pick(&["a", "b", "c"]);
    match random.below(3) {
        0 => format!("/{top}"),
        _ => format!("/{top}/{}", random.below(4)),
    }
}

fn parent_path(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/".to_owned(),
        Some((parent, _)) => parent.to_owned(),
    }
}

fn random_multi(random: &mut Random, path: &str, data: &str) -> Op {
    let (path, data) = (path.to_owned(), data.to_owned());
    let create =
        Op::Create { path: path.clone(), flags: *random.pick(&[0, 2]), data: data.clone() };
    let set = Op::SetData { path: path.clone(), data, version: -1 };
    let delete = Op::Delete { path, version: -1 };
    match random.below(4) {
        0 => Op::Multi(vec![create, set]),
        1 => Op::Multi(vec![delete, create]),
        2 => Op::Multi(vec![set.clone(), set, delete]),
        _ => Op::Multi(vec![create.clone(), create]),
    }
}

/// A frame around a payload.
#[must_use]
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    reply::frame(&mut out, |out| out.extend_from_slice(payload));
    out
}

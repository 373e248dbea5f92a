//! A simulated client: what it asks, and what it remembers.
//!
//! It speaks the client protocol in real frames, has one session at a time, moves from server to server
//! with it, keeps up to a few requests on their way, and hands everything that it receives to the
//! checkers. Like a client library it keeps a list of its watches, and may set them again on its next
//! connection. What moves it is in `world::clients`.

mod op;

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use herdsman_proto::{Acl, ErrorCode, EventType, Id, Perms, SessionId, Txn, Zxid, reply};
use herdsman_tree::auth::Schemes;

pub use op::{Create, Op, WatchKind};

use crate::plan::Plan;
use crate::random::Random;

/// So many znodes with numbers in their names does a client remember.
const NUMBERED_MAX: usize = 8;
/// Times to live are among these, in ticks.
const TTL_TICKS: &[u64] = &[1, 5, 20];

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
    /// Its watches.
    pub watches: BTreeSet<(WatchKind, String)>,
    /// The last txn that an event on this connection told of.
    pub heard: Zxid,
    /// Its server has no leader and answers reads only.
    pub read_only: bool,
    /// It has just gone to another server while requests were under way.
    pub has_moved: bool,
    /// The last sequential znodes that it has created.
    numbered: VecDeque<String>,
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
            watches: BTreeSet::new(),
            heard: Zxid::ZERO,
            read_only: false,
            has_moved: false,
            numbered: VecDeque::new(),
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
        self.heard = Zxid::ZERO;
        self.read_only = false;
    }

    /// The session is over, or forgotten.
    pub fn forget_session(&mut self) {
        self.session = SessionId::NONE;
        self.seen = Zxid::ZERO;
        self.watches.clear();
    }

    /// Notes the watch that an answered request has set, or those that it has removed.
    pub fn note_watches(&mut self, op: &Op, code: i32) {
        let missing = code == ErrorCode::NoNode.code();
        let (kind, path) = match op {
            Op::GetData { path, watch: true } if code == 0 => (WatchKind::Data, path),
            Op::Exists { path, watch: true } if code == 0 => (WatchKind::Data, path),
            Op::Exists { path, watch: true } if missing => (WatchKind::Exist, path),
            Op::GetChildren { path, watch: true } if code == 0 => (WatchKind::Child, path),
            Op::AddWatch { path, recursive: false } if code == 0 => (WatchKind::Persistent, path),
            Op::AddWatch { path, recursive: true } if code == 0 => (WatchKind::Recursive, path),
            Op::RemoveWatches { path } if code == 0 => {
                return self.watches.retain(|(_, watched)| watched != path);
            }
            _ => return,
        };
        self.watches.insert((kind, path.clone()));
    }

    /// An event has come: watches that it spends are gone.
    pub fn spend_watches(&mut self, event: EventType, path: &str) {
        let spent: &[WatchKind] = match event {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                &[WatchKind::Data, WatchKind::Exist]
            }
            EventType::NodeChildrenChanged => &[WatchKind::Child],
            EventType::NodeDeleted => &[WatchKind::Data, WatchKind::Exist, WatchKind::Child],
        };
        self.watches.retain(|(kind, watched)| watched != path || !spent.contains(kind));
    }

    /// Remembers a znode whose name it cannot guess.
    pub fn note_path(&mut self, path: String) {
        self.numbered.push_back(path);
        if self.numbered.len() > NUMBERED_MAX {
            self.numbered.pop_front();
        }
    }

    /// What it asks next.
    pub fn next_op(&mut self, random: &mut Random, me: usize, plan: &Plan) -> Op {
        self.made += 1;
        let kinds = plan.requests;
        let data = format!("{me}-{}", self.made);
        let mut path = random_path(random);
        let watch = random.per_mille(500);
        // Whoever has moved may be done soon, with requests still under way at the server that it has left.
        if std::mem::take(&mut self.has_moved) && random.per_mille(200) {
            return Op::CloseSession;
        }
        let kind = random.below(100);
        if kind >= 25 && !self.numbered.is_empty() && random.per_mille(400) {
            path = random.pick(self.numbered.make_contiguous()).clone();
        }
        match kind {
            0..25 => Op::Create(random_create(random, &path, &data, me, plan)),
            25..45 => Op::SetData { path, data, version: -1 },
            45..48 => Op::SetData { path, data, version: random.index(3) as i32 },
            48..58 => Op::Delete { path, version: -1 },
            58..60 => Op::Delete { path, version: random.index(3) as i32 },
            60..66 => random_multi(random, &path, &data, me, plan),
            66..70 => Op::Sync,
            70..71 => Op::CloseSession,
            71..82 => Op::GetData { path, watch },
            82..88 => Op::Exists { path, watch },
            88..89 => Op::GetEphemerals,
            89..90 => Op::CountDescendants { path },
            90..94 if kinds.acls => match random.below(2) {
                0 => Op::GetAcl { path },
                _ => Op::SetAcl {
                    path,
                    acl: random_acl(random, me),
                    version: *random.pick(&[-1, -1, 0, 1]),
                },
            },
            94..97 if kinds.lasting_watches => match random.below(4) {
                0 => Op::RemoveWatches { path },
                1 => Op::AddWatch { path: parent_path(&path), recursive: true },
                2 => Op::AddWatch { path, recursive: true },
                _ => Op::AddWatch { path, recursive: false },
            },
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

/// User and password of a client.
#[must_use]
pub fn credentials(client: usize) -> String {
    format!("client{client}:secret")
}

/// What a client is by its address, and by its password if it has shown it.
#[must_use]
pub fn ids(client: usize, proven: bool) -> Vec<Id> {
    let mut ids = vec![Id::new("ip", "127.0.0.1")];
    if proven {
        ids.extend(prove(credentials(client).as_bytes()));
    }
    ids
}

/// What somebody has proven to be by user and password.
#[must_use]
pub fn prove(credentials: &[u8]) -> Vec<Id> {
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let proven = Schemes::default().authenticate("digest", Some(credentials), peer);
    proven.expect("digests are switched on")
}

fn random_create(random: &mut Random, path: &str, data: &str, me: usize, plan: &Plan) -> Create {
    let kinds = plan.requests;
    let flags = if kinds.lifetimes && random.per_mille(300) {
        *random.pick(&[4, 4, 5, 5, 6])
    } else {
        *random.pick(&[0, 0, 1, 2, 3])
    };
    let mut create = Create::open(path, flags, data);
    create.ttl_ms = (*random.pick(TTL_TICKS) * plan.tick_ms) as i64;
    create.with_stat = random.per_mille(300);
    if kinds.acls && random.per_mille(400) {
        create.acl = random_acl(random, me);
    }
    create
}

/// Most lists give everybody something: otherwise clients would not meet.
fn random_acl(random: &mut Random, me: usize) -> Vec<Acl> {
    let everybody = *random.pick(&[
        Perms::ALL,
        Perms::READ,
        Perms::READ.union(Perms::WRITE),
        Perms::CREATE.union(Perms::DELETE),
    ]);
    let mine = prove(credentials(me).as_bytes()).remove(0);
    let mine = Acl { perms: Perms::ALL, id: mine };
    match random.below(4) {
        0 => vec![Acl::world(Perms::ALL)],
        1 => vec![mine],
        2 => vec![Acl::world(everybody)],
        _ => vec![Acl::world(everybody), mine],
    }
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

fn random_multi(random: &mut Random, path: &str, data: &str, me: usize, plan: &Plan) -> Op {
    let version = *random.pick(&[-1, 0, 1]);
    let create = Op::Create(random_create(random, path, data, me, plan));
    let set = Op::SetData { path: path.to_owned(), data: data.to_owned(), version: -1 };
    let delete = Op::Delete { path: path.to_owned(), version: -1 };
    let check = Op::Check { path: random_path(random), version };
    match random.below(7) {
        0 => Op::Multi(vec![create, set]),
        1 => Op::Multi(vec![delete, create]),
        2 => Op::Multi(vec![set.clone(), set, delete]),
        3 => Op::Multi(vec![create.clone(), create]),
        4 => Op::Multi(vec![check, set]),
        5 => Op::Multi(vec![Op::Check { path: path.to_owned(), version }, delete, create]),
        _ => Op::Multi(vec![set, check, create]),
    }
}

/// A frame around a payload.
#[must_use]
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    reply::frame(&mut out, |out| out.extend_from_slice(payload));
    out
}

//! The node: sessions, the overlay and the txns in flight, advanced by one input at a time.

mod closing;
mod commit;
mod connect;
mod ensemble;
mod leading;
mod learning;
mod local;
mod observer_master;
mod read_only;

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, Id, OpCode, ServerState, SessionId, TxnHeader, Zxid};
use herdsman_tree::overlay::Savepoint;
use herdsman_tree::{Caller, Events, Overlay, Tree};
use herdsman_zab::Zab;

use crate::closing::{CloseRequest, ClosingSessions};
use crate::cxids::{Cxids, Numbering};
use crate::forwarding::Forwarding;
use crate::io::{ClientRequest, CloseReason, ConnId, Input, Now, Output, Outputs, StorageState};
use crate::passwords::SessionPasswords;
use crate::pending::{InFlight, Pending, RequestOrigin};
use crate::revalidations::PendingRevalidations;
use crate::sessions::{SessionOwner, Sessions};
use crate::sweeper::{SweepSettings, Sweeper};
use ensemble::Ensemble;
pub use ensemble::{membership_in, membership_of};

/// The settings of a node; they do not change while the server runs.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// First byte of session ids; 1 for a standalone server.
    pub server_id: u8,
    /// Length of a tick.
    pub tick_ms: u64,
    /// Shortest session timeout.
    pub session_timeout_ms_min: i32,
    /// Longest session timeout.
    pub session_timeout_ms_max: i32,
    /// The interval at which the driver reports signs of life of clients.
    pub touch_step_ms: u64,
    /// Containers and TTL znodes.
    pub sweep: SweepSettings,
    /// Whether a leader serves clients (`leaderServes`).
    pub leader_serves: LeaderServes,
    /// Whether new sessions of an ensemble are local (`localSessionsEnabled`).
    pub local_sessions: LocalSessions,
    /// How long a server without a leader waits before it serves reads (`readonlymode.enabled`);
    /// `None`: it never does.
    pub read_only_after_ms: Option<u64>,
    /// The number of txns after which a leader begins a new epoch, well before the counter overflows.
    pub epoch_txns_max: u32,
    /// Which session passwords are issued and accepted.
    pub passwords: SessionPasswords,
    /// The fewest voters that a change of membership may leave.
    pub voters_min: usize,
    /// The most ephemerals that one txn deletes at the end of their session.
    pub ephemerals_per_txn_max: usize,
    /// Seeds the hash tables.
    pub hash_seed: u64,
}

/// Whether a leader serves clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderServes {
    /// It does.
    #[default]
    Clients,
    /// Only the other servers.
    ServersOnly,
}

/// Whether new sessions of an ensemble are local. A standalone server has no use for local sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalSessions {
    /// The whole ensemble knows every session.
    #[default]
    Off,
    /// Only the server that opened a session knows it, and it cannot own ephemerals.
    Kept,
    /// The same, until the session creates an ephemeral.
    Upgraded,
}

/// The role in which a server answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServesAs {
    /// A server that is not part of an ensemble.
    Standalone,
    /// The leader of an ensemble.
    Leader,
    /// A voter that follows.
    Follower,
    /// A server that follows without a vote.
    Observer,
    /// A server without a leader that answers reads.
    ReadOnly,
}

/// What a node does with requests, and the state that only this role needs.
#[derive(Debug)]
enum Role {
    /// Serves no requests: there is no leader.
    Idle {
        /// Since when this server has been looking for a leader, if it does.
        looking_since_ms: Option<u64>,
    },
    /// Decides them: it is standalone, or leads.
    Deciding {
        /// Deletes idle containers and TTL znodes.
        sweeper: Sweeper,
        /// Ends sessions that own very many ephemerals.
        closing: ClosingSessions,
        /// Revalidations requested by learners, which are answered later.
        revalidations: PendingRevalidations,
    },
    /// Forwards them to the leader.
    Learning(Box<Forwarding>),
    /// Serves reads and refuses everything else: there is no leader.
    ReadOnly,
}

impl Role {
    /// Begins to decide: nothing is found to sweep yet, and no session is ending.
    fn deciding(sweep: SweepSettings, now: Now) -> Role {
        let sweeper = Sweeper::new(sweep, now.monotonic_ms);
        Role::Deciding {
            sweeper,
            closing: ClosingSessions::default(),
            revalidations: PendingRevalidations::default(),
        }
    }
}

/// A connection whose session is being or has been established.
#[derive(Debug)]
struct Conn {
    session: SessionId,
    ids: Arc<[Id]>,
    numbering: Numbering,
}

/// The per-server state machine.
#[derive(Debug)]
pub struct Node {
    settings: NodeSettings,
    overlay: Overlay,
    sessions: Sessions,
    conns: HashMap<ConnId, Conn, FixedState>,
    in_flight: InFlight,
    cxids: Cxids,
    storage: StorageState,
    /// The last txn that got a zxid.
    last_proposed: Zxid,
    /// The last committed txn; on a standalone server, the last durable one.
    committed: Zxid,
    events: Events,
    role: Role,
    /// Agreement with the other servers; `None` on a standalone server.
    ensemble: Option<Ensemble>,
}

impl Node {
    /// Starts with a recovered tree: its sessions get a whole timeout to reconnect.
    #[must_use]
    pub fn new(settings: NodeSettings, tree: &Tree, now: Now) -> Self {
        let NodeSettings { server_id, tick_ms, touch_step_ms, sweep, hash_seed, .. } = settings;
        let mut sessions = Sessions::new(server_id, now.wall_ms, tick_ms, touch_step_ms);
        for (session, timeout_ms) in tree.sessions() {
            sessions.open(session, timeout_ms, None, now.monotonic_ms);
        }
        Node {
            overlay: Overlay::new(hash_seed),
            sessions,
            conns: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            in_flight: InFlight::default(),
            cxids: Cxids::new(server_id, now.wall_ms),
            storage: StorageState::Writable,
            last_proposed: tree.last_zxid(),
            committed: tree.last_zxid(),
            events: Events::new(),
            role: Role::deciding(sweep, now),
            ensemble: None,
            settings,
        }
    }

    /// Forgets everything and starts with another tree, which has replaced the tree of a standalone
    /// server. All earlier connections are forgotten.
    pub fn start_over(&mut self, tree: &Tree, now: Now) {
        assert!(self.ensemble.is_none(), "a member of an ensemble takes trees from its leader");
        *self = Node::new(self.settings.clone(), tree, now);
    }

    /// Returns the open sessions.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns whether the log accepts txns.
    #[must_use]
    pub fn storage(&self) -> StorageState {
        self.storage
    }

    /// Returns how many requests wait for the log.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns how many syncs, of clients and of learners, wait for earlier proposals.
    #[must_use]
    pub fn syncs_waiting(&self) -> usize {
        self.in_flight.syncs()
    }

    /// Returns when [`Input::Tick`] is due next. Sessions do not expire while the log cannot be written.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let peers = self.zab().and_then(Zab::next_deadline);
        let own = match &self.role {
            Role::Idle { .. } => [self.read_only_at(), None, None],
            Role::Deciding { sweeper, closing, .. } if self.storage == StorageState::Writable => {
                [self.sessions.next_deadline(), sweeper.next_deadline(), closing.next_deadline()]
            }
            Role::Deciding { .. } => [None; 3],
            Role::Learning(_) | Role::ReadOnly => [self.sessions.next_deadline(), None, None],
        };
        own.into_iter().chain([peers]).flatten().min()
    }

    /// Whether something waits for [`Node::apply`].
    #[must_use]
    pub fn wants_tree(&self) -> bool {
        self.has_committed() || self.has_postponed() || self.has_upcoming_role()
    }

    /// Returns the txn that [`Node::apply`] will apply next, if there is one.
    #[must_use]
    pub fn next_txn(&self) -> Option<&Entry> {
        self.in_flight.next_txn(self.committed)
    }

    fn has_committed(&self) -> bool {
        self.in_flight.has_ready(self.committed)
    }

    /// Whether a sync at this server is never answered by a leader that has been replaced. False also at an observer
    /// that learns from a follower, because it cannot know.
    #[must_use]
    pub fn has_linearizable_syncs(&self) -> bool {
        match &self.role {
            Role::Deciding { .. } => true,
            Role::Learning(forwarding) => forwarding.leader_confirms_syncs(),
            Role::Idle { .. } | Role::ReadOnly => false,
        }
    }

    /// Returns the role in which requests are served at the moment; `None` while there is no leader.
    #[must_use]
    pub fn serves_as(&self) -> Option<ServesAs> {
        match (&self.role, self.zab()) {
            _ if self.is_leaving_role() => None,
            (Role::Idle { .. }, _) => None,
            (Role::ReadOnly, _) => Some(ServesAs::ReadOnly),
            (_, None) => Some(ServesAs::Standalone),
            (Role::Deciding { .. }, _) => Some(ServesAs::Leader),
            (Role::Learning(_), Some(zab)) if zab.state() == ServerState::Observing => {
                Some(ServesAs::Observer)
            }
            (Role::Learning(_), _) => Some(ServesAs::Follower),
        }
    }

    /// Whether applied txns are answered: this server has a role, or is just leaving it.
    #[must_use]
    pub fn answers(&self) -> bool {
        !matches!(self.role, Role::Idle { .. })
    }

    /// Whether clients are accepted at the moment.
    #[must_use]
    pub fn serves_clients(&self) -> bool {
        match self.role {
            _ if self.is_leaving_role() => false,
            Role::Idle { .. } => false,
            Role::Learning(_) | Role::ReadOnly => true,
            Role::Deciding { .. } => {
                self.ensemble.is_none() || self.settings.leader_serves == LeaderServes::Clients
            }
        }
    }

    /// Handles one input. If [`Node::wants_tree`] returns true afterwards, call [`Node::apply`].
    pub fn step(&mut self, now: Now, input: Input<'_>, tree: &Tree, out: &mut Outputs) {
        match input {
            Input::Connect { conn, request, ids } => {
                self.connect(now, conn, request, ids, tree, out);
            }
            Input::Request { conn, xid, request, body } => {
                let op = op_of(&request);
                let origin = RequestOrigin { conn, xid, op, since_ms: now.monotonic_ms };
                match self.role {
                    _ if self.is_leaving_role() => {}
                    Role::Idle { .. } => {}
                    Role::Deciding { .. } => self.request(now, origin, request, body, tree, out),
                    Role::Learning(_) => self.forward(origin, &request, body, tree, out),
                    Role::ReadOnly => self.serve_read_only(origin, &request, body, tree, out),
                }
            }
            Input::Identified { conn, ids } => {
                if let Some(known) = self.conns.get_mut(&conn) {
                    known.ids = ids;
                }
            }
            Input::Touch { conn } => {
                if let Some(known) = self.conns.get(&conn) {
                    match &mut self.role {
                        Role::Learning(forwarding) if !self.sessions.is_local(known.session) => {
                            forwarding.touch(known.session);
                        }
                        _ => self.sessions.touch(known.session, now.monotonic_ms),
                    }
                }
            }
            Input::Disconnected { conn } => self.disconnected(conn, tree),
            Input::Flushed { zxid } if self.ensemble.is_some() => {
                self.step_peers(now, herdsman_zab::Input::Flushed { zxid }, tree, out);
            }
            Input::Flushed { zxid } => self.committed = self.committed.max(zxid),
            Input::Peer(input) => self.step_peers(now, input, tree, out),
            Input::Storage(state) => {
                self.storage_changed(state, out);
                self.tell_peers_of_storage(now, tree, out);
            }
            Input::ProcessPaused => self.sessions.touch_all(now.monotonic_ms),
            Input::Tick => self.tick(now, tree, out),
        }
    }

    fn request(
        &mut self,
        now: Now,
        origin: RequestOrigin,
        request: ClientRequest<'_>,
        body: &[u8],
        tree: &Tree,
        out: &mut Outputs,
    ) {
        let Some(conn) = self.conns.get(&origin.conn) else {
            return;
        };
        let (session, ids, numbering) = (conn.session, Arc::clone(&conn.ids), conn.numbering);
        let refused = self.sessions.check(session, SessionOwner::Conn(origin.conn)).err();
        if refused == Some(ErrorCode::SessionMoved) {
            return out.close(origin.conn, CloseReason::SessionMoved);
        }
        if self.is_end_awaited_by(session, origin.conn) {
            return;
        }
        self.sessions.touch(session, now.monotonic_ms);
        if let ClientRequest::Sync { path } = request {
            let path = path.into_owned().into_boxed_str();
            let check = self.begin_check(now, out);
            return self.answer_in_turn(Pending::Sync { origin, path, check }, tree, out);
        }
        if let ClientRequest::Read(_) = request {
            return self.answer_in_turn(Pending::Read { origin, body: body.into() }, tree, out);
        }
        if matches!(request, ClientRequest::CloseSession) && self.sessions.is_local(session) {
            return self.close_local_session(session, origin, tree, out);
        }
        if self.storage != StorageState::Writable {
            return self.refuse(origin, ErrorCode::SystemError, tree, out);
        }
        let ephemerals_refused = match refused {
            None => self.judge_own_session(now, session, &request, tree, out),
            refused => refused,
        };
        let caller = Caller { ids: &ids, refused, ephemerals_refused };
        let cxid = self.cxids.number(numbering, origin.xid);
        let header =
            TxnHeader { session, cxid, zxid: self.last_proposed.next(), time_ms: now.wall_ms };
        let savepoint = self.overlay.savepoint();
        let entry = match request {
            ClientRequest::Write(write) => self.prepare(tree, header, caller, &write),
            // A multi gets its zxid before it is decoded, other writes do not.
            ClientRequest::Malformed(OpCode::Multi) => {
                self.overlay.prepare_error(tree, header, ErrorCode::MarshallingError)
            }
            ClientRequest::Malformed(_) => {
                return self.refuse(origin, ErrorCode::MarshallingError, tree, out);
            }
            ClientRequest::CloseSession => {
                let request = CloseRequest { cxid, origin: Some(origin) };
                return self.propose_close(now, session, request, tree, out);
            }
            ClientRequest::Sync { .. } | ClientRequest::Read(_) => unreachable!("answered above"),
        };
        self.last_proposed = header.zxid;
        let entry = self.within_limit(entry, &savepoint, tree);
        self.propose(now, entry, out, |entry| Pending::Txn { entry, origin: Some(origin) });
    }

    /// Replaces a txn that is too large to be read back from the log by an error (ZOOKEEPER-3496).
    fn within_limit(&mut self, entry: Entry, savepoint: &Savepoint, tree: &Tree) -> Entry {
        if entry.encoded_len() <= tree.options().txn_bytes_max {
            return entry;
        }
        self.overlay.roll_back(savepoint);
        self.overlay.prepare_error(tree, entry.header, ErrorCode::BadArguments)
    }

    fn refuse(&mut self, origin: RequestOrigin, code: ErrorCode, tree: &Tree, out: &mut Outputs) {
        self.answer_in_turn(Pending::Refusal { origin, code }, tree, out);
    }

    /// Answers at once if nothing is in flight and `out` is not large, else after what is in flight; a sync only when
    /// its check has passed. While the log cannot be written nothing is committed, so then it is enough that the
    /// connection itself has nothing in flight; one that has is being closed.
    fn answer_in_turn(&mut self, waiting: Pending, tree: &Tree, out: &mut Outputs) {
        let stuck = self.storage != StorageState::Writable;
        let conn = waiting.conn();
        let is_first = (self.in_flight.is_empty() && !out.is_large())
            || (stuck && self.in_flight.conns().all(|other| Some(other) != conn));
        let is_first = is_first && self.in_flight.has_passed(&waiting);
        if is_first {
            self.answer(waiting, tree, out);
        } else {
            // Not `last_proposed`: a new leader has proposed nothing in its epoch, and no commit would follow.
            let zxid = self.in_flight.last_zxid().unwrap_or(self.committed);
            self.in_flight.push(zxid, waiting);
        }
    }

    fn next_header(&mut self, now: Now, session: SessionId, cxid: i32) -> TxnHeader {
        self.last_proposed = self.last_proposed.next();
        TxnHeader { session, cxid, zxid: self.last_proposed, time_ms: now.wall_ms }
    }

    fn propose(
        &mut self,
        now: Now,
        entry: Entry,
        out: &mut Outputs,
        waiting: impl FnOnce(Box<Entry>) -> Pending,
    ) {
        let zxid = entry.header.zxid;
        if self.ensemble.is_some() {
            let mut payload = Vec::with_capacity(entry.encoded_len());
            entry.encode(&mut payload);
            self.in_flight.push(zxid, waiting(Box::new(entry)));
            return self.propose_to_peers(now, zxid, payload.into(), out);
        }
        let payload = out.fill(|out| entry.encode(out));
        out.list.push(Output::Append { zxid, payload });
        self.in_flight.push(zxid, waiting(Box::new(entry)));
    }

    fn disconnected(&mut self, conn: ConnId, tree: &Tree) {
        if let Some(known) = self.conns.remove(&conn) {
            self.sessions.detach(known.session, conn);
            if let Role::Learning(forwarding) = &mut self.role {
                forwarding.detach(known.session, conn);
            }
            self.forget_closing_local(known.session);
        }
        tree.watches().remove_watcher(conn.watcher());
    }

    /// Notes whether the log can be written. If it cannot, txns in flight may or may not be logged later: the
    /// connections that wait for them are closed, because the outcome is unknown.
    fn storage_changed(&mut self, state: StorageState, out: &mut Outputs) {
        if self.storage == StorageState::Failed {
            return;
        }
        self.storage = state;
        if state != StorageState::Writable {
            let mut waiting: BTreeSet<_> = self.in_flight.conns().collect();
            if let Role::Deciding { closing, .. } = &self.role {
                waiting.extend(closing.conns());
            }
            for conn in waiting {
                out.close(conn, CloseReason::StorageUnavailable);
            }
        }
    }

    fn tick(&mut self, now: Now, tree: &Tree, out: &mut Outputs) {
        self.tick_peers(now, tree, out);
        if self.is_leaving_role() {
            return;
        }
        self.tick_read_only(now);
        match self.role {
            Role::Deciding { .. } if self.storage == StorageState::Writable => {
                self.end_due_sessions(now, tree, out);
                self.continue_closing(now, tree, out);
                self.sweep(now, tree, out);
            }
            Role::Learning(_) | Role::ReadOnly => self.end_due_sessions(now, tree, out),
            // No session can be ended while nothing can be logged, or without a role.
            Role::Deciding { .. } | Role::Idle { .. } => {}
        }
    }

    fn sweep(&mut self, now: Now, tree: &Tree, out: &mut Outputs) {
        let never_used_ms_max = self.settings.sweep.never_used_ms_max;
        while let Role::Deciding { sweeper, .. } = &mut self.role
            && let Some(path) = sweeper.next(tree, now)
        {
            let header = self.next_header(now, SessionId::NONE, 0);
            let entry = self.overlay.prepare_sweep(tree, header, &path, never_used_ms_max);
            self.propose(now, entry, out, |entry| Pending::Txn { entry, origin: None });
        }
    }
}

fn op_of(request: &ClientRequest<'_>) -> OpCode {
    match request {
        ClientRequest::Write(write) => write.op(),
        ClientRequest::Malformed(op) => *op,
        ClientRequest::Sync { .. } => OpCode::Sync,
        ClientRequest::CloseSession => OpCode::CloseSession,
        ClientRequest::Read(op) => *op,
    }
}

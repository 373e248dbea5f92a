//! A learner's pending requests: those of its clients that were forwarded to the leader, in order.
//!
//! In: requests of clients connected here, and the leader's answers: committed txns, SYNC,
//! answers about sessions. Out: the requests that can be answered. Each session has a queue, in the order in which
//! its requests arrived; only the request at the front is answered, so answers keep that order. A write is answered
//! when its txn, found by session and cxid, is applied here. The queue is dropped with its connection: requests
//! still in flight then get no reply, and their cxids are never used on another connection (see
//! [`crate::cxids`]).
//!
//! Apache: `FollowerRequestProcessor`, `CommitProcessor`, `LearnerSessionTracker`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use herdsman_proto::limits::PING_SESSIONS_MAX;
use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, Id, OpCode, SessionId, Txn, Xid, Zxid};
use herdsman_zab::LinkId;

use crate::io::ConnId;
use crate::pending::RequestOrigin;

/// A connection that waits for the leader's answer about its session.
#[derive(Clone, Debug)]
pub struct PendingConnect {
    /// The connection.
    pub conn: ConnId,
    /// The negotiated timeout.
    pub timeout_ms: i32,
    /// The read-only flag of the response; `None` for a client that does not know the flag.
    pub read_only: Option<bool>,
    /// The ids that its address proves.
    pub ids: Arc<[Id]>,
}

/// On whose behalf the leader was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A client of this server.
    Client,
    /// An observer that learns from this server.
    Observer(LinkId),
}

/// Observers have too many requests pending at the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPending;

/// A request in its session's queue.
#[derive(Debug)]
pub enum QueuedRequest {
    /// A write that was forwarded to the leader.
    Write {
        /// The client's request.
        origin: RequestOrigin,
        /// Its number in the txn.
        cxid: i32,
    },
    /// A sync that was forwarded to the leader.
    Sync {
        /// The client's request.
        origin: RequestOrigin,
        /// Echoed in the reply.
        path: Box<str>,
        /// The leader has answered: everything before it is visible here.
        is_done: bool,
    },
    /// A read that follows one of these.
    Read {
        /// The client's request.
        origin: RequestOrigin,
        /// Its body, as it was received.
        body: Box<[u8]>,
    },
    /// The end of a session that the leader does not know.
    LocalClose(RequestOrigin),
    /// A request that this server refuses, but not before its turn.
    Refusal {
        /// The client's request.
        origin: RequestOrigin,
        /// The error in the reply.
        code: ErrorCode,
    },
}

/// A txn, as far as it shows which request it answers.
#[derive(Clone, Copy, Debug)]
pub struct AppliedTxn {
    session: SessionId,
    cxid: i32,
    ends_session: bool,
}

impl From<&Entry> for AppliedTxn {
    fn from(entry: &Entry) -> Self {
        let ends_session = matches!(entry.txn, Txn::CloseSession { .. });
        AppliedTxn { session: entry.header.session, cxid: entry.header.cxid, ends_session }
    }
}

impl QueuedRequest {
    fn is_write(&self, number: i32) -> bool {
        matches!(self, QueuedRequest::Write { cxid, .. } if *cxid == number)
    }

    /// Whether this txn answers it. The end of a session that has expired has the cxid 0, which a client may also use
    /// for its first write.
    fn is_answered_by(&self, txn: AppliedTxn) -> bool {
        let QueuedRequest::Write { origin, cxid } = self else { return false };
        *cxid == txn.cxid && (!txn.ends_session || origin.op == OpCode::CloseSession)
    }

    /// Whether it can be answered once it is at the front of its queue.
    fn is_ready(&self) -> bool {
        match self {
            QueuedRequest::Read { .. }
            | QueuedRequest::Refusal { .. }
            | QueuedRequest::LocalClose(_)
            | QueuedRequest::Sync { is_done: true, .. } => true,
            QueuedRequest::Write { .. } | QueuedRequest::Sync { .. } => false,
        }
    }
}

/// Unanswered requests of one kind for observers; an observer that sends one more is disconnected. This server's own
/// clients are limited by their connections.
const ASKED_MAX: usize = 1 << 16;

/// A session whose client is connected here.
#[derive(Debug)]
struct AttachedSession {
    conn: ConnId,
    timeout_ms: i32,
    queue: VecDeque<QueuedRequest>,
}

/// Where a client that is not connected here was last connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastLocation {
    /// At an observer that learns from this server.
    Observer(LinkId),
    /// Here; its connection is closed.
    Here,
}

/// The pending requests of a learner's clients.
#[derive(Debug)]
pub struct Forwarding {
    link: LinkId,
    /// The leader confirms with a quorum that it leads before it answers a sync.
    leader_confirms_syncs: bool,
    attached: BTreeMap<SessionId, AttachedSession>,
    /// New sessions that were requested from the leader.
    opening: BTreeMap<SessionId, PendingConnect>,
    /// Existing sessions that the leader was asked to revalidate.
    reviving: BTreeMap<SessionId, PendingConnect>,
    /// The same and those of observers, in the order of asking, with the timeout and the requester.
    asked: VecDeque<(SessionId, i32, Requester)>,
    /// Where the clients of other sessions were last connected.
    last_location: BTreeMap<SessionId, LastLocation>,
    /// Sessions with signs of life since the leader's last ping.
    touched: BTreeMap<SessionId, i32>,
    /// Syncs that the leader has not answered, in order.
    syncs: VecDeque<PendingSync>,
    /// Syncs that the leader has answered, and the zxid that must be applied here first.
    answered_syncs: VecDeque<(Zxid, ClientSync)>,
    /// Sessions whose queues are continued after the current outputs are carried out.
    postponed: BTreeSet<SessionId>,
}

/// A sync on its way to the leader.
#[derive(Clone, Copy, Debug)]
enum PendingSync {
    /// Of a client that is connected here.
    Client(ClientSync),
    /// Of an observer.
    Observer(LinkId),
}

/// Identifies a sync of a session, over all its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClientSync {
    session: SessionId,
    conn: ConnId,
    xid: Xid,
}

impl ClientSync {
    fn is(self, origin: &RequestOrigin) -> bool {
        (self.conn, self.xid) == (origin.conn, origin.xid)
    }
}

impl Forwarding {
    /// Starts without clients.
    #[must_use]
    pub fn new(link: LinkId) -> Self {
        Forwarding {
            link,
            leader_confirms_syncs: false,
            attached: BTreeMap::new(),
            opening: BTreeMap::new(),
            reviving: BTreeMap::new(),
            asked: VecDeque::new(),
            last_location: BTreeMap::new(),
            touched: BTreeMap::new(),
            syncs: VecDeque::new(),
            answered_syncs: VecDeque::new(),
            postponed: BTreeSet::new(),
        }
    }

    /// Returns the link to the leader.
    #[must_use]
    pub fn link(&self) -> LinkId {
        self.link
    }

    /// Sets whether the leader confirms that it leads before it answers a sync, as its pings show.
    pub fn set_leader_confirms_syncs(&mut self, leader_confirms_syncs: bool) {
        self.leader_confirms_syncs = leader_confirms_syncs;
    }

    /// Whether the leader confirms with a quorum that it leads before it answers a sync.
    #[must_use]
    pub fn leader_confirms_syncs(&self) -> bool {
        self.leader_confirms_syncs
    }

    /// Adds a client that waits for a new session.
    pub fn open(&mut self, session: SessionId, pending: PendingConnect) {
        self.opening.insert(session, pending);
    }

    /// Adds a client that waits to continue a session. Returns a connection that waited for the same session.
    pub fn revive(&mut self, session: SessionId, pending: PendingConnect) -> Option<ConnId> {
        self.asked.push_back((session, pending.timeout_ms, Requester::Client));
        self.reviving.insert(session, pending).map(|before| before.conn)
    }

    /// Notes that the leader is asked about a session for this requester.
    pub fn ask_about(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        requester: Requester,
    ) -> Result<(), TooManyPending> {
        if self.asked.len() >= ASKED_MAX {
            return Err(TooManyPending);
        }
        self.asked.push_back((session, timeout_ms, requester));
        Ok(())
    }

    /// Takes the question about this session that the leader has answered: its timeout and its requester.
    pub fn take_asked(&mut self, session: SessionId) -> Option<(i32, Requester)> {
        let index = self.asked.iter().position(|(asked, ..)| *asked == session)?;
        self.asked.remove(index).map(|(_, timeout_ms, requester)| (timeout_ms, requester))
    }

    /// Takes the connection that waits for this new session.
    pub fn take_opening(&mut self, session: SessionId) -> Option<PendingConnect> {
        self.opening.remove(&session)
    }

    /// Takes the connection that waits to continue this session.
    pub fn take_reviving(&mut self, session: SessionId) -> Option<PendingConnect> {
        self.reviving.remove(&session)
    }

    /// Notes that a session is established on a connection.
    pub fn attach(&mut self, session: SessionId, conn: ConnId, timeout_ms: i32) {
        let attached = AttachedSession { conn, timeout_ms, queue: VecDeque::new() };
        self.last_location.remove(&session);
        self.attached.insert(session, attached);
    }

    /// Notes that the session's client is at an observer. Returns the connection that it had here.
    pub fn attach_elsewhere(&mut self, session: SessionId, observer: LinkId) -> Option<ConnId> {
        self.last_location.insert(session, LastLocation::Observer(observer));
        self.attached.remove(&session).map(|attached| attached.conn)
    }

    /// Whether the session's client has left this observer for this server or for another observer.
    #[must_use]
    pub fn has_left(&self, session: SessionId, observer: LinkId) -> bool {
        let last_location = self.last_location.get(&session);
        self.attached.contains_key(&session)
            || last_location
                .is_some_and(|last_location| *last_location != LastLocation::Observer(observer))
    }

    /// Returns the connection of a session.
    #[must_use]
    pub fn conn(&self, session: SessionId) -> Option<ConnId> {
        self.attached.get(&session).map(|attached| attached.conn)
    }

    /// Forgets a closed connection of a session; requests still in its queue get no reply.
    pub fn detach(&mut self, session: SessionId, conn: ConnId) {
        for waiting in [&mut self.opening, &mut self.reviving] {
            if waiting.get(&session).is_some_and(|pending| pending.conn == conn) {
                waiting.remove(&session);
            }
        }
        if self.conn(session) == Some(conn) {
            self.attached.remove(&session);
            self.last_location.insert(session, LastLocation::Here);
        }
    }

    /// Forgets a session that is over. Returns its connection.
    pub fn end(&mut self, session: SessionId) -> Option<ConnId> {
        self.touched.remove(&session);
        self.last_location.remove(&session);
        self.attached.remove(&session).map(|attached| attached.conn)
    }

    /// Notes that the client of a session that the leader tracks is alive.
    pub fn touch(&mut self, session: SessionId) {
        if let Some(attached) = self.attached.get(&session) {
            self.touched.insert(session, attached.timeout_ms);
        }
    }

    /// Notes that the client of a session is alive, at an observer.
    pub fn touch_elsewhere(&mut self, session: SessionId, timeout_ms: i32) {
        self.touched.insert(session, timeout_ms);
    }

    /// Takes sessions with signs of life that were not reported yet, up to the limit of a PING.
    pub fn take_touched(&mut self) -> Vec<(SessionId, i32)> {
        let rest = match self.touched.keys().nth(PING_SESSIONS_MAX) {
            Some(&first) => self.touched.split_off(&first),
            None => BTreeMap::new(),
        };
        std::mem::replace(&mut self.touched, rest).into_iter().collect()
    }

    /// Whether there is nothing to report to the leader.
    #[must_use]
    pub fn is_touched_empty(&self) -> bool {
        self.touched.is_empty()
    }

    /// Appends a request to its session's queue.
    pub fn push(&mut self, session: SessionId, request: QueuedRequest) {
        if let Some(attached) = self.attached.get_mut(&session) {
            if let QueuedRequest::Sync { origin, .. } = &request {
                let sync = ClientSync { session, conn: origin.conn, xid: origin.xid };
                self.syncs.push_back(PendingSync::Client(sync));
            }
            attached.queue.push_back(request);
        }
    }

    /// Marks the syncs as done that precede a write whose txn is about to be applied: the leader received them
    /// first, so the txns that they wait for have smaller zxids.
    pub fn reach_write(&mut self, txn: AppliedTxn) {
        let Some(attached) = self.attached.get_mut(&txn.session) else { return };
        let is_write = |request: &QueuedRequest| matches!(request, QueuedRequest::Write { .. });
        let Some(next) = attached.queue.iter().position(is_write) else { return };
        if !attached.queue[next].is_answered_by(txn) {
            return;
        }
        for request in attached.queue.iter_mut().take(next) {
            if let QueuedRequest::Sync { is_done, .. } = request {
                *is_done = true;
            }
        }
    }

    /// Takes the write whose txn is applied, if it was requested here.
    pub fn take_write(&mut self, txn: AppliedTxn) -> Option<RequestOrigin> {
        let queue = &mut self.attached.get_mut(&txn.session)?.queue;
        match queue.pop_front_if(|request| request.is_answered_by(txn))? {
            QueuedRequest::Write { origin, .. } => Some(origin),
            _ => unreachable!("txns answer writes"),
        }
    }

    /// Returns the connection on which this write was requested, if it still waits for its txn.
    #[must_use]
    pub fn conn_of_write(&self, session: SessionId, cxid: i32) -> Option<ConnId> {
        let attached = self.attached.get(&session)?;
        attached.queue.iter().any(|request| request.is_write(cxid)).then_some(attached.conn)
    }

    /// Notes that a sync of an observer is forwarded to the leader.
    pub fn ask_sync(&mut self, observer: LinkId) -> Result<(), TooManyPending> {
        if self.syncs.len() >= ASKED_MAX {
            return Err(TooManyPending);
        }
        self.syncs.push_back(PendingSync::Observer(observer));
        Ok(())
    }

    /// Notes that the leader has answered the oldest sync. It is done once `zxid` is applied here, or at the
    /// observer that sent it, whose link is returned.
    pub fn sync_answered(&mut self, zxid: Zxid) -> Option<LinkId> {
        match self.syncs.pop_front()? {
            PendingSync::Observer(link) => Some(link),
            PendingSync::Client(sync) => {
                self.answered_syncs.push_back((zxid, sync));
                None
            }
        }
    }

    /// Returns the sessions whose syncs are done now that everything up to `applied` is visible.
    pub fn take_done_syncs(&mut self, applied: Zxid) -> Vec<SessionId> {
        let mut done = Vec::new();
        while let Some((zxid, sync)) = self.answered_syncs.front().copied()
            && zxid <= applied
        {
            self.answered_syncs.pop_front();
            self.mark_sync_done(sync);
            done.push(sync.session);
        }
        done
    }

    fn mark_sync_done(&mut self, sync: ClientSync) {
        let Some(attached) = self.attached.get_mut(&sync.session) else { return };
        for request in &mut attached.queue {
            if let QueuedRequest::Sync { origin, is_done, .. } = request
                && sync.is(origin)
                && !*is_done
            {
                *is_done = true;
                return;
            }
        }
    }

    /// Takes the request at the front of a session's queue, if it can be answered now.
    pub fn take_ready(&mut self, session: SessionId) -> Option<QueuedRequest> {
        let queue = &mut self.attached.get_mut(&session)?.queue;
        queue.pop_front_if(|request| request.is_ready())
    }

    /// Postpones the requests that are ready in a session's queue.
    pub fn postpone(&mut self, session: SessionId) {
        let front = self.attached.get(&session).and_then(|attached| attached.queue.front());
        if front.is_some_and(QueuedRequest::is_ready) {
            self.postponed.insert(session);
        }
    }

    /// Takes the sessions whose queues were postponed.
    pub fn take_postponed(&mut self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.postponed)
    }

    /// Whether a queue was postponed.
    #[must_use]
    pub fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// Returns the number of requests that wait for the leader.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.attached.values().map(|attached| attached.queue.len()).sum()
    }
}

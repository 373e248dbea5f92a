//! A learner's clients: their requests on the way to the leader and back.
//!
//! In: requests of clients connected here, and what the leader sends back: committed txns, SYNC,
//! answers about sessions. Out: whom to answer. Each session has a queue, in the order in which its
//! requests came; an answer leaves only from the front, so answers keep that order. A write is answered
//! when its txn, known by session and cxid, is applied here. The queue goes with its connection: what is
//! still under way then gets no reply, and its cxids are never used on another connection (see
//! [`crate::cxids`]).
//!
//! Apache: `FollowerRequestProcessor`, `CommitProcessor`, `LearnerSessionTracker`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use herdsman_proto::limits::PING_SESSIONS_MAX;
use herdsman_proto::{ErrorCode, Id, SessionId, Xid, Zxid};
use herdsman_zab::LinkId;

use crate::io::ConnId;
use crate::pending::RequestOrigin;

/// A connection that waits for the leader's word about its session.
#[derive(Clone, Debug)]
pub struct PendingConnect {
    /// Which connection.
    pub conn: ConnId,
    /// The timeout that it gets.
    pub timeout_ms: i32,
    /// What to say about read-only mode; `None` to a client that does not know of it.
    pub read_only: Option<bool>,
    /// What its address proves it to be.
    pub ids: Arc<[Id]>,
}

/// For whom the leader was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A client of this server.
    Client,
    /// An observer that learns from this server.
    Observer(LinkId),
}

/// Observers have asked the leader for more than can be kept in mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPending;

/// A request in its session's queue.
#[derive(Debug)]
pub enum QueuedRequest {
    /// A write that went to the leader.
    Write {
        /// Who asked.
        origin: RequestOrigin,
        /// Its number in the txn.
        cxid: i32,
    },
    /// A sync that went to the leader.
    Sync {
        /// Who asked.
        origin: RequestOrigin,
        /// Echoed.
        path: Box<str>,
        /// The leader has answered: everything before it is visible here.
        is_done: bool,
    },
    /// A read behind one of these.
    Read {
        /// Who asked.
        origin: RequestOrigin,
        /// The request, as it came.
        body: Box<[u8]>,
    },
    /// A goodbye to a session of which the leader does not know.
    LocalClose(RequestOrigin),
    /// Refused here, but not before its turn.
    Refusal {
        /// Who asked.
        origin: RequestOrigin,
        /// What to say.
        code: ErrorCode,
    },
}

impl QueuedRequest {
    fn is_write(&self, number: i32) -> bool {
        matches!(self, QueuedRequest::Write { cxid, .. } if *cxid == number)
    }

    /// At the front of its queue it can be answered.
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

/// Unanswered questions of one kind; an observer that asks one more is sent away. This server's own
/// clients are limited by their lanes.
const ASKED_MAX: usize = 1 << 16;

/// A session whose client is connected here.
#[derive(Debug)]
struct AttachedSession {
    conn: ConnId,
    timeout_ms: i32,
    queue: VecDeque<QueuedRequest>,
}

/// Where a client was last that is not connected here now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastLocation {
    /// At an observer that learns from this server.
    Observer(LinkId),
    /// Here; its connection is closed.
    Here,
}

/// A learner's clients.
#[derive(Debug)]
pub struct Forwarding {
    link: LinkId,
    /// The leader confirms with a quorum that it leads before it answers a sync.
    leader_confirms_syncs: bool,
    attached: BTreeMap<SessionId, AttachedSession>,
    /// New sessions that the leader has been asked for.
    opening: BTreeMap<SessionId, PendingConnect>,
    /// Old sessions that the leader has been asked about.
    reviving: BTreeMap<SessionId, PendingConnect>,
    /// The same, in the order of asking, with the timeout and for whom.
    asked: VecDeque<(SessionId, i32, Requester)>,
    /// Where the clients of other sessions were last.
    last_location: BTreeMap<SessionId, LastLocation>,
    /// Sessions that were heard of since the leader last asked.
    touched: BTreeMap<SessionId, i32>,
    /// Whose syncs the leader has not answered, in order.
    syncs: VecDeque<PendingSync>,
    /// Syncs that the leader has answered, and from which zxid on that is true here.
    answered_syncs: VecDeque<(Zxid, ClientSync)>,
    /// Sessions whose queues go on when the outputs of now are carried out.
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

/// Which one of all the syncs of a session, over all its connections.
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
    /// No clients yet.
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

    /// The way to the leader.
    #[must_use]
    pub fn link(&self) -> LinkId {
        self.link
    }

    /// Learned from the leader's pings: whether it confirms that it leads before it answers a sync.
    pub fn set_leader_confirms_syncs(&mut self, leader_confirms_syncs: bool) {
        self.leader_confirms_syncs = leader_confirms_syncs;
    }

    /// Whether the leader confirms with a quorum that it leads before it answers a sync.
    #[must_use]
    pub fn leader_confirms_syncs(&self) -> bool {
        self.leader_confirms_syncs
    }

    /// A client waits for a new session.
    pub fn open(&mut self, session: SessionId, pending: PendingConnect) {
        self.opening.insert(session, pending);
    }

    /// A client waits to go on with a session. Gives a connection that waited for the same.
    pub fn revive(&mut self, session: SessionId, pending: PendingConnect) -> Option<ConnId> {
        self.asked.push_back((session, pending.timeout_ms, Requester::Client));
        self.reviving.insert(session, pending).map(|before| before.conn)
    }

    /// The leader is asked about a session for somebody.
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

    /// The leader has answered a question about this session: with which timeout it was asked, and for
    /// whom.
    pub fn take_asked(&mut self, session: SessionId) -> Option<(i32, Requester)> {
        let index = self.asked.iter().position(|(asked, ..)| *asked == session)?;
        self.asked.remove(index).map(|(_, timeout_ms, requester)| (timeout_ms, requester))
    }

    /// Who waits for this new session.
    pub fn take_opening(&mut self, session: SessionId) -> Option<PendingConnect> {
        self.opening.remove(&session)
    }

    /// Who waits to go on with this session.
    pub fn take_reviving(&mut self, session: SessionId) -> Option<PendingConnect> {
        self.reviving.remove(&session)
    }

    /// The session is established on a connection.
    pub fn attach(&mut self, session: SessionId, conn: ConnId, timeout_ms: i32) {
        let attached = AttachedSession { conn, timeout_ms, queue: VecDeque::new() };
        self.last_location.remove(&session);
        self.attached.insert(session, attached);
    }

    /// The session's client is at an observer. Gives the connection that it had here.
    pub fn attach_elsewhere(&mut self, session: SessionId, observer: LinkId) -> Option<ConnId> {
        self.last_location.insert(session, LastLocation::Observer(observer));
        self.attached.remove(&session).map(|attached| attached.conn)
    }

    /// The session's client has left this observer for here, or for another observer.
    #[must_use]
    pub fn has_left(&self, session: SessionId, observer: LinkId) -> bool {
        let last_location = self.last_location.get(&session);
        self.attached.contains_key(&session)
            || last_location
                .is_some_and(|last_location| *last_location != LastLocation::Observer(observer))
    }

    /// The connection of a session.
    #[must_use]
    pub fn conn(&self, session: SessionId) -> Option<ConnId> {
        self.attached.get(&session).map(|attached| attached.conn)
    }

    /// The connection is closed; what is still in its queue gets no reply.
    pub fn detach(&mut self, session: SessionId, conn: ConnId) {
        for waiting in [&mut self.opening, &mut self.reviving] {
            waiting.retain(|_, pending| pending.conn != conn);
        }
        if self.conn(session) == Some(conn) {
            self.attached.remove(&session);
            self.last_location.insert(session, LastLocation::Here);
        }
    }

    /// The session is over. Gives its connection.
    pub fn end(&mut self, session: SessionId) -> Option<ConnId> {
        self.touched.remove(&session);
        self.last_location.remove(&session);
        self.attached.remove(&session).map(|attached| attached.conn)
    }

    /// The client of a session that the leader tracks is alive.
    pub fn touch(&mut self, session: SessionId) {
        if let Some(attached) = self.attached.get(&session) {
            self.touched.insert(session, attached.timeout_ms);
        }
    }

    /// The client of a session is alive, at an observer.
    pub fn touch_elsewhere(&mut self, session: SessionId, timeout_ms: i32) {
        self.touched.insert(session, timeout_ms);
    }

    /// Sessions that were heard of and not taken yet, as many as a PING may report.
    pub fn take_touched(&mut self) -> Vec<(SessionId, i32)> {
        let rest = match self.touched.keys().nth(PING_SESSIONS_MAX) {
            Some(&first) => self.touched.split_off(&first),
            None => BTreeMap::new(),
        };
        std::mem::replace(&mut self.touched, rest).into_iter().collect()
    }

    /// There is nothing to report to the leader.
    #[must_use]
    pub fn is_touched_empty(&self) -> bool {
        self.touched.is_empty()
    }

    /// Puts a request into its session's queue.
    pub fn push(&mut self, session: SessionId, request: QueuedRequest) {
        if let Some(attached) = self.attached.get_mut(&session) {
            if let QueuedRequest::Sync { origin, .. } = &request {
                let sync = ClientSync { session, conn: origin.conn, xid: origin.xid };
                self.syncs.push_back(PendingSync::Client(sync));
            }
            attached.queue.push_back(request);
        }
    }

    /// A txn of this session is about to be applied. Syncs that were asked for before it are done by
    /// that, since the leader had them first: whatever they wait for has a smaller zxid.
    pub fn reach_write(&mut self, session: SessionId, cxid: i32) {
        let Some(attached) = self.attached.get_mut(&session) else { return };
        let is_write = |request: &QueuedRequest| matches!(request, QueuedRequest::Write { .. });
        let Some(next) = attached.queue.iter().position(is_write) else { return };
        if !attached.queue[next].is_write(cxid) {
            return;
        }
        for request in attached.queue.iter_mut().take(next) {
            if let QueuedRequest::Sync { is_done, .. } = request {
                *is_done = true;
            }
        }
    }

    /// A txn of this session is applied: the write that asked for it, if it was asked for here.
    pub fn take_write(&mut self, session: SessionId, cxid: i32) -> Option<RequestOrigin> {
        let queue = &mut self.attached.get_mut(&session)?.queue;
        match queue.front() {
            Some(QueuedRequest::Write { origin, cxid: first }) if *first == cxid => {
                let origin = *origin;
                queue.pop_front();
                Some(origin)
            }
            _ => None,
        }
    }

    /// The connection on which this write was asked for, if it still waits for its txn.
    #[must_use]
    pub fn conn_of_write(&self, session: SessionId, cxid: i32) -> Option<ConnId> {
        let attached = self.attached.get(&session)?;
        attached.queue.iter().any(|request| request.is_write(cxid)).then_some(attached.conn)
    }

    /// The leader is asked for a sync for an observer.
    pub fn ask_sync(&mut self, observer: LinkId) -> Result<(), TooManyPending> {
        if self.syncs.len() >= ASKED_MAX {
            return Err(TooManyPending);
        }
        self.syncs.push_back(PendingSync::Observer(observer));
        Ok(())
    }

    /// The leader has answered the oldest sync; it is done once `zxid` is applied here, or at the
    /// observer that asked, whose link this gives.
    pub fn sync_answered(&mut self, zxid: Zxid) -> Option<LinkId> {
        match self.syncs.pop_front()? {
            PendingSync::Observer(link) => Some(link),
            PendingSync::Client(sync) => {
                self.answered_syncs.push_back((zxid, sync));
                None
            }
        }
    }

    /// Everything up to `applied` is visible: sessions whose syncs are done by that.
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

    /// The request at the front of a session's queue, if it can be answered now.
    pub fn take_ready(&mut self, session: SessionId) -> Option<QueuedRequest> {
        let queue = &mut self.attached.get_mut(&session)?.queue;
        queue.pop_front_if(|request| request.is_ready())
    }

    /// What is ready in a session's queue is answered later.
    pub fn postpone(&mut self, session: SessionId) {
        let front = self.attached.get(&session).and_then(|attached| attached.queue.front());
        if front.is_some_and(QueuedRequest::is_ready) {
            self.postponed.insert(session);
        }
    }

    /// Sessions whose queues go on now.
    pub fn take_postponed(&mut self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.postponed)
    }

    /// Some queue is to go on.
    #[must_use]
    pub fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// Requests that wait for the leader.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.attached.values().map(|attached| attached.queue.len()).sum()
    }
}

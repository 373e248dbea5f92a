//! The learner's side of forwarding: everything that changes something is sent to the leader.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::connect::ConnectRequest;
use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, Id, JuteWrite, OpCode, QuorumPacket, SessionId, Txn, Zxid};
use herdsman_tree::Tree;
use herdsman_zab::{Check, LinkId, Output as PeerOutput, Zab};

use super::connect::refuse_session;
use super::{Conn, LocalSessions, Node, Role};
use crate::cxids::Numbering;
use crate::forwarding::{AppliedTxn, Forwarding, PendingConnect, QueuedRequest, Requester};
use crate::io::{ClientRequest, CloseReason, ConnId, Now, Output, Outputs};
use crate::pending::{Pending, RequestOrigin};
use crate::sessions::SessionOwner;

impl Node {
    /// Handles a client's first frame: the leader decides about its session, unless it is a local one.
    pub(super) fn connect_at_learner(
        &mut self,
        now: Now,
        conn: ConnId,
        request: &ConnectRequest<'_>,
        timeout_ms: i32,
        ids: Arc<[Id]>,
        out: &mut Outputs,
    ) {
        let read_only = request.read_only.map(|_| false);
        let session = request.session;
        if session == SessionId::NONE && self.opens_local_sessions() {
            let session = self.open_local_session(now, conn, timeout_ms, read_only, ids, out);
            return self.with_forwarding(|forwarding| forwarding.attach(session, conn, timeout_ms));
        }
        let Role::Learning(forwarding) = &mut self.role else { return };
        let pending = PendingConnect { conn, timeout_ms, read_only, ids: Arc::clone(&ids) };
        if session == SessionId::NONE {
            let session = self.sessions.allocate();
            self.conns.insert(conn, Conn { session, ids, numbering: Numbering::Client });
            forwarding.open(session, pending);
            let packet = create_session(session, timeout_ms);
            return out
                .list
                .push(Output::Peer(PeerOutput::Send { link: forwarding.link(), packet }));
        }
        let old = forwarding.conn(session);
        if let Err(reason) = self.check_password(request, old, out) {
            return refuse_session(conn, read_only, reason, out);
        }
        if self.sessions.is_local(session) {
            return self.reattach_local(now, session, pending, out);
        }
        let Role::Learning(forwarding) = &mut self.role else { return };
        let numbering = Numbering::Server;
        self.conns.insert(conn, Conn { session, ids, numbering });
        if let Some(old) = forwarding.revive(session, pending) {
            out.close(old, CloseReason::SessionMoved);
        }
        let packet = QuorumPacket::Revalidate { session, timeout_ms };
        out.list.push(Output::Peer(PeerOutput::Send { link: forwarding.link(), packet }));
    }

    /// Moves a local session to another connection; the leader need not be asked.
    fn reattach_local(
        &mut self,
        now: Now,
        session: SessionId,
        pending: PendingConnect,
        out: &mut Outputs,
    ) {
        let PendingConnect { conn, timeout_ms, read_only, ids } = pending;
        let owner = SessionOwner::Conn(conn);
        if self.sessions.attach(session, owner, timeout_ms, now.monotonic_ms).is_err() {
            return refuse_session(conn, read_only, CloseReason::SessionInvalid, out);
        }
        self.conns.insert(conn, Conn { session, ids, numbering: Numbering::Server });
        self.with_forwarding(|forwarding| forwarding.attach(session, conn, timeout_ms));
        self.attached(conn, session, timeout_ms, read_only, out);
    }

    fn with_forwarding(&mut self, change: impl FnOnce(&mut Forwarding)) {
        if let Role::Learning(forwarding) = &mut self.role {
            change(forwarding);
        }
    }

    /// Forwards or queues a request that has to be ordered with the writes of all servers.
    pub(super) fn forward(
        &mut self,
        origin: RequestOrigin,
        request: &ClientRequest<'_>,
        body: &[u8],
        tree: &Tree,
        out: &mut Outputs,
    ) {
        let Some(session) = self.conns.get(&origin.conn).map(|conn| conn.session) else { return };
        let attached = match &self.role {
            Role::Learning(forwarding) => forwarding.conn(session),
            _ => return,
        };
        if attached != Some(origin.conn) {
            return out.close(origin.conn, CloseReason::SessionMoved);
        }
        let queued = self.take_up(session, origin, request, body, out);
        let Role::Learning(forwarding) = &mut self.role else { return };
        let cxid = match queued {
            QueuedRequest::Write { cxid, .. } => Some(cxid),
            QueuedRequest::Sync { .. } => Some(origin.xid.0),
            _ => None,
        };
        if let (Some(cxid), Some(Conn { ids, .. })) = (cxid, self.conns.get(&origin.conn)) {
            let packet = QuorumPacket::Request {
                session,
                cxid,
                op: origin.op.code(),
                body: Bytes::copy_from_slice(body),
                ids: ids.to_vec(),
            };
            out.list.push(Output::Peer(PeerOutput::Send { link: forwarding.link(), packet }));
        }
        forwarding.push(session, queued);
        self.answer_ready(session, tree, out);
    }

    /// Decides how a request is queued. A local session that creates an ephemeral is upgraded first.
    fn take_up(
        &mut self,
        session: SessionId,
        origin: RequestOrigin,
        request: &ClientRequest<'_>,
        body: &[u8],
        out: &mut Outputs,
    ) -> QueuedRequest {
        if let Err(code) = self.touch_at_learner(session, origin) {
            return QueuedRequest::Refusal { origin, code };
        }
        match request {
            // A multi gets its zxid before it is decoded, and only the leader assigns zxids.
            ClientRequest::Malformed(op) if *op != OpCode::Multi => {
                QueuedRequest::Refusal { origin, code: ErrorCode::MarshallingError }
            }
            ClientRequest::Sync { path } => {
                QueuedRequest::Sync { origin, path: path.as_ref().into(), is_done: false }
            }
            ClientRequest::Read(_) => QueuedRequest::Read { origin, body: body.into() },
            ClientRequest::CloseSession if self.sessions.is_local(session) => {
                self.sessions.set_closing(session);
                QueuedRequest::LocalClose(origin)
            }
            ClientRequest::Write(_) | ClientRequest::Malformed(_) | ClientRequest::CloseSession => {
                let upgrades = self.settings.local_sessions == LocalSessions::Upgraded;
                if upgrades && self.wants_upgrade(session, request) {
                    self.upgrade_at_learner(session, out);
                }
                let numbering = self.conns.get(&origin.conn).map(|conn| conn.numbering);
                let numbering = numbering.unwrap_or(Numbering::Server);
                QueuedRequest::Write { origin, cxid: self.cxids.number(numbering, origin.xid) }
            }
        }
    }

    /// Notes a sign of life. Only those of sessions that the leader tracks are reported to it.
    fn touch_at_learner(
        &mut self,
        session: SessionId,
        origin: RequestOrigin,
    ) -> Result<(), ErrorCode> {
        if self.sessions.is_local(session) {
            self.sessions.check(session, SessionOwner::Conn(origin.conn))?;
            self.sessions.touch(session, origin.since_ms);
        } else {
            self.with_forwarding(|forwarding| forwarding.touch(session));
        }
        Ok(())
    }

    /// Passes a local session to the leader, which tracks it from now on. Later requests on this link find it open.
    fn upgrade_at_learner(&mut self, session: SessionId, out: &mut Outputs) {
        let Some(local) = self.sessions.release(session) else { return };
        self.with_forwarding(|forwarding| {
            forwarding.touch(session);
            let packet = create_session(session, local.timeout_ms);
            out.list.push(Output::Peer(PeerOutput::Send { link: forwarding.link(), packet }));
        });
    }

    /// Handles a packet of the leader that concerns this learner's clients.
    pub(super) fn take_from_leader(
        &mut self,
        packet: QuorumPacket,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        let committed = self.zab().map_or(Zxid::ZERO, |zab: &Zab| zab.log().committed());
        let Role::Learning(forwarding) = &mut self.role else { return };
        match packet {
            QuorumPacket::Revalidated { session, valid } => match forwarding.take_asked(session) {
                Some((timeout_ms, Requester::Observer(link))) => {
                    self.revalidated_for_observer(link, session, timeout_ms, valid, out);
                }
                _ => self.revalidated(session, valid, out),
            },
            QuorumPacket::Request { session, cxid, .. } => self.take_back(session, cxid, out),
            QuorumPacket::Sync => {
                if let Some(link) = forwarding.sync_answered(committed) {
                    out.list.push(Output::Peer(PeerOutput::Send { link, packet }));
                }
                self.answer_done_syncs(tree, out);
            }
            QuorumPacket::Ping { zxid, .. } => {
                let link: LinkId = forwarding.link();
                forwarding.set_leader_confirms_syncs(Check::of_ping(zxid).is_some());
                loop {
                    let packet = QuorumPacket::Ping { zxid, touched: forwarding.take_touched() };
                    out.list.push(Output::Peer(PeerOutput::Send { link, packet }));
                    if forwarding.is_touched_empty() {
                        break;
                    }
                }
                self.ask_for_proof(link, out);
            }
            _ => {}
        }
    }

    fn revalidated(&mut self, session: SessionId, valid: bool, out: &mut Outputs) {
        let Role::Learning(forwarding) = &mut self.role else { return };
        let Some(pending) = forwarding.take_reviving(session) else { return };
        let PendingConnect { conn, timeout_ms, read_only, .. } = pending;
        if valid {
            forwarding.attach(session, conn, timeout_ms);
            forwarding.touch(session);
            self.attached(conn, session, timeout_ms, read_only, out);
        } else {
            self.conns.remove(&conn);
            refuse_session(conn, read_only, CloseReason::SessionInvalid, out);
        }
    }

    /// Answers what was requested here before the write whose txn is applied next.
    pub(super) fn answer_before_next_txn(&mut self, tree: &Tree, out: &mut Outputs) {
        if !self.is_learning() {
            return;
        }
        let Some(entry) = self.next_txn().filter(|entry| !opens_session(entry)) else { return };
        let (session, txn) = (entry.header.session, AppliedTxn::from(entry));
        self.with_forwarding(|forwarding| forwarding.reach_write(txn));
        self.answer_ready(session, tree, out);
    }

    /// Returns the request that a txn answers, if it was made here.
    pub(super) fn origin_at_learner(&mut self, entry: &Entry) -> Option<RequestOrigin> {
        if opens_session(entry) {
            return None;
        }
        let Role::Learning(forwarding) = &mut self.role else { return None };
        forwarding.take_write(AppliedTxn::from(entry))
    }

    /// Continues after a txn was applied: it may have opened a session, and the session's queue may be ready.
    pub(super) fn applied_at_learner(&mut self, entry: &Entry, tree: &Tree, out: &mut Outputs) {
        let Role::Learning(forwarding) = &mut self.role else { return };
        let session = entry.header.session;
        if let Txn::CreateSession { .. } = entry.txn
            && let Some(pending) = forwarding.take_opening(session)
        {
            let PendingConnect { conn, timeout_ms, read_only, .. } = pending;
            forwarding.attach(session, conn, timeout_ms);
            forwarding.touch(session);
            self.attached(conn, session, timeout_ms, read_only, out);
        }
        self.answer_ready(session, tree, out);
    }

    pub(super) fn answer_done_syncs(&mut self, tree: &Tree, out: &mut Outputs) {
        let Role::Learning(forwarding) = &mut self.role else { return };
        for session in forwarding.take_done_syncs(tree.last_zxid()) {
            self.answer_ready(session, tree, out);
        }
    }

    /// Answers requests that were ready when there were too many outputs.
    pub(super) fn answer_postponed(&mut self, tree: &Tree, out: &mut Outputs) {
        let Role::Learning(forwarding) = &mut self.role else { return };
        for session in forwarding.take_postponed() {
            self.answer_ready(session, tree, out);
        }
    }

    /// Whether a request is ready that [`Node::apply`] answers.
    pub(super) fn has_postponed(&self) -> bool {
        matches!(&self.role, Role::Learning(forwarding) if forwarding.has_postponed())
    }

    /// Answers the requests at the front of a session's queue that are ready, or postpones them.
    fn answer_ready(&mut self, session: SessionId, tree: &Tree, out: &mut Outputs) {
        loop {
            let Role::Learning(forwarding) = &mut self.role else { return };
            if out.is_large() {
                return forwarding.postpone(session);
            }
            let Some(ready) = forwarding.take_ready(session) else { return };
            let waiting = match ready {
                QueuedRequest::Sync { origin, path, .. } => {
                    // The leader has checked that it leads.
                    Pending::Sync { origin, path, check: Check::default() }
                }
                QueuedRequest::Read { origin, body } => Pending::Read { origin, body },
                QueuedRequest::Refusal { origin, code } => Pending::Refusal { origin, code },
                QueuedRequest::LocalClose(origin) => Pending::LocalClose { origin, session },
                QueuedRequest::Write { .. } => unreachable!("answered when its txn is applied"),
            };
            self.answer(waiting, tree, out);
        }
    }
}

/// Whether a txn opens a session. It has the cxid 0, which a client may also use for its first write.
fn opens_session(entry: &Entry) -> bool {
    matches!(entry.txn, Txn::CreateSession { .. })
}

fn create_session(session: SessionId, timeout_ms: i32) -> QuorumPacket {
    let mut body = Vec::new();
    body.put_int(timeout_ms);
    QuorumPacket::Request {
        session,
        cxid: 0,
        op: OpCode::CreateSession.code(),
        body: body.into(),
        ids: Vec::new(),
    }
}

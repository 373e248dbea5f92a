//! The leader's side of forwarding: requests and sessions of learners' clients.

use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, JuteReader, OpCode, QuorumPacket, Request, SessionId, TxnHeader};
use herdsman_tree::{Caller, Tree};
use herdsman_zab::{LinkId, Output as PeerOutput, Zab};

use super::ensemble::Ensemble;
use super::local::Refused;
use super::{Node, Role};
use crate::closing::CloseRequest;
use crate::io::{CloseReason, Now, Output, Outputs};
use crate::pending::Pending;
use crate::sessions::SessionOwner;

/// A request that a learner forwards.
struct ForwardedRequest<'a> {
    session: SessionId,
    cxid: i32,
    op: Option<OpCode>,
    body: &'a [u8],
    ids: &'a [herdsman_proto::Id],
}

impl Node {
    /// Handles a packet that concerns clients and not agreement; returns any other.
    pub(super) fn take_session_packet(
        &mut self,
        now: Now,
        link: LinkId,
        packet: QuorumPacket,
        tree: &Tree,
        out: &mut Outputs,
    ) -> Option<QuorumPacket> {
        let is_session = matches!(
            packet,
            QuorumPacket::Request { .. }
                | QuorumPacket::Revalidate { .. }
                | QuorumPacket::Revalidated { .. }
                | QuorumPacket::Sync
                | QuorumPacket::Ping { .. }
        );
        if !is_session {
            return Some(packet);
        }
        if let Some(ensemble) = &mut self.ensemble {
            ensemble.zab.heard(now.monotonic_ms, link);
        }
        if let (Some(Ensemble { zab, asked, .. }), QuorumPacket::Ping { zxid, .. }) =
            (&mut self.ensemble, &packet)
        {
            zab.ping_answered(link, *zxid, asked);
        }
        let from_learner = self.zab().is_some_and(|zab| zab.is_active_learner(link));
        let from_leader = self.zab().is_some_and(|zab| zab.is_active_leader(link));
        let from_observer = self.zab().is_some_and(|zab| zab.is_active_observer(link));
        if from_learner && matches!(self.role, Role::Deciding { .. }) {
            self.take_from_learner(now, link, packet, tree, out);
        } else if from_learner {
            // Learners serve clients as soon as there is a leader, which may still be applying what it has
            // committed. What is dropped here would not be requested again.
            self.ensemble.as_mut().and_then(|ensemble| ensemble.defer(link, packet));
        } else if from_leader && self.is_learning() {
            self.take_from_leader(packet, tree, out);
        } else if from_observer {
            self.take_from_observer(link, packet, out);
        } else if from_leader && let QuorumPacket::Ping { zxid, .. } = packet {
            // The last txns of catching up are still being applied.
            let packet = QuorumPacket::Ping { zxid, touched: Vec::new() };
            out.list.push(Output::Peer(PeerOutput::Send { link, packet }));
        }
        None
    }

    /// Handles the requests that learners sent before this leader's role began.
    pub(super) fn take_deferred(&mut self, now: Now, tree: &Tree, out: &mut Outputs) {
        let deferred = self.ensemble.as_mut().map(Ensemble::take_deferred).unwrap_or_default();
        for (link, packet) in deferred {
            if self.zab().is_some_and(|zab| zab.is_active_learner(link)) {
                self.take_from_learner(now, link, packet, tree, out);
            }
        }
    }

    fn take_from_learner(
        &mut self,
        now: Now,
        link: LinkId,
        packet: QuorumPacket,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        match packet {
            QuorumPacket::Request { session, cxid, op, body, ids } => {
                let op = OpCode::from_code(op);
                let request = ForwardedRequest { session, cxid, op, body: &body, ids: &ids };
                self.take_request(now, link, &request, tree, out);
            }
            QuorumPacket::Revalidate { session, timeout_ms } => {
                self.revalidate(now, link, session, timeout_ms, tree, out);
            }
            QuorumPacket::Ping { touched, .. } => {
                for (session, _) in touched {
                    self.sessions.touch(session, now.monotonic_ms);
                }
            }
            _ => {}
        }
    }

    /// Answers a learner that asks whether a session is open, or keeps the request: see [`crate::revalidations`].
    fn revalidate(
        &mut self,
        now: Now,
        link: LinkId,
        session: SessionId,
        timeout_ms: i32,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        let awaits_end = self.awaits_end(session, tree);
        let Role::Deciding { revalidations, .. } = &mut self.role else { return };
        if !awaits_end && !revalidations.has_any_of(link) {
            return self.answer_revalidation(now, link, session, timeout_ms, out);
        }
        if revalidations.push(link, session, timeout_ms).is_err()
            && let Some(Ensemble { zab, asked, .. }) = &mut self.ensemble
        {
            zab.dismiss_learner(link, asked);
            self.carry_out(now, out);
        }
    }

    /// Answers the REVALIDATE requests that wait for nothing more.
    pub(super) fn answer_revalidations(&mut self, now: Now, tree: &Tree, out: &mut Outputs) {
        let Role::Deciding { revalidations, .. } = &mut self.role else { return };
        for link in revalidations.links() {
            self.answer_revalidations_of(link, now, tree, out);
        }
    }

    fn answer_revalidations_of(&mut self, link: LinkId, now: Now, tree: &Tree, out: &mut Outputs) {
        let is_linked = self.zab().is_some_and(|zab| zab.is_active_learner(link));
        while let Role::Deciding { revalidations, .. } = &mut self.role {
            if !is_linked {
                return revalidations.forget(link);
            }
            let Some((session, timeout_ms)) = revalidations.first(link) else { return };
            if self.awaits_end(session, tree) {
                return;
            }
            if let Role::Deciding { revalidations, .. } = &mut self.role {
                revalidations.pop(link);
            }
            self.answer_revalidation(now, link, session, timeout_ms, out);
        }
    }

    fn answer_revalidation(
        &mut self,
        now: Now,
        link: LinkId,
        session: SessionId,
        timeout_ms: i32,
        out: &mut Outputs,
    ) {
        let owner = SessionOwner::Learner(link);
        let before = if self.sessions.is_local(session) {
            Err(ErrorCode::SessionExpired)
        } else {
            self.sessions.attach(session, owner, timeout_ms, now.monotonic_ms)
        };
        if let Ok(Some(SessionOwner::Conn(conn))) = before {
            out.close(conn, CloseReason::SessionMoved);
        }
        let packet = QuorumPacket::Revalidated { session, valid: before.is_ok() };
        out.list.push(Output::Peer(PeerOutput::Send { link, packet }));
    }

    fn take_request(
        &mut self,
        now: Now,
        link: LinkId,
        request: &ForwardedRequest<'_>,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        let ForwardedRequest { session, cxid, op, body, ids } = *request;
        match op {
            Some(OpCode::CreateSession) => {
                self.open_learners_session(now, link, session, body, tree, out);
            }
            Some(OpCode::Sync) => {
                if let Some(ensemble) = &mut self.ensemble {
                    ensemble.sync(link);
                }
                self.carry_out(now, out);
            }
            Some(OpCode::CloseSession) if self.sessions.is_local(session) => {}
            Some(OpCode::CloseSession) => {
                match self.sessions.check(session, SessionOwner::Learner(link)) {
                    Ok(()) => {
                        let request = CloseRequest { cxid, origin: None };
                        self.propose_close(now, session, request, tree, out);
                    }
                    // A server that the session has left must not end it.
                    Err(ErrorCode::SessionMoved) => {
                        let header = self.next_header(now, session, cxid);
                        let code = ErrorCode::SessionMoved;
                        let entry = self.overlay.prepare_error(tree, header, code);
                        self.propose(now, entry, out, own_txn);
                    }
                    // The txn that ends it is on its way, or the learner has already received it.
                    Err(_) => {}
                }
            }
            _ => {
                let Refused { all, ephemerals } = self.judge_learners_session(session, link);
                let caller = Caller { ids, refused: all, ephemerals_refused: ephemerals };
                self.prepare_for_learner(now, request, caller, tree, out);
            }
        }
    }

    fn open_learners_session(
        &mut self,
        now: Now,
        link: LinkId,
        session: SessionId,
        body: &[u8],
        tree: &Tree,
        out: &mut Outputs,
    ) {
        let Ok(timeout_ms) = JuteReader::new(body).int() else { return };
        // An upgrade that arrives after the session's end must not open it again.
        if self.sessions.get(session).is_some_and(|session| session.closing) {
            return;
        }
        let owner = Some(SessionOwner::Learner(link));
        self.sessions.open(session, timeout_ms, owner, now.monotonic_ms);
        let header = self.next_header(now, session, 0);
        let entry = self.overlay.prepare_create_session(tree, header, timeout_ms);
        self.propose(now, entry, out, own_txn);
    }

    /// Proposes a learner's request. If it is invalid, an error txn is proposed: the learner waits for a txn.
    fn prepare_for_learner(
        &mut self,
        now: Now,
        request: &ForwardedRequest<'_>,
        caller: Caller<'_>,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        let header: TxnHeader = self.next_header(now, request.session, request.cxid);
        let savepoint = self.overlay.savepoint();
        let decoded = request.op.map(|op| Request::decode(op, &mut JuteReader::new(request.body)));
        let entry = match decoded {
            Some(Ok(Request::Write(write))) => self.prepare(tree, header, caller, &write),
            Some(Err(_)) => self.overlay.prepare_error(tree, header, ErrorCode::MarshallingError),
            _ => self.overlay.prepare_error(tree, header, ErrorCode::Unimplemented),
        };
        let entry = self.within_limit(entry, &savepoint, tree);
        self.propose(now, entry, out, own_txn);
    }

    /// Returns how many learners are up to date, if this server leads.
    #[must_use]
    pub fn learners(&self) -> usize {
        self.zab().map_or(0, |zab: &Zab| zab.learners().count())
    }
}

/// Wraps a txn for which no client of this server waits.
fn own_txn(entry: Box<Entry>) -> Pending {
    Pending::Txn { entry, origin: None }
}

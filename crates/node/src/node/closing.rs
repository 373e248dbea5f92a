//! The end of sessions, in one txn or, with very many ephemerals, in several: see [`crate::closing`].

use herdsman_proto::SessionId;
use herdsman_tree::Tree;

use super::{Node, Role};
use crate::closing::CloseRequest;
use crate::io::{ConnId, Now, Outputs};
use crate::pending::Pending;
use crate::sessions::SessionScope;

impl Node {
    /// Ends sessions that own ephemerals but are not open, because their end was lost with the end of a log, and
    /// sessions whose end has begun.
    pub fn close_orphans(&mut self, now: Now, tree: &Tree, out: &mut Outputs) {
        for session in tree.orphan_ephemeral_owners().into_iter().chain(tree.ending_sessions()) {
            self.propose_close(now, session, CloseRequest::default(), tree, out);
        }
    }

    /// Ends a session: at once, or beginning now if it owns very many ephemerals.
    pub(super) fn propose_close(
        &mut self,
        now: Now,
        session: SessionId,
        request: CloseRequest,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        self.sessions.set_closing(session);
        let at_once_max = self.settings.ephemerals_per_txn_max;
        let Role::Deciding { closing, .. } = &mut self.role else { return };
        if closing.contains(session) {
            return closing.insert(session, request);
        }
        if self.overlay.closes_in_one_txn(tree, session, at_once_max) {
            return self.propose_last_step(now, session, request, tree, out);
        }
        closing.insert(session, request);
        if self.sessions.get(session).is_some() && !tree.is_ending(session) {
            let header = self.next_header(now, session, 0);
            let entry = self.overlay.prepare_session_ending(tree, header);
            self.propose(now, entry, out, |entry| Pending::Txn { entry, origin: None });
        }
    }

    /// Whether a txn that ends this session, or begins to, is proposed and not yet applied. A leader without a quorum
    /// proposes ends that are never agreed on, and then the next leader has the session open. So until it is applied,
    /// the session is not resumed, and not reported as expired.
    pub(super) fn awaits_end(&self, session: SessionId, tree: &Tree) -> bool {
        let is_proposed = self
            .sessions
            .get(session)
            .is_some_and(|session| session.closing && session.scope == SessionScope::Global);
        is_proposed && !tree.is_ending(session)
    }

    /// Whether this connection has closed its session and waits for the last txn of its end.
    pub(super) fn is_end_awaited_by(&self, session: SessionId, conn: ConnId) -> bool {
        let Role::Deciding { closing, .. } = &self.role else { return false };
        closing.is_awaited_by(session, conn)
    }

    /// Continues with the sessions that are ending, if it is time.
    pub(super) fn continue_closing(&mut self, now: Now, tree: &Tree, out: &mut Outputs) {
        let at_once_max = self.settings.ephemerals_per_txn_max;
        let Role::Deciding { closing, .. } = &mut self.role else { return };
        let Some((session, request)) = closing.take_due(now.monotonic_ms, tree.last_zxid()) else {
            return;
        };
        if self.overlay.closes_in_one_txn(tree, session, at_once_max) {
            return self.propose_last_step(now, session, request, tree, out);
        }
        let header = self.next_header(now, SessionId::NONE, 0);
        let entry = self.overlay.prepare_session_step(tree, header, session, at_once_max);
        if let Role::Deciding { closing, .. } = &mut self.role {
            closing.continue_later(session, request, header.zxid);
        }
        self.propose(now, entry, out, |entry| Pending::Txn { entry, origin: None });
    }

    /// Proposes the txn that ends a session and deletes all its ephemerals that are left.
    fn propose_last_step(
        &mut self,
        now: Now,
        session: SessionId,
        request: CloseRequest,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        let CloseRequest { cxid, origin } = request;
        let header = self.next_header(now, session, cxid);
        let entry = self.overlay.prepare_close_session(tree, header);
        self.propose(now, entry, out, |entry| Pending::Txn { entry, origin });
    }
}

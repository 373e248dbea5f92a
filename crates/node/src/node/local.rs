//! Local sessions, which only this server knows.
//!
//! Opening, touching and ending one needs no txn, so clients that only read and write znodes put no
//! load on the ensemble when they connect and disconnect. The price: such a session owns no ephemerals and
//! cannot continue at another server. When it creates an ephemeral it may be upgraded: the txn that opens
//! it for the whole ensemble precedes the request, in the same order everywhere.
//!
//! Invariants: a session that is ending is never upgraded, and one that was upgraded ends only by a
//! txn after the one that opened it; so no ephemeral outlives its session (ZOOKEEPER-3471). A
//! session is tracked here or by the leader, never by both.
//!
//! Apache: `UpgradeableSessionTracker`, `QuorumZooKeeperServer.checkUpgradeSession`. There a race
//! between a reconnect and the commit of an upgrade may track a session twice; here it is one step.

use std::sync::Arc;

use herdsman_proto::request::{CreateMode, Lifetime};
use herdsman_proto::{ErrorCode, Id, OpCode, SessionId, WriteRequest};
use herdsman_tree::{Outcome, Tree};
use herdsman_zab::LinkId;

use super::{Conn, LocalSessions, Node, Role};
use crate::closing::CloseRequest;
use crate::cxids::Numbering;
use crate::io::{ClientRequest, ConnId, Now, Outputs};
use crate::pending::{Pending, RequestOrigin};
use crate::sessions::SessionOwner;

/// Sessions that expire in one step.
const ENDED_PER_STEP_MAX: usize = 32;
/// Changes of znodes in such a step, after which no further session ends in it.
const CHANGES_PER_STEP_MAX: usize = 1024;
/// Time between two such steps.
const EXPIRY_STEP_MS: u64 = 1;

/// What a session may not do, and the error that it gets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    /// Set if it may do nothing.
    pub(super) all: Option<ErrorCode>,
    /// Set if it may not own ephemerals.
    pub(super) ephemerals: Option<ErrorCode>,
}

impl Node {
    /// Whether new sessions are local.
    pub(super) fn opens_local_sessions(&self) -> bool {
        self.ensemble.is_some() && self.settings.local_sessions != LocalSessions::Off
    }

    /// Opens a session that only this server knows: its client need not wait.
    pub(super) fn open_local_session(
        &mut self,
        now: Now,
        conn: ConnId,
        timeout_ms: i32,
        read_only: Option<bool>,
        ids: Arc<[Id]>,
        out: &mut Outputs,
    ) -> SessionId {
        let session = self.sessions.allocate();
        self.conns.insert(conn, Conn { session, ids, numbering: Numbering::Client });
        self.sessions.open_local(session, timeout_ms, conn, now.monotonic_ms);
        self.attached(conn, session, timeout_ms, read_only, out);
        session
    }

    /// Whether this request needs a session that the whole ensemble knows, and this one is local.
    pub(super) fn wants_upgrade(&self, session: SessionId, request: &ClientRequest<'_>) -> bool {
        self.sessions.is_local(session)
            && matches!(request, ClientRequest::Write(write) if creates_ephemeral(write))
    }

    /// Returns the error if a session of the leader's own client may not create ephemerals. Upgrades it first if that
    /// is needed and allowed.
    pub(super) fn judge_own_session(
        &mut self,
        now: Now,
        session: SessionId,
        request: &ClientRequest<'_>,
        tree: &Tree,
        out: &mut Outputs,
    ) -> Option<ErrorCode> {
        if !self.wants_upgrade(session, request) {
            return None;
        }
        if self.settings.local_sessions != LocalSessions::Upgraded {
            return Some(ErrorCode::EphemeralOnLocalSession);
        }
        let timeout_ms = self.sessions.get(session)?.timeout_ms;
        self.sessions.upgrade(session);
        let header = self.next_header(now, session, 0);
        let entry = self.overlay.prepare_create_session(tree, header, timeout_ms);
        self.propose(now, entry, out, |entry| Pending::Txn { entry, origin: None });
        None
    }

    /// Returns what a learner's client may not do. A session that this leader does not know may be local
    /// to the learner; one whose id was assigned by this server would be known here. A learner forwards the writes of
    /// local sessions like all others, so an ended session has to be remembered as such.
    pub(super) fn judge_learners_session(&mut self, session: SessionId, link: LinkId) -> Refused {
        let expired = Some(ErrorCode::SessionExpired);
        let made_here = maker(session) == self.settings.server_id;
        match self.sessions.get(session) {
            None if self.opens_local_sessions()
                && !made_here
                && !self.sessions.has_ended(session) =>
            {
                Refused { all: None, ephemerals: expired }
            }
            Some(_) if self.sessions.is_local(session) => {
                Refused { all: expired, ephemerals: None }
            }
            _ => {
                let all = self.sessions.check(session, SessionOwner::Learner(link)).err();
                Refused { all, ephemerals: None }
            }
        }
    }

    /// Closes a local session of the leader's own client: answered in its turn, without a
    /// txn. From now on the session accepts no requests.
    pub(super) fn close_local_session(
        &mut self,
        session: SessionId,
        origin: RequestOrigin,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        self.sessions.set_closing(session);
        self.answer_in_turn(Pending::LocalClose { origin, session }, tree, out);
    }

    /// Ends a local session whose client closed it and disconnected before the answer: the request that would have
    /// ended the session may have been dropped with the connection.
    pub(super) fn forget_closing_local(&mut self, session: SessionId) {
        let closing = self.sessions.get(session).is_some_and(|session| session.closing);
        if closing && self.sessions.is_local(session) {
            self.sessions.end(session);
            if let Role::Learning(forwarding) = &mut self.role {
                forwarding.end(session);
            }
        }
    }

    /// Ends sessions whose deadline has passed: local ones at once, the others by a txn. When very many are due (a
    /// switch failed), only some end in a step and the rest in the next ones, between which other requests are served.
    pub(super) fn end_due_sessions(&mut self, now: Now, tree: &Tree, out: &mut Outputs) {
        let before = self.overlay.len();
        for ended in 0.. {
            let changes = self.overlay.len() - before;
            if ended == ENDED_PER_STEP_MAX || changes >= CHANGES_PER_STEP_MAX {
                return self.sessions.pause_expiry(now.monotonic_ms + EXPIRY_STEP_MS);
            }
            let Some(session) = self.sessions.take_due(now.monotonic_ms) else { return };
            if self.sessions.is_local(session) {
                self.session_ended(session, false, out);
            } else {
                self.propose_close(now, session, CloseRequest::default(), tree, out);
            }
        }
    }

    /// Corrects the error of a local session that creates an ephemeral: a leader that does not know the session reports
    /// it as expired, but the server that has it knows the actual reason.
    pub(super) fn explain_refusal(&self, origin: RequestOrigin, outcome: Outcome) -> Outcome {
        let is_local = self
            .conns
            .get(&origin.conn)
            .is_some_and(|conn| self.is_learning() && self.sessions.is_local(conn.session));
        let may_create = matches!(origin.op, OpCode::Create | OpCode::Create2 | OpCode::Multi);
        if is_local && may_create { explain(outcome) } else { outcome }
    }
}

/// Returns the id of the server that assigned a session's id.
fn maker(session: SessionId) -> u8 {
    session.0.to_be_bytes()[0]
}

fn explain(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(Some(ErrorCode::SessionExpired)) => {
            Outcome::failed(ErrorCode::EphemeralOnLocalSession)
        }
        Outcome::Multi(results) => Outcome::Multi(results.into_iter().map(explain).collect()),
        other => other,
    }
}

fn creates_ephemeral(write: &WriteRequest<'_>) -> bool {
    match write {
        WriteRequest::Create(create) => {
            let mode = CreateMode::from_flags(create.flags);
            matches!(create.op, OpCode::Create | OpCode::Create2)
                && mode.is_some_and(|mode| mode.lifetime == Lifetime::Ephemeral)
        }
        WriteRequest::Multi(writes) => writes.iter().any(creates_ephemeral),
        _ => false,
    }
}

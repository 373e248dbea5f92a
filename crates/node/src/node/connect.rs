//! A connection's first frame: opens a new session, or resumes one.

use std::sync::Arc;

use herdsman_proto::connect::{ConnectRequest, ConnectResponse};
use herdsman_proto::{Id, SessionId};
use herdsman_tree::Tree;

use super::{Conn, Node, Role};
use crate::cxids::Numbering;
use crate::io::{CloseReason, ConnId, Now, Output, Outputs, StorageState};
use crate::pending::Pending;
use crate::sessions::{Session, SessionOwner};

impl Node {
    pub(super) fn connect(
        &mut self,
        now: Now,
        conn: ConnId,
        request: ConnectRequest<'_>,
        ids: Arc<[Id]>,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        if !self.serves_clients() {
            return out.close(conn, CloseReason::NotServing);
        }
        let is_read_only = matches!(self.role, Role::ReadOnly);
        if is_read_only && request.read_only != Some(true) {
            return out.close(conn, CloseReason::NotReadOnlyClient);
        }
        if request.last_zxid_seen > tree.last_zxid() {
            return out.close(conn, CloseReason::ClientAhead);
        }
        let (min, max) =
            (self.settings.session_timeout_ms_min, self.settings.session_timeout_ms_max);
        let timeout_ms = request.timeout_ms.max(min).min(max);
        if let Role::Learning(_) = self.role {
            return self.connect_at_learner(now, conn, &request, timeout_ms, ids, out);
        }
        let read_only = request.read_only.map(|_| is_read_only);
        if request.session == SessionId::NONE {
            if is_read_only || self.opens_local_sessions() {
                self.open_local_session(now, conn, timeout_ms, read_only, ids, out);
                return;
            }
            return self.open_session(now, conn, timeout_ms, read_only, ids, tree, out);
        }
        let is_own = self.sessions.get(request.session).is_some();
        if is_read_only && !is_own && !self.sessions.has_ended(request.session) {
            return out.close(conn, CloseReason::GlobalSession);
        }
        let session = request.session;
        let old = self.sessions.get(session).and_then(Session::conn);
        if let Err(reason) = self.check_password(&request, old, out) {
            return refuse_session(conn, read_only, reason, out);
        }
        if self.awaits_end(session, tree) {
            return out.close(conn, CloseReason::SessionEnding);
        }
        let owner = SessionOwner::Conn(conn);
        if self.sessions.attach(session, owner, timeout_ms, now.monotonic_ms).is_err() {
            return refuse_session(conn, read_only, CloseReason::SessionInvalid, out);
        }
        self.conns.insert(conn, Conn { session, ids, numbering: self.numbering_again() });
        self.attached(conn, session, timeout_ms, read_only, out);
    }

    /// Checks the password of a session that is resumed, and closes its old connection. That is closed even if the
    /// new one is refused, as in Apache, unless only keyed passwords are accepted.
    pub(super) fn check_password(
        &self,
        request: &ConnectRequest<'_>,
        old: Option<ConnId>,
        out: &mut Outputs,
    ) -> Result<(), CloseReason> {
        let (session, passwords) = (request.session, &self.settings.passwords);
        let checked = passwords.check(session, request.password);
        if let Some(old) = old
            && (checked.is_ok() || !passwords.only_keyed())
        {
            out.close(old, CloseReason::SessionMoved);
        }
        checked.map_err(|fault| CloseReason::WrongPassword { session, fault })
    }

    #[expect(clippy::too_many_arguments, reason = "all that a new session is made of")]
    fn open_session(
        &mut self,
        now: Now,
        conn: ConnId,
        timeout_ms: i32,
        read_only: Option<bool>,
        ids: Arc<[Id]>,
        tree: &Tree,
        out: &mut Outputs,
    ) {
        if self.storage != StorageState::Writable {
            return out.close(conn, CloseReason::StorageUnavailable);
        }
        let session = self.sessions.allocate();
        self.conns.insert(conn, Conn { session, ids, numbering: Numbering::Client });
        self.sessions.open(session, timeout_ms, Some(SessionOwner::Conn(conn)), now.monotonic_ms);
        let header = self.next_header(now, session, 0);
        let entry = self.overlay.prepare_create_session(tree, header, timeout_ms);
        self.propose(now, entry, out, |entry| Pending::Connect { entry, conn, read_only });
    }

    /// Returns how requests are numbered on a connection that resumes a session. A standalone server
    /// never has to find a request by its number.
    pub(super) fn numbering_again(&self) -> Numbering {
        if self.ensemble.is_none() { Numbering::Client } else { Numbering::Server }
    }

    pub(super) fn attached(
        &self,
        conn: ConnId,
        session: SessionId,
        timeout_ms: i32,
        read_only: Option<bool>,
        out: &mut Outputs,
    ) {
        out.list.push(Output::Attached { conn, session, timeout_ms });
        let password = self.settings.passwords.of(session);
        let response = ConnectResponse { timeout_ms, session, password, read_only };
        out.send(conn, None, |out| response.encode_frame(out));
    }
}

/// Sends a connect response that reports the session as expired, which clients understand, and closes the connection.
pub(super) fn refuse_session(
    conn: ConnId,
    read_only: Option<bool>,
    reason: CloseReason,
    out: &mut Outputs,
) {
    out.send(conn, None, |out| ConnectResponse::expired(read_only).encode_frame(out));
    out.close(conn, reason);
}

//! A connection's first frame: a new session, or one taken up again.

use std::sync::Arc;

use herdsman_proto::connect::{ConnectRequest, ConnectResponse};
use herdsman_proto::{Id, SessionId};
use herdsman_tree::Tree;

use super::{Conn, Node, Role};
use crate::cxids::Numbering;
use crate::io::{CloseReason, ConnId, Now, Output, Outputs, StorageState};
use crate::pending::Waiting;
use crate::sessions::{Owner, Session};

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
        // The old connection goes first, whatever becomes of the new one, as in Apache.
        if let Some(old) = self.sessions.get(request.session).and_then(Session::conn) {
            out.close(old, CloseReason::SessionMoved);
        }
        let session = request.session;
        let password_fits = *request.password == session.password();
        if password_fits
            && self
                .sessions
                .attach(session, Owner::Conn(conn), timeout_ms, now.monotonic_ms)
                .is_ok()
        {
            self.conns.insert(conn, Conn { session, ids, numbering: self.numbering_again() });
            self.attached(conn, session, timeout_ms, read_only, out);
        } else {
            out.send(conn, None, |out| {
                ConnectResponse::expired(read_only).encode_frame(out);
            });
            out.close(conn, CloseReason::SessionInvalid);
        }
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
        self.sessions.open(session, timeout_ms, Some(Owner::Conn(conn)), now.monotonic_ms);
        let header = self.next_header(now, session, 0);
        let entry = self.overlay.prepare_create_session(tree, header, timeout_ms);
        self.propose(now, entry, out, |entry| Waiting::Connect { entry, conn, read_only });
    }

    /// How requests are numbered on a connection that takes a session up again. A server that is alone
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
        out.send(conn, None, |out| {
            ConnectResponse::established(session, timeout_ms, read_only).encode_frame(out);
        });
    }
}

//! Read-only service: reads for clients that accept a server without a leader.
//!
//! A member that has been without a leader for a while (`readonlymode.enabled`) serves clients that
//! accept this in their first frame. Their sessions are local ones, independent of the
//! settings for those: they exist only here, own nothing, and end with the service. Writes, and `sync`, which needs
//! a leader, are refused. As soon as this server follows or leads, and before another tree replaces
//! this one, all these clients are disconnected so that they reconnect to the normal service. Until then the tree
//! changes only by txns that the last leader has committed, if the disk is late with them.
//!
//! Invariant: a session of the ensemble is never touched here. Its connection is closed without an answer,
//! because this server cannot know whether the session is over, nor which sessions were opened
//! since it lost its leader. A client whose session is reported as expired gives it up, with all its
//! ephemerals, although every other server has it open. So this server reports only those sessions as expired
//! whose end it has seen.
//!
//! Apache: `ReadOnlyZooKeeperServer`, `ReadOnlyRequestProcessor`. There a read-only server accepts new
//! sessions only with `localSessionsEnabled`, and answers others with a frame that is not a handshake. With that
//! setting it reports every session as expired that it does not know; without it, it continues such a session
//! as if it were open.

use herdsman_proto::{ErrorCode, ServerState, Zxid};
use herdsman_tree::Tree;
use herdsman_zab::Zab;

use super::{Node, Role};
use crate::io::{ClientRequest, CloseReason, Now, Outputs};
use crate::pending::{Pending, RequestOrigin};
use crate::sessions::SessionOwner;

impl Node {
    /// Returns when read-only service begins, unless a leader is found earlier. Never at a server that has nothing to
    /// show, because it is new or has lost everything: all znodes would seem to be deleted.
    pub(super) fn read_only_at(&self) -> Option<u64> {
        let is_empty = self.zab().is_none_or(|zab: &Zab| zab.log().last() == Zxid::ZERO);
        match self.role {
            _ if is_empty => None,
            Role::Idle { looking_since_ms } => {
                Some(looking_since_ms? + self.settings.read_only_after_ms?)
            }
            _ => None,
        }
    }

    /// Begins read-only service if this server has waited long enough for a leader.
    pub(super) fn tick_read_only(&mut self, now: Now) {
        if self.read_only_at().is_some_and(|at_ms| at_ms <= now.monotonic_ms) {
            self.role = Role::ReadOnly;
        }
    }

    /// Notes whether the search for a leader continues or has ended. As in Apache it ends when an election is
    /// decided, not when this server is up to date.
    pub(super) fn note_search(&mut self, now: Now, out: &mut Outputs) {
        let is_looking = self.zab().is_some_and(|zab: &Zab| zab.state() == ServerState::Looking);
        match &mut self.role {
            Role::Idle { looking_since_ms } if is_looking => {
                looking_since_ms.get_or_insert(now.monotonic_ms);
            }
            Role::Idle { looking_since_ms } => *looking_since_ms = None,
            Role::ReadOnly if !is_looking => self.end_role(out),
            _ => {}
        }
    }

    /// Handles a request that is ordered with writes: answers reads and the end of the session, and refuses all others.
    pub(super) fn serve_read_only(
        &mut self,
        origin: RequestOrigin,
        request: &ClientRequest<'_>,
        body: &[u8],
        tree: &Tree,
        out: &mut Outputs,
    ) {
        let Some(session) = self.conns.get(&origin.conn).map(|conn| conn.session) else { return };
        if self.sessions.check(session, SessionOwner::Conn(origin.conn)).is_err() {
            return out.close(origin.conn, CloseReason::SessionMoved);
        }
        self.sessions.touch(session, origin.since_ms);
        let answer = match request {
            ClientRequest::CloseSession => Pending::LocalClose { origin, session },
            ClientRequest::Read(_) => Pending::Read { origin, body: body.into() },
            _ => Pending::Refusal { origin, code: ErrorCode::NotReadOnly },
        };
        self.answer(answer, tree, out);
    }
}

//! Read-only service: reads for those who take them from a server that has no leader.
//!
//! A member that has been without a leader for a while (`readonlymode.enabled`) serves clients that
//! said in their first frame that they accept it. Their sessions are local ones, whatever the
//! settings say about those: they exist here, own nothing, and end with the service. What changes
//! something, and `sync`, which no leader could answer, is refused. As soon as there is somebody to
//! follow or lead, and before its tree takes the place of this one, all these clients are sent away to come back
//! to the real service. Until then the tree changes only by what the last leader has committed, if the disk is
//! late with it.
//!
//! Invariant: a session of the ensemble is never touched here. Its connection closes without an answer,
//! because this server cannot know whether the session is over; nor can it know what sessions were opened
//! since it has no leader. A client that is told that its session expired gives it up, with all its
//! ephemerals, although every other server has it open. So this server reports only those sessions as expired
//! whose end it has seen.
//!
//! Apache: `ReadOnlyZooKeeperServer`, `ReadOnlyRequestProcessor`. There a read-only server takes new
//! sessions only with `localSessionsEnabled`, and answers others with a frame that is no handshake. With that
//! setting it calls every session expired that it does not know; without it, it goes on with such a session
//! as if it were open.

use herdsman_proto::{ErrorCode, ServerState};
use herdsman_tree::Tree;
use herdsman_zab::Zab;

use super::{Node, Role};
use crate::io::{ClientRequest, CloseReason, Now, Outputs};
use crate::pending::{Pending, RequestOrigin};
use crate::sessions::SessionOwner;

impl Node {
    /// When read-only service begins, unless a leader is found before.
    pub(super) fn read_only_at(&self) -> Option<u64> {
        match self.role {
            Role::Idle { looking_since_ms } => {
                Some(looking_since_ms? + self.settings.read_only_after_ms?)
            }
            _ => None,
        }
    }

    /// A server without a leader may have waited long enough.
    pub(super) fn tick_read_only(&mut self, now: Now) {
        if self.read_only_at().is_some_and(|at_ms| at_ms <= now.monotonic_ms) {
            self.role = Role::ReadOnly;
        }
    }

    /// The search for a leader goes on, or ends. Apache looks at the same moment: when an election is
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

    /// A request that would change something, or wait for others to.
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
